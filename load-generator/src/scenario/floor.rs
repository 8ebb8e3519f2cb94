//! `floor`: the physical limit that others are given as a multiple of.

use clap::Args;

use crate::report::Report;
use crate::run::{Failure, drive};
use crate::scenario::fanout::Load;
use crate::scenario::rooms::People;
use crate::scenario::{RunArgs, rate};
use crate::server::Server;
use crate::target::{Kind, Transport};

/// Draws a second of one drawer.
const RATE: f64 = 60.0;

/// The least that a relay can cost: a loop in one thread that copies the same bytes to each socket of a room
///
/// It has no protocol, keeps nothing and answers nothing, and gets the load of `fanout`; with --rooms, that of `rooms`.
/// Example: inkrelay-load floor --readers 1000 --seconds 20
/// Example: inkrelay-load floor --rooms 50 --people 8 --rate 30
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Floor {
    /// Who watches one drawer
    #[arg(long, default_value_t = 100)]
    readers: usize,
    /// Rooms of people who all draw and read, instead of one drawer and readers
    #[arg(long, conflicts_with = "readers")]
    rooms: Option<usize>,
    /// How many people in each
    #[arg(long, default_value_t = 4, requires = "rooms")]
    people: u16,
    /// Draws a second of each who draws [default: 60 of one drawer; strokes with pauses of people in rooms]
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
    /// How long, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Milliseconds within which what comes to a room goes out in one write to each reader; 0: each draw at once
    #[arg(long, default_value_t = 0)]
    flush_ms: u64,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Floor {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let (mut options, plan) = match self.rooms {
            Some(rooms) => {
                let people = People { rooms, people: self.people, rate: self.rate, seconds: self.seconds };
                (people.options(), people.plan("floor")?)
            }
            None => {
                let rate = self.rate.unwrap_or(RATE);
                let load = Load { readers: self.readers, rate, seconds: self.seconds };
                (load.options().to_vec(), load.plan("floor")?)
            }
        };
        if self.flush_ms > 0 {
            options.push(("flush-ms", self.flush_ms.to_string()));
        }
        let server = Server::bare_loop(self.flush_ms)?;
        let setup = self.run.set_up(&server, Kind::Bare, Transport::Ws, threads, &options)?;
        drive(plan, &setup).await
    }
}
