//! A subscriber's place in the log, and how it goes on from what a store returns.
//!
//! Pure: what is decided here is whether the log is still the one that the subscriber read.

use bytes::Bytes;
use inkrelay_protocol::{Epoch, Position, Seq};

use crate::store::{Chunk, identity_of};

/// The last record that a subscriber has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    position: Position,
}

/// The log at the cursor is another than the one that was read: the subscriber is to be reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diverged;

impl Cursor {
    /// Before the first record.
    pub const fn start(epoch: Epoch) -> Self {
        Self { position: Position::start(epoch) }
    }

    /// At a record that is known to stand in the log.
    pub const fn at(position: Position) -> Self {
        Self { position }
    }

    /// The last record.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// The number from which to read the store: the record at the cursor comes along, so that one read
    /// both matches the log and goes on in it.
    pub fn read_from(&self) -> Seq {
        self.position.seq.max(Seq::START.next())
    }

    /// Takes what was read from [`Cursor::read_from`] on, and returns the records after the cursor.
    ///
    /// # Errors
    /// When the log does not hold the cursor's record.
    pub fn take(&mut self, mut chunk: Chunk) -> Result<Vec<Bytes>, Diverged> {
        if self.position.seq > Seq::START {
            match chunk.records.first() {
                Some(record) if identity_of(record) == self.position.identity => chunk.records.remove(0),
                _ => return Err(Diverged),
            };
        }
        self.position.epoch = chunk.head.position.epoch;
        if let Some(last) = chunk.records.last() {
            self.position.seq = self.position.seq.plus(chunk.records.len());
            self.position.identity = identity_of(last);
        }
        Ok(chunk.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Head;
    use inkrelay_protocol::{ClientId, Identity, Record};

    fn record(n: u64) -> Bytes {
        let identity = Identity { author: ClientId::new(7).unwrap(), n, at: 1 };
        let mut out = Vec::new();
        Record { identity, draw: &[0x91, 4] }.encode(&mut out);
        out.into()
    }

    fn position(epoch: u64, seq: u64, n: u64) -> Position {
        let identity = identity_of(&record(n));
        Position { epoch: Epoch::new(epoch).unwrap(), seq: Seq::new(seq).unwrap(), identity }
    }

    fn chunk(epoch: u64, numbers: &[u64]) -> Chunk {
        let head = Head { position: position(epoch, 99, 99), bytes: 0 };
        Chunk { head, records: numbers.iter().map(|n| record(*n)).collect() }
    }

    #[test]
    fn goes_on_in_the_same_log_whatever_its_epoch_is_called_now() {
        let mut cursor = Cursor::at(position(5, 3, 3));
        assert_eq!(cursor.take(chunk(6, &[3, 4, 5])), Ok(vec![record(4), record(5)]));
        assert_eq!(cursor.position(), position(6, 5, 5));
        assert_eq!(cursor.take(chunk(6, &[5])), Ok(vec![]));
        assert_eq!(cursor.position(), position(6, 5, 5));
    }

    #[test]
    fn notices_another_log_and_a_shorter_one() {
        let mut cursor = Cursor::at(position(5, 3, 3));
        assert_eq!(cursor.take(chunk(5, &[77, 4])), Err(Diverged));
        assert_eq!(cursor.take(chunk(5, &[])), Err(Diverged));
        assert_eq!(cursor.position(), position(5, 3, 3));
    }

    #[test]
    fn the_start_is_in_every_log() {
        let mut cursor = Cursor::start(Epoch::EMPTY);
        assert_eq!(cursor.read_from(), Seq::new(1).unwrap());
        assert_eq!(cursor.take(chunk(9, &[1, 2])), Ok(vec![record(1), record(2)]));
        assert_eq!(cursor.position(), position(9, 2, 2));
    }
}
