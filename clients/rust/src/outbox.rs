//! The outbox: what this client drew, in order, until the store has it and for a minute longer.
//!
//! No clock and no I/O: time is an argument, and [`Outbox::next`] says what to send. The rules are those of
//! the idempotent producer. A client numbers its draws 1, 2, 3…; an answer that never came is an *unknown*,
//! and the same numbers go out again; a draw that was refused leaves the numbering, and the later ones move
//! up. What was acked stays for [`KEEP`], so that a store that lost its newest writes gets them back.
//!
//! Entries stand in one queue, numbered from `first` without gaps:
//!
//! ```text
//!  first ──── stored ──── sent ──── last
//!    kept      in flight   waiting
//! ```

mod batch;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::SessionLimits;
use inkrelay_protocol::limits::SAFE_INTEGER_MAX;

pub use batch::{Batch, FRAME_BYTES};

/// Draws that wait for an ack at most. Beyond it, [`Outbox::push`] answers [`PushError::Full`].
pub const PENDING_DRAWS_MAX: usize = 65_536;
/// Bytes of draws that wait for an ack at most.
pub const PENDING_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a draw is kept after its ack.
pub const KEEP: Duration = Duration::from_secs(60);
/// Bytes of draws that are kept after their ack at most. Beyond it the oldest go early; should the store lose
/// just these, the client takes a new id.
pub const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Draws in one batch at most, also when the server sets no limit.
pub const BATCH_DRAWS_MAX: usize = 512;
/// Bytes of one message at most, also when the server sets no limit.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;
/// How long the oldest batch may go without an answer. A server answers within 5 s.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Names one draw for as long as the program runs: 1, 2, 3… in the order of [`Outbox::push`].
///
/// It is not the draw's `n`: a draw that is refused gives its number to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DrawId(u64);

impl DrawId {
    /// The count of the draws pushed up to this one.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Why a draw was not taken into the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Too much waits for acks; try again when some came.
    #[error("{draws} draws with {bytes} bytes wait for the server, and no more are taken")]
    Full {
        /// Draws that wait.
        draws: usize,
        /// Their bytes.
        bytes: usize,
    },
    /// The server announced a limit that the draw breaks.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// A draw that is longer than a limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the draw has {bytes} bytes, and the limit on {limit} allows {max}")]
pub struct TooLarge {
    /// The draw's length in bytes.
    pub bytes: usize,
    /// The longest draw that is allowed, in bytes.
    pub max: usize,
    /// Which limit.
    pub limit: &'static str,
}

/// The store lost draws that are no longer kept here, so the numbering cannot go on: the client needs a new
/// id. See [`Outbox::on_new_client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server lost draws that are no longer kept here")]
pub struct NumberingLost;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this.
    Batch(Batch),
    /// Ask again at that time.
    Wait(Instant),
    /// Nothing, until there is a push or an answer.
    Idle,
}

#[derive(Clone, Debug)]
struct Entry {
    id: DrawId,
    draw: Bytes,
    /// When its ack came; `None` while it waits.
    stored_at: Option<Instant>,
}

/// See the module.
#[derive(Debug)]
pub struct Outbox {
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    /// The store has all up to this number.
    stored: u64,
    /// The newest number sent since the numbering was last brought in step; at least `stored`.
    sent: u64,
    /// The newest number that any server can have from here; at least `sent`.
    offered: u64,
    newest: DrawId,
    pending_bytes: usize,
    kept_bytes: usize,
    /// The last number of each batch that has no answer yet.
    in_flight: VecDeque<u64>,
    answered_at: Option<Instant>,
    window: usize,
    limits: SessionLimits,
    not_before: Option<Instant>,
    /// Up to this number a batch holds one draw, to find the one that was refused without being named.
    singly_through: u64,
    /// Whether all that is kept is to be offered again when nothing is in flight any more.
    offers_kept: bool,
    /// The number that a server named when it gave no answer: until a batch begins there or before, it drops all.
    again_from: Option<u64>,
}

