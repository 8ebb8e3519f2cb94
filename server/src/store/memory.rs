//! The store in memory: for tests and throw-away boards. Nothing survives the process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Position, RoomId, Seq};

use super::{
    Appended, Batch, Chunk, Head, LatestBatch, Plan, ReadLimit, Restore, RoomSummary, Rules, Store,
    StoreError, Stored, identity_of, is_idle, nothing_to_restore, place, plan,
};
use crate::lock::lock;
use crate::random;

/// Logs in a map. See the module's documentation.
pub struct MemoryStore {
    rooms: Arc<Mutex<BTreeMap<RoomId, Log>>>,
    /// Of the rooms that somebody ruled. Locked after the rooms, where both are.
    rules: Mutex<BTreeMap<RoomId, Rules>>,
    secret: [u8; 32],
}

struct Log {
    epoch: Epoch,
    records: Vec<Bytes>,
    bytes: u64,
    authors: HashMap<ClientId, LatestBatch>,
}

impl Log {
    fn new() -> Self {
        let epoch = Epoch::from_random(random::u64());
        Self { epoch, records: Vec::new(), bytes: 0, authors: HashMap::new() }
    }

    fn head(&self) -> Head {
        let Some(last) = self.records.last() else { return Head::EMPTY };
        let seq = Seq::START.plus(self.records.len());
        Head { position: Position { epoch: self.epoch, seq, identity: identity_of(last) }, bytes: self.bytes }
    }

    fn append(&mut self, batch: &Batch) -> Result<Stored, super::Gap> {
        let latest = self.authors.get(&batch.author).copied();
        let skip = match plan(batch, latest) {
            Plan::Store { skip } => skip,
            Plan::Known(stored) => return Ok(stored),
            Plan::Refuse(gap) => return Err(gap),
        };
        let head = Seq::START.plus(self.records.len());
        let (stored, kept) = place(batch, skip, latest, head);
        let new = &batch.records[skip..];
        // The bytes are copied: a slice would keep the whole message that brought it in memory.
        self.records.extend(new.iter().map(|record| Bytes::copy_from_slice(record)));
        self.bytes += new.iter().map(|record| record.len() as u64).sum::<u64>();
        if !batch.author.is_anonymous() {
            self.authors.insert(batch.author, kept);
        }
        Ok(stored)
    }
}

impl MemoryStore {
    /// An empty store with a secret of its own.
    pub fn new() -> Self {
        Self { rooms: Arc::default(), rules: Mutex::default(), secret: random::bytes() }
    }

