//! The client: what a program draws with, and the events by which it learns what others drew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use inkrelay_protocol::draw::{Drawer, Refusal, check_draw};
use inkrelay_protocol::limits::{COORDINATE_MAX, DrawLimits};
use inkrelay_protocol::{ClientId, Draw, Participant, Position, Profile, Role, RoomId, Seq, SessionLimits};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::connection;
use crate::http::{Endpoint, Http, InvalidServer};
use crate::outbox::{DrawId, Outbox, PushError};
use crate::session::Session;

/// Events that wait for the program at most. When it takes none, the connection stops reading, and the server
/// lets it fall behind. One event holds the records of one message.
pub const EVENTS_MAX: usize = 64;
/// Batches on a WebSocket that may wait for their acks at once.
const BATCHES_IN_FLIGHT: usize = 4;

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
    /// The server's address, `http://host:port`, with a path if it stands behind one.
    pub server: String,
    /// The room.
    pub room: RoomId,
    /// WebSocket, long-polling, or whichever works.
    pub transport: Transport,
    /// Name and colour that others see.
    pub profile: Option<Profile>,
    /// Proves a role, where the server wants that.
    pub token: Option<String>,
    /// Resumes the client id of an earlier run: [`Client::ticket`].
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
        /// `None` when a long poll goes on with a ticket: it is told nothing new.
        welcome: Option<Welcome>,
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

/// Why a client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The address is no server's.
    #[error(transparent)]
    Server(#[from] InvalidServer),
    /// The system has no HTTP to offer.
    #[error("HTTP cannot be used: {0}")]
    Http(String),
}

/// Why a draw was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    /// The server would refuse it.
    #[error(transparent)]
    Invalid(#[from] Refusal),
    /// It does not fit.
    #[error(transparent)]
    Push(#[from] PushError),
    /// There is no connection any more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// What the program's side sees of the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) settled: DrawId,
    pub(crate) stopped: Option<Stopped>,
}

/// What is sent beside draws: the newest of each is all that counts.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) pointer: Option<(i32, i32)>,
    pub(crate) new_profile: bool,
    pub(crate) profile: Option<Profile>,
    pub(crate) new_token: bool,
    pub(crate) token: Option<String>,
    pub(crate) ticket: Option<String>,
}

/// What the program and its connection share, behind short locks.
#[derive(Debug)]
pub(crate) struct Shared {
    outbox: Mutex<Outbox>,
    extras: Mutex<Extras>,
    /// There is something to send. One task waits on it.
    pub(crate) wake: Notify,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) closing: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the program closes the client.
    pub(crate) async fn closed(&self) {
        // The sender lives in `self`, so the wait ends only by what it waits for.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }

    pub(crate) fn extras(&self) -> MutexGuard<'_, Extras> {
        self.extras.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One participant in one room.
///
/// Dropping it closes the connection, with whatever is not stored yet: [`Client::flush`] first.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    task: Option<JoinHandle<()>>,
}

impl Client {
    /// Starts connecting, and goes on for as long as the client lives. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be a server's. A server that does not answer is no error:
    /// [`Event::Disconnected`] tells of it, and the next attempt follows.
    pub fn connect(config: ClientConfig) -> Result<(Self, Events), ConfigError> {
        let endpoint = Endpoint::new(&config.server, config.room.clone())?;
        let http = Http::new(endpoint).map_err(|error| ConfigError::Http(error.to_string()))?;
        let extras = Extras {
            profile: config.profile.clone(),
            token: config.token.clone(),
            ticket: config.ticket.clone(),
            ..Extras::default()
        };
        let outbox = match &config.ticket {
            Some(_) => Outbox::resuming(BATCHES_IN_FLIGHT),
            None => Outbox::new(BATCHES_IN_FLIGHT),
        };
        let shared = Arc::new(Shared {
            outbox: Mutex::new(outbox),
            extras: Mutex::new(extras),
            wake: Notify::new(),
            status: watch::Sender::default(),
            closing: watch::Sender::default(),
        });
        let (sender, events) = mpsc::channel(EVENTS_MAX);
        let session = Session::new(http, shared.clone(), sender, &config);
        let task = tokio::spawn(connection::run(session, config.transport, config.timing));
        Ok((Self { shared, task: Some(task) }, events))
    }

