//! `rooms`: many rooms of people who all draw.

use clap::Args;

use crate::measure::pacer::Pace;
use crate::report::Report;
use crate::run::{Failure, Plan, Room, drive, fresh_room};
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::Transport;

/// Rooms of people who all draw, in strokes, with pauses between them as people have them
///
/// Example: inkrelay-load rooms --rooms 50 --people 4 --seconds 60 --store embedded
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Rooms {
    /// How many rooms
    #[arg(long, default_value_t = 20)]
    rooms: usize,
    /// How many people in each; each draws, and sees what all draw
    #[arg(long, default_value_t = 4)]
    people: u16,
    /// How long, in seconds
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Rooms {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let options = [
            ("rooms", self.rooms.to_string()),
            ("people", self.people.to_string()),
            ("seconds", self.seconds.to_string()),
        ];
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        let plan = plan("rooms", self.rooms, self.people, self.seconds)?;
        drive(plan, &setup).await
    }
}

/// Rooms of people; the same numbers draw at the same moments in every run.
pub(super) fn plan(scenario: &'static str, rooms: usize, people: u16, seconds: u64) -> Result<Plan, Failure> {
    let name = fresh_room(scenario)?;
    let room = |room: usize| {
        let person =
            |person: u16| (Pace::Person { seed: room as u64 * 1000 + u64::from(person), seconds }, 1);
        let drawing = (0..people).map(person).collect();
        Room { name: format!("{name}-{room}"), readers: people.into(), drawing }
    };
    Ok(Plan { scenario, rooms: (0..rooms).map(room).collect(), storms_s: Vec::new() })
}
