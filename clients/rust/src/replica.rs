//! The replica: this client's place in a room's log, and the board if it keeps one.
//!
//! No clock and no I/O. Records count only in order and once: what is here already is left out, and a hole is
//! an error that the connection answers by resuming from [`Replica::position`]. A reset comes in parts, and
//! only its last part moves the position: broken off, everything starts over from where it was.

use inkrelay_protocol::{Board, Epoch, Malformed, Position, Record, Seq};

/// Why records cannot be taken. The connection resumes from the position, and the server sets it right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutOfOrder {
    /// Records are missing.
    #[error("record {expected} was to come next, and {got} came")]
    Hole {
        /// The next that is lacking.
        expected: Seq,
        /// The first that came.
        got: Seq,
    },
    /// A record came again, and is another one now.
    #[error("record {0} is not the one that was here")]
    Diverged(Seq),
    /// Records came between the parts of a reset, or parts of two resets were mixed.
    #[error("the parts of a reset do not follow each other")]
    BrokenReset,
    /// What came is no record.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// How far a reset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetPart {
    /// Whether this part is the first, at which the old board is to be forgotten.
    pub first: bool,
    /// Whether it was the last, so that the position has moved.
    pub last: bool,
    /// Whether the log is another incarnation than the one read before; only told with the last part.
    pub new_epoch: bool,
}

#[derive(Debug)]
struct Resetting {
    position: Position,
    board: Option<Board>,
}

/// See the module.
#[derive(Debug)]
pub struct Replica {
    position: Option<Position>,
    epoch: Epoch,
    board: Option<Board>,
    resetting: Option<Resetting>,
    /// The newest heartbeat's head and where this replica was then, if it was behind.
    lagged: Option<(Seq, Seq)>,
}

impl Replica {
    /// Goes on after a position; none: from the start. A board can only be kept from the start, since the
    /// records before a position are not here.
    pub fn new(position: Option<Position>, keep_board: bool) -> Self {
        let board = (keep_board && position.is_none()).then(Board::new);
        let epoch = position.map_or(Epoch::EMPTY, |position| position.epoch);
        Self { position, epoch, board, resetting: None, lagged: None }
    }

    /// The last record that is here; `None` at the start.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// The number of the last record that is here.
    pub fn seq(&self) -> Seq {
        self.position.map_or(Seq::START, |position| position.seq)
    }

    /// What the records draw; `None` unless it was asked for.
    pub fn board(&self) -> Option<&Board> {
        self.board.as_ref()
    }

    /// A connection begins: the epoch of its log, and whatever was unfinished before is gone.
    pub fn on_connected(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.resetting = None;
        self.lagged = None;
    }

    /// Takes records, the first of which has that number. Returns how many from the front are no news.
    ///
    /// # Errors
    /// When they do not follow on what is here; what came before the fault is taken.
    pub fn on_records<R: AsRef<[u8]>>(&mut self, first: Seq, records: &[R]) -> Result<usize, OutOfOrder> {
        if self.resetting.is_some() {
            return Err(OutOfOrder::BrokenReset);
        }
        let here = self.seq();
        if first > here.next() {
            return Err(OutOfOrder::Hole { expected: here.next(), got: first });
        }
        let mut seq = first;
        let mut repeats = 0;
        for bytes in records {
            let record = Record::parse(bytes.as_ref())?;
            if seq <= here {
                repeats += 1;
                if seq == here && self.position.is_some_and(|at| at.identity != record.identity) {
                    return Err(OutOfOrder::Diverged(seq));
                }
            } else {
                self.position = Some(Position { epoch: self.epoch, seq, identity: record.identity });
                if let Some(board) = &mut self.board {
                    board.apply(&record);
                }
            }
            seq = seq.next();
        }
        Ok(repeats)
    }

    /// Takes one part of a reset to a position.
    ///
    /// # Errors
    /// When it does not belong to the part before it.
    pub fn on_reset<R: AsRef<[u8]>>(
        &mut self,
        position: Position,
        records: &[R],
        more: bool,
    ) -> Result<ResetPart, OutOfOrder> {
        let first = self.resetting.is_none();
        let keeps_board = self.board.is_some();
        let resetting =
            self.resetting.get_or_insert_with(|| Resetting { position, board: keeps_board.then(Board::new) });
        if resetting.position != position {
            return Err(OutOfOrder::BrokenReset);
        }
        if let Some(board) = &mut resetting.board {
            for bytes in records {
                board.apply(&Record::parse(bytes.as_ref())?);
            }
        }
        let mut new_epoch = false;
        if !more {
            // A socket tells the epoch only when it opens: who came when the log was empty still knows it by the
            // one that all empty logs have.
            let is_empty = position.seq == Seq::START;
            new_epoch = self.position.is_some_and(|here| here.epoch != position.epoch || is_empty);
            self.board = self.resetting.take().and_then(|resetting| resetting.board);
            self.epoch = position.epoch;
            self.position = (position.seq > Seq::START).then_some(position);
        }
        Ok(ResetPart { first, last: !more, new_epoch })
    }

