//! What the writer does to a room as a whole, between two commits.

use std::sync::Arc;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, RoomId, Seq};
use rusqlite::Connection;
use tokio::sync::oneshot;

use super::{Writer, unavailable};
use crate::store::embedded::fold::{write_clients, write_records};
use crate::store::embedded::log::{self, Fault, RoomRow};
use crate::store::embedded::unfolded::UnfoldedRoom;
use crate::store::embedded::{rooms, rules};
use crate::store::{Head, LatestBatch, StoreError, is_idle};

/// What is to be done to a room.
pub(in crate::store::embedded) enum Change {
    /// Deletes it; with a time, only if its last record is from before.
    Delete {
        room: RoomId,
        idle_before: Option<u64>,
        /// Whether there was something to delete.
        reply: Reply<bool>,
    },
    /// Asks for a number for a log that is to be restored.
    Begin { reply: Reply<i64> },
    /// Adds records to such a log, from that number on.
    Records { id: i64, first: Seq, records: Vec<Bytes>, reply: Reply<()> },
    /// Adds authors to such a log.
    Authors { id: i64, authors: Vec<(ClientId, LatestBatch)>, reply: Reply<()> },
    /// Makes such a log the room's.
    Finish { id: i64, room: RoomId, head: Head, replace: bool, reply: Reply<bool> },
    /// Has the rows of such a log cleared away, unless it is a room's.
    GiveUp { id: i64 },
}

type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

impl Writer {
    pub(super) fn change(&mut self, change: Change) {
        // Whoever asked may have stopped waiting; what is done stays done.
        match change {
            Change::Delete { room, idle_before, reply } => {
                let _ = reply.send(self.delete(&room, idle_before));
            }
            Change::Begin { reply } => {
                let id = self.known.new_room_id();
                let begun = self.in_one_step(|connection| rooms::begin(connection, id));
                let _ = reply.send(begun.map(|()| {
                    self.waste.keep(id);
                    id
                }));
            }
            Change::Records { id, first, records, reply } => {
                self.wal_bytes += records.iter().map(Bytes::len).sum::<usize>();
                let first = first.get().cast_signed();
                let _ =
                    reply.send(self.in_one_step(|connection| write_records(connection, id, first, &records)));
            }
            Change::Authors { id, authors, reply } => {
                let authors = authors.iter().map(|(author, latest)| (author, latest));
                let _ = reply.send(self.in_one_step(|connection| write_clients(connection, id, authors)));
            }
            Change::Finish { id, room, head, replace, reply } => {
                let _ = reply.send(self.finish_restoring(id, &room, &head, replace));
            }
            Change::GiveUp { id } => self.waste.give_up(id),
        }
    }

    fn delete(&mut self, name: &RoomId, idle_before: Option<u64>) -> Result<bool, StoreError> {
        let (newest, row) = self.found(name)?;
        if newest.is_none() && row.is_none() {
            return self.delete_rules(name, idle_before);
        }
        if let Some(before) = idle_before {
            let last = match &newest {
                Some(newest) => newest.head.position.identity,
                None => match log::room(&self.connection, name) {
                    Ok(row) => row.map(|row| row.head.position.identity).unwrap_or_default(),
                    Err(fault) => return Err(self.give_up_on(fault)),
                },
            };
            if !is_idle(last.at, before) {
                return Ok(false);
            }
        }
        self.replace(name, newest.as_deref(), row, |connection| {
            rules::remove(connection, name)?;
            match row {
                // On a full disk, its pages are what the rest of the transaction needs.
                Some(row) => super::waste::clear_some(connection, row.id).map(drop),
                None => Ok(()),
            }
        })?;
        Ok(true)
    }

    /// A room as it is in the journal and in the tables, if it is there.
    fn found(&mut self, name: &RoomId) -> Result<(Option<Arc<UnfoldedRoom>>, Option<RoomRow>), StoreError> {
        if let Some(why) = self.poison.get() {
            return Err(unavailable(why));
        }
        let newest = self.unfolded.get(name);
        let row = log::row(&self.connection, name).map_err(|fault| self.give_up_on(fault))?;
        Ok((newest, row))
    }

    /// Of a room without records.
    fn delete_rules(&mut self, name: &RoomId, idle_before: Option<u64>) -> Result<bool, StoreError> {
        if let Some(before) = idle_before {
            match rules::rules(&self.connection, name) {
                Ok(rules) if !is_idle(rules.changed_at, before) => return Ok(false),
                Ok(_) => {}
                Err(fault) => return Err(self.give_up_on(fault)),
            }
        }
        let mut had_rules = false;
        self.in_one_step(|connection| rules::remove(connection, name).map(|had| had_rules = had))?;
        Ok(had_rules)
    }

    fn finish_restoring(
        &mut self,
        id: i64,
        name: &RoomId,
        head: &Head,
        replace: bool,
    ) -> Result<bool, StoreError> {
        let (newest, row) = self.found(name)?;
        if !replace && (row.is_some() || newest.is_some()) {
            return Ok(false);
        }
        self.replace(name, newest.as_deref(), row, |connection| rooms::put(connection, name, id, head))?;
        self.waste.is_used(id);
        Ok(true)
    }

    /// One transaction that takes a room out of the tables, does what else is to be done, and folds the journal, which
    /// would bring the room back.
    fn replace(
        &mut self,
        name: &RoomId,
        newest: Option<&UnfoldedRoom>,
        row: Option<RoomRow>,
        change: impl FnOnce(&Connection) -> Result<(), rusqlite::Error>,
    ) -> Result<(), StoreError> {
        let mut others = self.unfolded.rooms();
        others.remove(name);
        if let Some(newest) = newest {
            newest.set_leaves(true);
        }
        let changed = self.fold_with(&others, |connection| {
            if let Some(row) = row {
                rooms::remove(connection, name, row.id)?;
            }
            change(connection)
        });
        if let Err(error) = changed {
            if let Some(newest) = newest {
                newest.set_leaves(false);
            }
            return Err(self.give_up(&error));
        }
        self.known.forget_room(name);
        self.waste.add(row.map(|row| row.id));
        self.count_unsynced();
        Ok(())
    }

    /// One transaction with nothing but that change.
    fn in_one_step(
        &mut self,
        change: impl FnOnce(&Connection) -> Result<(), rusqlite::Error>,
    ) -> Result<(), StoreError> {
        if let Some(why) = self.poison.get() {
            return Err(unavailable(why));
        }
        let run = |connection: &Connection| {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            change(connection)?;
            connection.prepare_cached("COMMIT")?.execute([])
        };
        run(&self.connection).map_err(|error| self.give_up(&error))?;
        self.count_unsynced();
        Ok(())
    }

    /// After an error of a question: the other rooms need not suffer for what is wrong with one.
    fn give_up_on(&mut self, fault: Fault) -> StoreError {
        match fault {
            Fault::Sql(error) => self.give_up(&error),
            fault => StoreError::from(fault),
        }
    }
}
