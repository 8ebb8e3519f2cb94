//! A store in memory that counts what it is asked, and loses answers when told to.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use inkrelay_protocol::{ClientId, RoomId, Seq};
use inkrelay_server::store::{
    Appended, Batch, Chunk, Head, MemoryStore, ReadLimit, Restore, RoomSummary, Rules, Store, StoreError,
};

/// An answer is known to be lost after this time; what comes meanwhile waits for the next append.
const LOST_AFTER: Duration = Duration::from_millis(200);

/// See the module's documentation.
#[derive(Default)]
pub struct WatchedStore {
    inner: MemoryStore,
    /// How often a room's head or records were read.
    reads: Mutex<HashMap<RoomId, usize>>,
    /// So many of the next appends take effect, and are answered as unknown.
    pub answers_to_lose: AtomicUsize,
}

impl WatchedStore {
    /// Takes the counts of reads, and begins to count anew.
    pub fn take_reads(&self) -> HashMap<RoomId, usize> {
        std::mem::take(&mut *self.reads.lock().unwrap())
    }

    fn count(&self, room: &RoomId) {
        *self.reads.lock().unwrap().entry(room.clone()).or_default() += 1;
    }
}

#[async_trait]
impl Store for WatchedStore {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    async fn append(&self, room: &RoomId, batches: &[Batch]) -> Result<Appended, StoreError> {
        let appended = self.inner.append(room, batches).await;
        let lose = |left: usize| left.checked_sub(1);
        match self.answers_to_lose.fetch_update(Ordering::AcqRel, Ordering::Acquire, lose) {
            Ok(_) => {
                tokio::time::sleep(LOST_AFTER).await;
                Err(StoreError::Unavailable("the answer is lost".to_owned()))
            }
            Err(_) => appended,
        }
    }

    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        self.count(room);
        self.inner.read(room, from, limit).await
    }

    async fn head(&self, room: &RoomId) -> Result<Head, StoreError> {
        self.count(room);
        self.inner.head(room).await
    }

    async fn last_n(&self, room: &RoomId, author: ClientId) -> Result<u64, StoreError> {
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
        self.inner.rules(room).await
    }

    async fn set_rules(&self, room: &RoomId, expected: &Rules, rules: &Rules) -> Result<bool, StoreError> {
        self.inner.set_rules(room, expected, rules).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        self.inner.secret().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.inner.check().await
    }
}
