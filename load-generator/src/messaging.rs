//! Messaging: what it costs to pass small messages between two workers, in several ways.
//!
//! Each message is answered: it comes back, or its slot is emptied. At most a window of them is on its way, as in any
//! program with bounded queues. Every way runs in a program of its own, whose start is measured by a run without
//! messages and taken off.

mod cost;
mod worker;

use std::path::PathBuf;

use clap::Args;
use serde::{Deserialize, Serialize};

pub use cost::Cost;
pub use worker::Worker;

use crate::run::Failure;

/// What it costs to pass messages between two workers: processes, threads, tasks, and an atomic
///
/// Example: inkrelay-load messaging --count 1000000
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Messaging {
    /// How many messages
    #[arg(long, default_value_t = 10_000_000)]
    count: u64,
    /// How many of them are on their way at most. With 1, each waits for the one before: a ping-pong
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    window: u64,
    /// Write the table as JSON into this file too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Be one of the workers: how this program starts itself
    #[arg(long, value_enum, hide = true)]
    worker: Option<Worker>,
}

/// One way, with what it cost.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Which way.
    pub way: String,
    /// What it cost, or why it could not be run.
    pub cost: Result<Cost, String>,
}

/// All ways.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Messages passed by each.
    pub count: u64,
    /// On their way at most.
    pub window: u64,
    /// In the order in which they ran.
    pub rows: Vec<Row>,
}

impl Messaging {
    /// Runs all ways, one after the other, and prints the table.
    ///
    /// # Errors
    /// When nothing can be started or written. A way that cannot be run is a row that says so.
    pub fn run(&self) -> Result<(), Failure> {
        if let Some(worker) = self.worker {
            println!("{}", worker.run(self.count, self.window)?);
            return Ok(());
        }
        let ways = cost::Ways::new()?;
        let mut table = Table { count: self.count, window: self.window, rows: Vec::new() };
        for (index, (way, command)) in ways.all()?.into_iter().enumerate() {
            eprintln!("{} of {}: {way}", index + 1, cost::WAYS);
            let cost = command.and_then(|command| cost::measure(&command, self.count, self.window));
            table.rows.push(Row { way: way.to_owned(), cost });
        }
        print!("{}", table.text());
        if let Some(file) = &self.out {
            std::fs::write(file, serde_json::to_vec_pretty(&table)?)?;
        }
        Ok(())
    }
}

impl Table {
    /// As a table of a terminal, which is one of Markdown too.
    pub fn text(&self) -> String {
        let costs = || self.rows.iter().filter_map(|row| row.cost.as_ref().ok());
        let fastest = costs().map(|cost| cost.elapsed_s).fold(f64::INFINITY, f64::min);
        let least_cpu = costs().map(Cost::cpu_s).fold(f64::INFINITY, f64::min);
        // Clocks count in hundredths of a second at worst: below that there is no ratio to tell.
        let times = |value: f64, least: f64| match value.max(0.01) / least.max(0.01) {
            ratio if ratio < 9.95 => format!("{ratio:.1}"),
            ratio => format!("{ratio:.0}"),
        };
        let mut cells = vec![
            [
                "way",
                "elapsed s",
                "user s",
                "system s",
                "messages/s",
                "switches: voluntary",
                "involuntary",
                "calls/message",
                "× time",
                "× CPU",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        let mut not_run = String::new();
        for row in &self.rows {
            match &row.cost {
                Ok(cost) => cells.push(vec![
                    row.way.clone(),
                    format!("{:.2}", cost.elapsed_s),
                    format!("{:.2}", cost.user_s),
                    format!("{:.2}", cost.system_s),
                    format!("{:.0}", self.count as f64 / cost.elapsed_s.max(1e-9)),
                    cost.voluntary.to_string(),
                    cost.involuntary.to_string(),
                    cost.calls_per_message.map_or("not counted".to_owned(), |calls| format!("{calls:.3}")),
                    times(cost.elapsed_s, fastest),
                    times(cost.cpu_s(), least_cpu),
                ]),
                Err(why) => not_run.push_str(&format!("\nNot run: {}: {why}\n", row.way)),
            }
        }
        format!(
            "{} messages, {} on their way at most; × is times the fastest, and times the least CPU\n\n{}{not_run}",
            self.count,
            self.window,
            crate::report::markdown::table(&cells)
        )
    }
}
