//! The comparison: the same loads on this relay and on what people would use instead, written down as one page.
//!
//! Runs of all servers are interleaved, round by round, so that a machine that gets slower with time is unfair to all
//! alike.

mod page;
mod picture;
mod plan;

use std::path::PathBuf;

use clap::Args;

use crate::run::Failure;
use crate::tasks;

/// Runs replay, fanout, rooms, churn and messaging on this relay and on all baselines, and writes COMPARISON.md
///
/// Run it in the project's folder, on a machine with nothing else to do. It takes less than an hour; broken off, it goes on
/// where it was, unless the programs were built anew. To begin anew, remove the folder of its results.
/// Example: inkrelay-load compare
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Compare {
    /// How often everything is run
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Small loads: to see that everything runs, not to measure
    #[arg(long)]
    quick: bool,
    /// Where results are kept
    #[arg(long, default_value = "target/compare", value_name = "FOLDER")]
    results: PathBuf,
    /// Where the page and its pictures go
    #[arg(long, default_value = "docs", value_name = "FOLDER")]
    out: PathBuf,
}

impl Compare {
    /// Runs what has not run yet, and writes the page.
    ///
    /// # Errors
    /// When nothing can be started or written. A run that fails is told in the page.
    pub fn run(&self) -> Result<(), Failure> {
        let runs = plan::runs(self.rounds, self.quick);
        tasks::run(&runs.iter().map(|run| &run.task).collect::<Vec<_>>(), &self.results, tasks::built()?)?;
        page::write(&self.out, &self.results, &runs, self.quick)?;
        println!("{}", self.out.join(page::FILE).display());
        Ok(())
    }
}
