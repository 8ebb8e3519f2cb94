//! A ledger of draws: what the testers themselves know to be acked, refused or unknown, to be held against what
//! readers were told. It believes nothing that the relay says of its own state.
//!
//! Use: every draw gets its number from [`Ledger::issue`] before it is sent, as [`draw`], [`padded`] or [`numbered`],
//! and stays *unknown* until its writer is answered. Readers each keep a [`ReaderLog`]. When all is quiet, and every
//! reader has caught up, [`Ledger::assert_agrees`] holds the one against the others:
//!
//! - nothing acked is missing, and nothing stands twice
//! - what was refused never appears; what is unknown appears once or not at all
//! - no draw appears that nobody issued
//! - each reader was told the numbers *n, n + 1, …* and nothing else
//! - no two readers have different records at one number
//! - what was acked before another draw was issued stands before it
//!
//! Where a test lets a store lose what it acked, so that its writers offer it again, the last rule cannot hold:
//! look at [`Ledger::faults`] without [`Fault::Reordered`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use inkrelay_protocol::msgpack::{self, Reader};
use inkrelay_protocol::{Draw, Record, ServerFrame};

/// The draw of that number.
pub fn draw(number: u64) -> Draw {
    padded(number, 0)
}

/// The draw of that number, with so many bytes more.
pub fn padded(number: u64, padding_bytes: usize) -> Draw {
    let mut bytes = number.to_be_bytes().to_vec();
    bytes.resize(8 + padding_bytes, 0xa5);
    Draw::Opaque(bytes)
}

/// Any draw, with that number behind its last field, where readers are to ignore it.
pub fn numbered(draw: &Draw, number: u64) -> Vec<u8> {
    let bytes = draw.to_bytes();
    let mut reader = Reader::new(&bytes);
    let written = reader.array().expect("a draw is an array");
    let kind = reader.uint().expect("a draw begins with its kind");
    let fields = fields_of(kind).expect("a draw that has no room for a number needs none");
    let mut out = Vec::with_capacity(bytes.len() + 10);
    msgpack::write_array(&mut out, fields as usize + 1);
    msgpack::write_uint(&mut out, kind);
    (1..written).for_each(|_| out.extend_from_slice(reader.raw().expect("a field")));
    (written..fields).for_each(|_| msgpack::write_nil(&mut out));
    msgpack::write_uint(&mut out, number);
    out
}

/// How many fields a draw of that kind has with all that are optional.
fn fields_of(kind: u64) -> Option<u32> {
    [6, 4, 2, 2, 1].get(usize::try_from(kind).ok()?).copied()
}

/// The number of a draw that [`draw`], [`padded`] or [`numbered`] made.
pub fn number_of(record: &[u8]) -> Option<u64> {
    let draw = Record::parse(record).ok()?.draw;
    if let Ok(Draw::Opaque(bytes)) = Draw::decode(draw) {
        return Some(u64::from_be_bytes(*bytes.first_chunk()?));
    }
    let mut reader = Reader::new(draw);
    let written = reader.array().ok()?;
    let fields = fields_of(reader.uint().ok()?)?;
    (1..fields.min(written)).try_for_each(|_| reader.skip()).ok()?;
    if written > fields { reader.uint().ok() } else { None }
}

/// What a writer was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet, or that nothing is known.
    Unknown,
    /// It is stored.
    Acked,
    /// It is not.
    Refused,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    outcome: Outcome,
    /// Ticks of the ledger's own clock, which counts what happened.
    issued_at: u64,
    acked_at: u64,
}

#[derive(Debug, Default)]
struct Entries {
    by_number: BTreeMap<u64, Entry>,
    tick: u64,
}

/// See the module's documentation. Writers in many tasks share one.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

/// What is wrong. Numbers are draws' numbers, unless they are said to be a `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Acked, and the reader does not have it.
    Lost { reader: String, number: u64 },
    /// The reader has it more than once.
    Twice { reader: String, number: u64 },
    /// Refused, and the reader has it.
    RefusedAppears { reader: String, number: u64 },
    /// Nobody issued it, or it is no draw of a ledger.
    NeverIssued { reader: String, seq: u64 },
    /// The reader was told of `told` where the next was `next`.
    Gap { reader: String, next: u64, told: u64 },
    /// Two readers have different records there.
    Disagree { readers: [String; 2], seq: u64 },
    /// `second` was acked before `first` was issued, and stands behind it.
    Reordered { reader: String, first: u64, second: u64 },
}

impl Ledger {
    /// A number for a new draw.
    pub fn issue(&self) -> u64 {
        let mut entries = self.lock();
        entries.tick += 1;
        let number = entries.by_number.len() as u64 + 1;
        let entry = Entry { outcome: Outcome::Unknown, issued_at: entries.tick, acked_at: u64::MAX };
        entries.by_number.insert(number, entry);
        number
    }

