//! A histogram: how often something was of about what size. Two atomic additions, and no lock.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets at most, the last one included, which takes what is above all bounds.
const BUCKETS: usize = 17;

/// What a histogram measures.
pub trait Bounds {
    /// The greatest value of each bucket, rising; fewer than `BUCKETS`.
    const BOUNDS: &'static [u64];
    /// Parts in which it is counted to the unit that is told, such as nanoseconds to a second.
    const UNIT: f64;
}

/// See the module's documentation.
#[derive(Debug)]
#[repr(align(64))]
pub struct Histogram<B> {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    bounds: PhantomData<B>,
}

impl<B> Default for Histogram<B> {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| AtomicU64::new(0));
        Self { counts, sum: AtomicU64::new(0), bounds: PhantomData }
    }
}

impl<B: Bounds> Histogram<B> {
    /// One more, of that size in parts of the unit.
    pub fn observe(&self, value: u64) {
        let bucket = B::BOUNDS.partition_point(|bound| *bound < value);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    /// How many there were up to each bound in the unit, without those of lower buckets; the last bound is infinite.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = B::BOUNDS.iter().map(|bound| *bound as f64 / B::UNIT).chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }

    /// The sum of all, in the unit.
    pub fn sum(&self) -> f64 {
        self.sum.load(Ordering::Relaxed) as f64 / B::UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BatchDraws, Seconds};
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket_and_what_is_above_all_to_the_last() {
        let histogram = Histogram::<BatchDraws>::default();
        for value in [1, 2, 3, 4, 5000] {
            histogram.observe(value);
        }
        let counts: Vec<_> = histogram.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counts, [(1.0, 1), (2.0, 1), (4.0, 2), (f64::INFINITY, 1)]);
        assert_eq!(histogram.sum(), 5010.0);
    }

    #[test]
    fn bounds_rise_and_have_room() {
        for bounds in [Seconds::BOUNDS, BatchDraws::BOUNDS] {
            assert!(bounds.len() < BUCKETS && bounds.is_sorted_by(|a, b| a < b));
        }
    }
}
