//! `soak`: a mix for hours, which fails on what only hours show.

use clap::Args;

use crate::measure::pacer::Pace;
use crate::report::{Figure, Report};
use crate::run::{Failure, Room, drive, fresh_room};
use crate::scenario::rooms::People;
use crate::scenario::storm::evenly;
use crate::scenario::{RunArgs, ServerArgs};
use crate::server::Store;
use crate::target::Transport;

/// Readers of the one large room.
const LARGE_ROOM_READERS: usize = 50;
/// Draws a second in it.
const LARGE_ROOM_RATE: f64 = 20.0;
/// Between two reconnections of everyone, in seconds.
const STORM_EVERY_S: u64 = 300;
/// How many times as much memory is growth, if it is also more than [`GROWN_KIB`].
const GROWN: f64 = 1.2;
/// Memory that may come and go, in KiB.
const GROWN_KIB: f64 = 16.0 * 1024.0;
/// How many times as long is drift, if it is also more than [`DRIFTED_US`].
const DRIFTED: f64 = 2.0;
/// Latency that may come and go, in microseconds.
const DRIFTED_US: f64 = 10_000.0;
/// Seconds with deliveries below which there is no judging growth and drift.
const JUDGED_FROM: usize = 40;

/// A mix for hours: rooms of people, one large room, and a reconnection of everyone each five minutes
///
/// Fails when the server's memory grows, when latency drifts, or when anything is lost: the last quarter of the time
/// is compared with the second. Keep draws outside the server, or its memory grows by design.
/// Example: inkrelay-load soak --seconds 14400 --store redis --out soak
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Soak {
    /// How long, in seconds
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// How many rooms of people
    #[arg(long, default_value_t = 10)]
    rooms: usize,
    /// How many people in each
    #[arg(long, default_value_t = 4)]
    people: u16,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Soak {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        if self.server.starts_relay() && self.server.store == Store::Memory {
            return Err(
                "the memory store grows with every draw: add --store embedded or --store redis".into()
            );
        }
        let people = People { rooms: self.rooms, people: self.people, rate: None, seconds: self.seconds };
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &people.options())?;
        let mut plan = people.plan("soak")?;
        let pace = Pace::steady(LARGE_ROOM_RATE, (LARGE_ROOM_RATE * self.seconds as f64) as u64);
        let name = fresh_room("soak-large")?;
        plan.rooms.push(Room {
            name,
            readers: LARGE_ROOM_READERS,
            drawing: vec![(pace, 1)],
            ..Room::default()
        });
        let storms = u32::try_from(self.seconds / STORM_EVERY_S).unwrap_or(u32::MAX);
        plan.storms_s = evenly(storms, self.seconds);
        let mut report = drive(plan, &setup).await?;
        judge(&mut report);
        Ok(report)
    }
}

/// Compares the last quarter with the second; the first is for warming up.
fn judge(report: &mut Report) {
    let seconds = report.seconds.iter().filter(|second| second.delivery.count > 0).count();
    let p99 = report.quarters(|second| second.delivery.p99 as f64).filter(|_| seconds >= JUDGED_FROM);
    let Some(p99) = p99 else {
        report.warnings.push("it was too short to tell whether memory grows or latency drifts".to_owned());
        return;
    };
    let memory = report.memory_quarters();
    let mut failures = Vec::new();
    if p99[1] > p99[0] * DRIFTED && p99[1] > p99[0] + DRIFTED_US {
        let [before, after] = p99.map(|us| us / 1000.0);
        failures.push(format!(
            "latency drifts: p99 was {before:.1} ms in the second quarter, and {after:.1} ms in the last"
        ));
    }
    if let Some([before, after]) = memory {
        if after > before * GROWN && after > before + GROWN_KIB {
            failures.push(format!(
                "memory grows: {:.1} MiB in the second quarter, {:.1} MiB in the last",
                before / 1024.0,
                after / 1024.0
            ));
        }
        let grown = (after - before) / 1024.0;
        report.figures.push(Figure::new("the server's memory, last quarter less the second", grown, "MiB"));
    }
    let drifted = (p99[1] - p99[0]) / 1000.0;
    report.figures.push(Figure::new("p99, last quarter less the second", drifted, "ms"));
    report.failures.extend(failures);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::recorder::Quantiles;
    use crate::measure::watcher::{ProcessSecond, ProcessWhole};
    use crate::report::Second;

    fn failures(p99: impl Fn(u64) -> u64, rss_mib: impl Fn(u64) -> u64) -> Vec<String> {
        let second = |at: u64| Second {
            delivery: Quantiles { count: 1, p99: p99(at), ..Quantiles::default() },
            processes: vec![ProcessSecond { rss_kib: rss_mib(at) * 1024, ..ProcessSecond::default() }],
            ..Second::default()
        };
        let mut report = Report {
            seconds: (0..400).map(second).collect(),
            processes: vec![ProcessWhole { name: "server".into(), ..ProcessWhole::default() }],
            ..Report::default()
        };
        judge(&mut report);
        report.failures
    }

    #[test]
    fn growth_and_drift_fail_and_noise_does_not() {
        assert!(failures(|at| 2_000 + at % 7 * 300, |at| 40 + at % 3).is_empty());
        // Warming up is no growth.
        assert!(failures(|_| 2_000, |at| at.min(60)).is_empty());
        assert!(failures(|_| 2_000, |at| 40 + at / 4)[0].contains("memory grows"));
        assert!(failures(|at| 2_000 + at * 100, |_| 40)[0].contains("latency drifts"));
        // A little more of little is neither.
        assert!(failures(|at| 100 + at, |at| 4 + at / 50).is_empty());
    }
}
