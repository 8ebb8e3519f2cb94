//! The pacer: says when draws are due, whatever becomes of those before.
//!
//! One thread sleeps until the next draw of any lane is due and releases it. The runtime's own timers are as coarse
//! as a millisecond, which is longer than a relay takes. Whoever takes a draw late, since the draw before waited
//! for its answer, still counts from when it was due: a server that stalls cannot hide.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::measure::recorder::Clock;

/// How long the thread sleeps at once, so that it notices a stop.
const NAP: Duration = Duration::from_millis(100);
/// Draws a second of a pen that moves: one in each frame of a display.
const PEN_HZ: u64 = 60;

/// How draws follow each other.
#[derive(Clone, Debug)]
pub enum Pace {
    /// One every so many nanoseconds.
    Steady {
        /// Before the first.
        phase_ns: u64,
        /// Between two.
        interval_ns: u64,
        /// How many in all.
        count: u64,
    },
    /// As fast as they are answered. They are due when they are taken.
    Max {
        /// How many in all.
        count: u64,
    },
    /// As fast as answers allow, with more than one on its way. All of a batch are due when it is taken.
    Flood {
        /// Draws without an answer at most.
        window: usize,
        /// Draws that are handed over together, as soon as the window has room for all of them.
        batch: usize,
        /// For how long.
        seconds: u64,
    },
    /// As a person draws: strokes of half a second to two, with 60 draws a second, and pauses between them.
    Person {
        /// Other numbers draw at other times.
        seed: u64,
        /// For how long.
        seconds: u64,
    },
}

impl Pace {
    /// At a rate of draws a second.
    pub fn steady(per_second: f64, count: u64) -> Self {
        Self::Steady { phase_ns: 0, interval_ns: (1e9 / per_second.max(1e-6)) as u64, count }
    }

    /// At a rate of draws a second, the first of them anywhere in the first interval: other numbers begin at other
    /// times.
    pub fn steady_from(seed: u64, per_second: f64, count: u64) -> Self {
        let interval_ns = (1e9 / per_second.max(1e-6)) as u64;
        Self::Steady { phase_ns: between(&mut seed.clone(), 0, interval_ns.max(1)), interval_ns, count }
    }

    /// About how many draws it has in all; 0 where that shows only at the end.
    pub fn count(&self) -> u64 {
        match self {
            Self::Steady { count, .. } | Self::Max { count } => *count,
            Self::Flood { .. } => 0,
            Self::Person { .. } => Due::new(self.clone()).count() as u64,
        }
    }
}

/// Splitmix64 (Steele, Lea and Flood 2014): the same run again has the same times.
fn between(random: &mut u64, low: u64, high: u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *random;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    low + (z ^ (z >> 31)) % (high - low)
}

/// The moments of a pace, in microseconds from its start; none for one that has no schedule.
#[derive(Debug)]
struct Due {
    pace: Pace,
    next: u64,
    at_ns: u64,
    stroke_left: u64,
    random: u64,
}

impl Due {
    fn new(pace: Pace) -> Self {
        let random = if let Pace::Person { seed, .. } = pace { seed } else { 0 };
        let mut due = Self { pace, next: 0, at_ns: 0, stroke_left: 0, random };
        if let Pace::Person { .. } = due.pace {
            due.at_ns = between(&mut due.random, 0, 2_000) * 1_000_000;
            due.stroke_left = between(&mut due.random, 30, 120);
        }
        due
    }
}

impl Iterator for Due {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        match self.pace {
            Pace::Max { .. } | Pace::Flood { .. } => None,
            Pace::Steady { phase_ns, interval_ns, count } => {
                let index = self.next;
                self.next += 1;
                let at_ns = u128::from(phase_ns) + u128::from(index) * u128::from(interval_ns);
                (index < count).then_some((at_ns / 1000) as u64)
            }
            Pace::Person { seconds, .. } => {
                let due = self.at_ns / 1000;
                if self.stroke_left > 0 {
                    self.stroke_left -= 1;
                    self.at_ns += 1_000_000_000 / PEN_HZ;
                } else {
                    self.at_ns += between(&mut self.random, 300, 3_000) * 1_000_000;
                    self.stroke_left = between(&mut self.random, 30, 120);
                }
                (due < seconds * 1_000_000).then_some(due)
            }
        }
    }
}