    /// Its writer was told that it is stored. Told again, it stays as it is.
    ///
    /// # Panics
    /// When it was refused, or never issued.
    pub fn acked(&self, number: u64) {
        let mut entries = self.lock();
        entries.tick += 1;
        let tick = entries.tick;
        let entry = entries.by_number.get_mut(&number).expect("what is acked was issued");
        assert_ne!(entry.outcome, Outcome::Refused, "draw {number} was refused, and is acked now");
        if entry.outcome == Outcome::Unknown {
            (entry.outcome, entry.acked_at) = (Outcome::Acked, tick);
        }
    }

    /// Its writer was told that nothing of it is kept, and will not send it again.
    ///
    /// # Panics
    /// When it was acked, or never issued.
    pub fn refused(&self, number: u64) {
        let mut entries = self.lock();
        let entry = entries.by_number.get_mut(&number).expect("what is refused was issued");
        assert_ne!(entry.outcome, Outcome::Acked, "draw {number} was acked, and is refused now");
        entry.outcome = Outcome::Refused;
    }

    /// How many draws have that outcome now.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.lock().by_number.values().filter(|entry| entry.outcome == outcome).count()
    }

    /// Everything that is wrong with what the readers have.
    pub fn faults(&self, readers: &[&ReaderLog]) -> Vec<Fault> {
        let entries = self.lock();
        let mut faults: Vec<Fault> = readers.iter().flat_map(|reader| reader.gaps.clone()).collect();
        for reader in readers {
            self::contents(&entries.by_number, reader, &mut faults);
        }
        for (index, one) in readers.iter().enumerate() {
            for other in &readers[index + 1..] {
                faults.extend(one.disagreement(other));
            }
        }
        faults
    }

    /// # Panics
    /// When anything is wrong; see the module's documentation.
    pub fn assert_agrees(&self, readers: &[&ReaderLog]) {
        let faults = self.faults(readers);
        assert!(
            faults.is_empty(),
            "{} faults, of which the first: {:#?}",
            faults.len(),
            &faults[..faults.len().min(5)]
        );
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries> {
        self.0.lock().expect("no ledger's holder panics but where the test has failed already")
    }
}

/// Holds what one reader has against the entries.
fn contents(entries: &BTreeMap<u64, Entry>, reader: &ReaderLog, faults: &mut Vec<Fault>) {
    let name = || reader.name.clone();
    let mut times: HashMap<u64, usize> = HashMap::new();
    // From the end: of all that stands behind, the one that was acked first.
    let (mut acked_at, mut acked_first) = (u64::MAX, 0);
    for (index, record) in reader.records.iter().enumerate().rev() {
        let known = number_of(record).and_then(|number| Some((number, entries.get(&number)?)));
        let Some((number, entry)) = known else {
            faults.push(Fault::NeverIssued { reader: name(), seq: index as u64 + 1 });
            continue;
        };
        *times.entry(number).or_default() += 1;
        if entry.outcome == Outcome::Refused {
            faults.push(Fault::RefusedAppears { reader: name(), number });
        }
        if acked_at < entry.issued_at {
            faults.push(Fault::Reordered { reader: name(), first: number, second: acked_first });
        }
        if entry.acked_at < acked_at {
            (acked_at, acked_first) = (entry.acked_at, number);
        }
    }
    for (number, entry) in entries {
        match times.get(number) {
            None if entry.outcome == Outcome::Acked => {
                faults.push(Fault::Lost { reader: name(), number: *number })
            }
            Some(2..) => faults.push(Fault::Twice { reader: name(), number: *number }),
            _ => {}
        }
    }
}

/// What one reader has: everything from the log's first record on, as it was told, or as a reset replaced it.
#[derive(Clone, Debug, Default)]
pub struct ReaderLog {
    name: String,
    records: Vec<Vec<u8>>,
    /// Parts of a reset that is not yet whole.
    reset: Vec<Vec<u8>>,
    resets: usize,
    gaps: Vec<Fault>,
}

impl ReaderLog {
    /// Of a reader that begins at the start.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Takes what a frame tells of the log; the other frames tell nothing of it.
    pub fn take(&mut self, frame: &ServerFrame<'_>) {
        match frame {
            ServerFrame::Records { seq, records } => {
                self.reset.clear();
                self.records(seq.get(), records);
            }
            ServerFrame::Reset { position, records, more } => {
                self.reset.extend(records.iter().map(|record| record.to_vec()));
                if !more {
                    let whole = std::mem::take(&mut self.reset);
                    self.replace(whole, position.seq.get());
                }
            }
            _ => {}
        }
    }

    /// Takes records of which the first has that number. What it has already is noted as a gap too: it was to be
    /// told the next one that it lacks.
    pub fn records<R: AsRef<[u8]>>(&mut self, first: u64, records: &[R]) {
        let next = self.records.len() as u64 + 1;
        if first != next {
            self.gaps.push(Fault::Gap { reader: self.name.clone(), next, told: first });
        }
        self.records.extend(records.iter().map(|record| record.as_ref().to_vec()));
    }

