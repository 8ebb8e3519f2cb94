//! `inkrelay watch`: prints what arrives in a room.

use std::io::Write as _;
use std::time::Duration;

use clap::{Args, ValueEnum};
use inkrelay_protocol::{After, Position};
use tokio::time::{Instant, sleep_until};

use super::{CommandError, Place};
use crate::client::{Client, ClientConfig, Event, Transport};

mod print;
mod stream;

use print::{Format, Printer};

/// Arguments of `inkrelay watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub(super) place: Place,
    /// How to read
    #[arg(long, value_enum, default_value_t = WatchTransport::Auto)]
    transport: WatchTransport,
    /// One JSON record a line, as the protocol tells it
    #[arg(long, conflicts_with = "hex")]
    json: bool,
    /// One record a line, its bytes in hexadecimal; not with sse
    #[arg(long, alias = "raw")]
    hex: bool,
    /// Start behind this record: a position, epoch.seq.author.n.at
    #[arg(long, value_name = "POSITION", value_parser = after)]
    after: Option<Position>,
    /// End after that many records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// End when no record came for that many milliseconds; with --count, that is an error
    #[arg(long, value_name = "MS")]
    wait_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WatchTransport {
    /// WebSocket, and long-polling while sockets do not work
    Auto,
    /// WebSocket only
    Ws,
    /// Long-polling only
    Poll,
    /// Server-sent events
    Sse,
}

fn after(text: &str) -> Result<Position, &'static str> {
    match text.parse::<After>() {
        Ok(After::Position(position)) => Ok(position),
        _ => Err("a position is epoch.seq.author.n.at as the server gave it; leave it out for the start"),
    }
}

/// Why watching ended.
#[derive(Debug)]
enum End {
    /// All is printed, nobody reads any more, or Ctrl-C.
    Quiet,
    /// It cannot go on.
    Failed(CommandError),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Quiet,
            _ => Self::Failed(CommandError(format!("cannot print: {error}"))),
        }
    }
}

pub(super) async fn run(args: WatchArgs) -> Result<(), CommandError> {
    if args.hex && args.transport == WatchTransport::Sse {
        return Err(CommandError::new(
            "server-sent events carry JSON, not a record's bytes: leave --hex out",
        ));
    }
    let format = match (args.json, args.hex) {
        (true, _) => Format::Json,
        (_, true) => Format::Hex,
        _ => Format::Summary,
    };
    let mut printer = Printer::new(format, args.count);
    let wait = args.wait_ms.map(Duration::from_millis);
    let end = tokio::select! {
        end = watch(&args, &mut printer, wait) => end,
        _ = tokio::signal::ctrl_c() => End::Quiet,
    };
    match end {
        End::Quiet => Ok(()),
        End::Failed(error) => Err(error),
    }
}

async fn watch(args: &WatchArgs, printer: &mut Printer, wait: Option<Duration>) -> End {
    let transport = match args.transport {
        WatchTransport::Auto => Transport::Auto,
        WatchTransport::Ws => Transport::WebSocket,
        WatchTransport::Poll => Transport::LongPoll,
        WatchTransport::Sse => return stream::watch(&args.place, args.after, printer, wait).await,
    };
    let mut config = ClientConfig::new(args.place.server.as_str(), args.place.room.clone());
    config.authorities = args.place.ca.clone();
    config.transport = transport;
    config.token = args.place.token.clone();
    config.position = args.after;
    let (client, mut events) = match Client::connect(config) {
        Ok(connected) => connected,
        Err(error) => return End::Failed(CommandError::new(error)),
    };
    let mut quiet = Quiet::new(wait);
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = quiet.over() => {
                client.close().await;
                return printer.at_quiet();
            }
        };
        let printed = match event {
            Some(Event::Records { first, records }) => {
                quiet.reset();
                printer.records(Some(first), &records)
            }
            Some(Event::Reset { position, records, first, .. }) => {
                quiet.reset();
                let begun = if first { printer.reset(position) } else { Ok(()) };
                begun.and_then(|()| printer.records(None, &records))
            }
            Some(Event::Disconnected { why, retry_in }) => {
                tell_disconnected(&why, retry_in);
                Ok(())
            }
            Some(Event::Stopped(stopped)) => Err(End::Failed(CommandError::new(stopped))),
            Some(_) => Ok(()),
            None => Err(End::Failed(CommandError::new("the connection ended"))),
        };
        if let Err(end) = printed {
            client.close().await;
            return end;
        }
    }
}

fn tell_disconnected(why: &str, retry_in: Duration) {
    // Nobody may be looking; that is no reason to stop.
    let _ =
        writeln!(std::io::stderr(), "disconnected: {why}; trying again in {:.1} s", retry_in.as_secs_f64());
}

/// When `--wait-ms` is over.
#[derive(Debug)]
struct Quiet {
    wait: Option<Duration>,
    since: Instant,
}

impl Quiet {
    fn new(wait: Option<Duration>) -> Self {
        Self { wait, since: Instant::now() }
    }

    fn reset(&mut self) {
        self.since = Instant::now();
    }

    async fn over(&self) {
        match self.wait {
            Some(wait) => sleep_until(self.since + wait).await,
            None => std::future::pending().await,
        }
    }
}