/// Draws that are due, for one drawer or several that share them. Holds at most what its pace has in all.
#[derive(Debug)]
pub struct Lane {
    pace: Pace,
    due: Mutex<VecDeque<u64>>,
    released: Semaphore,
    taken: AtomicU64,
    /// When a flood ends, in the clock's microseconds.
    until_us: AtomicU64,
    stopped: Arc<AtomicBool>,
}

impl Lane {
    /// Waits for the next draw and returns when it is or was due, in the clock's microseconds; `None` at the end.
    pub async fn next(&self, clock: Clock) -> Option<u64> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        match self.pace {
            Pace::Max { count } => {
                return (self.taken.fetch_add(1, Ordering::Relaxed) < count).then(|| clock.now_us());
            }
            Pace::Flood { .. } => {
                return Some(clock.now_us()).filter(|now_us| *now_us < self.until_us.load(Ordering::Relaxed));
            }
            Pace::Steady { .. } | Pace::Person { .. } => {}
        }
        self.released.acquire().await.ok()?.forget();
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.due.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Whether nothing more is to be drawn.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Draws that are handed over together.
    pub fn batch(&self) -> usize {
        if let Pace::Flood { window, batch, .. } = self.pace { batch.clamp(1, window.max(1)) } else { 1 }
    }

    /// How many draws may be unanswered when the next are handed over; none where a schedule tells.
    pub fn unanswered_max(&self) -> Option<usize> {
        match self.pace {
            Pace::Max { .. } => Some(0),
            Pace::Flood { window, .. } => Some(window.max(1) - self.batch()),
            Pace::Steady { .. } | Pace::Person { .. } => None,
        }
    }

    /// Drawers that share a lane at most; each is woken once at its end.
    const DRAWERS_MAX: usize = 1 << 16;
}

/// All lanes of a run.
#[derive(Debug)]
pub struct Lanes {
    /// In the order of their paces.
    pub lanes: Vec<Arc<Lane>>,
    stopped: Arc<AtomicBool>,
}

impl Lanes {
    /// Makes a lane of each pace.
    pub fn new(paces: Vec<Pace>) -> Self {
        let stopped = Arc::new(AtomicBool::new(false));
        let lane = |pace| {
            Arc::new(Lane {
                pace,
                due: Mutex::default(),
                released: Semaphore::new(0),
                taken: AtomicU64::new(0),
                until_us: AtomicU64::new(0),
                stopped: stopped.clone(),
            })
        };
        Self { lanes: paces.into_iter().map(lane).collect(), stopped: stopped.clone() }
    }

    /// Begins to release draws, the first ones at `begin_us` of the clock.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(&self, clock: Clock, begin_us: u64) -> std::io::Result<()> {
        for lane in &self.lanes {
            if let Pace::Flood { seconds, .. } = lane.pace {
                lane.until_us.store(begin_us + seconds * 1_000_000, Ordering::Relaxed);
            }
        }
        let (lanes, stopped) = (self.lanes.clone(), self.stopped.clone());
        let work = move || release(&lanes, &stopped, clock, begin_us);
        std::thread::Builder::new().name("pacer".to_owned()).spawn(work).map(drop)
    }

    /// What is not due yet never will be.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        for lane in &self.lanes {
            lane.released.add_permits(Lane::DRAWERS_MAX);
        }
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

