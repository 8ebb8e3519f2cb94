//! `fanout`: one drawer, many readers.

use clap::Args;

use crate::measure::pacer::Pace;
use crate::report::Report;
use crate::run::{Failure, Plan, Room, drive, fresh_room};
use crate::scenario::{RunArgs, ServerArgs, rate};
use crate::target::Transport;

/// How much is drawn before how many.
#[derive(Clone, Debug, Args)]
pub(super) struct Load {
    /// Who watches
    #[arg(long, default_value_t = 100)]
    pub(super) readers: usize,
    /// Draws a second
    #[arg(long, default_value_t = 60.0, value_parser = rate)]
    pub(super) rate: f64,
    /// How long, in seconds
    #[arg(long, default_value_t = 30)]
    pub(super) seconds: u64,
}

impl Load {
    pub(super) fn options(&self) -> [(&'static str, String); 3] {
        [
            ("readers", self.readers.to_string()),
            ("rate", self.rate.to_string()),
            ("seconds", self.seconds.to_string()),
        ]
    }

    pub(super) fn plan(&self, scenario: &'static str) -> Result<Plan, Failure> {
        let pace = Pace::steady(self.rate, (self.rate * self.seconds as f64) as u64);
        let room = Room {
            name: fresh_room(scenario)?,
            readers: self.readers,
            drawing: vec![(pace, 1)],
            ..Room::default()
        };
        Ok(Plan { scenario, rooms: vec![room], storms_s: Vec::new() })
    }
}

/// One drawer, many readers in a room
///
/// Example: inkrelay-load fanout --readers 1000 --seconds 20 --out report
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Fanout {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Fanout {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &self.load.options())?;
        drive(self.load.plan("fanout")?, &setup).await
    }
}
