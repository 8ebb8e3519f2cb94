//! A log on its way into the file.

use std::sync::mpsc::Sender;

use async_trait::async_trait;
use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Identity, Position, RoomId, Seq};

use super::writer::{Change, Command};
use super::{ask, in_time};
use crate::random;
use crate::store::{Head, LatestBatch, Restore, StoreError, identity_of, nothing_to_restore};

/// See the module's documentation. Its rows are in the file under a number of its own.
pub(super) struct Restoring {
    commands: Sender<Command>,
    room: RoomId,
    id: i64,
    last: Seq,
    identity: Identity,
    bytes: u64,
}

impl Restoring {
    pub async fn begin(commands: Sender<Command>, room: RoomId) -> Result<Self, StoreError> {
        let begin = |reply| Command::Change(Change::Begin { reply });
        let id = in_time(ask(&commands, begin)).await?;
        Ok(Self { commands, room, id, last: Seq::START, identity: Identity::NONE, bytes: 0 })
    }
}

#[async_trait]
impl Restore for Restoring {
    async fn records(&mut self, records: Vec<Bytes>) -> Result<(), StoreError> {
        let Some(last) = records.last() else { return Ok(()) };
        let (id, first, identity) = (self.id, self.last.next(), identity_of(last));
        let bytes = records.iter().map(|record| record.len() as u64).sum::<u64>();
        let last = self.last.plus(records.len());
        let add = |reply| Command::Change(Change::Records { id, first, records, reply });
        in_time(ask(&self.commands, add)).await?;
        (self.last, self.identity, self.bytes) = (last, identity, self.bytes + bytes);
        Ok(())
    }

    async fn authors(&mut self, authors: Vec<(ClientId, LatestBatch)>) -> Result<(), StoreError> {
        let id = self.id;
        in_time(ask(&self.commands, |reply| Command::Change(Change::Authors { id, authors, reply }))).await
    }

    async fn finish(self: Box<Self>, replace: bool) -> Result<bool, StoreError> {
        if self.last == Seq::START {
            return Err(nothing_to_restore());
        }
        let epoch = Epoch::from_random(random::u64());
        let position = Position { epoch, seq: self.last, identity: self.identity };
        let (id, room, head) = (self.id, self.room.clone(), Head { position, bytes: self.bytes });
        let put = |reply| Command::Change(Change::Finish { id, room, head, replace, reply });
        in_time(ask(&self.commands, put)).await
    }
}

impl Drop for Restoring {
    fn drop(&mut self) {
        // Where it is the room's by now, there is nothing to clear away. Without a writer the next start does it.
        let _ = self.commands.send(Command::Change(Change::GiveUp { id: self.id }));
    }
}
