//! The sampler: what everybody counts while a run goes on, and what becomes of it each second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::measure::Recorder;
use crate::measure::recorder::Clock;
use crate::measure::watcher::{ProcessWhole, Watcher};
use crate::report::summary::{count, time};
use crate::report::{Figure, Report, Second};
use crate::target::Broken;

/// The share of a core from which on a thread has nothing left, in hundredths.
const FULL: f64 = 90.0;
/// How late a draw may leave because of the generator itself, in microseconds.
const LATE_US: u64 = 5_000;

/// What other programs may use of the machine without being mentioned, in hundredths.
const OTHERS_MAX: f64 = 20.0;
/// How a report begins to say that they used more.
pub const OTHERS: &str = "other programs used";

/// The share of the time in which the generator's threads had nothing left.
pub fn generator_full(report: &Report, threads: usize) -> f64 {
    share_of_time(report, |length, second| {
        let used = second.processes.last().map_or(0, |process| process.user_ms + process.system_ms);
        used as f64 / 10.0 >= FULL * threads as f64 * length
    })
}

/// The share of the time of which that holds, given each second with its length.
fn share_of_time(report: &Report, holds: impl Fn(f64, &Second) -> bool) -> f64 {
    let (mut whole, mut part, mut before_s) = (0.0, 0.0, 0.0);
    for second in &report.seconds {
        let length = second.at_s - before_s;
        before_s = second.at_s;
        whole += length;
        part += if holds(length, second) { length } else { 0.0 };
    }
    part / f64::max(whole, 1e-3)
}

/// Hundredths of the whole machine: what all programs used, and what those that are watched used.
fn cpu_shares(report: &Report) -> (f64, f64) {
    let (mut used, mut watched, mut cores, mut before_s) = (0.0, 0.0, 0.0, 0.0);
    for second in &report.seconds {
        let length = second.at_s - before_s;
        before_s = second.at_s;
        cores += length * second.cores.len() as f64;
        used += length * second.cores.iter().map(|core| core.user + core.system).sum::<f64>();
        watched += second.processes.iter().map(|one| one.user_ms + one.system_ms).sum::<u64>() as f64 / 10.0;
    }
    (used / f64::max(cores, 1e-3), watched / f64::max(cores, 1e-3))
}

/// What the tasks of a run count.
#[derive(Debug)]
pub struct Live {
    /// The run's clock.
    pub clock: Clock,
    /// From due to a reader.
    pub delivery: Recorder,
    /// From due to the ack; of requests, from the connecting to the whole answer.
    pub ack: Arc<Recorder>,
    /// From due to handing over.
    pub late: Recorder,
    /// From a storm to the first record after it.
    pub reconnect: Recorder,
    /// Draws handed over.
    pub sent: AtomicU64,
    /// Records that readers got.
    pub delivered: AtomicU64,
    /// When the first draw was due, in the clock's microseconds.
    pub first_us: AtomicU64,
    /// When the newest of them came, in the clock's microseconds.
    pub newest_us: AtomicU64,
    /// For how long a drawer had no server at most, in microseconds.
    pub away_us: AtomicU64,
    broken: Mutex<(u64, Option<String>)>,
}

