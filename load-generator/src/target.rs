//! A target: a server under load, and how to speak to it.
//!
//! Scenarios know only these traits, so that every server is put under exactly the same load. A kind of server
//! with another protocol is one more implementation, and one more line in [`Kind`].
//!
//! What all of them carry are draws as [`crate::measure::mark`] makes them: one MessagePack array, valid for
//! Inkrelay, whose last four elements say who sent it, which it is, when it was due, and a checksum. A target that
//! turns draws into JSON on the way hands them back as MessagePack, each value in its shortest form: the check
//! takes either form.

pub mod bare;
mod half;
mod http;
pub mod inkrelay;
pub mod nchan;
pub mod plain;
pub mod socketio;
mod sse;
mod websocket;

use std::time::Duration;

use async_trait::async_trait;
use inkrelay_protocol::Malformed;

use crate::measure::Answers;

pub use crate::measure::checker::Arrived;

/// How long a connection may take to be made.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take before it counts as unknown. A relay answers within 5 s.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// A connection that cannot go on, with the reason in plain words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Broken {
    why: String,
    /// The server sent what no server may send, which breaks a promise too.
    pub is_malformed: bool,
}

impl Broken {
    /// From whatever says why.
    pub fn new(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), is_malformed: false }
    }

    /// Because of what the server sent.
    pub fn malformed(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string(), is_malformed: true }
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}

impl From<Malformed> for Broken {
    fn from(malformed: Malformed) -> Self {
        Self::malformed(malformed)
    }
}

/// What is done with each record, in the order of arrival.
pub type Take<'t> = dyn FnMut(Arrived<'_>) + Send + 't;

/// Someone who draws, over one connection.
#[async_trait]
pub trait Drawer: Send {
    /// Makes sure that there is a connection. Called before each draw counts as sent, so that one that never left
    /// is sent when the server is back, and late.
    ///
    /// # Errors
    /// When there is no connection, or the one there was is gone; the next call connects again.
    async fn ready(&mut self) -> Result<(), Broken>;

    /// Hands one draw over and tells its [`Answers`] what became of it, now or later. `number` is the one in the
    /// draw's mark: a drawer's numbers go up by one.
    ///
    /// A request and its answer: returns with the answer. A stream: returns as soon as the draw is written, so
    /// that the schedule goes on; it waits only while the socket takes nothing.
    ///
    /// A refusal is an answer. Whatever gets none stays unknown.
    ///
    /// # Errors
    /// When the connection is of no use any more, or [`Drawer::ready`] was not called. The draw is unknown then.
    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken>;

    /// Hands several draws over, the first of that number: in one message where the server takes them so, or else
    /// one by one.
    ///
    /// # Errors
    /// As [`Drawer::draw`]. All of them are unknown then that were not answered.
    async fn draw_batch(&mut self, first: u32, draws: &[Vec<u8>]) -> Result<(), Broken> {
        for (number, draw) in (first..).zip(draws) {
            self.draw(number, draw).await?;
        }
        Ok(())
    }

    /// Waits until at most so many draws are unanswered, at most that long.
    async fn settle(&mut self, unanswered_max: usize, within: Duration);
}

/// Someone who reads, over one connection.
#[async_trait]
pub trait Reader: Send {
    /// Waits for what comes next, which may be nothing, and gives each record to `take`. Need not be safe to
    /// drop before it is done: a reader is not used again after that.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken>;

    /// Where to go on from after a lost connection, in the server's own words; `None` for servers that cannot.
    fn place(&self) -> Option<String> {
        None
    }

    /// Bytes received up to now, as far as the target counts them: of records and frames, without TCP and TLS.
    fn bytes(&self) -> u64 {
        0
    }
}

/// A server under load.
#[async_trait]
pub trait Target: Send + Sync {
    /// What it is called in reports, with its transport: `inkrelay ws`.
    fn name(&self) -> String;

    /// Whether a reader that comes late gets what was drawn before it came. Without it no reader can be compared
    /// with the ledger at the end, and readers have to be there before the drawing begins.
    fn keeps_log(&self) -> bool {
        true
    }

    /// Opens a reader, ready for the first record: from `place` on, or from the start of the room (where logs are
    /// kept), or from now on.
    ///
    /// # Errors
    /// When it cannot be opened.
    async fn reader(&self, room: &str, place: Option<&str>) -> Result<Box<dyn Reader>, Broken>;

    /// Opens a drawer. `answers` belongs to it alone.
    ///
    /// # Errors
    /// When it cannot be opened.
    async fn drawer(&self, room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken>;

    /// Opens somebody who reads from the start of a room and draws in it: over one connection where the transport has
    /// one for both, and over two otherwise.
    ///
    /// Over one, the reading half takes the answers too, so that it has to be read for draws to be answered; and
    /// when either half is dropped, the connection ends for both. The drawing half then connects anew with its next
    /// draw, alone, and as somebody new.
    ///
    /// # Errors
    /// When it cannot be opened.
    async fn participant(
        &self,
        room: &str,
        answers: Answers,
    ) -> Result<(Box<dyn Reader>, Box<dyn Drawer>), Broken> {
        Ok((self.reader(room, None).await?, self.drawer(room, answers).await?))
    }
}

/// Over which transport readers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// WebSocket; drawers too.
    Ws,
    /// Long polling; drawers post.
    Poll,
    /// Server-sent events; drawers post.
    Sse,
}

/// Which kind of server it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A relay of this project.
    Inkrelay,
    /// `inkrelay-load bare-loop`: a loop that copies bytes, without any protocol.
    Bare,
    /// The baseline `node-json`: the small API of the baselines, in JSON.
    NodeJson,
    /// The baseline `erlang-binary`: the small API of the baselines, in MessagePack.
    ErlangBinary,
    /// The baseline `socketio`.
    Socketio,
    /// The baseline `nchan`.
    Nchan,
}

/// Makes the target for a server.
///
/// # Errors
/// When the address is none.
pub fn open(kind: Kind, server: &str, transport: Transport) -> Result<Box<dyn Target>, Broken> {
    Ok(match kind {
        Kind::Inkrelay => Box::new(inkrelay::Inkrelay::new(server, transport)?),
        Kind::Bare => Box::new(bare::Bare::new(server)?),
        Kind::NodeJson => Box::new(plain::Plain::new("node-json", server, plain::Encoding::Json)?),
        Kind::ErlangBinary => Box::new(plain::Plain::new("erlang-binary", server, plain::Encoding::Msgpack)?),
        Kind::Socketio => Box::new(socketio::SocketIo::new(server, transport)?),
        Kind::Nchan => Box::new(nchan::Nchan::new(server, transport)?),
    })
}
