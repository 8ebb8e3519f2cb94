//! How long to wait before trying again: longer each time, and never in step with other clients.

use std::time::Duration;

/// Milliseconds of a server's retry time that are believed at most: five minutes.
pub const RETRY_MS_MAX: u64 = 5 * 60 * 1000;

/// Doubles from `first` to `max`; each wait is drawn from the upper half of its step.
///
/// Without the randomness, all clients of a server that went away would come back in the same moment, again
/// and again (Brooker, *Exponential Backoff and Jitter*, 2015). The lower half is left out so that a first
/// wait is never nothing.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// Starts at the first step; `max` is at least `first`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self { first, max: max.max(first), failures: 0 }
    }

    /// The next wait. `random` is from 0 up to 1.
    pub fn next(&mut self, random: f64) -> Duration {
        let step = self.first.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        step / 2 + (step / 2).mul_f64(random.clamp(0.0, 1.0))
    }

    /// The wait that a server asked for, plus up to half of it. `random` is from 0 up to 1.
    pub fn asked(retry_ms: u64, random: f64) -> Duration {
        let asked = Duration::from_millis(retry_ms.min(RETRY_MS_MAX));
        asked + (asked / 2).mul_f64(random.clamp(0.0, 1.0))
    }

    /// It worked: the next failure waits the first step again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// A number from 0 up to 1; without the system's randomness, the middle.
pub(crate) fn random() -> f64 {
    getrandom::u32().map_or(0.5, |bits| f64::from(bits) / (f64::from(u32::MAX) + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_start_again() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(100), ms(350));
        assert_eq!(backoff.next(0.0), ms(50));
        assert_eq!(backoff.next(0.0), ms(100));
        assert_eq!(backoff.next(1.0), ms(350));
        for _ in 0..100 {
            assert_eq!(backoff.next(1.0), ms(350));
        }
        backoff.reset();
        assert_eq!(backoff.next(1.0), ms(100));
    }

    #[test]
    fn a_servers_retry_time_is_kept_to_within_reason() {
        assert_eq!(Backoff::asked(1000, 0.0), Duration::from_millis(1000));
        assert_eq!(Backoff::asked(1000, 1.0), Duration::from_millis(1500));
        assert_eq!(Backoff::asked(u64::MAX, 0.0), Duration::from_secs(300));
    }
}