    /// Sends a draw. It is numbered, sent, sent again as often as needed, and stored once.
    ///
    /// # Errors
    /// When it breaks a rule or a limit, when too much waits already, or when the client has stopped.
    pub fn draw(&self, draw: &Draw) -> Result<DrawId, DrawError> {
        self.draw_bytes(draw.to_bytes().into())
    }

    /// As [`Client::draw`], of a draw that is encoded already.
    ///
    /// # Errors
    /// As [`Client::draw`].
    pub fn draw_bytes(&self, draw: Bytes) -> Result<DrawId, DrawError> {
        if let Some(stopped) = &self.shared.status.borrow().stopped {
            return Err(stopped.clone().into());
        }
        // Sizes, and whose records it revokes, are judged elsewhere: here no malformed batch may leave.
        let anyone = Drawer { client: ClientId::new(1).expect("1 is an id"), role: Role::Moderator };
        check_draw(&draw, &DrawLimits { bytes_per_draw: 0, draws_per_batch: 0 }, anyone)?;
        let id = self.shared.outbox().push(draw)?;
        self.shared.wake.notify_one();
        Ok(id)
    }

    /// As [`Client::draw`], but waits while the outbox is full.
    ///
    /// # Errors
    /// As [`Client::draw`], [`PushError::Full`] excepted.
    pub async fn draw_when_room(&self, draw: &Draw) -> Result<DrawId, DrawError> {
        let bytes = Bytes::from(draw.to_bytes());
        let mut status = self.shared.status.subscribe();
        loop {
            status.borrow_and_update();
            match self.draw_bytes(bytes.clone()) {
                Err(DrawError::Push(PushError::Full { .. })) => {
                    // The sender lives in `shared`, so a change is the only way on.
                    let _ = status.changed().await;
                }
                result => return result,
            }
        }
    }

    /// Waits until every draw up to now is stored or was refused.
    ///
    /// # Errors
    /// When the client has stopped before.
    pub async fn flush(&self) -> Result<(), Stopped> {
        let newest = self.shared.outbox().newest();
        let mut status = self.shared.status.subscribe();
        let done = status.wait_for(|status| status.settled >= newest || status.stopped.is_some()).await;
        let status = done.map_err(|_| Stopped::Closed)?;
        match &status.stopped {
            Some(stopped) if status.settled < newest => Err(stopped.clone()),
            _ => Ok(()),
        }
    }

    /// Draws that the store is not known to have.
    pub fn pending(&self) -> usize {
        self.shared.outbox().pending()
    }

    /// Where the pen hovers, in sixteenths of a CSS pixel; brought into range. The newest is all that counts,
    /// and it may be dropped.
    pub fn pointer(&self, x: i32, y: i32) {
        let in_range = |value: i32| value.clamp(-(COORDINATE_MAX as i32), COORDINATE_MAX as i32);
        self.shared.extras().pointer = Some((in_range(x), in_range(y)));
        self.shared.wake.notify_one();
    }

    /// A new name or colour.
    pub fn set_profile(&self, profile: Profile) {
        {
            let mut extras = self.shared.extras();
            extras.profile = Some(profile);
            extras.new_profile = true;
        }
        self.shared.wake.notify_one();
    }

    /// A fresh token before the old one expires.
    pub fn set_token(&self, token: String) {
        {
            let mut extras = self.shared.extras();
            extras.token = Some(token);
            extras.new_token = true;
        }
        self.shared.wake.notify_one();
    }

    /// What resumes this client id in a later run, on any server of the same secret. `None` before the first
    /// welcome.
    pub fn ticket(&self) -> Option<String> {
        self.shared.extras().ticket.clone()
    }

    /// Says goodbye and waits until that is done. What is not stored yet is dropped: [`Client::flush`] first.
    pub async fn close(mut self) {
        self.shared.closing.send_replace(true);
        if let Some(task) = self.task.take() {
            // The task ends by itself; if it panicked, there is nothing left to close.
            let _ = task.await;
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.closing.send_replace(true);
    }
}
