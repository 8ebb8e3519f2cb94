//! The checker: what one reader gets, compared with what was sent. Pure: it neither waits nor looks at the clock.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::measure::ledger::{Ledger, Outcome};
use crate::measure::mark::{self, Mark};
use crate::measure::order::Order;

/// Numbers that one reader may lack for now at most; what is lacking beyond is a breach at once.
const HOLES_MAX: usize = 100_000;

/// One record as a reader got it.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// Its number in the room, for servers that number. They number from 1, without gaps.
    pub seq: Option<u64>,
    /// Who drew it, for servers that say so.
    pub author: Option<u64>,
    /// The draw, in MessagePack.
    pub draw: &'a [u8],
}

/// A broken promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breach {
    /// Acknowledged as stored, and a reader never got it.
    Lost,
    /// Came more than once.
    Repeated,
    /// Came after a later one of the same writer.
    OutOfOrder,
    /// Its content is not what was sent.
    Corrupt,
    /// Nobody of this run drew it in this room.
    Foreign,
    /// Was refused, and readers got it.
    RefusedButKept,
    /// Its number in the room is not one more than that before.
    Misnumbered,
    /// Another draw stands at its number for others in the room, or for the one who drew it.
    Divergent,
    /// What came is nothing that a server may send.
    Malformed,
}

impl fmt::Display for Breach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Lost => "lost",
            Self::Repeated => "repeated",
            Self::OutOfOrder => "out of order",
            Self::Corrupt => "corrupt",
            Self::Foreign => "foreign",
            Self::RefusedButKept => "refused but kept",
            Self::Misnumbered => "misnumbered",
            Self::Divergent => "divergent",
            Self::Malformed => "malformed",
        })
    }
}

/// The first case of a breach.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Case {
    /// What it is.
    pub breach: Breach,
    /// Where.
    pub room: String,
    /// The record's number in the room, where the server numbers; for a lost one, that of the one before it.
    pub seq: Option<u64>,
    /// In plain words.
    pub what: String,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} in room {}", self.breach, self.room)?;
        if let Some(seq) = self.seq {
            write!(formatter, " at seq {seq}")?;
        }
        write!(formatter, ": {}", self.what)
    }
}

/// Counts of breaches, and the first case.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Breaches {
    /// How many of each.
    pub counts: BTreeMap<Breach, u64>,
    /// The first one found.
    pub first: Option<Case>,
}

impl Breaches {
    /// Adds one.
    pub fn add(&mut self, case: Case) {
        *self.counts.entry(case.breach).or_default() += 1;
        self.first.get_or_insert(case);
    }

    /// Takes another's in.
    pub fn merge(&mut self, other: Self) {
        for (breach, count) in other.counts {
            *self.counts.entry(breach).or_default() += count;
        }
        if self.first.is_none() {
            self.first = other.first;
        }
    }

    /// Whether nothing was broken.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// One reader's view of one room.
#[derive(Debug)]
pub struct Checker {
    reader: String,
    room: String,
    ledger: Arc<Ledger>,
    writers: Range<u16>,
    /// What stands where, of all who read in this room; not once its numbers are wrong for this reader, since then all
    /// that follows would be.
    order: Option<Arc<Order>>,
    /// By what id each writer was known to the server last.
    authors: Vec<Option<u64>>,
    /// The newest number of each writer.
    newest: Vec<u32>,
    /// What each writer had sent when it was last looked up.
    sent: Vec<u32>,
    /// Numbers below the newest that have not come: by writer and number, with the seq before the hole.
    holes: BTreeMap<(u16, u32), Option<u64>>,
    /// What is refused by the ledger now may have been unknown when it came.
    came: Option<BTreeSet<(u16, u32)>>,
    seq: u64,
    fresh: u64,
    breaches: Breaches,
}

impl Checker {
    /// For a reader from the start of a room that these writers draw in. `reader` names it in reports.
    pub fn new(reader: String, room: String, ledger: Arc<Ledger>, writers: Range<u16>) -> Self {
        let newest = vec![0; writers.len()];
        let sent = newest.clone();
        let (order, authors) = (Some(ledger.order(writers.start)), vec![None; writers.len()]);
        Self {
            reader,
            room,
            ledger,
            writers,
            order,
            authors,
            newest,
            sent,
            holes: BTreeMap::new(),
            came: None,
            seq: 0,
            fresh: 0,
            breaches: Breaches::default(),
        }
    }