    /// Takes the head that a heartbeat told. Returns whether records are overdue: two heartbeats in a row were
    /// ahead, and nothing came in between. One alone may just have overtaken its records.
    pub fn on_heartbeat(&mut self, head: Seq) -> bool {
        let here = self.seq();
        let overdue = self.lagged.is_some_and(|(told, was)| was == here && told > here && head > here);
        self.lagged = (head > here).then_some((head, here));
        overdue
    }
}

#[cfg(test)]
mod tests {
    use inkrelay_protocol::{ClientId, Draw, Identity};

    use super::*;

    fn record(n: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let identity = Identity { author: ClientId::new(7).unwrap(), n, at: 1000 + n };
        Record { identity, draw: &Draw::Clear.to_bytes() }.encode(&mut out);
        out
    }

    fn seq(seq: u64) -> Seq {
        Seq::new(seq).unwrap()
    }

    fn position(epoch: u64, at: u64) -> Position {
        let identity = Identity { author: ClientId::new(7).unwrap(), n: at, at: 1000 + at };
        Position { epoch: Epoch::new(epoch).unwrap(), seq: seq(at), identity }
    }

    #[test]
    fn records_count_once_and_in_order() {
        let mut replica = Replica::new(None, true);
        replica.on_connected(Epoch::new(9).unwrap());
        assert_eq!(replica.on_records(seq(1), &[record(1), record(2)]), Ok(0));
        assert_eq!(replica.on_records(seq(1), &[record(1), record(2), record(3)]), Ok(2));
        assert_eq!(replica.position(), Some(position(9, 3)));
        let hole = OutOfOrder::Hole { expected: seq(4), got: seq(5) };
        assert_eq!(replica.on_records(seq(5), &[record(5)]), Err(hole));
        assert_eq!(replica.on_records(seq(3), &[record(8)]), Err(OutOfOrder::Diverged(seq(3))));
        assert_eq!(replica.seq(), seq(3));
    }

    #[test]
    fn a_reset_moves_the_position_only_with_its_last_part() {
        let mut replica = Replica::new(Some(position(9, 3)), false);
        let part = replica.on_reset(position(10, 2), &[record(1)], true).unwrap();
        assert_eq!(part, ResetPart { first: true, last: false, new_epoch: false });
        assert_eq!(replica.position(), Some(position(9, 3)));
        assert_eq!(replica.on_records(seq(4), &[record(4)]), Err(OutOfOrder::BrokenReset));

        // Broken off: the next connection starts it over.
        replica.on_connected(Epoch::new(10).unwrap());
        assert!(replica.on_reset(position(10, 2), &[record(1)], true).unwrap().first);
        assert_eq!(replica.on_reset(position(10, 4), &[record(2)], false), Err(OutOfOrder::BrokenReset));
        let part = replica.on_reset(position(10, 2), &[record(2)], false).unwrap();
        assert_eq!(part, ResetPart { first: false, last: true, new_epoch: true });
        assert_eq!(replica.position(), Some(position(10, 2)));
    }

    #[test]
    fn a_reset_to_an_empty_log_is_the_start() {
        let mut replica = Replica::new(Some(position(9, 3)), false);
        let start = Position::start(Epoch::new(10).unwrap());
        assert!(replica.on_reset::<&[u8]>(start, &[], false).unwrap().new_epoch);
        assert_eq!(replica.position(), None);
        assert_eq!(replica.on_records(seq(1), &[record(1)]), Ok(0));
    }

    #[test]
    fn a_log_that_was_empty_at_first_and_is_again_has_lost_everything() {
        let mut replica = Replica::new(None, false);
        replica.on_connected(Epoch::EMPTY);
        assert_eq!(replica.on_records(seq(1), &[record(1)]), Ok(0));
        let empty = Position::start(Epoch::EMPTY);
        assert!(replica.on_reset::<&[u8]>(empty, &[], false).unwrap().new_epoch);
    }

    #[test]
    fn records_are_overdue_after_two_heartbeats() {
        let mut replica = Replica::new(Some(position(9, 3)), false);
        assert!(!replica.on_heartbeat(seq(4)));
        assert_eq!(replica.on_records(seq(4), &[record(4)]), Ok(0));
        assert!(!replica.on_heartbeat(seq(5)));
        assert!(replica.on_heartbeat(seq(5)));
        assert!(!Replica::new(Some(position(9, 3)), false).on_heartbeat(seq(3)));
    }
}