impl Live {
    /// All zero.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            delivery: Recorder::default(),
            ack: Arc::default(),
            late: Recorder::default(),
            reconnect: Recorder::default(),
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            first_us: AtomicU64::new(u64::MAX),
            newest_us: AtomicU64::new(0),
            away_us: AtomicU64::new(0),
            broken: Mutex::default(),
        }
    }

    /// Records that one reader got at once.
    pub fn on_records(&self, reader: usize, latencies_us: &[u64], now_us: u64) {
        self.delivery.record(reader, latencies_us);
        self.delivered.fetch_add(latencies_us.len() as u64, Ordering::Relaxed);
        self.newest_us.fetch_max(now_us, Ordering::Relaxed);
    }

    /// A connection that broke.
    pub fn on_broken(&self, broken: &Broken) {
        let mut all = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        all.0 += 1;
        all.1.get_or_insert_with(|| broken.to_string());
    }

    /// A drawer that had lost the server for so long.
    pub fn on_back(&self, away: Duration) {
        let away_us = u64::try_from(away.as_micros()).unwrap_or(u64::MAX);
        self.away_us.fetch_max(away_us, Ordering::Relaxed);
    }

    /// How many broke, and why the first did.
    pub fn broken(&self) -> (u64, Option<String>) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How long it took after a storm.
    pub fn reconnect_figures(&self, report: &mut Report) {
        let (quantiles, _) = self.reconnect.whole();
        let ms = |us: u64| us as f64 / 1000.0;
        report.figures.push(Figure::new("reconnections", quantiles.count as f64, "readers"));
        for (name, us) in [("median", quantiles.p50), ("p99", quantiles.p99), ("the last", quantiles.max)] {
            report.figures.push(Figure::new(format!("back with a record, {name}"), ms(us), "ms"));
        }
    }

    /// Says so when the generator or the machine was the limit, and not the server.
    pub fn judge_generator(&self, report: &mut Report, threads: usize) {
        let busy = generator_full(report, threads);
        let machine_full = share_of_time(report, |_, second| {
            let used = second.cores.iter().map(|core| core.user + core.system + core.stolen);
            !second.cores.is_empty() && used.sum::<f64>() >= 97.0 * second.cores.len() as f64
        });
        if busy > 0.2 {
            report.warnings.push(format!(
                "the generator itself was the limit: its {threads} threads were busy in {:.0} % of the time; \
                 give it more with --threads, or another machine",
                busy * 100.0
            ));
        }
        for process in report.processes.iter().filter(|process| process.has_ended) {
            let text = format!(
                "{} ({}) ended before the run did: what it used is as of when it was last seen",
                process.name, process.pid
            );
            report.warnings.push(text);
        }
        let (used, watched) = cpu_shares(report);
        if used - watched > OTHERS_MAX {
            report.warnings.push(format!(
                "{OTHERS} {:.0} % of this machine meanwhile: the server would do better without them",
                used - watched
            ));
        } else if machine_full > 0.5 {
            report.warnings.push(format!(
                "all cores were busy in {:.0} % of the time, so that server and generator waited for each \
                 other: latencies are upper bounds",
                machine_full * 100.0
            ));
        }
        let (late, _) = self.late.whole();
        // Whoever posts waits for the answer; a stream does not, and its lateness is the generator's own or that
        // of a server that takes nothing any more.
        let is_stream = report.ack.quantiles.count == 0 || late.p50 < report.ack.quantiles.p50 / 4;
        if is_stream && late.p99 > LATE_US && busy > 0.0 {
            report
                .warnings
                .push(format!("draws left late: {} at p99, which latencies include", time(late.p99)));
        }
    }
}

/// Samples each second, and shows it.
pub struct Sampler {
    stop: oneshot::Sender<()>,
    task: JoinHandle<(Vec<Second>, Vec<ProcessWhole>)>,
}

impl Sampler {
    /// Begins; `total` draws are the whole of the progress bar. The second value names the processes that cannot be
    /// watched. This process is watched too, as the last.
    pub fn start(live: Arc<Live>, mut processes: Vec<(String, u32)>, total: u64) -> (Self, Vec<String>) {
        processes.push(("generator".to_owned(), std::process::id()));
        let (watcher, unreadable) = Watcher::new(processes);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(sample(live, watcher, total, stopped));
        (Self { stop, task }, unreadable)
    }

    /// Takes the last, unfinished second, and ends.
    pub async fn stop(self) -> (Vec<Second>, Vec<ProcessWhole>) {
        // It waits for this or has panicked, which the join tells.
        let _ = self.stop.send(());
        self.task.await.unwrap_or_default()
    }
}

async fn sample(
    live: Arc<Live>,
    mut watcher: Watcher,
    total: u64,
    mut stopped: oneshot::Receiver<()>,
) -> (Vec<Second>, Vec<ProcessWhole>) {
    let bar = ProgressBar::new(total);
    let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {msg}");
    bar.set_style(style.expect("the template is a constant"));
    let mut tick = interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    let (mut seconds, mut before) = (Vec::new(), (0, 0));
    let began_us = live.clock.now_us();
    loop {
        let is_last = tokio::select! {
            _ = tick.tick() => false,
            _ = &mut stopped => true,
        };
        let totals = (live.sent.load(Ordering::Relaxed), live.delivered.load(Ordering::Relaxed));
        let (processes, cores) = watcher.second();
        let second = Second {
            at_s: live.clock.now_us().saturating_sub(began_us) as f64 / 1e6,
            sent: totals.0 - before.0,
            delivered: totals.1 - before.1,
            delivery: live.delivery.second(),
            ack: live.ack.second(),
            processes,
            cores,
        };
        before = totals;
        bar.set_position(totals.0);
        bar.set_message(live_line(&second));
        seconds.push(second);
        if is_last {
            bar.finish_and_clear();
            return (seconds, watcher.whole());
        }
    }
}

/// `550 sent/s, 55,000 got/s, p99 1.20 ms, server 12 %`.
fn live_line(second: &Second) -> String {
    let mut line = format!("{} sent/s", count(second.sent));
    if second.delivered > 0 {
        line += &format!(", {} got/s, p99 {}", count(second.delivered), time(second.delivery.p99));
    }
    if let [server, .., _generator] = &second.processes[..] {
        line += &format!(", server {} %", (server.user_ms + server.system_ms) / 10);
    }
    line
}