    /// Also remembers what came, to find at the end what was refused and kept all the same.
    #[must_use]
    pub fn with_memory(mut self) -> Self {
        self.came = Some(BTreeSet::new());
        self
    }

    /// Draws that came for the first time.
    pub const fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Takes the next record. Returns its mark if it is one that had not come before.
    pub fn take(&mut self, arrived: Arrived<'_>) -> Option<Mark> {
        if let Some(seq) = arrived.seq {
            let expected = self.seq + 1;
            if seq != expected {
                self.breach(Breach::Misnumbered, Some(seq), format!("number {expected} was due"));
                self.order = None;
            }
            self.seq = seq;
        }
        let mark = match mark::read(arrived.draw) {
            Ok(mark) => mark,
            Err(why) => {
                self.breach(Breach::Corrupt, arrived.seq, why.to_string());
                return None;
            }
        };
        let writer = self.ledger.index_of(mark.writer).filter(|index| self.writers.contains(index));
        let Some(writer) = writer else {
            self.breach(
                Breach::Foreign,
                arrived.seq,
                format!("writer {:#x} does not draw here", mark.writer),
            );
            return None;
        };
        // What was sent only grows: the ledger is asked again when it did.
        let sent = &mut self.sent[usize::from(writer - self.writers.start)];
        if mark.number > *sent {
            *sent = self.ledger.sent(writer);
        }
        if mark.number == 0 || mark.number > *sent {
            self.breach(
                Breach::Foreign,
                arrived.seq,
                format!("{} was never sent", name(writer, mark.number)),
            );
            return None;
        }
        if let (Some(order), Some(seq)) = (&self.order, arrived.seq)
            && let Err((other, other_number)) = order.stands(seq, writer, mark.number)
        {
            let others = name(other, other_number);
            let what = format!("{} came, and others have {others} there", name(writer, mark.number));
            self.breach(Breach::Divergent, Some(seq), what);
        }
        let known = &mut self.authors[usize::from(writer - self.writers.start)];
        if let Some(author) = arrived.author.filter(|author| *known != Some(*author)) {
            if self.ledger.is_author(writer, author) {
                *known = Some(author);
            } else {
                let what = format!("{} has the author {author}", name(writer, mark.number));
                self.breach(Breach::Corrupt, arrived.seq, what);
            }
        }
        let newest = self.newest[usize::from(writer - self.writers.start)];
        if mark.number <= newest {
            if self.holes.remove(&(writer, mark.number)).is_none() {
                self.breach(Breach::Repeated, arrived.seq, name(writer, mark.number));
                return None;
            }
            let what = format!("{} came after draw {newest}", name(writer, mark.number));
            self.breach(Breach::OutOfOrder, arrived.seq, what);
        } else {
            self.newest[usize::from(writer - self.writers.start)] = mark.number;
            let before = arrived.seq.map(|seq| seq.saturating_sub(1));
            for number in newest + 1..mark.number {
                if self.holes.len() < HOLES_MAX {
                    self.holes.insert((writer, number), before);
                } else {
                    self.breach(Breach::Lost, before, name(writer, number));
                }
            }
        }
        if let Some(came) = &mut self.came {
            came.insert((writer, mark.number));
        }
        self.fresh += 1;
        Some(mark)
    }

    /// Takes what is nothing that a server may send.
    pub fn malformed(&mut self, why: impl fmt::Display) {
        self.breach(Breach::Malformed, Some(self.seq).filter(|seq| *seq > 0), why.to_string());
    }

    /// Compares with the ledger, when nothing more is to come.
    pub fn finish(mut self) -> Breaches {
        for ((writer, number), before) in std::mem::take(&mut self.holes) {
            if self.ledger.outcome(writer, number) == Some(Outcome::Stored) {
                self.breach(Breach::Lost, before, name(writer, number));
            }
        }
        for writer in self.writers.clone() {
            let newest = self.newest[usize::from(writer - self.writers.start)];
            for number in newest + 1..=self.ledger.sent(writer) {
                if self.ledger.outcome(writer, number) == Some(Outcome::Stored) {
                    let before = (self.seq > 0).then_some(self.seq);
                    self.breach(Breach::Lost, before, name(writer, number));
                }
            }
        }
        for (writer, number) in self.came.take().unwrap_or_default() {
            if self.ledger.outcome(writer, number) == Some(Outcome::Refused) {
                self.breach(Breach::RefusedButKept, None, name(writer, number));
            }
        }
        self.breaches
    }

