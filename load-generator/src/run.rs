//! A run: puts drawers and readers into rooms, lets the schedule loose, and compares at the end.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::measure::mark::{Ink, Mark};
use crate::measure::pacer::{Lane, Lanes, Pace};
use crate::measure::recorder::Clock;
use crate::measure::watcher::machine;
use crate::measure::{Answers, Breaches, Checker, Ledger};
use crate::report::{Latency, Report};
use crate::sampler::{Live, Sampler};
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Drawer, Reader, Target};

/// Connections that are made at the same time.
pub const CONNECTING_MAX: usize = 64;
/// Rooms that are read again at the same time at the end.
const AUDITS_MAX: usize = 16;
/// Between looks at whether all is there.
const LOOK: Duration = Duration::from_millis(20);
/// How long a reader waits before it connects again.
const RECONNECT_WAIT: Duration = Duration::from_millis(100);
/// How long a drawer tries to reach a server that is gone.
const GONE: Duration = Duration::from_secs(30);
/// How long nothing may come for what is unknown to count as not coming.
const QUIET: Duration = Duration::from_secs(1);
/// How long a fresh reader that has everything waits for what should not come.
const AFTERMATH: Duration = Duration::from_millis(200);
/// From when everyone is connected to the first draw, in microseconds.
const LEAD_US: u64 = 100_000;

/// What ends a run before it has a report.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// One room of a run.
#[derive(Clone, Debug)]
pub struct Room {
    /// Its name.
    pub name: String,
    /// Readers in it.
    pub readers: usize,
    /// Who draws: a pace, and how many connections share it.
    pub drawing: Vec<(Pace, u16)>,
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
    /// Threads of the runtime.
    pub threads: usize,
}

/// A name for a room that no run had before.
///
/// # Errors
/// When the system has no random numbers.
pub fn fresh_room(scenario: &str) -> Result<String, Failure> {
    Ok(format!("load-{scenario}-{:08x}", getrandom::u32()?))
}

