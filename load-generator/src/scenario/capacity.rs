//! `capacity`: raises the load until it is too much.

use clap::Args;

use crate::measure::Breaches;
use crate::measure::pacer::Pace;
use crate::report::{Figure, Report};
use crate::run::{Failure, Plan, Room, STOPPED, drive, fresh_room};
use crate::sampler::generator_full;
use crate::scenario::{RunArgs, ServerArgs, rate};
use crate::target::Transport;

/// Steps at most.
const STEPS_MAX: usize = 40;
/// Hundredths of all cores from which on the machine has nothing left.
const FULL: f64 = 90.0;

/// Raises the load step by step until p99 or loss passes a bound, and says what was the limit
///
/// One drawer and more readers in each step; with --raise rate, the same readers and more draws a second.
/// Example: inkrelay-load capacity --readers 50 --p99-ms 50 --out capacity
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Capacity {
    /// What goes up from step to step
    #[arg(long, value_enum, default_value = "readers")]
    raise: Raise,
    /// How many times as much in the next step
    #[arg(long, default_value_t = 1.5, value_parser = growth)]
    factor: f64,
    /// The bound: milliseconds from when a draw was due to a reader, at p99 of a step
    #[arg(long, default_value_t = 50)]
    p99_ms: u64,
    /// Readers in the first step
    #[arg(long, default_value_t = 50)]
    readers: usize,
    /// Draws a second in the first step
    #[arg(long, default_value_t = 60.0, value_parser = rate)]
    rate: f64,
    /// How long each step is, in seconds
    #[arg(long, default_value_t = 5)]
    step_seconds: u64,
    /// Where to stop all the same: readers, or draws a second
    #[arg(long, default_value_t = 20_000)]
    most: usize,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Raise {
    /// Readers of the same draws
    Readers,
    /// Draws a second
    Rate,
}

fn growth(text: &str) -> Result<f64, &'static str> {
    text.parse().ok().filter(|factor| (1.01..=10.0).contains(factor)).ok_or("a factor is 1.01 to 10")
}

impl Capacity {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let what = if self.raise == Raise::Readers { "readers" } else { "draws a second" };
        let options = [
            ("raise", what.to_owned()),
            ("factor", self.factor.to_string()),
            ("p99-ms", self.p99_ms.to_string()),
            ("readers", self.readers.to_string()),
            ("rate", self.rate.to_string()),
            ("step-seconds", self.step_seconds.to_string()),
        ];
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        let (mut readers, mut rate) = (self.readers as f64, self.rate);
        let mut held: Option<(f64, Report)> = None;
        let mut steps = Vec::new();
        let mut faults = (Breaches::default(), Vec::new());
        let limit = loop {
            let load = if self.raise == Raise::Readers { readers.round() } else { rate };
            if load > self.most as f64 || steps.len() == STEPS_MAX {
                break "no limit was met: it held all that was asked for".to_owned();
            }
            let pace = Pace::steady(rate, (rate * self.step_seconds as f64) as u64);
            let room = Room {
                name: fresh_room("capacity")?,
                readers: readers.round() as usize,
                drawing: vec![(pace, 1)],
                ..Room::default()
            };
            let plan = Plan { scenario: "capacity", rooms: vec![room], storms_s: Vec::new() };
            let report = match drive(plan, &setup).await {
                Ok(report) if !setup.is_stopped() => report,
                // What a step is worth that did not last is not known.
                _ if setup.is_stopped() && held.is_some() => break STOPPED.to_owned(),
                Ok(_) => return Err("it was stopped in its first step".into()),
                Err(failure) if held.is_some() => {
                    break format!("the limit was met before the step with {load:.0} began: {failure}");
                }
                Err(failure) => return Err(failure),
            };
            eprintln!(
                "{load:.0} {what}: p99 {:.1} ms, {} deliveries, {}",
                report.delivery.quantiles.p99 as f64 / 1000.0,
                report.delivered,
                if report.is_good() { "nothing lost" } else { "promises broken" }
            );
            steps.push((load, report.delivery.quantiles.p99));
            if let Some(limit) = self.too_much(&report, threads) {
                // A broken promise is a fault under any load, and not a limit.
                faults.0.merge(report.breaches.clone());
                faults.1.extend(report.failures.clone());
                if held.is_none() {
                    held = Some((0.0, report));
                }
                break limit;
            }
            held = Some((load, report));
            match self.raise {
                Raise::Readers => readers = (readers * self.factor).max(readers + 1.0),
                Raise::Rate => rate *= self.factor,
            }
        };
        let (load, mut report) = held.unwrap_or_else(|| (0.0, setup.report("capacity")));
        let took = report.took_s.max(1e-3);
        report.figures = vec![
            Figure::new(format!("held, {what}"), load.round(), ""),
            Figure::new("held, deliveries a second", report.delivered as f64 / took, ""),
        ];
        report.steps = steps;
        (report.breaches, report.failures) = faults;
        let of_last = "all but the steps is of the last step that it held".to_owned();
        report.warnings.splice(0..0, [limit, of_last]);
        Ok(report)
    }

    /// What was the limit, if the step was too much.
    fn too_much(&self, report: &Report, threads: usize) -> Option<String> {
        if let Some(case) = &report.breaches.first {
            return Some(format!("a promise was broken: {case}"));
        }
        if let Some(failure) = report.failures.first() {
            return Some(failure.clone());
        }
        let p99_ms = report.delivery.quantiles.p99 as f64 / 1000.0;
        if let (broken @ 1.., why) = &report.broken {
            return Some(format!(
                "the limit was reached when {broken} connections were closed: {}",
                why.as_deref().unwrap_or("no reason given")
            ));
        }
        if p99_ms <= self.p99_ms as f64 {
            return None;
        }
        let server = report.processes.iter().find(|process| process.name == "server");
        let took = report.took_s.max(1e-3);
        let used = server.map(|server| 100.0 * server.cpu() / took);
        let seconds = report.seconds.len().max(1) as f64;
        let cores = report.seconds.iter().map(|second| second.cores.len()).max().unwrap_or(1).max(1) as f64;
        let machine = report.seconds.iter().flat_map(|second| &second.cores);
        let machine: f64 = machine.map(|core| core.user + core.system + core.stolen).sum();
        let machine = machine / seconds / cores;
        let what = if generator_full(report, threads) > 0.5 {
            "the generator itself"
        } else if machine > FULL {
            "the cores of this machine, which server, generator and others share"
        } else {
            "the server"
        };
        let used = used.map_or_else(String::new, |used| format!("; the server used {used:.0} % of a core"));
        Some(format!("the limit was {what}: p99 was {p99_ms:.1} ms in the step after{used}"))
    }
}
