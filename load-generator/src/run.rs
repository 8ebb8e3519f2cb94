//! A run: puts drawers and readers into rooms, lets the schedule loose, and compares at the end.

mod audit;
mod people;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::measure::Ledger;
use crate::measure::mark::Ink;
use crate::measure::pacer::{Lanes, Pace};
use crate::measure::recorder::Clock;
use crate::measure::watcher::machine;
use crate::report::{Figure, Latency, Report};
use crate::sampler::{Live, Sampler};
use crate::target::{Broken, Drawer, Reader, Target};

/// Connections that are made at the same time.
pub const CONNECTING_MAX: usize = 64;
/// From when everyone is connected to the first draw, in microseconds.
const LEAD_US: u64 = 100_000;

/// The note of a run that somebody has stopped.
pub const STOPPED: &str = "it was stopped before its end";

/// What ends a run before it has a report.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One room of a run.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// Its name.
    pub name: String,
    /// Who only reads.
    pub readers: usize,
    /// Who only draws: a pace, and how many connections share it.
    pub drawing: Vec<(Pace, u16)>,
    /// People, who draw at a pace each and read.
    pub people: Vec<Pace>,
}

impl Room {
    /// How all draw, each in the order in which they are opened: a pace, and how many connections share it.
    fn paces(&self) -> impl Iterator<Item = (&Pace, u16)> {
        let drawing = self.drawing.iter().map(|(pace, drawers)| (pace, *drawers));
        drawing.chain(self.people.iter().map(|pace| (pace, 1)))
    }
}

/// Which load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scenario's name.
    pub scenario: &'static str,
    /// All rooms.
    pub rooms: Vec<Room>,
    /// When all readers reconnect at once, in seconds after the first draw.
    pub storms_s: Vec<f64>,
}

/// What all runs of one call share.
#[derive(Clone)]
pub struct Setup {
    /// The server.
    pub target: Arc<dyn Target>,
    /// What is watched: names and ids.
    pub processes: Vec<(String, u32)>,
    /// What is drawn.
    pub ink: Arc<Vec<Ink>>,
    /// What the report says it was called with.
    pub options: BTreeMap<String, String>,
    /// How long nothing may come before what is lacking counts as lost.
    pub drain: Duration,
    /// Whether draws that are refused are no failure.
    pub allow_refused: bool,
    /// Threads of the runtime.
    pub threads: usize,
    /// True once somebody wants the run to end.
    pub stop: watch::Receiver<bool>,
}

/// A name for a room that no run had before.
///
/// # Errors
/// When the system has no random numbers.
pub fn fresh_room(scenario: &str) -> Result<String, Failure> {
    Ok(format!("load-{scenario}-{:08x}", getrandom::u32()?))
}

/// Becomes true at the first Ctrl-C.
pub fn interrupted() -> watch::Receiver<bool> {
    let (stop, stopped) = watch::channel(false);
    // From now on, not from when the task first runs. Without signals there is no stopping.
    if let Ok(mut interrupts) = signal(SignalKind::interrupt()) {
        tokio::spawn(async move {
            if interrupts.recv().await.is_some() {
                stop.send_replace(true);
            }
        });
    }
    stopped
}

impl Setup {
    /// Whether somebody wants the run to end.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until somebody wants the run to end.
    pub async fn stopped(&self) {
        if self.stop.clone().wait_for(|is_stopped| *is_stopped).await.is_err() {
            std::future::pending().await
        }
    }

    /// A report with what is known before the run.
    pub fn report(&self, scenario: &str) -> Report {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Report {
            scenario: scenario.to_owned(),
            target: self.target.name(),
            keeps_log: self.target.keeps_log(),
            options: self.options.clone(),
            machine: machine(),
            began_unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            ..Report::default()
        }
    }
}

/// What the tasks of a run share.
struct Shared {
    target: Arc<dyn Target>,
    live: Arc<Live>,
    ledger: Arc<Ledger>,
    rooms: Vec<Seats>,
    connecting: Semaphore,
    /// Draws that each reader has for the first time.
    fresh: Vec<AtomicU64>,
    stop: watch::Sender<bool>,
    storm: watch::Sender<u64>,
}

/// Who is in a room, by their places among all of the run.
struct Seats {
    room: String,
    writers: Range<u16>,
    readers: Range<usize>,
}

impl Shared {
    async fn open_reader(&self, room: &str, place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        let _connecting = self.connecting.acquire().await.map_err(Broken::new)?;
        self.target.reader(room, place).await
    }
}

