//! The bounds: what the relay is to hold, measured against the bare loop and other servers on the same machine.
//!
//! Each round runs every load on all of them, one after the other, and what counts are ratios within a round: a machine
//! that is slower in one round is slower for all. What a bound is compared with is the median of the rounds.

mod loads;
mod measures;
mod page;

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;

use crate::run::Failure;
use crate::tasks::{self, Task};
use loads::{LOADS, Load};
use measures::{Group, MEASURES, Measure, Round};

/// Measures each bound that the relay is to hold, prints it, and ends with 1 where one is missed
///
/// Run it in the project's folder, on a machine with nothing else to do. All of it takes about a quarter of an hour; broken off,
/// it goes on where it was, unless the programs were built anew. The table goes into PERFORMANCE.md, between the two marks that it has there.
/// Example: inkrelay-load bounds --only fanout --again
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Bounds {
    /// Only these measures; may be given several times
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Group>,
    /// How often everything is run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Small loads, in one round: to see that everything runs, not to measure. Writes no page
    #[arg(long, conflicts_with = "rounds")]
    quick: bool,
    /// Measure again what was measured before
    #[arg(long)]
    again: bool,
    /// Where results are kept
    #[arg(long, default_value = "target/bounds", value_name = "FOLDER")]
    results: PathBuf,
    /// The page
    #[arg(long, default_value = "docs/PERFORMANCE.md", value_name = "FILE")]
    out: PathBuf,
}

/// What was measured of one measure.
struct Row {
    measure: &'static Measure,
    /// Of each round that has one.
    values: Vec<f64>,
    /// Why others have none, and what else to know.
    notes: Vec<String>,
    /// None where it was not measured.
    is_within: Option<bool>,
}

impl Bounds {
    /// Runs what has not run yet, and prints and writes the table. Returns whether all that was asked for is within its
    /// bound.
    ///
    /// # Errors
    /// When nothing can be started or written. A run that fails is a bound that is missed.
    pub fn run(&self) -> Result<bool, Failure> {
        let is_asked = |measure: &&Measure| self.only.is_empty() || self.only.contains(&measure.group);
        let asked: Vec<&Measure> = MEASURES.iter().filter(is_asked).collect();
        let rounds = if self.quick { 1 } else { self.rounds };
        let is_needed = |load: &&Load| asked.iter().any(|measure| measure.loads.contains(&load.name));
        let tasks: Vec<Task> = (1..=rounds)
            .flat_map(|round| LOADS.iter().filter(is_needed).map(move |load| load.task(round, self.quick)))
            .collect();
        if self.again {
            tasks.iter().try_for_each(|task| task.forget(&self.results))?;
        }
        let built = tasks::built()?;
        tasks::run(&tasks.iter().collect::<Vec<_>>(), &self.results, built)?;

        // The page has all measures: those that were not asked for now may have been before.
        let rounds: Vec<Round> = (1..=rounds).map(|round| self.read(round, built)).collect();
        let rows: Vec<Row> = MEASURES.iter().map(|measure| Row::new(measure, &rounds)).collect();
        let shown: Vec<&Row> =
            rows.iter().filter(|row| asked.iter().any(|asked| asked.name == row.measure.name)).collect();
        print!("{}", page::table_of(&shown));
        if self.quick {
            println!("\nA trial with small loads: its numbers say nothing.");
        } else {
            page::write(&self.out, &rows, &rounds)?;
            println!("\n{}", self.out.display());
        }
        Ok(shown.iter().all(|row| row.is_within == Some(true)))
    }

    /// All results of a round.
    fn read(&self, round: u32, built: SystemTime) -> Round {
        let read = |load: &Load| {
            let task = load.task(round, self.quick);
            task.is_done(&self.results, built).then(|| (load.name, task.report(&self.results)))
        };
        Round(LOADS.iter().filter_map(read).collect())
    }
}

impl Row {
    fn new(measure: &'static Measure, rounds: &[Round]) -> Self {
        let mut row = Self { measure, values: Vec::new(), notes: Vec::new(), is_within: None };
        if rounds.iter().all(|round| measure.loads.iter().all(|load| !round.has(load))) {
            return row;
        }
        let mut is_whole = true;
        for round in rounds {
            match round.value(measure) {
                Ok(value) => row.values.push(value),
                Err(why) => {
                    is_whole = false;
                    row.note(why);
                }
            }
            for note in round.notes(measure) {
                row.note(note);
            }
        }
        let middle = crate::report::summary::median(&row.values);
        row.is_within = Some(is_whole && middle.is_some_and(|middle| measure.bound.holds(middle)));
        row
    }

    /// The same in each round is said once.
    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
