//! When a commit waits for more appends.
//!
//! A commit costs the CPU about as much as twenty appends, and a fast disk would have one for every three or four
//! of them while many people draw. So commits begin at most once a millisecond while more appends are likely to
//! come. Whoever appends alone does not wait, a few commits after there were others. Nor do those who append again as soon as they are answered, once all
//! of them are back; nor anybody while commits are rare.

use std::time::{Duration, Instant};

/// How long after the beginning of a commit the next one waits at most.
const PERIOD: Duration = Duration::from_millis(1);
/// Commits by whose size it is judged how many appends are likely to come.
const LIKE: usize = 8;
/// How often to look for appends meanwhile. To be woken by each would cost more than is saved.
pub(super) const SLICE: Duration = Duration::from_micros(200);

/// The last commits.
#[derive(Default)]
pub(super) struct Gather {
    began: Option<Instant>,
    /// Their appends.
    sizes: [usize; LIKE],
}

impl Gather {
    /// A commit of so many appends begins.
    pub fn begin(&mut self, appends: usize, now: Instant) {
        self.began = Some(now);
        self.sizes.rotate_right(1);
        self.sizes[0] = appends;
    }

    /// Whether a commit that has so many appends should wait for more.
    pub fn waits(&self, appends: usize, now: Instant) -> bool {
        let is_soon = self.began.is_some_and(|began| now < began + PERIOD);
        appends > 0 && is_soon && self.sizes.iter().any(|size| *size > appends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_alone_or_without_an_append() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        assert!(!gather.waits(1, now));
        gather.begin(1, now);
        assert!(!gather.waits(1, now) && !gather.waits(0, now));
    }

    #[test]
    fn a_commit_waits_until_as_many_are_there_as_lately_or_its_time_has_come() {
        let (mut gather, now) = (Gather::default(), Instant::now());
        gather.begin(8, now);
        gather.begin(3, now);
        assert!(gather.waits(7, now) && gather.waits(1, now + PERIOD / 2));
        assert!(!gather.waits(8, now) && !gather.waits(1, now + PERIOD));
        for _ in 0..LIKE {
            gather.begin(3, now);
        }
        assert!(
            gather.waits(2, now) && !gather.waits(3, now),
            "eight commits later the large one is forgotten"
        );
    }
}
