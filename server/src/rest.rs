//! Rest: while much comes, a worker that has nothing to do looks again a moment later.
//!
//! A worker that waits is woken by each frame, and where thousands come in a second the waking costs more than what is done
//! with them. But while rooms are busy, what is answered over WebSockets waits for the room's beat anyway. So a worker rests
//! for a part of that time, and finds all that came meanwhile at once: interrupt moderation, as network cards have it.
//! Nobody rests when little comes, nor for posts and polls, the next of which follows an answer.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The part of the flush time that a worker rests, and how long at most.
const PART: u32 = 5;
const REST_MAX: Duration = Duration::from_millis(1);
/// Over how long it is seen how much comes.
const WINDOW: Duration = Duration::from_millis(10);
/// In a window with fewer answers that wait for a beat nobody rests: 2,000 a second.
const BUSY: u64 = 20;

/// Answers of this process that wait for their room's beat. Workers belong to the process, not to a room.
static WAITING: AtomicU64 = AtomicU64::new(0);

/// An answer waits for its room's beat.
pub fn count_waiting() {
    WAITING.fetch_add(1, Ordering::Relaxed);
}

/// What a worker does before it waits for work, given how long records may wait.
pub fn before_waiting(flush_time: Duration) -> impl Fn() + Send + Sync {
    thread_local! {
        static PACE: Cell<Pace> = Cell::new(Pace { since: Instant::now(), count: 0, is_busy: false });
    }
    let rest = (flush_time / PART).min(REST_MAX);
    move || {
        let pace = PACE.get().at(Instant::now(), WAITING.load(Ordering::Relaxed));
        PACE.set(pace);
        if pace.is_busy {
            std::thread::sleep(rest);
        }
    }
}

/// How much comes, as a worker sees it.
#[derive(Clone, Copy)]
struct Pace {
    since: Instant,
    count: u64,
    is_busy: bool,
}

impl Pace {
    fn at(self, now: Instant, count: u64) -> Self {
        let elapsed = now.duration_since(self.since);
        if elapsed < WINDOW {
            return self;
        }
        // As of one window, however long the worker did not look.
        let windows = elapsed.as_nanos() / WINDOW.as_nanos();
        let is_busy = u128::from(count.wrapping_sub(self.count)) >= u128::from(BUSY) * windows;
        Self { since: now, count, is_busy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_busy_while_much_comes_and_no_longer() {
        let start = Instant::now();
        let after = |windows: u32| start + windows * WINDOW;
        let idle = Pace { since: start, count: 5, is_busy: false };
        let busy = idle.at(after(1), 5 + BUSY);
        assert!(busy.is_busy);
        // Too early to tell.
        assert!(busy.at(after(1) + WINDOW / 2, 5 + BUSY).is_busy);
        assert!(!busy.at(after(2), 4 + 2 * BUSY).is_busy);
        // The same number over a longer time is less.
        assert!(!idle.at(after(2), 5 + BUSY).is_busy);
    }
}