fn release(lanes: &[Arc<Lane>], stopped: &AtomicBool, clock: Clock, begin_us: u64) {
    let mut schedules: Vec<Due> = lanes.iter().map(|lane| Due::new(lane.pace.clone())).collect();
    let mut heap = BinaryHeap::new();
    for (index, schedule) in schedules.iter_mut().enumerate() {
        match schedule.next() {
            Some(due) => heap.push(Reverse((begin_us + due, index))),
            None => lanes[index].released.add_permits(Lane::DRAWERS_MAX),
        }
    }
    while let Some(Reverse((due, index))) = heap.pop() {
        loop {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            let wait = clock.at(due).saturating_duration_since(Instant::now());
            if wait.is_zero() {
                break;
            }
            std::thread::sleep(wait.min(NAP));
        }
        let lane = &lanes[index];
        lane.due.lock().unwrap_or_else(PoisonError::into_inner).push_back(due);
        lane.released.add_permits(1);
        match schedules[index].next() {
            Some(due) => heap.push(Reverse((begin_us + due, index))),
            // Those who wait find nothing, and know that it is the end.
            None => lane.released.add_permits(Lane::DRAWERS_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_pace_does_not_drift() {
        let due: Vec<u64> = Due::new(Pace::steady(55.0, 198_000)).collect();
        assert_eq!(due.len(), 198_000);
        // An hour at 3,300 a minute, to the millisecond.
        assert!((due[197_999] as i64 - 3_599_981_818).abs() < 1000, "{}", due[197_999]);
    }

    #[test]
    fn steady_people_are_not_in_lockstep() {
        let first = |seed| Due::new(Pace::steady_from(seed, 30.0, 90)).next().unwrap();
        let firsts: Vec<u64> = (0..400).map(first).collect();
        assert!(firsts.iter().all(|first| *first < 33_334));
        for tenth in 0..10 {
            let in_it = firsts.iter().filter(|first| **first / 3_334 == tenth).count();
            assert!((20..60).contains(&in_it), "{in_it} of 400 begin in tenth {tenth} of the interval");
        }
        assert_eq!(first(7), first(7));
        let due: Vec<u64> = Due::new(Pace::steady_from(7, 30.0, 90)).collect();
        assert_eq!((due.len(), (due[89] - due[0]) / 1000), (90, 2966));
    }

    #[test]
    fn a_person_draws_and_pauses() {
        let due: Vec<u64> = Due::new(Pace::Person { seed: 7, seconds: 60 }).collect();
        assert!(due.is_sorted());
        let pauses = due.windows(2).filter(|pair| pair[1] - pair[0] > 250_000).count();
        assert!((10..60).contains(&pauses), "{pauses} pauses in a minute");
        assert!((600..3000).contains(&due.len()), "{} draws in a minute", due.len());
    }

    #[tokio::test]
    async fn a_flood_ends_with_its_time_and_leaves_room_for_a_batch() {
        let flood = |window, batch| Pace::Flood { window, batch, seconds: 0 };
        let lanes = Lanes::new(vec![flood(4096, 100), flood(1, 100), flood(0, 0), Pace::Max { count: 1 }]);
        let of = |index: usize| (lanes.lanes[index].batch(), lanes.lanes[index].unanswered_max());
        assert_eq!(
            [of(0), of(1), of(2), of(3)],
            [(100, Some(3996)), (1, Some(0)), (1, Some(0)), (1, Some(0))]
        );
        let clock = Clock::start();
        lanes.start(clock, clock.now_us()).unwrap();
        assert_eq!(lanes.lanes[0].next(clock).await, None);
    }

    #[tokio::test]
    async fn a_lane_ends_for_all_who_share_it() {
        let lanes = Lanes::new(vec![Pace::steady(10_000.0, 20), Pace::Max { count: 3 }]);
        let clock = Clock::start();
        lanes.start(clock, clock.now_us()).unwrap();
        let mut drawers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let lane = lanes.lanes[0].clone();
            drawers.spawn(async move {
                let mut taken = Vec::new();
                while let Some(due) = lane.next(clock).await {
                    assert!(clock.now_us() >= due);
                    taken.push(due);
                }
                taken
            });
        }
        let mut all = drawers.join_all().await.concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20);
        for _ in 0..3 {
            assert!(lanes.lanes[1].next(clock).await.is_some());
        }
        assert_eq!(lanes.lanes[1].next(clock).await, None);
    }
}
