//! The report of a run: what is kept as JSON, and from which everything that people see is made.

pub mod chart;
pub mod html;
pub mod markdown;
pub mod summary;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::measure::checker::Breaches;
use crate::measure::ledger::Tally;
use crate::measure::recorder::Quantiles;
use crate::measure::watcher::{CoreSecond, ProcessSecond, ProcessWhole};

/// One second of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Second {
    /// Its end, in seconds since the run began.
    pub at_s: f64,
    /// Draws handed to the server.
    pub sent: u64,
    /// Records that readers got.
    pub delivered: u64,
    /// From when a draw was due to a reader that has it, by when it arrived.
    pub delivery: Quantiles,
    /// From when a draw was due to its ack; of requests, to the whole answer.
    pub ack: Quantiles,
    /// Processes, as in [`Report::processes`].
    pub processes: Vec<ProcessSecond>,
    /// Cores of the machine.
    pub cores: Vec<CoreSecond>,
}

/// Latencies over a whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// In microseconds.
    pub quantiles: Quantiles,
    /// Pairs of a quantile and microseconds.
    pub curve: Vec<(f64, u64)>,
}

/// Something that only one scenario measures.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What.
    pub name: String,
    /// How much.
    pub value: f64,
    /// Of what.
    pub unit: String,
}

impl Figure {
    /// A value with its unit.
    pub fn new(name: impl Into<String>, value: f64, unit: impl Into<String>) -> Self {
        Self { name: name.into(), value, unit: unit.into() }
    }
}

/// A whole run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Which scenario.
    pub scenario: String,
    /// Which server, over what.
    pub target: String,
    /// What it was called with, in the order of names.
    pub options: BTreeMap<String, String>,
    /// Where it ran.
    pub machine: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// From the first draw to the last answer or record, whichever was later, in seconds.
    pub took_s: f64,
    /// The rooms that were drawn in.
    #[serde(default)]
    pub rooms: Vec<String>,
    /// Whether the server keeps a log that a fresh reader could be compared with at the end.
    #[serde(default)]
    pub keeps_log: bool,
    /// When everyone reconnected at once, in seconds as in [`Second::at_s`].
    #[serde(default)]
    pub storms_s: Vec<f64>,
    /// What became of the draws.
    pub tally: Tally,
    /// Records that readers got.
    pub delivered: u64,
    /// From when a draw was due to a reader that has it.
    pub delivery: Latency,
    /// From when a draw was due to its ack; of requests, to the whole answer.
    pub ack: Latency,
    /// Each second.
    pub seconds: Vec<Second>,
    /// The server first, the generator last.
    pub processes: Vec<ProcessWhole>,
    /// What only this scenario measures.
    pub figures: Vec<Figure>,
    /// Of a load that was raised step by step: how much, and the microseconds from due to a reader at p99.
    #[serde(default)]
    pub steps: Vec<(f64, u64)>,
    /// Connections that broke, and why the first of them did.
    pub broken: (u64, Option<String>),
    /// Broken promises.
    pub breaches: Breaches,
    /// Other reasons for which the run failed, in plain words.
    pub failures: Vec<String>,
    /// What to bear in mind when reading it.
    pub warnings: Vec<String>,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_good(&self) -> bool {
        self.breaches.is_empty() && self.failures.is_empty()
    }

    /// CPU seconds of the server and all that belongs to it, such as Redis: all that is watched but the generator.
    pub fn server_cpu_s(&self) -> f64 {
        let others = self.processes.iter().filter(|process| process.name != "generator");
        others.map(ProcessWhole::cpu).sum()
    }

    /// What a delivery cost the server alone, in microseconds of CPU; none where there was none, or it was not watched to
    /// the end.
    pub fn server_us_each(&self) -> Option<f64> {
        let server = self.processes.iter().find(|process| process.name == "server" && !process.has_ended)?;
        (self.delivered > 0).then(|| server.cpu() * 1e6 / self.delivered as f64)
    }

    /// Medians over the second and over the last quarter of the seconds in which something was delivered: the first
    /// quarter is for warming up. None of fewer than four seconds.
    pub fn quarters(&self, value: impl Fn(&Second) -> f64) -> Option<[f64; 2]> {
        let seconds: Vec<&Second> = self.seconds.iter().filter(|second| second.delivery.count > 0).collect();
        let quarter = seconds.len() / 4;
        let middle = |part: &[&Second]| {
            summary::median(&part.iter().map(|second| value(second)).collect::<Vec<f64>>())
        };
        Some([middle(&seconds[quarter..2 * quarter])?, middle(&seconds[3 * quarter..])?])
            .filter(|_| quarter > 0)
    }

    /// The server's resident memory in the second and in the last quarter, KiB.
    pub fn memory_quarters(&self) -> Option<[f64; 2]> {
        let server = self.processes.iter().position(|process| process.name == "server")?;
        self.quarters(|second| second.processes.get(server).map_or(0.0, |process| process.rss_kib as f64))
    }

    /// The name of a run among others.
    pub fn title(&self) -> String {
        match self.options.get("label") {
            Some(label) => label.clone(),
            None => format!("{}, {}", self.scenario, self.target),
        }
    }

    /// Writes `report.json` and `report.html` into a folder.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("report.json"), serde_json::to_vec_pretty(self)?)?;
        std::fs::write(folder.join("report.html"), html::page(std::slice::from_ref(self)))
    }

    /// The rooms in a line, or nothing.
    pub fn rooms_line(&self) -> Option<String> {
        match &self.rooms[..] {
            [] => None,
            [one] => Some(format!("room {one}")),
            [first, .., last] => Some(format!("{} rooms, from {first} to {last}", self.rooms.len())),
        }
    }

    /// Reads a `report.json`.
    ///
    /// # Errors
    /// When it cannot be read, or is something else.
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| format!("{} is no report that a run wrote: {error}", path.display()))
    }
}
