//! `storm`: everyone reconnects at once.

use clap::Args;

use crate::report::Report;
use crate::run::{Failure, drive};
use crate::scenario::fanout::Load;
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::Transport;

/// All readers lose their connections at the same moment and come back at once, while the drawing goes on
///
/// Each goes on from the last record that it has, and none may be lost or come twice.
/// Example: inkrelay-load storm --readers 1000 --storms 5
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Storm {
    #[command(flatten)]
    load: Load,
    /// How many times, evenly over the run
    #[arg(long, default_value_t = 3)]
    storms: u32,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Storm {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let mut options = self.load.options().to_vec();
        options.push(("storms", self.storms.to_string()));
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        let mut plan = self.load.plan("storm")?;
        plan.storms_s = evenly(self.storms, self.load.seconds);
        drive(plan, &setup).await
    }
}

/// Moments that part a time into equal pieces.
pub(super) fn evenly(moments: u32, seconds: u64) -> Vec<f64> {
    let piece = seconds as f64 / f64::from(moments.saturating_add(1));
    (1..=moments).map(|moment| f64::from(moment) * piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_are_apart() {
        assert_eq!(evenly(3, 20), [5.0, 10.0, 15.0]);
        assert!(evenly(0, 20).is_empty());
    }
}
