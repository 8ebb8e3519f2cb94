//! How long to wait before another try: longer each time, and never the same for two servers.

use std::time::Duration;

use crate::random;

/// Doubles from `first` to `most`; each wait is drawn from the upper half, so that servers that lost the same
/// Redis at the same moment do not come back at the same moment.
pub(super) struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// The next wait.
    pub(super) fn wait(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(self.most);
        let half = full / 2;
        let spread = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_micros(random::u64() % spread)
    }

    /// The last try went well.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}
