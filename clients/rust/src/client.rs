//! The client: what a program draws with.

use std::sync::Arc;

use bytes::Bytes;
use inkrelay_protocol::draw::{Drawer, Refusal, check_draw};
use inkrelay_protocol::limits::{COORDINATE_MAX, DrawLimits};
use inkrelay_protocol::{ClientId, Draw, Profile, Role};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::connection;
use crate::http::{Endpoint, Http, InvalidServer};
use crate::outbox::{DrawId, Outbox, PushError};
use crate::session::Session;
use crate::shared::{Extras, Shared};

pub use crate::config::{ClientConfig, Timing, Transport};
pub use crate::event::{Event, Events, Stopped, Welcome};

/// Events that wait for the program at most. When it takes none, the connection stops reading, and the server
/// lets it fall behind. One event holds the records of one message.
pub const EVENTS_MAX: usize = 64;
/// Batches on a WebSocket that may wait for their acks at once.
const BATCHES_IN_FLIGHT: usize = 4;

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
    /// When the address cannot be a server's, or nobody can vouch for a server. A server that does not answer is no error:
    /// [`Event::Disconnected`] tells of it, and the next attempt follows.
    pub fn connect(config: ClientConfig) -> Result<(Self, Events), ConfigError> {
        let endpoint = Endpoint::new(&config.server, config.room.clone(), config.authorities.as_deref())?;
        let http = Http::new(endpoint).map_err(|error| ConfigError::Http(error.to_string()))?;
        let extras = Extras {
            profile: config.profile.clone(),
            token: config.token.clone(),
            ticket: config.ticket.clone(),
            ..Extras::default()
        };
        let shared = Arc::new(Shared::new(Outbox::new(BATCHES_IN_FLIGHT), extras));
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

    /// A fresh token before the old one expires: of the same room and subject. [`Event::TokenRefused`] tells when it is not
    /// taken. When the old one is over and no fresh one is there, the client stops with `invalid_token`; its ticket and
    /// position then open another, with another token.
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
