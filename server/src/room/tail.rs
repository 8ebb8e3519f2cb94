//! The tail: the recent records of a room, standing once in memory for all who read.
//!
//! Pure: no clock, no I/O. It takes records only at `head + 1`, so whatever order the store's reply and its
//! events come in, every reader sees each record once and in order.

use std::collections::VecDeque;

use bytes::Bytes;
use inkrelay_protocol::{Epoch, Identity, Position, Seq};

use crate::store::identity_of;

/// Recent records and the record before them.
#[derive(Debug)]
pub struct Tail {
    epoch: Epoch,
    /// The record before the first one here.
    base: (Seq, Identity),
    records: VecDeque<(Identity, Bytes)>,
    bytes: usize,
    max_bytes: usize,
}

/// What became of records that were offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// At least one was new.
    Taken,
    /// All were here, or had been.
    Known,
    /// Records before them are missing: read them from the store.
    Hole,
    /// They do not continue this log: compare with the store.
    Foreign,
}

/// What a reader at some position gets.
#[derive(Debug, PartialEq, Eq)]
pub enum View {
    /// The next records; the reader is at the position then.
    Records(Vec<Bytes>, Position),
    /// There is nothing newer here.
    UpToDate,
    /// The next record is no longer, or not yet, here: read it from the store.
    Elsewhere,
}

impl Tail {
    /// An empty tail behind that head.
    pub const fn new(head: Position, max_bytes: usize) -> Self {
        let Position { epoch, seq, identity } = head;
        Self { epoch, base: (seq, identity), records: VecDeque::new(), bytes: 0, max_bytes }
    }

    /// Forgets all, and goes on behind that head.
    pub fn reset(&mut self, head: Position) {
        *self = Self::new(head, self.max_bytes);
    }

    /// The newest record.
    pub fn head(&self) -> Position {
        let identity = self.records.back().map_or(self.base.1, |(identity, _)| *identity);
        Position { epoch: self.epoch, seq: self.base.0.plus(self.records.len()), identity }
    }

