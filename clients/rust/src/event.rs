//! What a connection tells the program.

use std::time::Duration;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Participant, Position, Role, Seq, SessionLimits};
use tokio::sync::mpsc;

use crate::config::Transport;
use crate::outbox::DrawId;

/// Why there will be no connection again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// The program closed the client.
    #[error("the client was closed")]
    Closed,
    /// Another connection has the same ticket.
    #[error("another connection with the same ticket took over")]
    Replaced,
    /// The server does not let it in, and trying again would not help.
    #[error("the server refused: {message} ({code})")]
    Refused {
        /// As in [`inkrelay_protocol::ErrorCode`], or the close code.
        code: String,
        /// In plain words.
        message: String,
    },
}

/// What a session was told when it opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Who this client is in the room.
    pub client: ClientId,
    /// What it may do.
    pub role: Role,
    /// What it keeps to.
    pub limits: SessionLimits,
    /// The head of the log at the time.
    pub head: Position,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// There is a connection. What the client lacks follows.
    Connected {
        /// Never [`Transport::Auto`].
        transport: Transport,
        /// What it was told.
        welcome: Welcome,
    },
    /// The next records, each as its bytes: [`inkrelay_protocol::Record::parse`]. Every record comes once, in
    /// order, without gaps, one's own too.
    Records {
        /// The number of the first.
        first: Seq,
        /// At least one.
        records: Vec<Bytes>,
    },
    /// Forget the board; these records draw it as of the position.
    Reset {
        /// Where reading goes on after the last part.
        position: Position,
        /// This part's records.
        records: Vec<Bytes>,
        /// Whether this is the first part: forget the board now.
        first: bool,
        /// Whether it is the last.
        last: bool,
    },
    /// All of this client's draws up to this one are stored, or were refused before.
    Stored {
        /// The newest that is stored.
        through: DrawId,
        /// Where it stands in the log, if the server said.
        seq: Option<Seq>,
    },
    /// A draw was refused and is not tried again.
    Refused {
        /// Which.
        draw: DrawId,
        /// As in [`inkrelay_protocol::ErrorCode`].
        code: String,
        /// In plain words.
        message: String,
    },
    /// The fresh token of [`crate::Client::set_token`] was refused. The old one stays until it is over.
    TokenRefused {
        /// In plain words.
        message: String,
    },
    /// Everyone who is here. WebSocket only.
    Participants(Vec<Participant>),
    /// Where somebody's pen hovers, in sixteenths of a CSS pixel. WebSocket only.
    Pointer {
        /// Whose.
        client: ClientId,
        /// To the right.
        x: i32,
        /// Down.
        y: i32,
    },
    /// The connection is gone and comes back by itself; no draw is lost by that.
    Disconnected {
        /// In plain words.
        why: String,
        /// How long until the next attempt.
        retry_in: Duration,
    },
    /// It is over: the last event.
    Stopped(Stopped),
}

/// Where events come out. Dropping it discards them.
pub type Events = mpsc::Receiver<Event>;
