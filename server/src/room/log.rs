//! Reading the whole log, part by part, for those who start anew: resets and the snapshot.

use bytes::Bytes;
use inkrelay_protocol::{Position, Seq};

use super::Room;
use crate::store::{ReadLimit, StoreError, identity_of};

/// A reader of the whole log up to one head, part by part.
#[derive(Clone, Copy, Debug)]
pub struct LogReader {
    next: Seq,
    until: Position,
}

impl LogReader {
    /// The head at which it ends.
    pub const fn until(&self) -> Position {
        self.until
    }

    /// Whether all parts are read.
    pub fn is_done(&self) -> bool {
        self.next > self.until.seq
    }
}

/// Why a log could not be read to its end.
#[derive(Debug)]
pub enum LogError {
    /// It is another log now: start over.
    Changed,
    /// The store did not answer.
    Store(StoreError),
}

impl From<StoreError> for LogError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Room {
    /// Begins to read the whole log.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn log(&self) -> Result<LogReader, StoreError> {
        let head = self.stored_head().await?;
        Ok(LogReader { next: Seq::START.next(), until: head.position })
    }

    /// Reads the next part of the log.
    ///
    /// # Errors
    /// When the store does not answer, or has another log meanwhile.
    pub async fn read_log(&self, reader: &mut LogReader, limit: ReadLimit) -> Result<Vec<Bytes>, LogError> {
        let mut chunk = self.read(reader.next, limit).await?;
        if chunk.head.position.epoch != reader.until.epoch {
            return Err(LogError::Changed);
        }
        let left = reader.until.seq.get().saturating_sub(reader.next.previous().get());
        chunk.records.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        reader.next = reader.next.plus(chunk.records.len());
        match chunk.records.last() {
            Some(last) if reader.is_done() && identity_of(last) != reader.until.identity => {
                Err(LogError::Changed)
            }
            None if !reader.is_done() => Err(LogError::Changed),
            _ => Ok(chunk.records),
        }
    }
}
