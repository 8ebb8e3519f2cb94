//! A store in memory that can be held up: appends, or everything, wait until it is let go. One append may panic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use inkrelay_protocol::{ClientId, RoomId, Seq};
use inkrelay_server::store::{
    Appended, Batch, Chunk, Head, MemoryStore, ReadLimit, Restore, RoomSummary, Rules, Store, StoreError,
};
use tokio::sync::watch;

/// See the module's documentation.
pub struct SlowStore {
    inner: MemoryStore,
    appends_wait: watch::Sender<bool>,
    reads_wait: watch::Sender<bool>,
    /// Appends that came.
    appends: watch::Sender<usize>,
    /// Whether the next append panics when it is let go.
    panics: AtomicBool,
}

impl SlowStore {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            appends_wait: watch::Sender::new(false),
            reads_wait: watch::Sender::new(false),
            appends: watch::Sender::new(0),
            panics: AtomicBool::new(false),
        })
    }

    /// Has appends wait, or go on.
    pub fn hold_appends(&self, hold: bool) {
        self.appends_wait.send_replace(hold);
    }

    /// Has the next append panic, when it is let go.
    pub fn panic_in_append(&self) {
        self.panics.store(true, Ordering::Release);
    }

    /// Has all that only reads wait, or go on.
    pub fn hold_reads(&self, hold: bool) {
        self.reads_wait.send_replace(hold);
    }

    /// Waits until that many appends have come.
    pub async fn has_appends(&self, count: usize) {
        self.appends.subscribe().wait_for(|appends| *appends >= count).await.unwrap();
    }

    /// Waits until something that only reads waits.
    pub async fn has_waiting_reads(&self) {
        super::eventually("a read waits", async || self.reads_wait.receiver_count() > 0).await;
    }

    async fn read_gate(&self) {
        self.reads_wait.subscribe().wait_for(|wait| !*wait).await.unwrap();
    }
}

#[async_trait]
impl Store for SlowStore {
    fn describe(&self) -> String {
        "slow".to_owned()
    }

    async fn append(&self, room: &RoomId, batches: &[Batch]) -> Result<Appended, StoreError> {
        self.appends.send_modify(|appends| *appends += 1);
        self.appends_wait.subscribe().wait_for(|wait| !*wait).await.unwrap();
        assert!(!self.panics.swap(false, Ordering::AcqRel), "a store that panics, as the test wants");
        self.inner.append(room, batches).await
    }

    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        self.read_gate().await;
        self.inner.read(room, from, limit).await
    }

    async fn head(&self, room: &RoomId) -> Result<Head, StoreError> {
        self.read_gate().await;
        self.inner.head(room).await
    }

    async fn last_n(&self, room: &RoomId, author: ClientId) -> Result<u64, StoreError> {
        self.read_gate().await;
        self.inner.last_n(room, author).await
    }

    async fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError> {
        self.inner.rooms(after, limit).await
    }

    async fn delete(&self, room: &RoomId) -> Result<bool, StoreError> {
        self.inner.delete(room).await
    }

    async fn delete_idle(&self, room: &RoomId, before: u64) -> Result<bool, StoreError> {
        self.inner.delete_idle(room, before).await
    }

    async fn restore(&self, room: &RoomId) -> Result<Box<dyn Restore>, StoreError> {
        self.inner.restore(room).await
    }

    async fn rules(&self, room: &RoomId) -> Result<Rules, StoreError> {
        self.read_gate().await;
        self.inner.rules(room).await
    }

    async fn set_rules(&self, room: &RoomId, expected: &Rules, rules: &Rules) -> Result<bool, StoreError> {
        self.inner.set_rules(room, expected, rules).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.inner.secret().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.read_gate().await;
        self.inner.check().await
    }
}
