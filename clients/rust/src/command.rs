//! The commands of the command line that are clients: `draw`, `watch`, `board`, `moderate` and `health`.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use inkrelay_protocol::RoomId;

use crate::client::Transport;
use crate::http::{Endpoint, Http, HttpError};

mod board;
mod draw;
mod health;
mod moderate;
mod watch;

/// A command that talks to a server.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Play recorded ink into a room, as a live pen would
    Draw(draw::DrawArgs),
    /// Print what arrives in a room
    Watch(watch::WatchArgs),
    /// Draw a room's board into a picture
    Board(board::BoardArgs),
    /// Ask whether a server is ready: ends with 0 if it is, and with 1 otherwise
    Health(health::HealthArgs),
    /// Lock a room, kick, ban, erase or clear, as a moderator
    Moderate(moderate::ModerateArgs),
}

/// Runs a command to its end.
///
/// # Errors
/// In plain words, what kept it from its work. A pipe that nobody reads any more and Ctrl-C are no errors.
pub async fn run(command: Command) -> Result<(), CommandError> {
    match command {
        Command::Draw(mut args) => {
            args.place.token = args.place.token()?;
            draw::run(args).await
        }
        Command::Watch(mut args) => {
            args.place.token = args.place.token()?;
            watch::run(args).await
        }
        Command::Board(mut args) => {
            args.place.token = args.place.token()?;
            board::run(args).await
        }
        Command::Moderate(mut args) => {
            args.place.token = args.place.token()?;
            moderate::run(args).await
        }
        Command::Health(args) => health::run(args).await,
    }
}

/// Why a command failed, for whoever typed it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CommandError(String);

impl CommandError {
    fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// Where to go.
#[derive(Debug, Args)]
struct Place {
    /// The room's name
    room: RoomId,
    /// The server's address
    // Global, as the rest: also behind what `moderate` is to do.
    #[arg(
        long,
        env = "INKRELAY_SERVER",
        default_value = "http://127.0.0.1:8080",
        value_name = "URL",
        global = true
    )]
    server: String,
    /// PEM file of the authority that vouches for the server, instead of those that this machine trusts
    #[arg(long, env = "INKRELAY_CA", value_name = "FILE", global = true)]
    ca: Option<PathBuf>,
    /// A room token, where the server wants one
    #[arg(long, env = "INKRELAY_TOKEN", hide_env_values = true, value_name = "TOKEN", global = true)]
    token: Option<String>,
    /// The file that the room token stands in: other users of the machine can read what stands in a command
    #[arg(long, value_name = "FILE", conflicts_with = "token", global = true)]
    token_file: Option<PathBuf>,
}

impl Place {
    fn http(&self) -> Result<Http, CommandError> {
        let endpoint = Endpoint::new(&self.server, self.room.clone(), self.ca.as_deref());
        let endpoint = endpoint.map_err(CommandError::new)?;
        Http::new(endpoint).map_err(CommandError::new)
    }

    /// The token, wherever it stands.
    fn token(&self) -> Result<Option<String>, CommandError> {
        let Some(file) = &self.token_file else { return Ok(self.token.clone()) };
        let text = std::fs::read_to_string(file)
            .map_err(|error| CommandError(format!("{}: {error}", file.display())))?;
        Ok(Some(text.trim().to_owned()))
    }

    fn authorize(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// What a failed request means to whoever typed the command.
    fn explain(&self, error: &HttpError) -> CommandError {
        match error {
            HttpError::NoAnswer(why) => CommandError(format!("cannot reach {}: {why}", self.server)),
            HttpError::Problem(problem) if !problem.code.is_empty() => {
                CommandError(format!("{} refused: {} ({})", self.server, problem.message, problem.code))
            }
            error => CommandError(format!("{}: {error}", self.server)),
        }
    }
}

/// `--transport` of the commands that can only draw and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum TransportArg {
    /// WebSocket, and long-polling while sockets do not work
    Auto,
    /// WebSocket only
    Ws,
    /// Long-polling only
    Poll,
}

impl From<TransportArg> for Transport {
    fn from(arg: TransportArg) -> Self {
        match arg {
            TransportArg::Auto => Self::Auto,
            TransportArg::Ws => Self::WebSocket,
            TransportArg::Poll => Self::LongPoll,
        }
    }
}

/// `1 stroke`, `2 strokes`.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
