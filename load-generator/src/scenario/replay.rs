//! `replay`: the load under which a server of 2010 died, and its rewrite did not.

use std::str::FromStr;

use clap::Args;

use crate::measure::pacer::Pace;
use crate::report::Report;
use crate::run::{Failure, Plan, Room, drive, fresh_room};
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::Transport;

/// 3,300 draws a minute.
const DRAWS_PER_SECOND: f64 = 55.0;

/// One tablet scribbles, 3,300 draws a minute, and another watches: 198,000 draws, which take an hour
///
/// Example: inkrelay-load replay --speed max --store redis --out report
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Replay {
    /// How many times as fast, or `max`: as fast as draws are answered
    #[arg(long, default_value = "1")]
    speed: Speed,
    /// Draws in all
    #[arg(long, default_value_t = 198_000)]
    draws: u64,
    /// Who watches
    #[arg(long, default_value_t = 1)]
    readers: usize,
    /// Draws on their way at the same time, each over a connection of its own
    #[arg(long, default_value_t = 8)]
    posts: u16,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// How many times as fast as it was.
#[derive(Clone, Copy, Debug)]
enum Speed {
    Times(f64),
    Max,
}

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let times = text.parse().ok().filter(|times| (0.001..=10_000.0).contains(times));
        times.map(Self::Times).ok_or("a speed is `max`, or a number from 0.001 to 10,000")
    }
}

impl Replay {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let speed = match self.speed {
            Speed::Times(times) => times.to_string(),
            Speed::Max => "max".to_owned(),
        };
        let options = [
            ("speed", speed),
            ("draws", self.draws.to_string()),
            ("readers", self.readers.to_string()),
            ("posts", self.posts.to_string()),
        ];
        let (_server, setup) = self.server.set_up(&self.run, Transport::Poll, threads, &options)?;
        let pace = match self.speed {
            Speed::Times(times) => Pace::steady(DRAWS_PER_SECOND * times, self.draws),
            Speed::Max => Pace::Max { count: self.draws },
        };
        let room = Room {
            name: fresh_room("replay")?,
            readers: self.readers,
            drawing: vec![(pace, self.posts)],
            ..Room::default()
        };
        drive(Plan { scenario: "replay", rooms: vec![room], storms_s: Vec::new() }, &setup).await
    }
}
