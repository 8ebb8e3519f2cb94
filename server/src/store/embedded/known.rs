//! What the writer knows of the rooms that were lately appended to, so that an append need not read.
//!
//! It is ahead of what readers see by the commit that is under way. When a commit fails it is forgotten, and read
//! again from the tables and what is unfolded.

use std::collections::HashMap;

use inkrelay_protocol::{ClientId, Epoch, Identity, Position, RoomId, Seq};
use rusqlite::Connection;

use super::log::{self, Fault};
use super::unfolded::Unfolded;
use crate::random;
use crate::store::{Appended, Batch, Gap, Head, LatestBatch, Plan, Stored, identity_of, place, plan};

/// Rooms and authors that are remembered between commits. Beyond it all are forgotten, and read again when met.
const REMEMBERED: usize = 65_536;

pub(super) struct Known {
    rooms: HashMap<RoomId, Room>,
    /// Entries: rooms, and authors of rooms.
    entries: usize,
    last_room_id: i64,
}

struct Room {
    id: i64,
    /// With the room's own epoch also before its first record.
    head: Head,
    authors: HashMap<ClientId, Option<LatestBatch>>,
}

/// What becomes of an append once it is committed.
pub(super) struct Planned {
    /// The room's number in the tables.
    pub room: i64,
    pub before: Head,
    pub appended: Appended,
}

impl Known {
    pub fn new(last_room_id: i64) -> Self {
        Self { rooms: HashMap::new(), entries: 0, last_room_id }
    }

    pub fn forget(&mut self) {
        self.rooms.clear();
        self.entries = 0;
    }

    /// Of a room that is deleted or replaced.
    pub fn forget_room(&mut self, name: &RoomId) {
        if let Some(room) = self.rooms.remove(name) {
            self.entries -= 1 + room.authors.len();
        }
    }

    /// A number for a room's rows, which no other room has.
    pub fn new_room_id(&mut self) -> i64 {
        self.last_room_id += 1;
        self.last_room_id
    }

    /// To be called between commits.
    pub fn forget_when_many(&mut self) {
        if self.entries > REMEMBERED {
            self.forget();
        }
    }

    /// Decides what an append stores, and takes it as stored. An error leaves all as it was.
    pub fn append(
        &mut self,
        connection: &Connection,
        unfolded: &Unfolded,
        name: &RoomId,
        batches: &[Batch],
    ) -> Result<Planned, Fault> {
        if !self.rooms.contains_key(name) {
            let found = match unfolded.get(name) {
                Some(room) => Some((room.id, room.head)),
                None => log::room(connection, name)?.map(|row| (row.id, row.head)),
            };
            let (id, head) = found.unwrap_or_else(|| {
                let epoch = Epoch::from_random(random::u64());
                (self.new_room_id(), Head { position: Position::start(epoch), bytes: 0 })
            });
            self.rooms.insert(name.clone(), Room { id, head, authors: HashMap::new() });
            self.entries += 1;
        }
        let room =
            self.rooms.get_mut(name).ok_or_else(|| Fault::Damaged(format!("room {name} was forgotten")))?;
        for batch in batches.iter().filter(|batch| !batch.author.is_anonymous()) {
            let author = batch.author;
            if !room.authors.contains_key(&author) {
                let newest = unfolded.get(name).and_then(|room| room.authors.get(&author).copied());
                let latest = match newest {
                    Some(latest) => Some(latest),
                    None => log::latest(connection, room.id, author)?,
                };
                room.authors.insert(author, latest);
                self.entries += 1;
            }
        }
        let before = room.head;
        let outcomes = batches.iter().map(|batch| room.append(batch)).collect();
        // An epoch of its own is told with the first record.
        let epoch = if room.head.position.seq == Seq::START { Epoch::EMPTY } else { before.position.epoch };
        let appended = Appended {
            epoch,
            before: Position { epoch, ..before.position },
            bytes: room.head.bytes,
            outcomes,
        };
        Ok(Planned { room: room.id, before, appended })
    }
}

impl Room {
    fn append(&mut self, batch: &Batch) -> Result<Stored, Gap> {
        let latest = self.authors.get(&batch.author).copied().flatten();
        let skip = match plan(batch, latest) {
            Plan::Store { skip } => skip,
            Plan::Known(stored) => return Ok(stored),
            Plan::Refuse(gap) => return Err(gap),
        };
        let (stored, kept) = place(batch, skip, latest, self.head.position.seq);
        let new = &batch.records[skip..];
        let identity = new.last().map_or(Identity::NONE, |record| identity_of(record));
        self.head.position =
            Position { seq: self.head.position.seq.plus(new.len()), identity, ..self.head.position };
        self.head.bytes += new.iter().map(|record| record.len() as u64).sum::<u64>();
        if !batch.author.is_anonymous() {
            self.authors.insert(batch.author, Some(kept));
        }
        Ok(stored)
    }
}