impl Setup {
    /// A report with what is known before the run.
    pub fn report(&self, scenario: &str) -> Report {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Report {
            scenario: scenario.to_owned(),
            target: self.target.name(),
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

/// One reader's part.
struct Seat {
    index: usize,
    room: String,
    checker: Checker,
}

/// One drawer's part.
struct Drawing {
    room: String,
    answers: Answers,
    lane: Arc<Lane>,
    ink: Arc<Vec<Ink>>,
    first_ink: usize,
}

/// Runs a plan.
///
/// # Errors
/// When drawers or readers cannot connect. What goes wrong later is in the report.
pub async fn drive(plan: Plan, setup: &Setup) -> Result<Report, Failure> {
    let mut report = setup.report(plan.scenario);
    let shared = Arc::new(share(&plan, setup)?);
    let (live, clock) = (&shared.live, shared.live.clock);
    let mut reading = open_readers(&shared).await?;
    let paces: Vec<Pace> =
        plan.rooms.iter().flat_map(|room| &room.drawing).map(|(pace, _)| pace.clone()).collect();
    let total: u64 = paces.iter().map(Pace::count).sum();
    let lanes = Lanes::new(paces);
    let drawers = open_drawers(&shared, &plan, &lanes, &setup.ink).await?;

    let (sampler, unreadable) = Sampler::start(live.clone(), setup.processes.clone(), total);
    report.warnings.extend(unreadable.into_iter().map(|name| format!("{name} cannot be watched")));
    let begin_us = clock.now_us() + LEAD_US;
    lanes.start(clock, begin_us)?;
    let mut drawing: JoinSet<Result<(), Broken>> =
        drawers.into_iter().map(|(drawer, drawing)| draw(shared.clone(), drawer, drawing)).collect();
    let storms = tokio::spawn(storms(shared.clone(), plan.storms_s.clone(), begin_us));
    loop {
        tokio::select! {
            ended = drawing.join_next() => match ended {
                Some(ended) => {
                    if let (Err(broken), false) = (ended?, lanes.is_stopped()) {
                        lanes.stop();
                        report.failures.push(format!("given up, since the server is gone: {broken}"));
                    }
                }
                None => break,
            },
            _ = tokio::signal::ctrl_c(), if !lanes.is_stopped() => {
                lanes.stop();
                report.warnings.push("it was stopped before its end".to_owned());
            }
        }
    }
    drain(&shared, setup.drain).await;
    storms.abort();
    let last_us = match live.newest_us.load(Ordering::Relaxed) {
        0 => clock.now_us(),
        newest_us => newest_us,
    };
    report.took_s = last_us.saturating_sub(live.first_us.load(Ordering::Relaxed)) as f64 / 1e6;
    (report.seconds, report.processes) = sampler.stop().await;
    shared.stop.send_replace(true);
    while let Some(read) = reading.join_next().await {
        report.breaches.merge(read??.finish());
    }
    audit(&shared, setup.drain, &mut report).await;

    report.tally = shared.ledger.tally(0..shared.ledger.writers());
    report.delivered = live.delivered.load(Ordering::Relaxed);
    (report.delivery, report.ack) = (latency(&live.delivery), latency(&live.ack));
    report.broken = live.broken();
    if !plan.storms_s.is_empty() {
        live.reconnect_figures(&mut report);
    }
    judge_answers(&mut report);
    live.judge_generator(&mut report, setup.threads);
    Ok(report)
}

/// A server that stores nothing loses nothing: that must not look like success.
fn judge_answers(report: &mut Report) {
    let tally = report.tally;
    if tally.sent > 0 && tally.stored == 0 {
        report.failures.push("nothing was stored".to_owned());
    }
    if tally.refused > 0 {
        report.warnings.push(format!(
            "{} draws were refused; a relay lifts its limits of rate and count with --unlimited",
            tally.refused
        ));
    }
    if tally.unknown > 0 {
        report.warnings.push(format!("{} draws were never answered, and may be there or not", tally.unknown));
    }
}

fn share(plan: &Plan, setup: &Setup) -> Result<Shared, Failure> {
    let drawers: u64 =
        plan.rooms.iter().flat_map(|room| &room.drawing).map(|(_, drawers)| u64::from(*drawers)).sum();
    let drawers = u16::try_from(drawers).map_err(|_| "more than 65,535 drawers")?;
    let (mut writer, mut reader) = (0, 0);
    let seats = |room: &Room| {
        let drawers: u16 = room.drawing.iter().map(|(_, drawers)| drawers).sum();
        let (writers, readers) = (writer..writer + drawers, reader..reader + room.readers);
        (writer, reader) = (writers.end, readers.end);
        Seats { room: room.name.clone(), writers, readers }
    };
    let rooms = plan.rooms.iter().map(seats).collect();
    Ok(Shared {
        target: setup.target.clone(),
        live: Arc::new(Live::new(Clock::start())),
        ledger: Arc::new(Ledger::new(drawers)?),
        rooms,
        connecting: Semaphore::new(CONNECTING_MAX),
        fresh: (0..reader).map(|_| AtomicU64::new(0)).collect(),
        stop: watch::Sender::new(false),
        storm: watch::Sender::new(0),
    })
}

/// Opens all readers, and returns when each can get its first record.
async fn open_readers(shared: &Arc<Shared>) -> Result<JoinSet<Result<Checker, Failure>>, Failure> {
    let mut reading = JoinSet::new();
    let opened = Arc::new(Semaphore::new(0));
    for seats in &shared.rooms {
        for index in seats.readers.clone() {
            let name = format!("reader {}", index + 1);
            let checker =
                Checker::new(name, seats.room.clone(), shared.ledger.clone(), seats.writers.clone());
            let seat = Seat { index, room: seats.room.clone(), checker };
            reading.spawn(read(shared.clone(), seat, opened.clone()));
        }
    }
    let readers = u32::try_from(shared.fresh.len())?;
    tokio::select! {
        all = opened.acquire_many(readers) => drop(all?),
        Some(ended) = reading.join_next(), if readers > 0 => {
            ended??;
            return Err("a reader ended before anything was drawn".into());
        }
    }
    Ok(reading)
}

/// Opens all drawers, each with what it is to draw.
async fn open_drawers(
    shared: &Arc<Shared>,
    plan: &Plan,
    lanes: &Lanes,
    ink: &Arc<Vec<Ink>>,
) -> Result<Vec<(Box<dyn Drawer>, Drawing)>, Failure> {
    let mut opening = JoinSet::new();
    let mut lanes = lanes.lanes.iter();
    for (room, seats) in plan.rooms.iter().zip(&shared.rooms) {
        let mut writers = seats.writers.clone();
        for (_, drawers) in &room.drawing {
            let lane = lanes.next().ok_or("each pace has a lane")?;
            for writer in writers.by_ref().take(usize::from(*drawers)) {
                let live = &shared.live;
                let drawing = Drawing {
                    room: room.name.clone(),
                    answers: Answers::new(shared.ledger.clone(), writer, live.ack.clone(), live.clock),
                    lane: lane.clone(),
                    ink: ink.clone(),
                    // Neighbours draw different ink.
                    first_ink: usize::from(writer) * 7,
                };
                opening.spawn(open_drawer(shared.clone(), drawing));
            }
        }
    }
    let mut open = Vec::new();
    while let Some(drawer) = opening.join_next().await {
        open.push(drawer?.map_err(|broken| format!("no drawer can connect: {broken}"))?);
    }
    Ok(open)
}

/// The whole of a recorder.
pub fn latency(recorder: &crate::measure::Recorder) -> Latency {
    let (quantiles, curve) = recorder.whole();
    Latency { quantiles, curve }
}

async fn read(shared: Arc<Shared>, mut seat: Seat, opened: Arc<Semaphore>) -> Result<Checker, Failure> {
    let mut stop = shared.stop.subscribe();
    let mut storm = shared.storm.subscribe();
    let opening = open_reader(&shared, &seat.room, None).await;
    let mut reader = opening.map_err(|broken| format!("no reader can connect: {broken}"))?;
    opened.add_permits(1);
    let mut latencies = Vec::new();
    let mut kicked_us = None;
    loop {
        let live = &shared.live;
        let mut now_us = 0;
        let mut take = |arrived: Arrived<'_>| {
            if let Some(mark) = seat.checker.take(arrived) {
                // One look at the clock for all that came in one piece.
                if now_us == 0 {
                    now_us = live.clock.now_us();
                }
                latencies.push(now_us.saturating_sub(mark.due_us));
            }
        };
        let result = tokio::select! {
            biased;
            result = reader.next(&mut take) => result,
            _ = stop.changed() => return Ok(seat.checker),
            Ok(()) = storm.changed() => {
                kicked_us = Some(live.clock.now_us());
                Err(Broken::new("reconnecting"))
            }
        };
        if !latencies.is_empty() {
            live.on_records(seat.index, &latencies, now_us);
            latencies.clear();
            shared.fresh[seat.index].store(seat.checker.fresh(), Ordering::Relaxed);
            if let Some(kicked_us) = kicked_us.take() {
                live.reconnect.record(seat.index, &[now_us.saturating_sub(kicked_us)]);
            }
        }
        let Err(broken) = result else { continue };
        let mut wait = kicked_us.is_none();
        if wait {
            live.on_broken(&broken);
        }
        let place = reader.place();
        drop(reader);
        reader = loop {
            if wait {
                tokio::select! {
                    () = sleep(RECONNECT_WAIT) => {}
                    _ = stop.changed() => return Ok(seat.checker),
                }
            }
            match open_reader(&shared, &seat.room, place.as_deref()).await {
                Ok(reader) => break reader,
                Err(broken) => live.on_broken(&broken),
            }
            wait = true;
        };
    }
}

async fn open_reader(shared: &Shared, room: &str, place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
    let _connecting = shared.connecting.acquire().await.map_err(Broken::new)?;
    shared.target.reader(room, place).await
}

async fn open_drawer(shared: Arc<Shared>, drawing: Drawing) -> Result<(Box<dyn Drawer>, Drawing), Broken> {
    let _connecting = shared.connecting.acquire().await.map_err(Broken::new)?;
    let drawer = shared.target.drawer(&drawing.room, drawing.answers.clone()).await?;
    Ok((drawer, drawing))
}

/// Draws what its lane gives it.
///
/// # Errors
/// When the server could not be reached for so long that it is gone.
async fn draw(shared: Arc<Shared>, mut drawer: Box<dyn Drawer>, drawing: Drawing) -> Result<(), Broken> {
    let live = &shared.live;
    let mut draw = Vec::new();
    let mut next_ink = drawing.first_ink;
    let mut broken_since = None;
    while let Some(due_us) = drawing.lane.next(live.clock).await {
        live.first_us.fetch_min(due_us, Ordering::Relaxed);
        live.late.record(drawing.first_ink, &[live.clock.now_us().saturating_sub(due_us)]);
        let number = drawing.answers.sending(due_us);
        let ink = &drawing.ink[next_ink % drawing.ink.len()];
        next_ink += 1;
        ink.mark(Mark { writer: drawing.answers.writer_id(), number, due_us }, &mut draw);
        live.sent.fetch_add(1, Ordering::Relaxed);
        let Err(broken) = drawer.draw(number, &draw).await else {
            broken_since = None;
            if drawing.lane.is_as_fast_as_answered() {
                drawer.settle(ANSWER_TIMEOUT).await;
            }
            continue;
        };
        live.on_broken(&broken);
        if broken_since.get_or_insert_with(Instant::now).elapsed() >= GONE {
            return Err(broken);
        }
        sleep(RECONNECT_WAIT).await;
    }
    drawer.settle(ANSWER_TIMEOUT).await;
    Ok(())
}

async fn storms(shared: Arc<Shared>, at_s: Vec<f64>, begin_us: u64) {
    for at_s in at_s {
        let at = shared.live.clock.at(begin_us + (at_s * 1e6) as u64);
        tokio::time::sleep_until(Instant::from_std(at)).await;
        shared.storm.send_modify(|storms| *storms += 1);
    }
}

/// Waits until every reader has what was stored, or nothing more comes.
async fn drain(shared: &Shared, patience: Duration) {
    let (mut newest, mut quiet_since) = (0, Instant::now());
    loop {
        let has_all = |seats: &Seats| {
            let stored = shared.ledger.tally(seats.writers.clone()).stored;
            seats.readers.clone().all(|reader| shared.fresh[reader].load(Ordering::Relaxed) >= stored)
        };
        let has_unknown = shared.ledger.tally(0..shared.ledger.writers()).unknown > 0;
        let delivered = shared.live.delivered.load(Ordering::Relaxed);
        if delivered != newest {
            (newest, quiet_since) = (delivered, Instant::now());
        }
        let quiet = quiet_since.elapsed();
        if quiet >= patience || shared.rooms.iter().all(has_all) && (!has_unknown || quiet >= QUIET) {
            return;
        }
        sleep(LOOK).await;
    }
}

/// Reads every room again from its start, and compares with the ledger.
async fn audit(shared: &Arc<Shared>, patience: Duration, report: &mut Report) {
    if !shared.target.keeps_log() {
        return;
    }
    let mut audits: JoinSet<Result<Breaches, Broken>> = JoinSet::new();
    let mut rooms = shared.rooms.iter().filter(|seats| !seats.writers.is_empty());
    loop {
        while audits.len() < AUDITS_MAX {
            let Some(Seats { room, writers, .. }) = rooms.next() else { break };
            let name = "a fresh reader".to_owned();
            let checker = Checker::new(name, room.clone(), shared.ledger.clone(), writers.clone());
            let expected = shared.ledger.tally(writers.clone()).stored;
            audits.spawn(audit_room(shared.clone(), room.clone(), checker.with_memory(), expected, patience));
        }
        match audits.join_next().await {
            None => return,
            Some(Ok(Ok(breaches))) => report.breaches.merge(breaches),
            Some(Ok(Err(broken))) => {
                report.failures.push(format!("a fresh reader at the end failed: {broken}"));
            }
            Some(Err(error)) => report.failures.push(format!("a fresh reader at the end failed: {error}")),
        }
    }
}

async fn audit_room(
    shared: Arc<Shared>,
    room: String,
    mut checker: Checker,
    expected: u64,
    patience: Duration,
) -> Result<Breaches, Broken> {
    let mut reader = open_reader(&shared, &room, None).await?;
    let (mut fresh, mut since) = (0, Instant::now());
    loop {
        if checker.fresh() != fresh {
            (fresh, since) = (checker.fresh(), Instant::now());
        }
        let wait = if fresh < expected { patience } else { AFTERMATH };
        let mut take = |arrived: Arrived<'_>| {
            checker.take(arrived);
        };
        match timeout_at(since + wait, reader.next(&mut take)).await {
            Ok(result) => result?,
            // What is lacking now is lost; the checker says what it is.
            Err(_) => return Ok(checker.finish()),
        }
    }
}
