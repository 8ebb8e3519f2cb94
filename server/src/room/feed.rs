//! What a live reader gets, one piece after the other: records, and the whole log where its board is of another.

use std::sync::Arc;

use bytes::Bytes;
use inkrelay_protocol::{After, Position, Seq};

use super::cursor::Cursor;
use super::{LogError, LogReader, Next, Room};
use crate::store::{ReadLimit, StoreError};

/// A live reader's place.
#[derive(Debug)]
pub struct Feed(Place);

#[derive(Debug)]
enum Place {
    /// Behind a record that it has.
    At(Cursor),
    /// Its board is of another log.
    ToReset,
    /// In the middle of being told the log.
    Resetting(LogReader),
}

/// A piece of the log.
#[derive(Debug)]
pub enum Fed {
    /// The next records.
    Records {
        /// The number of the first.
        first: Seq,
        /// In order.
        records: Vec<Bytes>,
        /// The last of them.
        position: Position,
    },
    /// A part of the log, for a board that is to be forgotten.
    Reset {
        /// What the reader has when all parts are there.
        until: Position,
        /// This part.
        records: Vec<Bytes>,
        /// Whether another part follows.
        more: bool,
    },
    /// Nothing yet: wait for a change.
    UpToDate,
}

impl Feed {
    /// Behind that place, or with a reset where the log does not have it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn open(room: &Room, after: After) -> Result<Self, StoreError> {
        let cursor = room.cursor(after).await?;
        if cursor.is_some() && after != After::Start {
            room.metrics().resumes.inc();
        }
        Ok(Self(cursor.map_or(Place::ToReset, Place::At)))
    }

    /// Behind a record that the log has.
    pub const fn at(cursor: Cursor) -> Self {
        Self(Place::At(cursor))
    }

    /// The last record that the reader has, unless its board is of another log.
    pub const fn position(&self) -> Option<Position> {
        match &self.0 {
            Place::At(cursor) => Some(cursor.position()),
            Place::ToReset | Place::Resetting(_) => None,
        }
    }

    /// The next piece.
    ///
    /// # Errors
    /// When the store has to be read and does not answer; nothing is skipped, so that it can be called again.
    pub async fn next(&mut self, room: &Arc<Room>, limit: ReadLimit) -> Result<Fed, StoreError> {
        loop {
            match &mut self.0 {
                Place::At(cursor) => match room.next(cursor, limit).await? {
                    Next::Records { first, records } => {
                        return Ok(Fed::Records { first, records, position: cursor.position() });
                    }
                    Next::UpToDate => return Ok(Fed::UpToDate),
                    Next::Reset => self.0 = Place::ToReset,
                },
                Place::ToReset => {
                    self.0 = Place::Resetting(room.log().await?);
                    room.metrics().resets.inc();
                }
                Place::Resetting(log) => match room.read_log(log, limit).await {
                    Ok(records) => {
                        room.count_read(&records);
                        let (until, more) = (log.until(), !log.is_done());
                        if !more {
                            self.0 = Place::At(Cursor::at(until));
                        }
                        return Ok(Fed::Reset { until, records, more });
                    }
                    Err(LogError::Changed) => self.0 = Place::ToReset,
                    Err(LogError::Store(error)) => return Err(error),
                },
            }
        }
    }
}
