//! What is in the journal and not yet in the tables, where readers find it.
//!
//! A read looks here first and then in the tables. What is folded in between is then found twice, never missed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Position, RoomId, Seq};

use super::journal::New;
use crate::lock::lock;
use crate::store::{Chunk, Head, LatestBatch, ReadLimit, identity_of};

/// Rooms with records that are in no table yet.
pub(super) type Rooms = HashMap<RoomId, Arc<UnfoldedRoom>>;

/// Shared by the writer, who alone changes it, and the readers. Durable all of it: it is filled after commits.
pub(super) struct Unfolded(Mutex<Rooms>);

impl Unfolded {
    pub fn new(rooms: Rooms) -> Self {
        Self(Mutex::new(rooms))
    }

    pub fn get(&self, room: &RoomId) -> Option<Arc<UnfoldedRoom>> {
        lock(&self.0).get(room).cloned()
    }

    /// All rooms, as they are now.
    pub fn rooms(&self) -> Rooms {
        lock(&self.0).clone()
    }

    /// Changes the rooms in one step.
    pub fn change(&self, change: impl FnOnce(&mut Rooms)) {
        change(&mut lock(&self.0));
    }

    /// Forgets all, which is in the tables now.
    pub fn clear(&self) {
        // Dropped outside of the lock: it may be thousands of records.
        drop(std::mem::take(&mut *lock(&self.0)));
    }
}

/// The newest records of a room.
#[derive(Clone)]
pub(super) struct UnfoldedRoom {
    /// What the tables call the room, or will.
    pub id: i64,
    pub head: Head,
    /// The last ones, up to the head.
    pub records: Vec<Bytes>,
    /// Authors of these records, but for the anonymous one.
    pub authors: HashMap<ClientId, LatestBatch>,
    /// Whether the room is being deleted, or is. Shared by all copies, which readers may hold for longer.
    leaves: Arc<AtomicBool>,
}

impl UnfoldedRoom {
    /// A room of which all is in the tables up to `head`, or of which nothing is yet.
    pub fn new(id: i64, head: Head) -> Self {
        Self { id, head, records: Vec::new(), authors: HashMap::new(), leaves: Arc::default() }
    }

    /// Says that the room is about to leave the tables, or that it stays after all.
    pub fn set_leaves(&self, leaves: bool) {
        self.leaves.store(leaves, Ordering::Release);
    }

    /// Whether the tables may lack the room, or have another of that name, because it was deleted.
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::Acquire)
    }

    /// Adds the new records of a batch.
    pub fn push(&mut self, new: New<'_>) {
        let New { author, first_n, records } = new;
        let Head { position, bytes } = &mut self.head;
        let identity = records.last().map_or(position.identity, |record| identity_of(record));
        *position = Position { seq: position.seq.plus(records.len()), identity, ..*position };
        *bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
        if !author.is_anonymous() {
            let last_n = first_n + records.len() as u64 - 1;
            self.authors.insert(author, LatestBatch { first_n, last_n, last_seq: position.seq });
        }
        self.records.extend_from_slice(records);
    }

    /// The last record that is in the tables.
    pub fn base(&self) -> Seq {
        let base = self.head.position.seq.get() - self.records.len() as u64;
        Seq::new(base).unwrap_or(Seq::START)
    }

    /// The records after that one; `None` when some of these are in the tables only.
    pub fn after(&self, seq: Seq) -> Option<&[Bytes]> {
        let skip = seq.get().checked_sub(self.base().get())?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Some(self.records.get(skip..).unwrap_or_default())
    }

    /// A stretch of the log; `None` when it begins in the tables.
    pub fn read(&self, from: Seq, limit: ReadLimit) -> Option<Chunk> {
        let mut stretch = Stretch::new(limit);
        stretch.extend(self.after(from.previous())?);
        Some(Chunk { head: self.head, records: stretch.records })
    }
}

/// Records that are gathered up to a limit.
pub(super) struct Stretch {
    limit: ReadLimit,
    bytes: usize,
    pub records: Vec<Bytes>,
    /// Whether no further record fits.
    pub is_full: bool,
}

impl Stretch {
    pub fn new(limit: ReadLimit) -> Self {
        Self { limit, bytes: 0, records: Vec::new(), is_full: false }
    }

    /// Adds the next record if it fits.
    pub fn push(&mut self, record: Bytes) {
        self.bytes += record.len();
        let fits = self.records.is_empty() || self.bytes <= self.limit.bytes;
        if fits {
            self.records.push(record);
        }
        self.is_full = !fits || self.records.len() >= self.limit.records;
    }

    /// Adds the next records, as many as fit.
    pub fn extend(&mut self, records: &[Bytes]) {
        for record in records {
            if self.is_full {
                return;
            }
            self.push(record.clone());
        }
    }
}
