//! Metrics: what the relay counts of itself.
//!
//! Plain atomics: added to where something happens, read when somebody asks. Nothing here has a label that grows with
//! rooms or clients. Not a library's: the one that was as fast writes the OpenMetrics format alone, which Prometheus' own
//! lint does not take, and its histograms lock and cannot be read back for the operators' page.

pub mod histogram;
mod refusals;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use inkrelay_protocol::{CloseCode, ErrorCode};

use histogram::Histogram;
pub use refusals::Caller;
use refusals::Refusals;

/// A number that only grows. In a cache line of its own: several cores count different things at the same time.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn inc(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that grows and shrinks.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Gauge(AtomicI64);

impl Gauge {
    /// One more.
    pub fn inc(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub fn dec(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// There are so many from now on.
    pub fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// How many there are.
    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The ways in which someone reads a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A WebSocket with a session.
    WebSocket,
    /// A long poll that waits or is being answered.
    LongPoll,
    /// A stream of server-sent events.
    Events,
}

impl Transport {
    /// All of them, in the order in which they are kept.
    pub const ALL: [Self; 3] = [Self::WebSocket, Self::LongPoll, Self::Events];

    /// The label's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WebSocket => "websocket",
            Self::LongPoll => "long_poll",
            Self::Events => "events",
        }
    }
}

/// All that is counted.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Open connections on the public port.
    pub connections: Gauge,
    /// Draws that were stored through this server.
    pub draws: Counter,
    /// Bytes of draws that came from clients, as MessagePack.
    pub received_bytes: Counter,
    /// Records that were handed to readers: one for each record and reader.
    pub records_sent: Counter,
    /// Their bytes, before they are framed.
    pub sent_bytes: Counter,
    /// New records in one append.
    pub batch_draws: Histogram<BatchDraws>,
    /// How long the store took for an append, also for one that failed.
    pub append: Histogram<Seconds>,
    /// Answers of the store to the question whether it is well.
    pub store_roundtrip: Histogram<Seconds>,
    /// Readers that went on from a position.
    pub resumes: Counter,
    /// Readers whose board was of another log, so that they were told the whole log.
    pub resets: Counter,
    /// Times that a room read from the store what its memory lacked.
    pub gaps_healed: Counter,
    /// WebSockets that were closed since they took nothing, or gave no sign of life.
    pub slow_readers_closed: Counter,
    /// WebSockets that the client closed in good order.
    pub left: Counter,
    /// WebSockets whose client was gone without a word.
    pub vanished: Counter,
    certificate_expiry: OnceLock<Arc<Gauge>>,
    sessions: [Gauge; Transport::ALL.len()],
    delivery: [Histogram<Seconds>; Transport::ALL.len()],
    refused: Refusals,
    closed: Each<{ CloseCode::ALL.len() }>,
}

/// A count for each code.
#[derive(Debug)]
struct Each<const N: usize>([Counter; N]);

impl<const N: usize> Default for Each<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Metrics {
    /// Counts someone who reads a room, as long as what is returned lives.
    pub fn session(self: &Arc<Self>, transport: Transport) -> InSession {
        self.sessions[transport as usize].inc();
        InSession { metrics: Arc::clone(self), transport }
    }

    /// How many read rooms that way.
    pub fn sessions(&self, transport: Transport) -> i64 {
        self.sessions[transport as usize].get()
    }

    /// The gauge that tells when the certificate expires, in seconds since 1970; 0 when it is not known.
    pub fn follow_certificate(&self, expiry: Arc<Gauge>) {
        // A server has one listener, and that one certificate at a time.
        let _ = self.certificate_expiry.set(expiry);
    }

    /// When the certificate expires, in seconds since 1970.
    pub fn certificate_expiry(&self) -> Option<i64> {
        self.certificate_expiry.get().map(|expiry| expiry.get()).filter(|at| *at != 0)
    }

    /// From the begin of the append, or a record's arrival from another server, until it is handed to a row of WebSockets, or
    /// to a poll or a stream that waited for it.
    pub fn delivery(&self, transport: Transport) -> &Histogram<Seconds> {
        &self.delivery[transport as usize]
    }

    /// Something was refused to whoever asked, and they are told that code, or the close code that stands for it. To be
    /// called once for each.
    pub fn refuse(&self, code: ErrorCode, caller: Caller<'_>) {
        self.refused.refuse(code, caller);
    }

    /// How often something was refused for that.
    pub fn refused(&self, code: ErrorCode) -> u64 {
        self.refused.count(code)
    }

    /// This server closed a WebSocket.
    pub fn close(&self, code: CloseCode) {
        self.closed.0[index(CloseCode::ALL, code)].inc();
    }

    /// How often this server closed a WebSocket with that code.
    pub fn closed(&self, code: CloseCode) -> u64 {
        self.closed.0[index(CloseCode::ALL, code)].get()
    }

    /// Records were handed to so many readers.
    pub fn sent(&self, readers: usize, records: usize, bytes: usize) {
        self.records_sent.add((readers * records) as u64);
        self.sent_bytes.add((readers * bytes) as u64);
    }
}

/// Where a code stands in the list of all.
fn index<C: PartialEq>(all: &[C], code: C) -> usize {
    all.iter().position(|known| *known == code).unwrap_or(0)
}

/// Someone who reads a room; counted until this is dropped.
#[derive(Debug)]
pub struct InSession {
    metrics: Arc<Metrics>,
    transport: Transport,
}

impl Drop for InSession {
    fn drop(&mut self) {
        self.metrics.sessions[self.transport as usize].dec();
    }
}

/// The bounds of times, in nanoseconds: from a row that is told at once up to the time within which all is answered.
#[derive(Debug, Default)]
pub struct Seconds;

impl histogram::Bounds for Seconds {
    const BOUNDS: &'static [u64] = &[
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        500_000_000,
        1_000_000_000,
        2_500_000_000,
        5_000_000_000,
    ];
    const UNIT: f64 = 1e9;
}

/// The bounds of batches, in draws.
#[derive(Debug, Default)]
pub struct BatchDraws;

impl histogram::Bounds for BatchDraws {
    const BOUNDS: &'static [u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096];
    const UNIT: f64 = 1.0;
}

impl Histogram<Seconds> {
    /// Something took so long.
    pub fn took(&self, time: Duration) {
        self.observe(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_count_as_long_as_they_last() {
        let metrics = Arc::new(Metrics::default());
        let first = metrics.session(Transport::Events);
        let second = metrics.session(Transport::Events);
        assert_eq!(metrics.sessions(Transport::Events), 2);
        drop((first, second));
        assert_eq!(Transport::ALL.map(|transport| metrics.sessions(transport)), [0; 3]);
    }
}