    /// Forgets everything for the whole log up to that number.
    pub fn replace(&mut self, records: Vec<Vec<u8>>, until: u64) {
        if records.len() as u64 != until {
            let (reader, told) = (self.name.clone(), records.len() as u64);
            self.gaps.push(Fault::Gap { reader, next: until, told });
        }
        self.records = records;
        self.resets += 1;
    }

    /// How many records it has.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// How often it was reset.
    pub fn resets(&self) -> usize {
        self.resets
    }

    /// The numbers of its draws, in order; 0 for what is none of a ledger's.
    pub fn numbers(&self) -> Vec<u64> {
        self.records.iter().map(|record| number_of(record).unwrap_or(0)).collect()
    }

    /// Its records, in order.
    pub fn all(&self) -> &[Vec<u8>] {
        &self.records
    }

    /// The first number at which the other has something else, of those that both have.
    fn disagreement(&self, other: &Self) -> Option<Fault> {
        let index = self.records.iter().zip(&other.records).position(|(one, other)| one != other)?;
        Some(Fault::Disagree { readers: [self.name.clone(), other.name.clone()], seq: index as u64 + 1 })
    }
}

mod tests {
    use inkrelay_protocol::{ClientId, Identity};

    use super::*;

    fn record(number: u64) -> Vec<u8> {
        let identity = Identity { author: ClientId::new(1).unwrap(), n: number, at: 1 };
        let mut out = Vec::new();
        Record { identity, draw: &draw(number).to_bytes() }.encode(&mut out);
        out
    }

    fn log(name: &str, numbers: &[u64]) -> ReaderLog {
        let mut log = ReaderLog::new(name);
        log.records(1, &numbers.iter().map(|number| record(*number)).collect::<Vec<_>>());
        log
    }

    /// Draws 1 and 2 acked in turn, 3 refused, 4 and 5 unknown.
    fn ledger() -> Ledger {
        let ledger = Ledger::default();
        for number in 1..=5 {
            assert_eq!(ledger.issue(), number);
            match number {
                1 | 2 => ledger.acked(number),
                3 => ledger.refused(number),
                _ => {}
            }
        }
        ledger
    }

    #[test]
    fn what_is_sound_is_found_sound() {
        let ledger = ledger();
        ledger.assert_agrees(&[&log("a", &[1, 2, 5]), &log("b", &[1, 2]), &log("c", &[1, 2, 5, 4])]);
        assert_eq!(ledger.count(Outcome::Unknown), 2);
    }

    #[test]
    fn every_fault_is_found() {
        let reader = || "a".to_owned();
        let one = |numbers: &[u64]| ledger().faults(&[&log("a", numbers)]);
        assert_eq!(one(&[1]), [Fault::Lost { reader: reader(), number: 2 }]);
        assert_eq!(one(&[1, 2, 4, 4]), [Fault::Twice { reader: reader(), number: 4 }]);
        assert_eq!(one(&[1, 2, 3]), [Fault::RefusedAppears { reader: reader(), number: 3 }]);
        assert_eq!(one(&[1, 2, 9]), [Fault::NeverIssued { reader: reader(), seq: 3 }]);
        assert_eq!(one(&[2, 1]), [Fault::Reordered { reader: reader(), first: 2, second: 1 }]);
        let faults = ledger().faults(&[&log("a", &[1, 2, 4, 5]), &log("b", &[1, 2, 5])]);
        assert_eq!(faults, [Fault::Disagree { readers: [reader(), "b".to_owned()], seq: 3 }]);
        let mut gap = log("a", &[1]);
        gap.records(3, &[record(2)]);
        assert_eq!(ledger().faults(&[&gap]), [Fault::Gap { reader: reader(), next: 2, told: 3 }]);
    }

    #[test]
    fn any_draw_carries_a_number_and_means_the_same() {
        let stroke = ClientId::new(7).map(|client| (client, 1)).unwrap();
        let extend = |end| Draw::Extend { stroke: 1, points: vec![-3, 1000], end };
        for any in [extend(false), extend(true), Draw::Erase(vec![stroke]), Draw::Clear] {
            let bytes = numbered(&any, 1 << 40);
            assert_eq!(Draw::decode(&bytes).as_ref(), Ok(&any));
            let mut record = Vec::new();
            let identity = Identity { author: ClientId::new(1).unwrap(), n: 1, at: 1 };
            Record { identity, draw: &bytes }.encode(&mut record);
            assert_eq!(number_of(&record), Some(1 << 40));
            record.clear();
            Record { identity, draw: &any.to_bytes() }.encode(&mut record);
            assert_eq!(number_of(&record), None);
        }
    }

    #[test]
    fn a_reset_replaces_and_one_that_is_not_whole_does_not() {
        let mut log = log("a", &[1]);
        log.replace(vec![record(1), record(2)], 2);
        ledger().assert_agrees(&[&log]);
        log.replace(vec![record(2)], 2);
        assert_eq!(ledger().faults(&[&log]).len(), 2, "the hole, and the draw that is in it");
    }
}