    /// Bytes of the records here.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same log, which the store now calls by another name.
    pub const fn rename(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// Takes what is new of records that follow `before`.
    pub fn offer(&mut self, before: &Position, records: &[Bytes]) -> Offer {
        let head = self.head();
        if head.seq == Seq::START && before.seq == Seq::START {
            // A log gets its epoch with its first record.
            self.epoch = before.epoch;
        } else if before.epoch != self.epoch {
            return Offer::Foreign;
        }
        let Some(known) = head.seq.get().checked_sub(before.seq.get()) else { return Offer::Hole };
        if known == 0 && before.identity != head.identity {
            return Offer::Foreign;
        }
        let new = usize::try_from(known).ok().and_then(|known| records.get(known..)).unwrap_or_default();
        if new.is_empty() {
            return Offer::Known;
        }
        for record in new {
            self.bytes += record.len();
            self.records.push_back((identity_of(record), record.clone()));
        }
        self.shrink(self.max_bytes);
        Offer::Taken
    }

    /// Forgets the oldest records until at most that many bytes are left. The newest always stays.
    pub fn shrink(&mut self, max_bytes: usize) {
        while self.bytes > max_bytes && self.records.len() > 1 {
            let Some((identity, record)) = self.records.pop_front() else { return };
            self.bytes -= record.len();
            self.base = (self.base.0.next(), identity);
        }
        if self.records.capacity() > 64 && self.records.len() < self.records.capacity() / 4 {
            self.records.shrink_to(self.records.len() * 2);
        }
    }

    /// The identity of record `seq`, if it is known here.
    pub fn identity(&self, seq: Seq) -> Option<Identity> {
        if seq == self.base.0 {
            return Some(self.base.1);
        }
        self.index_after(seq.previous())
            .and_then(|index| self.records.get(index))
            .map(|(identity, _)| *identity)
    }

    /// What follows a position, at most so many records and bytes, and at least one record.
    pub fn after(&self, position: &Position, max_records: usize, max_bytes: usize) -> View {
        if position.epoch != self.epoch && position.seq > Seq::START {
            return View::Elsewhere;
        }
        if position.seq >= self.head().seq {
            return View::UpToDate;
        }
        let Some(start) = self.index_after(position.seq) else { return View::Elsewhere };
        let mut bytes = 0;
        let fits = |(_, record): &&(Identity, Bytes)| {
            let first = bytes == 0;
            bytes += record.len();
            first || bytes <= max_bytes
        };
        let records: Vec<Bytes> = self
            .records
            .range(start..)
            .take(max_records.max(1))
            .take_while(fits)
            .map(|(_, record)| record.clone())
            .collect();
        let identity = self.records[start + records.len() - 1].0;
        let seq = position.seq.plus(records.len());
        View::Records(records, Position { epoch: self.epoch, seq, identity })
    }

    /// Where in `records` the one after `seq` stands or will stand.
    fn index_after(&self, seq: Seq) -> Option<usize> {
        seq.get().checked_sub(self.base.0.get()).and_then(|index| usize::try_from(index).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkrelay_protocol::{ClientId, Record};

    fn record(n: u64) -> Bytes {
        let identity = Identity { author: ClientId::new(7).unwrap(), n, at: 1000 + n };
        let mut out = Vec::new();
        Record { identity, draw: &[0x91, 4] }.encode(&mut out);
        out.into()
    }

    fn records(numbers: std::ops::RangeInclusive<u64>) -> Vec<Bytes> {
        numbers.map(record).collect()
    }

    fn position(epoch: u64, seq: u64) -> Position {
        let identity = if seq == 0 { Identity::NONE } else { identity_of(&record(seq)) };
        Position { epoch: Epoch::new(epoch).unwrap(), seq: Seq::new(seq).unwrap(), identity }
    }

    #[test]
    fn takes_each_record_once_and_in_order_wherever_it_comes_from() {
        let mut tail = Tail::new(position(5, 0), 1 << 20);
        assert_eq!(tail.offer(&position(5, 0), &records(1..=3)), Offer::Taken);
        assert_eq!(tail.offer(&position(5, 0), &records(1..=3)), Offer::Known);
        assert_eq!(tail.offer(&position(5, 1), &records(2..=5)), Offer::Taken);
        assert_eq!(tail.offer(&position(5, 6), &records(7..=8)), Offer::Hole);
        assert_eq!(tail.head(), position(5, 5));
        let View::Records(read, at) = tail.after(&position(5, 0), 100, 1 << 20) else { panic!("nothing") };
        assert_eq!((read, at), (records(1..=5), position(5, 5)));
        assert_eq!(tail.after(&position(5, 5), 100, 1 << 20), View::UpToDate);
    }

    #[test]
    fn does_not_take_records_of_another_log() {
        let mut tail = Tail::new(position(5, 2), 1 << 20);
        assert_eq!(tail.offer(&position(6, 2), &records(3..=3)), Offer::Foreign);
        let other = Position { identity: identity_of(&record(9)), ..position(5, 2) };
        assert_eq!(tail.offer(&other, &records(3..=3)), Offer::Foreign);
        assert_eq!(tail.head(), position(5, 2));
        assert_eq!(tail.after(&position(4, 1), 9, 9), View::Elsewhere);
    }

    #[test]
    fn an_empty_log_takes_the_epoch_of_its_first_record() {
        let mut tail = Tail::new(Position::start(Epoch::EMPTY), 1 << 20);
        assert_eq!(tail.offer(&position(9, 0), &records(1..=1)), Offer::Taken);
        assert_eq!(tail.head(), position(9, 1));
        let View::Records(read, _) = tail.after(&Position::start(Epoch::EMPTY), 9, 999) else {
            panic!("nothing")
        };
        assert_eq!(read, records(1..=1));
    }

    #[test]
    fn forgets_the_oldest_when_it_is_full() {
        let size = record(1).len();
        let mut tail = Tail::new(position(5, 0), 3 * size);
        tail.offer(&position(5, 0), &records(1..=10));
        assert_eq!(tail.bytes(), 3 * size);
        assert_eq!(tail.after(&position(5, 6), 9, 999), View::Elsewhere);
        assert_eq!(tail.identity(Seq::new(7).unwrap()), Some(position(5, 7).identity));
        assert_eq!(tail.identity(Seq::new(10).unwrap()), Some(position(5, 10).identity));
        assert_eq!(tail.identity(Seq::new(6).unwrap()), None);
        assert_eq!(tail.identity(Seq::new(11).unwrap()), None);
        let View::Records(read, at) = tail.after(&position(5, 7), 1, 999) else { panic!("nothing") };
        assert_eq!((read, at), (records(8..=8), position(5, 8)));
    }

    #[test]
    fn one_record_is_read_whatever_its_size() {
        let mut tail = Tail::new(position(5, 0), 1);
        tail.offer(&position(5, 0), &records(1..=1));
        assert!(matches!(tail.after(&position(5, 0), 0, 0), View::Records(read, _) if read.len() == 1));
    }
}