/// Runs a plan.
///
/// # Errors
/// When drawers or readers cannot connect. What goes wrong later is in the report.
pub async fn drive(plan: Plan, setup: &Setup) -> Result<Report, Failure> {
    let mut report = setup.report(plan.scenario);
    report.rooms = plan.rooms.iter().map(|room| room.name.clone()).collect();
    let shared = Arc::new(share(&plan, setup)?);
    let (live, clock) = (&shared.live, shared.live.clock);
    let paces: Vec<Pace> = plan.rooms.iter().flat_map(Room::paces).map(|(pace, _)| pace.clone()).collect();
    let total: u64 = paces.iter().map(Pace::count).sum();
    let floods = paces.iter().any(|pace| matches!(pace, Pace::Flood { seconds: 1.., .. }));
    if !floods && total == 0 || shared.ledger.writers() == 0 {
        return Err(
            "nobody would draw anything: the rate, the time or the number of draws is too small".into()
        );
    }
    let lanes = Lanes::new(paces);
    let (mut reading, drawers) = tokio::select! {
        opened = people::open(&shared, &plan, &lanes, &setup.ink) => opened?,
        () = setup.stopped() => return Err("it was stopped before all were connected".into()),
    };

    let (sampler, unreadable) = Sampler::start(live.clone(), setup.processes.clone(), total);
    report.warnings.extend(unreadable.into_iter().map(|name| format!("{name} cannot be watched")));
    report.storms_s = plan.storms_s.iter().map(|at_s| at_s + LEAD_US as f64 / 1e6).collect();
    let begin_us = clock.now_us() + LEAD_US;
    lanes.start(clock, begin_us)?;
    let mut drawing: JoinSet<Result<Box<dyn Drawer>, Broken>> =
        drawers.into_iter().map(|(drawer, drawing)| people::draw(shared.clone(), drawer, drawing)).collect();
    // Who drew is still there when all have drawn, and may still be reading over the same connection.
    let mut present = Vec::new();
    let storms = tokio::spawn(storms(shared.clone(), plan.storms_s.clone(), begin_us));
    loop {
        tokio::select! {
            ended = drawing.join_next() => match ended {
                Some(ended) => match ended? {
                    Ok(drawer) => present.push(drawer),
                    Err(_) if lanes.is_stopped() => {}
                    Err(broken) => {
                        lanes.stop();
                        report.failures.push(format!("given up, since the server is gone: {broken}"));
                    }
                },
                None => break,
            },
            () = setup.stopped(), if !lanes.is_stopped() => {
                lanes.stop();
                report.warnings.push(STOPPED.to_owned());
            }
        }
    }
    let drawn_us = clock.now_us();
    // They took that long at the least.
    for (writer, due_us) in shared.ledger.unanswered() {
        live.ack.record(usize::from(writer), &[drawn_us.saturating_sub(due_us)]);
    }
    audit::drain(&shared, setup.drain).await;
    storms.abort();
    let last_us = drawn_us.max(live.newest_us.load(Ordering::Relaxed));
    report.took_s = last_us.saturating_sub(live.first_us.load(Ordering::Relaxed)) as f64 / 1e6;
    (report.seconds, report.processes) = sampler.stop().await;
    shared.stop.send_replace(true);
    while let Some(read) = reading.join_next().await {
        report.breaches.merge(read??.finish());
    }
    drop(present);
    audit::audit(&shared, setup.drain, &mut report).await;
    report.breaches.merge(shared.ledger.breaches());

    report.tally = shared.ledger.tally(0..shared.ledger.writers());
    report.delivered = live.delivered.load(Ordering::Relaxed);
    (report.delivery, report.ack) = (latency(&live.delivery), latency(&live.ack));
    report.broken = live.broken();
    let away_us = live.away_us.load(Ordering::Relaxed);
    if away_us > 0 {
        report.figures.push(Figure::new("the server was away for", away_us as f64 / 1e6, "s"));
    }
    let unsent = total.saturating_sub(report.tally.sent);
    if unsent > 0 && lanes.is_stopped() {
        report.warnings.push(format!("{unsent} draws of {total} were never sent"));
    }
    if !plan.storms_s.is_empty() {
        live.reconnect_figures(&mut report);
    }
    judge_answers(&mut report, setup.allow_refused);
    live.judge_generator(&mut report, setup.threads);
    Ok(report)
}

/// A server that stores nothing loses nothing: that must not look like success.
fn judge_answers(report: &mut Report, allow_refused: bool) {
    let tally = report.tally;
    if tally.sent > 0 && tally.stored == 0 {
        report.failures.push("nothing was stored".to_owned());
    }
    if tally.refused > 0 {
        let list = if allow_refused { &mut report.warnings } else { &mut report.failures };
        list.push(format!(
            "{} draws were refused; a relay lifts its limits of rate and count with --unlimited, and --allow-refused \
             lets a run with refusals pass",
            tally.refused
        ));
    }
    if tally.unknown > 0 {
        report.warnings.push(format!("{} draws were never answered, and may be there or not", tally.unknown));
    }
}

fn share(plan: &Plan, setup: &Setup) -> Result<Shared, Failure> {
    let drawers: u64 = plan.rooms.iter().flat_map(Room::paces).map(|(_, drawers)| u64::from(drawers)).sum();
    u16::try_from(drawers).map_err(|_| "more than 65,535 drawers")?;
    let drawn_in = |room: &Room| (room.name.clone(), room.paces().map(|(_, drawers)| drawers).sum::<u16>());
    let (mut writer, mut reader) = (0, 0);
    let seats = |room: &Room| {
        let (_, drawers) = drawn_in(room);
        let (writers, readers) =
            (writer..writer + drawers, reader..reader + room.readers + room.people.len());
        (writer, reader) = (writers.end, readers.end);
        Seats { room: room.name.clone(), writers, readers }
    };
    let rooms = plan.rooms.iter().map(seats).collect();
    Ok(Shared {
        target: setup.target.clone(),
        live: Arc::new(Live::new(Clock::start())),
        ledger: Arc::new(Ledger::new(plan.rooms.iter().map(drawn_in))?),
        rooms,
        connecting: Semaphore::new(CONNECTING_MAX),
        fresh: (0..reader).map(|_| AtomicU64::new(0)).collect(),
        stop: watch::Sender::new(false),
        storm: watch::Sender::new(0),
    })
}

/// The whole of a recorder.
pub fn latency(recorder: &crate::measure::Recorder) -> Latency {
    let (quantiles, curve) = recorder.whole();
    Latency { quantiles, curve }
}

async fn storms(shared: Arc<Shared>, at_s: Vec<f64>, begin_us: u64) {
    for at_s in at_s {
        let at = shared.live.clock.at(begin_us + (at_s * 1e6) as u64);
        tokio::time::sleep_until(Instant::from_std(at)).await;
        shared.storm.send_modify(|storms| *storms += 1);
    }
}