impl Outbox {
    /// Empty, with that many batches in flight at most.
    pub fn new(window: usize) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 1,
            stored: 0,
            sent: 0,
            offered: 0,
            newest: DrawId(0),
            pending_bytes: 0,
            kept_bytes: 0,
            in_flight: VecDeque::new(),
            answered_at: None,
            window: window.max(1),
            limits: SessionLimits::default(),
            not_before: None,
            singly_through: 0,
            offers_kept: false,
            again_from: None,
        }
    }

    /// Takes one draw's bytes.
    ///
    /// # Errors
    /// When it breaks an announced limit, or too much waits already. Nothing changes then.
    pub fn push(&mut self, draw: Bytes) -> Result<DrawId, PushError> {
        self.check_size(draw.len())?;
        let draws = self.pending();
        if draws >= PENDING_DRAWS_MAX || self.pending_bytes + draw.len() > PENDING_BYTES_MAX {
            return Err(PushError::Full { draws, bytes: self.pending_bytes });
        }
        self.newest.0 += 1;
        self.pending_bytes += draw.len();
        self.entries.push_back(Entry { id: self.newest, draw, stored_at: None });
        Ok(self.newest)
    }

    /// Draws that the store is not known to have.
    pub fn pending(&self) -> usize {
        (self.last() - self.stored) as usize
    }

    /// The newest draw that was pushed.
    pub fn newest(&self) -> DrawId {
        self.newest
    }

    /// All draws up to this one are stored or refused.
    pub fn settled(&self) -> DrawId {
        self.entries.get(self.index(self.stored + 1)).map_or(self.newest, |entry| DrawId(entry.id.0 - 1))
    }

    /// The next batch, if there is one to send now. Ask only after a session's welcome was told to
    /// [`Outbox::on_welcome`]: it says where the numbers of a ticket of an earlier run go on.
    pub fn next(&mut self, now: Instant) -> Next {
        self.forget_old(now);
        if self.sent == self.last() || self.in_flight.len() >= self.window || self.offers_kept {
            return Next::Idle;
        }
        if let Some(at) = self.not_before.filter(|at| now < *at) {
            return Next::Wait(at);
        }
        let again_from = self.again_from.take().map_or(u64::MAX, |n| n.max(self.first));
        let n = again_from.min(self.sent + 1);
        let draws = self.gather(n);
        let last_n = n + draws.len() as u64 - 1;
        self.sent = self.sent.max(last_n);
        self.offered = self.offered.max(self.sent);
        self.in_flight.push_back(last_n);
        self.answered_at.get_or_insert(now);
        self.not_before = match self.limits.batches_per_second {
            0 => None,
            rate => Some(now + Duration::from_secs(1) / u32::try_from(rate).unwrap_or(u32::MAX)),
        };
        Next::Batch(Batch { n, draws })
    }

    fn gather(&self, n: u64) -> Vec<Bytes> {
        let max_draws = match self.limits.draws_per_batch {
            _ if n <= self.singly_through => 1,
            0 => BATCH_DRAWS_MAX,
            max => BATCH_DRAWS_MAX.min(usize::try_from(max).unwrap_or(usize::MAX)),
        };
        let max_bytes = match self.limits.bytes_per_message {
            0 => BATCH_BYTES_MAX,
            max => BATCH_BYTES_MAX.min(usize::try_from(max).unwrap_or(usize::MAX)),
        };
        let mut bytes = FRAME_BYTES;
        let fits = |entry: &&Entry| {
            bytes += entry.draw.len();
            bytes <= max_bytes
        };
        let waiting = self.entries.range(self.index(n)..).take(max_draws);
        let mut draws: Vec<Bytes> = waiting.take_while(fits).map(|entry| entry.draw.clone()).collect();
        if draws.is_empty() {
            // Larger than a batch likes to be, but within what the server announced: it goes alone.
            draws.extend(self.entries.get(self.index(n)).map(|entry| entry.draw.clone()));
        }
        draws
    }

    /// When the oldest batch in flight must have been answered; later than that, the connection is taken for
    /// dead, and what became of the batch is unknown.
    pub fn answer_due(&self) -> Option<Instant> {
        self.answered_at.map(|at| at + ANSWER_TIMEOUT)
    }

    /// All draws up to `n` are stored. Returns the newest of them if that is news.
    pub fn on_ack(&mut self, n: u64, now: Instant) -> Option<DrawId> {
        let n = n.min(self.offered);
        let mut newest = None;
        while self.stored < n {
            let index = self.index(self.stored + 1);
            let entry = self.entries.get_mut(index).expect("numbers up to `offered` have entries");
            entry.stored_at = Some(now);
            newest = Some(entry.id);
            self.pending_bytes -= entry.draw.len();
            self.kept_bytes += entry.draw.len();
            self.stored += 1;
        }
        self.sent = self.sent.max(self.stored);
        while self.in_flight.front().is_some_and(|last| *last <= self.stored) {
            self.in_flight.pop_front();
            self.answered_at = Some(now);
        }
        if self.in_flight.is_empty() {
            self.answered_at = None;
            self.offer_when_answered();
        }
        self.forget_old(now);
        newest
    }

    /// A session is open: these are its limits, and `last_n` of them is what the store has from this client.
    /// Returns the draws that break the limits; they have left the outbox.
    ///
    /// # Errors
    /// When the store lost draws that are not kept; nothing has changed then.
    pub fn on_welcome(
        &mut self,
        limits: SessionLimits,
        now: Instant,
    ) -> Result<Vec<(DrawId, TooLarge)>, NumberingLost> {
        self.bring_in_step(limits.last_n, now)?;
        self.limits = limits;
        let mut refused = Vec::new();
        let mut n = self.stored + 1;
        while let Some(entry) = self.entries.get(self.index(n)) {
            match self.check_size(entry.draw.len()) {
                Ok(()) => n += 1,
                Err(too_large) => refused.extend(self.remove(n).map(|id| (id, too_large))),
            }
        }
        Ok(refused)
    }

    /// The server expects number `expected`.
    ///
    /// # Errors
    /// As [`Outbox::on_welcome`].
    pub fn on_gap(&mut self, expected: u64, now: Instant) -> Result<(), NumberingLost> {
        self.bring_in_step(expected.saturating_sub(1), now)
    }

    /// Number `n` was refused for good, and so nothing of its batch is stored. It leaves the outbox, the later
    /// ones move up, and sending starts again behind what is stored. Returns which draw it was.
    pub fn on_refused(&mut self, n: u64) -> Option<DrawId> {
        let is_open = n > self.stored && n <= self.offered;
        self.rewind();
        if is_open { self.remove(n) } else { None }
    }

    /// A batch up to `last_n` was refused for good, and which of its draws it was for is not known: they go
    /// again one by one.
    pub fn on_refused_somewhere(&mut self, last_n: u64) {
        self.rewind();
        self.singly_through = last_n;
    }

    /// There is no answer to the batch that begins with number `n`: what was sent is to be sent again from there
    /// on, not before that time.
    pub fn on_retry(&mut self, n: u64, at: Instant) {
        self.rewind();
        self.again_from = Some(self.again_from.map_or(n, |earlier| earlier.min(n)));
        self.not_before = self.not_before.max(Some(at));
    }

    /// The connection is gone; what became of the batches in flight is unknown.
    pub fn on_disconnected(&mut self) {
        self.again_from = None;
        self.rewind();
    }

    /// The log may have lost its newest records: everything kept is offered again, with its numbers. What the
    /// store still has it answers as stored.
    ///
    /// That waits until what is in flight is answered. A draw that was sent twice could be refused twice, and the
    /// second refusal would hit whichever draw has its number by then.
    pub fn offer_kept(&mut self) {
        self.offers_kept = true;
        self.offer_when_answered();
    }

    fn offer_when_answered(&mut self) {
        if self.offers_kept && self.in_flight.is_empty() {
            self.roll_back(self.first - 1);
        }
    }

    /// The next numbers belong to a new client id. What waits goes with new numbers, from 1; so do the kept
    /// draws if they are known to be `lost`, and otherwise they are forgotten.
    pub fn on_new_client(&mut self, lost: bool) {
        if lost {
            self.roll_back(self.first - 1);
        }
        self.forget_kept();
        (self.first, self.stored, self.offered) = (1, 0, 0);
        (self.again_from, self.offers_kept) = (None, false);
        self.rewind();
    }

    fn last(&self) -> u64 {
        self.first + self.entries.len() as u64 - 1
    }

    fn index(&self, n: u64) -> usize {
        (n - self.first) as usize
    }

    fn rewind(&mut self) {
        self.sent = self.stored;
        self.in_flight.clear();
        self.answered_at = None;
        self.offer_when_answered();
    }

    fn bring_in_step(&mut self, last_n: u64, now: Instant) -> Result<(), NumberingLost> {
        if last_n + 1 < self.first {
            return Err(NumberingLost);
        }
        // Now it is known what is lost.
        (self.again_from, self.offers_kept) = (None, false);
        if last_n < self.stored {
            self.roll_back(last_n);
            return Ok(());
        }
        self.rewind();
        self.on_ack(last_n, now);
        if last_n > self.offered {
            // An earlier run of the program, or another holder of the ticket, drew these. What waits here
            // comes after them, and the kept ones before them can no longer be offered without a gap.
            self.forget_kept();
            let last_n = last_n.min(SAFE_INTEGER_MAX - PENDING_DRAWS_MAX as u64);
            (self.first, self.stored, self.offered) = (last_n + 1, last_n, last_n);
            self.rewind();
        }
        Ok(())
    }

    /// Takes back the acks after `last_n`, whose next is kept.
    fn roll_back(&mut self, last_n: u64) {
        self.offers_kept = false;
        let (from, to) = (self.index(last_n + 1), self.index(self.stored + 1));
        for entry in self.entries.range_mut(from..to) {
            entry.stored_at = None;
            self.kept_bytes -= entry.draw.len();
            self.pending_bytes += entry.draw.len();
        }
        self.stored = last_n;
        self.rewind();
    }

    fn remove(&mut self, n: u64) -> Option<DrawId> {
        let entry = self.entries.remove(self.index(n))?;
        self.pending_bytes -= entry.draw.len();
        self.offered = self.offered.min(n - 1);
        self.singly_through = self.singly_through.min(n - 1);
        Some(entry.id)
    }

    fn forget_old(&mut self, now: Instant) {
        while let Some(entry) = self.entries.front() {
            let Some(stored_at) = entry.stored_at else { break };
            if now.saturating_duration_since(stored_at) < KEEP && self.kept_bytes <= KEPT_BYTES_MAX {
                break;
            }
            self.forget_first();
        }
    }

    fn forget_kept(&mut self) {
        while self.first <= self.stored {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.kept_bytes -= entry.draw.len();
            self.first += 1;
        }
    }

    fn check_size(&self, bytes: usize) -> Result<(), TooLarge> {
        let max = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX);
        let (per_draw, per_message) = (max(self.limits.bytes_per_draw), max(self.limits.bytes_per_message));
        if per_draw != 0 && bytes > per_draw {
            return Err(TooLarge { bytes, max: per_draw, limit: "bytes per draw" });
        }
        if per_message != 0 && bytes.saturating_add(FRAME_BYTES) > per_message {
            let max = per_message.saturating_sub(FRAME_BYTES);
            return Err(TooLarge { bytes, max, limit: "bytes per message" });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "outbox_tests.rs"]
mod tests;
