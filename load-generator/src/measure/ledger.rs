//! The ledger: what became of every draw, kept by those who drew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::measure::checker::{Breach, Breaches, Case};
use crate::measure::mark::writer_id;
use crate::measure::order::Order;
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
    rooms: Vec<Room>,
    /// Answers that were none.
    breaches: Mutex<Breaches>,
}

/// The writers behind those of the room before draw in it.
#[derive(Debug)]
struct Room {
    name: String,
    writers_end: u16,
    order: Arc<Order>,
}

#[derive(Debug, Default)]
struct Writer {
    /// Index is the draw's number, less one.
    outcomes: Vec<Outcome>,
    due_us: Vec<u64>,
    /// Who it was to the server, over one connection after the other.
    authors: Vec<u64>,
    /// Draws of which an answer named the number in the room, with that number.
    placed: Vec<(u32, u64)>,
    tally: Tally,
}

impl Ledger {
    /// For rooms with that many writers each, one room's behind another's; the tag is random.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn new(rooms: impl IntoIterator<Item = (String, u16)>) -> Result<Self, getrandom::Error> {
        let run = (getrandom::u32()? >> 16) as u16;
        let mut writers_end = 0;
        let room = |(name, writers)| {
            writers_end += writers;
            Room { name, writers_end, order: Arc::default() }
        };
        let rooms = rooms.into_iter().map(room).collect();
        let writers = (0..writers_end).map(|_| Mutex::default()).collect();
        Ok(Self { run, writers, rooms, breaches: Mutex::default() })
    }

    /// The room that a writer draws in.
    fn room(&self, writer: u16) -> Option<&Room> {
        self.rooms.get(self.rooms.partition_point(|room| room.writers_end <= writer))
    }

    /// The order of the room that a writer draws in.
    pub fn order(&self, writer: u16) -> Arc<Order> {
        self.room(writer).map(|room| room.order.clone()).unwrap_or_default()
    }

    /// Whether the server calls a writer by this id, or did so over an earlier connection.
    pub fn is_author(&self, writer: u16, author: u64) -> bool {
        self.writer(writer).authors.contains(&author)
    }

    /// What answers broke, when all have read.
    pub fn breaches(&self) -> Breaches {
        let mut breaches = self.breaches.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for index in 0..self.writers() {
            let Some(room) = self.room(index) else { continue };
            for (number, seq) in &self.writer(index).placed {
                let Some((other, other_number)) = room.order.at(*seq) else { continue };
                if (other, other_number) != (index, *number) {
                    let what = format!(
                        "the answer to draw {number} of writer {index} names it, and readers have draw \
                         {other_number} of writer {other}"
                    );
                    let (breach, room) = (Breach::Divergent, room.name.clone());
                    breaches.add(Case { breach, room, seq: Some(*seq), what });
                }
            }
        }
        breaches
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

    /// Called by drawers when they learn who they are to the server, before they draw.
    pub fn draws_as(&self, author: u64) {
        self.ledger.writer(self.writer).authors.push(author);
    }

    /// Called by drawers whose answer names the number in the room at which a draw stands.
    pub fn placed(&self, number: u32, seq: u64) {
        self.ledger.writer(self.writer).placed.push((number, seq));
    }

    /// Called when an answer is none.
    pub fn malformed(&self, why: impl std::fmt::Display) {
        let room = self.ledger.room(self.writer).map(|room| room.name.clone()).unwrap_or_default();
        let what = format!("{why} (an answer to writer {})", self.writer);
        let mut breaches = self.ledger.breaches.lock().unwrap_or_else(PoisonError::into_inner);
        breaches.add(Case { breach: Breach::Malformed, room, seq: None, what });
    }

    /// The id in the writer's marks.
    pub fn writer_id(&self) -> u32 {
        self.ledger.writer_id(self.writer)
    }
}
