//! The hub: the rooms that are live in this process.
//!
//! A room is found or made in one step under its shard's lock, and evicted under the same lock only while
//! nobody holds it. So two first joiners never load it twice, and what arrives while the last one leaves
//! finds either the old room, still complete, or a new one.

use std::ops::Deref;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use futures_util::StreamExt;
use inkrelay_protocol::{ClientId, RoomId};
use tokio::sync::Notify;

use crate::live::Live;
use crate::metrics::Metrics;
use crate::room::{Node, Room, RoomLimits};
use crate::store::{Store, StoreError, StoreEvent, StoreListener};

/// Rooms that catch up with the store at the same time.
const HEALING_ROOMS: usize = 32;
/// Rooms whose heads are compared in one call of the store.
const COMPARED_ROOMS: usize = 256;
/// Rooms whose rules are asked for at the same time.
const RULED_ROOMS: usize = 64;
/// Heads and rules are compared with the store this often, so that a message lost by pub/sub shows within 5 s.
const WATCHDOG_INTERVAL: Duration = Duration::from_secs(3);

/// What the hub is held to. 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub struct HubLimits {
    /// Rooms that are live at the same time.
    pub rooms: usize,
    /// How long a room stays in memory after the last one left.
    pub room_idle: Duration,
    /// Bytes of all rooms' recent records in memory.
    pub tail_bytes: usize,
}

/// See the module's documentation.
pub struct Hub {
    node: Arc<Node>,
    limits: Live<HubLimits>,
    rooms: DashMap<RoomId, Arc<Room>>,
    live: AtomicUsize,
    is_draining: AtomicBool,
    look_now: Notify,
}

/// Why a room cannot be entered.
#[derive(Debug)]
pub enum NoEntry {
    /// As many rooms are live as may be.
    TooManyRooms,
    /// The server is going away, and the room is not live.
    Draining,
    /// The store does not answer.
    Store(StoreError),
}

/// Holds a room in memory.
pub struct RoomHandle(Arc<Room>);

impl Deref for RoomHandle {
    type Target = Arc<Room>;

    fn deref(&self) -> &Arc<Room> {
        &self.0
    }
}

impl Drop for RoomHandle {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl RoomHandle {
    fn hold(room: &Arc<Room>) -> Self {
        room.enter();
        Self(Arc::clone(room))
    }

    /// To read the room's log. `None` when as many do as may.
    pub fn read(self) -> Option<ReaderHandle> {
        self.0.start_reading(false).then(|| ReaderHandle(self))
    }

    /// As [`RoomHandle::read`], for a WebSocket: one of the same client leaves its place to it.
    pub fn read_by_socket(self, client: ClientId) -> Option<ReaderHandle> {
        let replaces = self.0.is_connected(client);
        self.0.start_reading(replaces).then(|| ReaderHandle(self))
    }
}

/// Holds a room in memory, and counts as one of its readers.
pub struct ReaderHandle(RoomHandle);

impl Deref for ReaderHandle {
    type Target = Arc<Room>;

    fn deref(&self) -> &Arc<Room> {
        &self.0.0
    }
}

impl Drop for ReaderHandle {
    fn drop(&mut self) {
        self.0.stop_reading();
    }
}

impl Hub {
    /// A hub without rooms, which hears of the store's events from now on.
    pub fn new(node: Arc<Node>, limits: HubLimits) -> Arc<Self> {
        let hub = Arc::new(Self {
            limits: limits.into(),
            rooms: DashMap::new(),
            live: AtomicUsize::new(0),
            is_draining: AtomicBool::new(false),
            look_now: Notify::new(),
            node,
        });
        let weak: Weak<Self> = Arc::downgrade(&hub);
        hub.node.store.listen(weak);
        hub
    }

    /// The store of all its rooms.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.node.store
    }

    /// Holds the hub to that from now on, and all its rooms; what is in memory already stays.
    pub fn hold_to(&self, hub: HubLimits, rooms: RoomLimits) {
        self.limits.set(hub);
        self.node.limits.set(rooms);
    }

    /// Whether a room is live.
    pub fn is_live(&self, id: &RoomId) -> bool {
        self.rooms.contains_key(id)
    }

