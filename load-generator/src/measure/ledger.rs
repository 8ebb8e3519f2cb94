//! The ledger: what became of every draw, kept by those who drew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::measure::mark::writer_id;
use crate::measure::recorder::{Clock, Recorder};

/// What became of a draw. There is no fourth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server said that it has it.
    Stored,
    /// The server said that it does not.
    Refused,
    /// It said nothing, or that it does not know. Readers may get it or not.
    Unknown,
}

/// How many draws had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Handed to the server.
    pub sent: u64,
    /// Acknowledged.
    pub stored: u64,
    /// Refused.
    pub refused: u64,
    /// Neither.
    pub unknown: u64,
}

/// All writers of one run.
#[derive(Debug)]
pub struct Ledger {
    run: u16,
    writers: Vec<Mutex<Writer>>,
}

#[derive(Debug, Default)]
struct Writer {
    /// Index is the draw's number, less one.
    outcomes: Vec<Outcome>,
    due_us: Vec<u64>,
    tally: Tally,
}

impl Ledger {
    /// For that many writers; the tag is random.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(writers: u16) -> Result<Self, getrandom::Error> {
        let run = (getrandom::u32()? >> 16) as u16;
        Ok(Self { run, writers: (0..writers).map(|_| Mutex::default()).collect() })
    }

    /// The id that the writer's marks carry.
    pub const fn writer_id(&self, index: u16) -> u32 {
        writer_id(self.run, index)
    }

    /// The index of a writer of this run.
    pub fn index_of(&self, writer: u32) -> Option<u16> {
        let index = (writer & 0xffff) as u16;
        (writer == self.writer_id(index) && usize::from(index) < self.writers.len()).then_some(index)
    }

    fn writer(&self, index: u16) -> MutexGuard<'_, Writer> {
        self.writers[usize::from(index)].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What became of one draw; `None` for one that was never sent.
    pub fn outcome(&self, index: u16, number: u32) -> Option<Outcome> {
        let place = (number as usize).checked_sub(1)?;
        self.writer(index).outcomes.get(place).copied()
    }

    /// How many draws a writer sent.
    pub fn sent(&self, index: u16) -> u32 {
        u32::try_from(self.writer(index).outcomes.len()).unwrap_or(u32::MAX)
    }

    /// When the draws were due that have no answer, each with its writer.
    pub fn unanswered(&self) -> Vec<(u16, u64)> {
        let of = |index: u16| {
            let writer = self.writer(index);
            let draws = writer.outcomes.iter().zip(&writer.due_us);
            let unknown = draws.filter(|(outcome, _)| **outcome == Outcome::Unknown);
            unknown.map(|(_, due_us)| (index, *due_us)).collect::<Vec<_>>()
        };
        (0..self.writers()).flat_map(of).collect()
    }

    /// Of some writers, or all.
    pub fn tally(&self, writers: std::ops::Range<u16>) -> Tally {
        let mut sum = Tally::default();
        for index in writers {
            let tally = self.writer(index).tally;
            sum.sent += tally.sent;
            sum.stored += tally.stored;
            sum.refused += tally.refused;
        }
        sum.unknown = sum.sent - sum.stored - sum.refused;
        sum
    }

    /// How many writers there are.
    pub fn writers(&self) -> u16 {
        u16::try_from(self.writers.len()).unwrap_or(u16::MAX)
    }
}

/// Where one drawer says what became of its draws.
#[derive(Clone, Debug)]
pub struct Answers {
    ledger: Arc<Ledger>,
    writer: u16,
    recorder: Arc<Recorder>,
    clock: Clock,
}

impl Answers {
    /// For one writer; the time from when a draw was due to its answer goes to `recorder`.
    pub fn new(ledger: Arc<Ledger>, writer: u16, recorder: Arc<Recorder>, clock: Clock) -> Self {
        Self { ledger, writer, recorder, clock }
    }

    /// Called by scenarios right before [`crate::target::Drawer::draw_batch`] with that many draws; unknown until
    /// answered. Returns the number of the first.
    pub fn sending(&self, due_us: u64, draws: usize) -> u32 {
        let mut writer = self.ledger.writer(self.writer);
        let before = writer.outcomes.len();
        writer.outcomes.resize(before + draws, Outcome::Unknown);
        writer.due_us.resize(before + draws, due_us);
        writer.tally.sent += draws as u64;
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Called by drawers when the answer is there. Only the first answer counts.
    pub fn answered(&self, number: u32, outcome: Outcome) {
        let due_us = {
            let mut writer = self.ledger.writer(self.writer);
            let Some(place) = (number as usize).checked_sub(1) else { return };
            let Some(Outcome::Unknown) = writer.outcomes.get(place) else { return };
            writer.outcomes[place] = outcome;
            match outcome {
                Outcome::Stored => writer.tally.stored += 1,
                Outcome::Refused => writer.tally.refused += 1,
                Outcome::Unknown => return,
            }
            writer.due_us[place]
        };
        if outcome == Outcome::Stored {
            self.recorder.record(usize::from(self.writer), &[self.clock.now_us().saturating_sub(due_us)]);
        }
    }

    /// For servers that never answer: whatever the socket took counts as stored, without a latency.
    pub fn assume_stored(&self, number: u32) {
        let mut writer = self.ledger.writer(self.writer);
        let Some(place) = (number as usize).checked_sub(1) else { return };
        if let Some(outcome @ Outcome::Unknown) = writer.outcomes.get_mut(place) {
            *outcome = Outcome::Stored;
            writer.tally.stored += 1;
        }
    }

    /// The id in the writer's marks.
    pub fn writer_id(&self) -> u32 {
        self.ledger.writer_id(self.writer)
    }
}