    fn breach(&mut self, breach: Breach, seq: Option<u64>, what: String) {
        let what = format!("{what} ({})", self.reader);
        self.breaches.add(Case { breach, room: self.room.clone(), seq, what });
    }
}

fn name(writer: u16, number: u32) -> String {
    format!("draw {number} of writer {writer}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ink;
    use crate::measure::ledger::Answers;
    use crate::measure::recorder::{Clock, Recorder};

    struct Room {
        ledger: Arc<Ledger>,
        answers: Answers,
        draws: Vec<Vec<u8>>,
    }

    /// One writer whose draws 1 to 5 are stored.
    fn room() -> Room {
        let ledger = Arc::new(Ledger::new([("r".to_owned(), 1), ("s".to_owned(), 1)]).unwrap());
        let answers = Answers::new(ledger.clone(), 0, Arc::new(Recorder::default()), Clock::start());
        let ink = ink::handwriting();
        let mut draws = Vec::new();
        for due_us in 0..5 {
            let number = answers.sending(due_us, 1);
            let mut draw = Vec::new();
            ink[0].mark(Mark { writer: answers.writer_id(), number, due_us }, &mut draw);
            draws.push(draw);
            answers.answered(number, Outcome::Stored);
        }
        Room { ledger, answers, draws }
    }

    fn check(room: &Room, arrived: &[(u64, usize)]) -> Vec<(Breach, u64)> {
        let mut checker =
            Checker::new("a reader".into(), "r".into(), room.ledger.clone(), 0..1).with_memory();
        // Each for itself.
        checker.order = Some(Arc::default());
        for (seq, number) in arrived {
            checker.take(Arrived { seq: Some(*seq), author: None, draw: &room.draws[number - 1] });
        }
        checker.finish().counts.into_iter().collect()
    }

    #[test]
    fn each_fault_has_its_name() {
        let mut room = room();
        assert_eq!(check(&room, &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]), []);
        assert_eq!(check(&room, &[(1, 1), (2, 2), (3, 4), (4, 5)]), [(Breach::Lost, 1)]);
        assert_eq!(check(&room, &[(1, 1), (2, 2), (3, 3)]), [(Breach::Lost, 2)]);
        assert_eq!(check(&room, &[(1, 1), (2, 2), (3, 2), (4, 3), (5, 4), (6, 5)]), [(Breach::Repeated, 1)]);
        assert_eq!(check(&room, &[(1, 1), (2, 3), (3, 2), (4, 4), (5, 5)]), [(Breach::OutOfOrder, 1)]);
        assert_eq!(check(&room, &[(1, 1), (2, 2), (4, 3), (5, 4), (6, 5)]), [(Breach::Misnumbered, 1)]);
        room.draws[2][20] ^= 1;
        let found = check(&room, &[(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)]);
        assert_eq!(found, [(Breach::Lost, 1), (Breach::Corrupt, 1)]);
    }

    #[test]
    fn what_is_unknown_may_come_or_not_and_what_is_refused_may_not() {
        let mut room = room();
        for due_us in 5..7 {
            let number = room.answers.sending(due_us, 1);
            let mut draw = Vec::new();
            ink::handwriting()[1].mark(Mark { writer: room.answers.writer_id(), number, due_us }, &mut draw);
            room.draws.push(draw);
        }
        room.answers.answered(7, Outcome::Refused);
        let all = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)];
        assert_eq!(check(&room, &all[..5]), []);
        assert_eq!(check(&room, &all[..6]), []);
        assert_eq!(check(&room, &all), [(Breach::RefusedButKept, 1)]);
        let tally = room.ledger.tally(0..2);
        assert_eq!((tally.sent, tally.stored, tally.refused, tally.unknown), (7, 5, 1, 1));
    }

    #[test]
    fn another_runs_and_another_rooms_draws_are_foreign() {
        let (room, other) = (room(), room());
        let mut checker = Checker::new("a reader".into(), "r".into(), room.ledger.clone(), 1..2);
        checker.take(Arrived { seq: Some(1), author: None, draw: &room.draws[0] });
        let elsewhere = checker.finish();
        assert_eq!(elsewhere.counts[&Breach::Foreign], 1);
        if room.answers.writer_id() != other.answers.writer_id() {
            let mut checker = Checker::new("a reader".into(), "r".into(), room.ledger.clone(), 0..1);
            checker.take(Arrived { seq: None, author: None, draw: &other.draws[0] });
            let case = checker.finish().first.unwrap();
            assert_eq!((case.breach, case.room.as_str()), (Breach::Foreign, "r"));
        }
    }
}