    /// What this process counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.node.metrics
    }

    /// How many rooms are live.
    pub fn live_rooms(&self) -> usize {
        self.live.load(Ordering::Acquire)
    }

    /// Bytes of all rooms' recent records in memory.
    pub fn tail_bytes(&self) -> usize {
        self.node.tail_bytes.load(Ordering::Relaxed)
    }

    /// From now on no room comes to life.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Finds the room or makes it, and has it know the end of its log.
    ///
    /// # Errors
    /// See [`NoEntry`].
    pub async fn enter(&self, id: &RoomId) -> Result<RoomHandle, NoEntry> {
        let handle = self.find_or_make(id)?;
        handle.load().await.map_err(NoEntry::Store)?;
        Ok(handle)
    }

    /// The room where it is live, and otherwise one beside the hub's, for whoever looks or changes something and goes: it
    /// counts as no live room, hears of nothing, and is gone when it is let go of. After a change through it
    /// [`Hub::changed`] is to be called.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn visit(&self, id: &RoomId) -> Result<RoomHandle, StoreError> {
        let visited = self.find(id).unwrap_or_else(|| self.make(id));
        visited.load().await?;
        Ok(visited)
    }

    /// Has the room that is live here, if it is another than the one through which something was changed, look at what the
    /// store has now.
    pub async fn changed(&self, visited: &Arc<Room>) {
        let is_another = |live: &RoomHandle| !Arc::ptr_eq(live, visited);
        if let Some(live) = self.find(visited.id()).filter(is_another) {
            look_again(&live).await;
        }
    }

    fn find(&self, id: &RoomId) -> Option<RoomHandle> {
        self.rooms.get(id).map(|room| RoomHandle::hold(&room))
    }

    fn make(&self, id: &RoomId) -> RoomHandle {
        RoomHandle::hold(&Arc::new(Room::new(id.clone(), Arc::clone(&self.node))))
    }

    fn find_or_make(&self, id: &RoomId) -> Result<RoomHandle, NoEntry> {
        // The usual case takes no write lock.
        if let Some(room) = self.find(id) {
            return Ok(room);
        }
        match self.rooms.entry(id.clone()) {
            Entry::Occupied(room) => Ok(RoomHandle::hold(room.get())),
            Entry::Vacant(_) if self.is_draining.load(Ordering::Acquire) => Err(NoEntry::Draining),
            Entry::Vacant(vacant) => {
                let max = self.limits.get().rooms;
                if max != 0 && self.live.load(Ordering::Acquire) >= max {
                    return Err(NoEntry::TooManyRooms);
                }
                self.live.fetch_add(1, Ordering::AcqRel);
                self.node.store.watch(id);
                let room = self.make(id);
                vacant.insert(Arc::clone(&room));
                Ok(room)
            }
        }
    }

    /// Deletes a room. Its readers here are about to be reset when this returns, those elsewhere within 5 s. Returns
    /// whether there was one.
    ///
    /// # Errors
    /// When the store does not answer: then it may be gone or not.
    pub async fn delete(&self, id: &RoomId) -> Result<bool, StoreError> {
        let deleted = self.node.store.delete(id).await;
        if let Some(room) = self.find(id) {
            look_again(&room).await;
        }
        deleted
    }

    /// Deletes a room that nobody is in and whose last draw was stored before that time. Returns whether it did.
    ///
    /// # Errors
    /// As [`Hub::delete`].
    pub async fn delete_idle(&self, id: &RoomId, before: u64) -> Result<bool, StoreError> {
        if self.is_live(id) {
            return Ok(false);
        }
        let deleted = self.node.store.delete_idle(id, before).await;
        // Somebody may have come since it was looked at.
        if let Some(room) = self.find(id) {
            look_again(&room).await;
        }
        deleted
    }

    /// The rooms that are live.
    pub fn live(&self) -> Vec<Arc<Room>> {
        self.rooms.iter().map(|entry| Arc::clone(entry.value())).collect()
    }

    /// Ends what time has ended: participants, idle rooms, and records in memory beyond the budget.
    pub fn sweep(&self, now: Instant) {
        let rooms = self.live();
        let limits = self.limits.get();
        let over_budget = limits.tail_bytes != 0 && self.tail_bytes() > limits.tail_bytes;
        let share = limits.tail_bytes / rooms.len().max(1);
        for room in rooms {
            room.expire_presence(now);
            if over_budget {
                room.shrink_tail(share);
            }
            let is_over = |room: &Room| {
                let idle = room.idle_since().map(|since| now.saturating_duration_since(since));
                idle.is_some_and(|idle| idle >= limits.room_idle)
            };
            if is_over(&room) {
                // Looked at again under the lock: whoever enters now either holds it, or finds it gone.
                let evicted = self.rooms.remove_if(room.id(), |_, room| {
                    let evict = is_over(room);
                    if evict {
                        self.node.store.unwatch(room.id());
                    }
                    evict
                });
                if evicted.is_some() {
                    self.live.fetch_sub(1, Ordering::AcqRel);
                }
            }
        }
    }

    /// Looks after the rooms until the hub is gone: sweeps, and compares heads with a store that is shared.
    pub async fn look_after(self: Arc<Self>) {
        let hub = Arc::downgrade(&self);
        drop(self);
        let mut compared_at = tokio::time::Instant::now();
        while let Some(hub) = hub.upgrade() {
            let called = {
                let called = hub.look_now.notified();
                tokio::select! {
                    () = called => true,
                    () = tokio::time::sleep(Duration::from_millis(500)) => false,
                }
            };
            hub.sweep(Instant::now());
            if called || compared_at.elapsed() >= WATCHDOG_INTERVAL {
                compared_at = tokio::time::Instant::now();
                hub.heal().await;
            }
        }
    }

    /// Has rooms with readers catch up where their tail may lack something.
    async fn heal(&self) {
        let read: Vec<_> = self.live().into_iter().filter(|room| room.has_readers()).collect();
        let stale = read.iter().filter(|room| room.is_stale());
        futures_util::stream::iter(stale)
            .for_each_concurrent(HEALING_ROOMS, |room| async move {
                if let Err(error) = room.load().await {
                    tracing::warn!(room = %room.id(), %error, "still behind the store");
                }
            })
            .await;
        if !self.node.store.is_shared() {
            return;
        }
        for rooms in read.chunks(COMPARED_ROOMS) {
            let ids: Vec<_> = rooms.iter().map(|room| room.id().clone()).collect();
            match self.node.store.heads(&ids).await {
                Ok(heads) => rooms.iter().zip(&heads).for_each(|(room, head)| room.compare(head)),
                Err(error) => return tracing::warn!(%error, "could not compare heads with the store"),
            }
        }
        let rules = futures_util::stream::iter(read).map(|room| async move { room.read_rules().await });
        let failed = rules.buffer_unordered(RULED_ROOMS).filter_map(|read| std::future::ready(read.err()));
        if let Some(error) = pin!(failed).next().await {
            tracing::warn!(%error, "could not compare rules with the store");
        }
    }
}

