//! The sampler: what is known only from two looks, such as rates, or only by asking, such as whether the store is well.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use inkrelay_protocol::RoomId;
use tokio::runtime::RuntimeMetrics;
use tokio::time::MissedTickBehavior;

use crate::session::Relay;
use crate::store::Space;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);
/// A store that does not say in this time that it is well is not.
const CHECK_TIME: Duration = Duration::from_secs(2);
/// Looks between two questions for the store's space, which changes slowly.
const SPACE_LOOKS: u64 = 10;
/// Rooms are looked at as long as somebody asks for them this often.
const ROOMS_INTERVAL: Duration = Duration::from_secs(10);

/// What a look showed.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// How long the store took to say that it is well; `None` when it is not.
    pub store_roundtrip: Option<Duration>,
    /// How full the store is, where it says.
    pub space: Option<Space>,
    /// For each of the runtime's workers, which part of the time it was not idle.
    pub busy: Vec<f64>,
    /// And how long in all.
    pub busy_time: Vec<Duration>,
    /// Tasks that wait for a worker, but for those that wait for a certain one.
    pub queue_depth: usize,
    pub rooms: HashMap<RoomId, RoomRates>,
}

/// What happens in a room.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoomRates {
    draws: u64,
    records_sent: u64,
    /// A second.
    pub draws_per_s: f64,
    pub records_sent_per_s: f64,
    /// The longest delivery to a row of readers.
    pub lag: Duration,
}

/// See the module's documentation.
pub(super) struct Sampler {
    relay: Arc<Relay>,
    started: Instant,
    /// Until when somebody may ask for rooms again, in seconds since the start.
    rooms_asked_until_s: AtomicU64,
    latest: RwLock<Arc<Sample>>,
}

impl Sampler {
    pub(super) fn new(relay: Arc<Relay>) -> Self {
        let (started, rooms_asked_until_s) = (Instant::now(), AtomicU64::new(0));
        Self { relay, started, rooms_asked_until_s, latest: RwLock::default() }
    }

    /// The newest look.
    pub(super) fn latest(&self) -> Arc<Sample> {
        Arc::clone(&self.latest.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, by somebody who is interested in rooms.
    pub(super) fn latest_of_rooms(&self) -> Arc<Sample> {
        let until = self.started.elapsed() + ROOMS_INTERVAL;
        self.rooms_asked_until_s.store(until.as_secs(), Ordering::Relaxed);
        self.latest()
    }

    /// Looks again and again, until it is dropped.
    pub(super) async fn run(&self) {
        let runtime = tokio::runtime::Handle::current().metrics();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked_at = Instant::now();
        for look in 0_u64.. {
            ticks.tick().await;
            let store_roundtrip = self.ask_store().await;
            let space = if look % SPACE_LOOKS == 0 { self.ask_space().await } else { self.latest().space };
            let elapsed = looked_at.elapsed().as_secs_f64().max(f64::EPSILON);
            looked_at = Instant::now();
            let before = self.latest();
            let mut sample = self.look(&runtime, &before, elapsed);
            (sample.store_roundtrip, sample.space) = (store_roundtrip, space);
            *self.latest.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(sample);
        }
    }

    async fn ask_store(&self) -> Option<Duration> {
        let asked_at = Instant::now();
        match tokio::time::timeout(CHECK_TIME, self.relay.hub.store().check()).await {
            Ok(Ok(())) => {
                let took = asked_at.elapsed();
                self.relay.hub.metrics().store_roundtrip.took(took);
                Some(took)
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    async fn ask_space(&self) -> Option<Space> {
        tokio::time::timeout(CHECK_TIME, self.relay.hub.store().space()).await.ok().flatten()
    }

    fn look(&self, runtime: &RuntimeMetrics, before: &Sample, elapsed: f64) -> Sample {
        let busy_time: Vec<_> =
            (0..runtime.num_workers()).map(|worker| runtime.worker_total_busy_duration(worker)).collect();
        let busy = |(worker, time): (usize, &Duration)| {
            let earlier = before.busy_time.get(worker).copied().unwrap_or(*time);
            (time.saturating_sub(earlier).as_secs_f64() / elapsed).min(1.0)
        };
        let asked_until_s = self.rooms_asked_until_s.load(Ordering::Relaxed);
        let is_asked = self.started.elapsed().as_secs() < asked_until_s;
        Sample {
            store_roundtrip: None,
            space: None,
            busy: busy_time.iter().enumerate().map(busy).collect(),
            busy_time,
            queue_depth: runtime.global_queue_depth(),
            rooms: if is_asked { self.look_at_rooms(before, elapsed) } else { HashMap::new() },
        }
    }

    fn look_at_rooms(&self, before: &Sample, elapsed: f64) -> HashMap<RoomId, RoomRates> {
        let rates = |room: Arc<crate::room::Room>| {
            let counts = room.counts();
            let (draws, records_sent) = (counts.draws(), counts.records_sent());
            // A room that was not looked at before has no rate yet.
            let earlier = before.rooms.get(room.id()).copied().unwrap_or(RoomRates {
                draws,
                records_sent,
                ..RoomRates::default()
            });
            let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / elapsed;
            let rates = RoomRates {
                draws,
                records_sent,
                draws_per_s: rate(draws, earlier.draws),
                records_sent_per_s: rate(records_sent, earlier.records_sent),
                lag: counts.take_lag(),
            };
            (room.id().clone(), rates)
        };
        self.relay.hub.live().into_iter().map(rates).collect()
    }
}
