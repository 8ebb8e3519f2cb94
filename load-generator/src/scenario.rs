//! Scenarios: one load each, and what it is to show.

mod capacity;
mod churn;
mod fanout;
pub mod file;
mod floor;
mod idle;
mod join;
mod replay;
mod rooms;
mod saturation;
mod soak;
mod storm;

pub use idle::IDLE_KIB;
pub use rooms::BUSIEST_SHARE;
pub use saturation::PER_CORE;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::measure::ink;
use crate::report::Report;
use crate::run::{Failure, Setup, interrupted};
use crate::server::{Server, Store};
use crate::target::{self, Kind, Transport};

/// Which load.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "each is described with its options, and --help shows that")]
pub enum Scenario {
    Replay(replay::Replay),
    Fanout(fanout::Fanout),
    Rooms(rooms::Rooms),
    Join(join::Join),
    Floor(floor::Floor),
    Saturation(saturation::Saturation),
    Idle(idle::Idle),
    Churn(churn::Churn),
    Storm(storm::Storm),
    Soak(soak::Soak),
    Capacity(capacity::Capacity),
}

impl Scenario {
    /// Runs it to its end.
    ///
    /// # Errors
    /// When there is no server, or nobody can connect. What goes wrong later is in the report.
    pub async fn run(&self, threads: usize) -> Result<Report, Failure> {
        match self {
            Self::Replay(replay) => replay.run(threads).await,
            Self::Fanout(fanout) => fanout.run(threads).await,
            Self::Rooms(rooms) => rooms.run(threads).await,
            Self::Join(join) => join.run(threads).await,
            Self::Floor(floor) => floor.run(threads).await,
            Self::Saturation(saturation) => saturation.run(threads).await,
            Self::Idle(idle) => idle.run(threads).await,
            Self::Churn(churn) => churn.run(threads).await,
            Self::Storm(storm) => storm.run(threads).await,
            Self::Soak(soak) => soak.run(threads).await,
            Self::Capacity(capacity) => capacity.run(threads).await,
        }
    }

    /// What all of them are told.
    pub const fn common(&self) -> &RunArgs {
        match self {
            Self::Replay(replay) => &replay.run,
            Self::Fanout(fanout) => &fanout.run,
            Self::Rooms(rooms) => &rooms.run,
            Self::Join(join) => &join.run,
            Self::Floor(floor) => &floor.run,
            Self::Saturation(saturation) => &saturation.run,
            Self::Idle(idle) => &idle.run,
            Self::Churn(churn) => &churn.run,
            Self::Storm(storm) => &storm.run,
            Self::Soak(soak) => &soak.run,
            Self::Capacity(capacity) => &capacity.run,
        }
    }
}

/// Which server.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// A server that runs already, as http://127.0.0.1:8080. Without it, the relay that was built beside this
    /// program, or the bare loop, is started, and ended with the run
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// Start the server with this command instead, its words separated by spaces; its first line of output has to
    /// name its address, or --server does. {port} in it is a free port, {redis} the address of a Redis that is
    /// started for it
    #[arg(long, value_name = "COMMAND")]
    spawn: Option<String>,
    /// Where the relay that is started keeps draws
    #[arg(long, value_enum, default_value = "memory", conflicts_with_all = ["server", "spawn"])]
    store: Store,
    /// More options of the relay that is started, separated by spaces
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true, conflicts_with_all = ["server", "spawn"])]
    relay_args: Option<String>,
    /// Which kind of server it is
    #[arg(long, value_enum, default_value = "inkrelay")]
    target: Kind,
    /// The server's process on this machine, to watch what it uses
    #[arg(long, requires = "server", conflicts_with = "spawn")]
    pid: Option<u32>,
    /// Another process to watch, such as Redis; may be given several times
    #[arg(long, value_name = "PID")]
    also: Vec<u32>,
    /// Over what readers read. Drawers use WebSocket with `ws`, and post otherwise
    #[arg(long, value_enum)]
    transport: Option<Transport>,
}

impl ServerArgs {
    fn starts_relay(&self) -> bool {
        self.server.is_none() && self.spawn.is_none() && self.target == Kind::Inkrelay
    }

    fn start(&self) -> Result<Server, Failure> {
        let mut server = match (&self.spawn, &self.server) {
            (Some(command), url) => Server::spawn(command, url.clone()),
            (None, Some(url)) => Ok(Server::running(url.clone())),
            (None, None) if self.target == Kind::Inkrelay => {
                Server::beside(self.store, self.relay_args.as_deref().unwrap_or_default())
            }
            (None, None) if self.target == Kind::Bare => Server::bare_loop(0),
            (None, None) => Err("name the server with --server or --spawn".into()),
        }?;
        server.watch(self.pid, &self.also);
        Ok(server)
    }

    /// Starts the server, if it is to be, and says how to reach it. It runs for as long as the first value lives.
    fn set_up(
        &self,
        run: &RunArgs,
        default: Transport,
        threads: usize,
        options: &[(&str, String)],
    ) -> Result<(Server, Setup), Failure> {
        let server = self.start()?;
        let transport = self.transport.unwrap_or(default);
        let mut setup = run.set_up(&server, self.target, transport, threads, options)?;
        if self.starts_relay() {
            setup.options.insert("store".to_owned(), format!("{:?}", self.store).to_lowercase());
            let more = self.relay_args.clone();
            setup.options.extend(more.map(|options| ("relay-args".to_owned(), options)));
        }
        Ok((server, setup))
    }
}

/// A number of draws a second.
fn rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok().filter(|rate| (0.001..=10_000_000.0).contains(rate));
    rate.ok_or("a rate is a number from 0.001 to 10,000,000")
}

/// How to run it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Run")]
pub struct RunArgs {
    /// Recorded ink to draw, as JSON strokes or InkML; generated handwriting otherwise
    #[arg(long, value_name = "FILE")]
    recording: Option<PathBuf>,
    /// Seconds without any record after which what is lacking counts as lost
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    drain: u64,
    /// Threads of the generator
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Let a run pass in which draws were refused
    #[arg(long)]
    allow_refused: bool,
    /// Write report.json and report.html into this folder
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// What the run is called in reports
    #[arg(long)]
    label: Option<String>,
}

impl RunArgs {
    fn set_up(
        &self,
        server: &Server,
        kind: Kind,
        transport: Transport,
        threads: usize,
        options: &[(&str, String)],
    ) -> Result<Setup, Failure> {
        let ink = match &self.recording {
            Some(file) => ink::recording(file)?,
            None => ink::handwriting(),
        };
        let mut options: BTreeMap<String, String> =
            options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        options.extend(self.label.clone().map(|label| ("label".to_owned(), label)));
        Ok(Setup {
            target: Arc::from(target::open(kind, &server.url, transport)?),
            processes: server.processes.clone(),
            ink: Arc::new(ink),
            options,
            drain: Duration::from_secs(self.drain),
            allow_refused: self.allow_refused,
            threads,
            stop: interrupted(),
        })
    }
}
