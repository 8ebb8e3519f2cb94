//! `rooms`: many rooms of people who all draw.

use clap::Args;

use crate::measure::pacer::Pace;
use crate::measure::watcher::ProcessWhole;
use crate::report::{Figure, Report};
use crate::run::{Failure, Plan, Room, drive, fresh_room};
use crate::scenario::{RunArgs, ServerArgs, rate};
use crate::target::Transport;

/// The figure that tells whether all cores are used: 50 % where two workers do the same, 100 % where one does all.
pub const BUSIEST_SHARE: &str = "the busiest worker's share of what the two busiest did";

/// How many people draw how much.
#[derive(Clone, Debug)]
pub(super) struct People {
    pub(super) rooms: usize,
    pub(super) people: u16,
    /// Draws a second; none: strokes with pauses.
    pub(super) rate: Option<f64>,
    pub(super) seconds: u64,
}

impl People {
    pub(super) fn options(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![
            ("rooms", self.rooms.to_string()),
            ("people", self.people.to_string()),
            ("seconds", self.seconds.to_string()),
        ];
        options.extend(self.rate.map(|rate| ("rate", rate.to_string())));
        options
    }

    /// The same numbers draw at the same moments in every run.
    pub(super) fn plan(&self, scenario: &'static str) -> Result<Plan, Failure> {
        let name = fresh_room(scenario)?;
        let seconds = self.seconds;
        let room = |room: usize| {
            let person = |person: u16| {
                let seed = room as u64 * 1000 + u64::from(person);
                match self.rate {
                    Some(rate) => Pace::steady_from(seed, rate, (rate * seconds as f64) as u64),
                    None => Pace::Person { seed, seconds },
                }
            };
            let people = (0..self.people).map(person).collect();
            Room { name: format!("{name}-{room}"), people, ..Room::default() }
        };
        Ok(Plan { scenario, rooms: (0..self.rooms).map(room).collect(), storms_s: Vec::new() })
    }
}

/// Rooms of people who all draw, in strokes with pauses between them as people have them; or steadily, with --rate
///
/// Over WebSocket each draws and reads over one connection.
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
    /// Draws a second of each, without pauses and not all at the same moment
    #[arg(long, value_parser = rate)]
    rate: Option<f64>,
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
        let people =
            People { rooms: self.rooms, people: self.people, rate: self.rate, seconds: self.seconds };
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &people.options())?;
        let mut report = drive(people.plan("rooms")?, &setup).await?;
        let server = report.processes.iter().find(|process| process.name == "server");
        if let Some(share) = server.and_then(ProcessWhole::busiest_share) {
            report.figures.push(Figure::new(BUSIEST_SHARE, 100.0 * share, "%"));
        }
        Ok(report)
    }
}
