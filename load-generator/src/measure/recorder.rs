//! The recorder: latencies per second and overall.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;

/// The longest latency that is told from a longer one: an hour, in microseconds.
const LONGEST_US: u64 = 3_600_000_000;
/// Digits that are kept: 0.1 %.
const DIGITS: u8 = 3;
/// Histograms that are filled side by side, so that readers on different threads seldom meet.
const SHARDS: usize = 4;

/// The run's clock: microseconds since it began.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Microseconds since the beginning.
    pub fn now_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// That moment, for waiting.
    pub fn at(&self, us: u64) -> Instant {
        self.0 + std::time::Duration::from_micros(us)
    }
}

/// Some quantiles, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Quantiles {
    /// How many were measured.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// 90 %.
    pub p90: u64,
    /// 99 %.
    pub p99: u64,
    /// 99.9 %.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl From<&Histogram<u64>> for Quantiles {
    fn from(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            count: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// Latencies that many tasks measure.
#[derive(Debug)]
pub struct Recorder {
    shards: Vec<Mutex<Histogram<u64>>>,
    total: Mutex<Histogram<u64>>,
}

fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, DIGITS).expect("the bounds are constants that are in range")
}

impl Default for Recorder {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(empty())).collect(), total: Mutex::new(empty()) }
    }
}

impl Recorder {
    /// Takes latencies in microseconds. `who` spreads the callers.
    pub fn record(&self, who: usize, latencies_us: &[u64]) {
        let mut shard = self.shards[who % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
        for latency in latencies_us {
            shard.saturating_record((*latency).max(1));
        }
    }

    /// What came since the last call, which becomes part of the whole.
    pub fn second(&self) -> Quantiles {
        let mut second = empty();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            second.add(&*shard).expect("all histograms have the same bounds");
            shard.reset();
        }
        let mut total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        total.add(&second).expect("all histograms have the same bounds");
        Quantiles::from(&second)
    }

    /// The whole, and its percentile curve: pairs of a quantile and microseconds, evenly spread over a scale of
    /// nines.
    pub fn whole(&self) -> (Quantiles, Vec<(f64, u64)>) {
        self.second();
        let total = self.total.lock().unwrap_or_else(PoisonError::into_inner);
        if total.is_empty() {
            return (Quantiles::default(), Vec::new());
        }
        // Beyond one in all there is nothing more to see.
        let nines = (total.len() as f64).log10().clamp(1.0, 7.0);
        let steps = 120;
        let curve = (0..=steps)
            .map(|step| 1.0 - 10f64.powf(-nines * f64::from(step) / f64::from(steps)))
            .map(|quantile| (quantile, total.value_at_quantile(quantile)))
            .collect();
        (Quantiles::from(&*total), curve)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_add_up_to_the_whole() {
        let recorder = Recorder::default();
        recorder.record(0, &[100; 50]);
        assert_eq!(recorder.second().count, 50);
        recorder.record(1, &[200; 49]);
        recorder.record(2, &[1_000_000]);
        assert_eq!(recorder.second().max / 1000, 1000);
        let (whole, curve) = recorder.whole();
        assert_eq!((whole.count, whole.p50, whole.p99), (100, 100, 200));
        assert!(whole.max >= 1_000_000);
        assert!(curve.is_sorted_by_key(|(_, latency)| *latency));
        assert_eq!(recorder.second().count, 0);
    }
}
