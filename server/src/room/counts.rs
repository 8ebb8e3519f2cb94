//! What a room counts of itself, for whoever looks at the busiest: as it is now, not by labels that would stay.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::{Room, bytes_of};
use crate::metrics::{Metrics, Transport};

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct RoomCounts {
    draws: AtomicU64,
    records_sent: AtomicU64,
    /// The longest delivery since somebody last asked, in microseconds.
    lag: AtomicU64,
}

impl RoomCounts {
    /// Draws that were stored through this server since the room is live.
    pub fn draws(&self) -> u64 {
        self.draws.load(Ordering::Relaxed)
    }

    /// Records that were handed to readers since the room is live: one for each record and reader.
    pub fn records_sent(&self) -> u64 {
        self.records_sent.load(Ordering::Relaxed)
    }

    /// The longest delivery since this was last asked.
    pub fn take_lag(&self) -> Duration {
        Duration::from_micros(self.lag.swap(0, Ordering::Relaxed))
    }
}

impl Room {
    /// What it counts of itself.
    pub const fn counts(&self) -> &RoomCounts {
        &self.counts
    }

    /// What this process counts.
    pub fn metrics(&self) -> &std::sync::Arc<Metrics> {
        &self.node.metrics
    }

    /// How many read its log here.
    pub fn readers(&self) -> usize {
        let readers: &AtomicUsize = &self.readers;
        readers.load(Ordering::Acquire)
    }

    /// So many records were stored by one append.
    pub(super) fn count_draws(&self, draws: usize) {
        self.counts.draws.fetch_add(draws as u64, Ordering::Relaxed);
        self.node.metrics.draws.add(draws as u64);
        self.node.metrics.batch_draws.observe(draws as u64);
    }

    /// Records were handed to so many readers.
    pub(super) fn count_sent(&self, readers: usize, records: usize, bytes: usize) {
        self.counts.records_sent.fetch_add((readers * records) as u64, Ordering::Relaxed);
        self.node.metrics.sent(readers, records, bytes);
    }

    /// One reader is given these.
    pub fn count_read(&self, records: &[Bytes]) {
        self.count_sent(1, records.len(), bytes_of(records));
    }

    /// A row of WebSockets, or a reader of another transport that waited, is given records that came so long ago.
    pub fn count_delivery(&self, transport: Transport, time: Duration) {
        self.counts.lag.fetch_max(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.node.metrics.delivery(transport).took(time);
    }
}