    fn with_log<T>(&self, room: &RoomId, empty: T, read: impl FnOnce(&Log) -> T) -> T {
        self.lock().get(room).map_or(empty, read)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<RoomId, Log>> {
        lock(&self.rooms)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn describe(&self) -> String {
        "draws are kept in memory only, and are gone when the server stops".to_owned()
    }

    async fn append(&self, room: &RoomId, batches: &[Batch]) -> Result<Appended, StoreError> {
        let mut rooms = self.lock();
        // A log comes to be with its first record: a first batch that is refused leaves no trace.
        let mut created = None;
        let log = match rooms.get_mut(room) {
            Some(log) => log,
            None => created.insert(Log::new()),
        };
        let before = match log.head().position {
            Position { seq: Seq::START, .. } => Position::start(log.epoch),
            position => position,
        };
        let outcomes = batches.iter().map(|batch| log.append(batch)).collect();
        if log.records.is_empty() {
            let before = Position::start(Epoch::EMPTY);
            return Ok(Appended { epoch: Epoch::EMPTY, before, bytes: 0, outcomes });
        }
        let appended = Appended { epoch: log.epoch, before, bytes: log.bytes, outcomes };
        if let Some(log) = created {
            rooms.insert(room.clone(), log);
        }
        Ok(appended)
    }

    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        Ok(self.with_log(room, Chunk { head: Head::EMPTY, records: Vec::new() }, |log| {
            let start = usize::try_from(from.previous().get()).unwrap_or(usize::MAX).min(log.records.len());
            let mut bytes = 0;
            let fits = |record: &&Bytes| {
                let first = bytes == 0;
                bytes += record.len();
                first || bytes <= limit.bytes
            };
            let records = log.records[start..].iter().take(limit.records.max(1)).take_while(fits).cloned();
            Chunk { head: log.head(), records: records.collect() }
        }))
    }

    async fn head(&self, room: &RoomId) -> Result<Head, StoreError> {
        Ok(self.with_log(room, Head::EMPTY, Log::head))
    }

    async fn last_n(&self, room: &RoomId, author: ClientId) -> Result<u64, StoreError> {
        Ok(self.with_log(room, 0, |log| log.authors.get(&author).map_or(0, |latest| latest.last_n)))
    }

    async fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError> {
        let (rooms, rules) = (self.lock(), lock(&self.rules));
        let limit = limit.max(1);
        let after = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let drawn = rooms.range::<RoomId, _>(after).map(|(room, _)| room).take(limit);
        let ruled = rules.range::<RoomId, _>(after).map(|(room, _)| room).take(limit);
        let names: BTreeSet<_> = drawn.chain(ruled).collect();
        let summary = |room: &RoomId| {
            let head = rooms.get(room).map_or(Head::EMPTY, Log::head);
            RoomSummary::new(room.clone(), &head, &rules.get(room).cloned().unwrap_or_default())
        };
        Ok(names.into_iter().filter_map(summary).take(limit).collect())
    }

    async fn delete(&self, room: &RoomId) -> Result<bool, StoreError> {
        // Dropped outside of the locks: it may be many records.
        let (log, rules) = {
            let mut rooms = self.lock();
            (rooms.remove(room), lock(&self.rules).remove(room))
        };
        Ok(log.is_some() || rules.is_some())
    }

    async fn delete_idle(&self, room: &RoomId, before: u64) -> Result<bool, StoreError> {
        let _deleted = {
            let (mut rooms, mut rules) = (self.lock(), lock(&self.rules));
            let last_at = match rooms.get(room) {
                Some(log) => log.head().position.identity.at,
                None => rules.get(room).map_or(0, |rules| rules.changed_at),
            };
            if !is_idle(last_at, before) {
                return Ok(false);
            }
            (rooms.remove(room), rules.remove(room))
        };
        Ok(true)
    }

    async fn restore(&self, room: &RoomId) -> Result<Box<dyn Restore>, StoreError> {
        Ok(Box::new(Restoring { rooms: Arc::clone(&self.rooms), room: room.clone(), log: Log::new() }))
    }

    async fn rules(&self, room: &RoomId) -> Result<Rules, StoreError> {
        Ok(lock(&self.rules).get(room).cloned().unwrap_or_default())
    }

    async fn set_rules(&self, room: &RoomId, expected: &Rules, rules: &Rules) -> Result<bool, StoreError> {
        let mut all = lock(&self.rules);
        if all.get(room).cloned().unwrap_or_default() != *expected {
            return Ok(false);
        }
        if *rules == Rules::default() {
            all.remove(room);
        } else {
            all.insert(room.clone(), rules.clone());
        }
        Ok(true)
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        Ok(self.secret)
    }

    async fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Restoring {
    rooms: Arc<Mutex<BTreeMap<RoomId, Log>>>,
    room: RoomId,
    log: Log,
}

#[async_trait]
impl Restore for Restoring {
    async fn records(&mut self, records: Vec<Bytes>) -> Result<(), StoreError> {
        self.log.bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
        self.log.records.extend(records.iter().map(|record| Bytes::copy_from_slice(record)));
        Ok(())
    }

    async fn authors(&mut self, authors: Vec<(ClientId, LatestBatch)>) -> Result<(), StoreError> {
        self.log.authors.extend(authors);
        Ok(())
    }

    async fn finish(self: Box<Self>, replace: bool) -> Result<bool, StoreError> {
        let Self { rooms, room, log } = *self;
        if log.records.is_empty() {
            return Err(nothing_to_restore());
        }
        let mut rooms = lock(&rooms);
        if rooms.contains_key(&room) && !replace {
            return Ok(false);
        }
        rooms.insert(room, log);
        Ok(true)
    }
}
