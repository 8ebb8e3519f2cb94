//! How a client is to connect: where, as whom, and how patiently.

use std::path::PathBuf;
use std::time::Duration;

use inkrelay_protocol::{Position, Profile, RoomId};

/// How to reach a room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// WebSocket, and long-polling while sockets do not work.
    #[default]
    Auto,
    /// WebSocket only.
    WebSocket,
    /// Long-polling only.
    LongPoll,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For a socket to open and the welcome to come.
    pub open: Duration,
    /// Nothing received for that long, and a socket is dead. Servers send a heartbeat every 20 s.
    pub silence: Duration,
    /// A socket that ends earlier died young.
    pub young: Duration,
    /// Sockets in a row that were refused or died young before long-polling takes over.
    pub young_deaths: u32,
    /// How long long-polling goes on before a socket is tried again; doubles with every failure, to 16 times.
    pub socket_again: Duration,
    /// The first wait after a connection was lost; doubles with every failure.
    pub backoff_first: Duration,
    /// The longest of these waits.
    pub backoff_max: Duration,
    /// How long the server is asked to hold a poll; whole seconds, at most 55.
    pub poll: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(10),
            silence: Duration::from_secs(45),
            young: Duration::from_secs(5),
            young_deaths: 2,
            socket_again: Duration::from_secs(30),
            backoff_first: Duration::from_millis(250),
            backoff_max: Duration::from_secs(15),
            poll: Duration::from_secs(25),
        }
    }
}

/// Where to connect, and as whom.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The server's address, `http://host:port` or `https://host`, with a path if it stands behind one.
    pub server: String,
    /// PEM file of the authorities that vouch for the server, instead of those that this machine trusts.
    pub authorities: Option<PathBuf>,
    /// The room.
    pub room: RoomId,
    /// WebSocket, long-polling, or whichever works.
    pub transport: Transport,
    /// Name and colour that others see.
    pub profile: Option<Profile>,
    /// Proves a role, where the server wants that.
    pub token: Option<String>,
    /// Resumes the client id of an earlier run: [`crate::Client::ticket`].
    pub ticket: Option<String>,
    /// The last record that the program has; none: from the start.
    pub position: Option<Position>,
    /// How long to wait for what.
    pub timing: Timing,
}

impl ClientConfig {
    /// A new participant who reads from the start.
    pub fn new(server: impl Into<String>, room: RoomId) -> Self {
        Self {
            server: server.into(),
            authorities: None,
            room,
            transport: Transport::Auto,
            profile: None,
            token: None,
            ticket: None,
            position: None,
            timing: Timing::default(),
        }
    }
}