/// Has a room compare its tail and its rules with the store, after a change that was not made through it.
async fn look_again(room: &Arc<Room>) {
    room.request_catch_up();
    let looked = async {
        room.load().await?;
        room.read_rules().await
    };
    if let Err(error) = looked.await {
        // It stays stale, and the watchdog comes back to it.
        tracing::warn!(room = %room.id(), %error, "could not look at a room that was changed");
    }
}

impl StoreListener for Hub {
    fn on_event(&self, event: StoreEvent) {
        let find = |id: &RoomId| self.rooms.get(id).map(|room| Arc::clone(&room));
        match event {
            StoreEvent::Appended { room, before, records } => {
                if let Some(room) = find(&room) {
                    room.offer(&before, &records);
                }
            }
            StoreEvent::Told { room, message } => {
                if let Some(room) = find(&room) {
                    room.heard(&message);
                }
            }
            StoreEvent::CatchUp(Some(room)) => {
                if let Some(room) = find(&room) {
                    room.request_catch_up();
                    room.ask_who_is_there();
                }
            }
            StoreEvent::CatchUp(None) => {
                for room in self.live() {
                    room.mark_stale();
                    room.ask_who_is_there();
                }
                self.look_now.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;

    fn hub(rooms: usize, room_idle: Duration) -> Arc<Hub> {
        let idle_time = Duration::from_secs(40);
        let limits = RoomLimits {
            tail_bytes: 1 << 16,
            room_bytes: 0,
            sessions: 2,
            flush_time: Duration::ZERO,
            idle_time,
        };
        let store = Arc::new(MemoryStore::new());
        let node = Node::new(store, limits);
        Hub::new(Arc::new(node), HubLimits { rooms, room_idle, tail_bytes: 0 })
    }

    fn id(name: &str) -> RoomId {
        name.parse().unwrap()
    }

    #[tokio::test]
    async fn a_room_is_evicted_only_when_it_was_idle_for_its_time() {
        let hub = hub(0, Duration::from_secs(60));
        let handle = hub.enter(&id("a")).await.ok().unwrap();
        hub.sweep(Instant::now() + Duration::from_secs(3600));
        assert_eq!(hub.live_rooms(), 1, "somebody holds it");
        drop(handle);
        hub.sweep(Instant::now() + Duration::from_secs(59));
        assert_eq!(hub.live_rooms(), 1, "its time is not over");
        hub.sweep(Instant::now() + Duration::from_secs(61));
        assert_eq!(hub.live_rooms(), 0);
    }

    #[tokio::test]
    async fn rooms_and_readers_are_limited() {
        let hub = hub(1, Duration::ZERO);
        let first = hub.enter(&id("a")).await.ok().unwrap();
        assert!(matches!(hub.enter(&id("b")).await, Err(NoEntry::TooManyRooms)));
        let readers: Vec<_> = [first, hub.enter(&id("a")).await.ok().unwrap()].map(RoomHandle::read).into();
        assert!(readers.iter().all(Option::is_some));
        assert!(hub.enter(&id("a")).await.ok().unwrap().read().is_none());
        drop(readers);
        hub.sweep(Instant::now());
        assert!(hub.enter(&id("b")).await.is_ok());
        hub.drain();
        assert!(matches!(hub.enter(&id("c")).await, Err(NoEntry::Draining)));
        assert!(hub.enter(&id("b")).await.is_ok());
    }
}
