//! A session: one participant's attachment to a room, whatever its transport.
//!
//! What all transports do alike is here: tickets, the door for draws, rates, and what is answered to a batch.

pub mod moderation;
pub mod rates;
pub mod sockets;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use inkrelay_protocol::draw::{BatchError, Drawer, Refusal, check_batch};
use inkrelay_protocol::limits::{DrawLimits, SAFE_INTEGER_MAX};
use inkrelay_protocol::msgpack::Reader;
use inkrelay_protocol::{ClientId, ErrorCode, Identity, Record, Role, RoomId, SessionLimits};
use tokio::sync::watch;

use crate::access::{Grant, NotTaken, Origins, Tickets, Tokens};
use crate::clock;
use crate::config::Config;
use crate::hub::{Hub, NoEntry, RoomHandle};
use crate::live::Live;
use crate::random;
use crate::room::{ANSWER_TIME, Ending, NotChanged, NotStored, Room};
use crate::store::{Batch, StoreError};
use rates::Rates;
use sockets::{OpenSocket, Sockets};

/// After which a client that came too early tries again.
const RETRY: Duration = Duration::from_secs(1);

/// What every connection of this server shares.
pub struct Relay {
    /// The live rooms.
    pub hub: Arc<Hub>,
    config: Live<Arc<Config>>,
    origins: Live<Arc<Origins>>,
    tickets: Tickets,
    tokens: Option<Arc<Tokens>>,
    rates: Live<Arc<Rates>>,
    sockets: Arc<Sockets>,
    draining: watch::Receiver<bool>,
    is_leaving: AtomicBool,
    last_at: AtomicU64,
    erasures: moderation::Erasures,
}

/// Why something was refused, for whoever asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The stable code.
    pub code: ErrorCode,
    /// In plain words.
    pub message: Cow<'static, str>,
    /// When to try again.
    pub retry: Option<Duration>,
    /// The place in its batch of the draw that is refused, from 0.
    pub index: Option<usize>,
    /// For a gap: the number expected.
    pub expected: Option<u64>,
}

impl Refused {
    /// With a code and a reason, and when to try again where that helps.
    pub fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        let retry = (code.remedy() == inkrelay_protocol::code::Remedy::Retry).then_some(RETRY);
        Self { code, message: message.into(), retry, index: None, expected: None }
    }

    /// Bytes that cannot be read.
    pub fn malformed(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::Malformed, message)
    }
}

impl From<NoEntry> for Refused {
    fn from(why: NoEntry) -> Self {
        match why {
            NoEntry::TooManyRooms => Self::new(ErrorCode::TooManyRooms, "as many rooms are live as may be"),
            NoEntry::Draining => Self::draining(),
            NoEntry::Store(error) => error.into(),
        }
    }
}

impl From<NotTaken> for Refused {
    fn from(why: NotTaken) -> Self {
        Self::new(ErrorCode::InvalidToken, why.0)
    }
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        // What exactly is wrong with the store is for the log, not for the public.
        tracing::warn!(%error, "the store did not do what it was asked");
        match error {
            StoreError::Unavailable(_) => Self::new(ErrorCode::StoreUnavailable, "the store gives no answer"),
            StoreError::Full(_) => Self::new(ErrorCode::StoreFull, "the store has no space left"),
        }
    }
}

impl From<BatchError> for Refused {
    fn from(error: BatchError) -> Self {
        let (code, index, message) = match error {
            BatchError::Malformed(error) => (ErrorCode::Malformed, None, error.to_string()),
            BatchError::TooMany { .. } => (ErrorCode::TooLarge, Some(0), error.to_string()),
            // Which draw it is, the index or the n beside the message tells.
            BatchError::Draw { index, refusal } => {
                let code = match refusal {
                    Refusal::Invalid(_) => ErrorCode::InvalidDraw,
                    Refusal::TooLarge { .. } => ErrorCode::TooLarge,
                    Refusal::Forbidden(_) => ErrorCode::Forbidden,
                };
                (code, Some(index), refusal.to_string())
            }
        };
        Self { index, ..Self::new(code, message) }
    }
}

impl From<NotStored> for Refused {
    fn from(why: NotStored) -> Self {
        match why {
            NotStored::Gap(gap) => Self {
                expected: Some(gap.expected),
                ..Self::new(ErrorCode::Gap, format!("n leaves a gap: {} is expected", gap.expected))
            },
            NotStored::Locked { stored } => Self {
                index: Some(stored),
                ..Self::new(ErrorCode::RoomLocked, "the room is locked: only moderators draw")
            },
            NotStored::RoomFull => Self::new(ErrorCode::RoomFull, "the room holds as many bytes as it may"),
            NotStored::StoreFull => Self::new(ErrorCode::StoreFull, "the store has no space left"),
            NotStored::Overloaded => Self::new(ErrorCode::RateLimited, "more waits for the store than may"),
            NotStored::Unknown => {
                Self::new(ErrorCode::StoreUnavailable, "the store gives no answer: send the same again")
            }
        }
    }
}

impl From<Ending> for Refused {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Kicked => Self::new(ErrorCode::Kicked, "a moderator ended your session"),
            Ending::Banned => Self::new(ErrorCode::Banned, "moderators keep you out of this room"),
            Ending::Closed => Self {
                retry: Some(spread_retry()),
                ..Self::new(ErrorCode::Draining, "the room was closed for a moment: come back soon")
            },
        }
    }
}

impl From<NotChanged> for Refused {
    fn from(why: NotChanged) -> Self {
        match why {
            NotChanged::TooManyBans(why) => Self::new(ErrorCode::TooLarge, why.to_string()),
            NotChanged::Store(error) => error.into(),
        }
    }
}

impl Refused {
    /// As many are in the room as may be.
    pub fn crowded() -> Self {
        Self::new(ErrorCode::RoomCrowded, "the room has as many participants as it may")
    }

    /// The token has expired or was revoked.
    pub fn token_ended() -> Self {
        Self::new(ErrorCode::InvalidToken, "the token is over: a fresh one is needed")
    }

    /// The fresh token is not made out to whom the session is.
    pub fn another_subject() -> Self {
        Self::new(ErrorCode::InvalidToken, "the fresh token is made out to somebody else")
    }

    /// The server is going away.
    pub fn draining() -> Self {
        Self { retry: Some(spread_retry()), ..Self::new(ErrorCode::Draining, "the server is going away") }
    }
}

/// Holds whatever asks the store, once or several times, to the time within which everything is answered.
///
/// # Errors
/// What it was refused for, or that the store gave no answer in time.
pub async fn in_time<T, E: From<Refused>>(asked: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let no_answer = |_| Err(Refused::from(StoreError::Unavailable("no answer in time".to_owned())).into());
    tokio::time::timeout(ANSWER_TIME, asked).await.unwrap_or_else(no_answer)
}

/// When a client that is sent away comes back: spread, so that not all come at once.
pub fn spread_retry() -> Duration {
    Duration::from_millis(200 + random::u64() % 2800)
}

/// A client, as its ticket says.
pub struct Identified {
    /// Who.
    pub client: ClientId,
    /// The ticket that resumes it.
    pub ticket: String,
    /// Whether it was given out before.
    pub is_resumed: bool,
}

/// Waits until the server is told to stop.
pub struct Draining(watch::Receiver<bool>);

impl Draining {
    /// Ready from then on.
    pub async fn begun(&mut self) {
        // The sender lives as long as the server; without it there is nothing left to serve.
        drop(self.0.wait_for(|is_draining| *is_draining).await);
    }

    /// Whether it was told already.
    pub fn has_begun(&self) -> bool {
        *self.0.borrow()
    }
}

impl Relay {
    /// Over a hub, with the secret that signs tickets, and what checks tokens where they are asked for.
    pub fn new(
        config: Config,
        hub: Arc<Hub>,
        secret: &[u8],
        tokens: Option<Arc<Tokens>>,
        draining: watch::Receiver<bool>,
    ) -> Self {
        Self {
            hub,
            origins: Live::new(Arc::new(Origins::new(config.allow_origin.clone()))),
            tickets: Tickets::new(secret),
            tokens,
            rates: Live::new(Arc::new(Rates::new(&config.limits))),
            sockets: Arc::default(),
            config: Live::new(Arc::new(config)),
            draining,
            is_leaving: AtomicBool::new(false),
            last_at: AtomicU64::new(0),
            erasures: moderation::Erasures::default(),
        }
    }

    /// The settings, with `--unlimited` carried out. A reload replaces them: ask again for what begins anew.
    pub fn config(&self) -> Arc<Config> {
        self.config.get()
    }

    /// Whose pages may connect.
    pub fn origins(&self) -> Arc<Origins> {
        self.origins.get()
    }

    /// Goes on with other settings. Only those that can change while the relay runs are to differ, and `--unlimited`
    /// is to be carried out.
    pub fn reload(&self, config: Config) {
        self.origins.set(Arc::new(Origins::new(config.allow_origin.clone())));
        // A new rate begins with nothing counted; the same goes on with what is.
        if rates::numbers(&config.limits) != rates::numbers(&self.config().limits) {
            self.rates.set(Arc::new(Rates::new(&config.limits)));
        }
        self.config.set(Arc::new(config));
    }

    /// For waiting until the server is told to stop.
    pub fn draining(&self) -> Draining {
        Draining(self.draining.clone())
    }

    /// Whether the server was told to stop.
    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Has load balancers send nobody here any more. Whoever comes is still served, until the server drains.
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Whether the server was told to stop, also when it does not drain yet.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Forgets the rates of those who have not come for a while.
    pub fn forget_old_rates(&self) {
        self.rates.get().forget_old();
    }

    /// Admits whoever carries that token to a room. Every call that reads or writes a room begins here.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidToken`] when a token is needed, or the one given is wrong, expired or of another room.
    pub fn admit(&self, room: &RoomId, token: Option<&str>) -> Result<Grant, Refused> {
        let Some(tokens) = &self.tokens else { return Ok(Grant::open(self.config().role)) };
        let token = token.ok_or(NotTaken("a token is needed to come in here"))?;
        Ok(tokens.check(room, token, SystemTime::now())?)
    }

    /// Whether a grant that was given before still holds.
    ///
    /// # Errors
    /// [`ErrorCode::InvalidToken`] when it is over.
    pub fn still_admits(&self, grant: &Grant) -> Result<(), Refused> {
        if grant.has_ended() { Err(Refused::token_ended()) } else { Ok(()) }
    }

    /// Who presents that ticket, or a new client when none is presented.
    ///
    /// # Errors
    /// A ticket that is not of this room, subject and server never becomes a new id in silence.
    pub fn identify(
        &self,
        room: &RoomId,
        grant: &Grant,
        ticket: Option<&str>,
    ) -> Result<Identified, Refused> {
        let subject = grant.subject.as_deref();
        let Some(ticket) = ticket else {
            let (client, ticket) = self.tickets.issue(room, subject);
            return Ok(Identified { client, ticket, is_resumed: false });
        };
        match self.tickets.verify(room, subject, ticket) {
            Some(client) => Ok(Identified { client, ticket: ticket.to_owned(), is_resumed: true }),
            None => Err(Refused::new(ErrorCode::InvalidTicket, "the ticket is not of this room and server")),
        }
    }

    /// Enters a room.
    ///
    /// # Errors
    /// Why it cannot be entered.
    pub async fn enter(&self, room: &RoomId) -> Result<RoomHandle, Refused> {
        let entered = tokio::time::timeout(ANSWER_TIME, self.hub.enter(room)).await;
        Ok(entered.map_err(|_| StoreError::Unavailable("no answer in time".to_owned()))??)
    }

    /// A room to look into or to change, live or not, though as many rooms are live as may be: see [`Hub::visit`].
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn visit(&self, room: &RoomId) -> Result<RoomHandle, Refused> {
        in_time(async { self.hub.visit(room).await.map_err(Refused::from) }).await
    }

    /// Deletes a room with all that was drawn in it, for ever. Its readers, here and on the other servers of the store,
    /// are reset to an empty board within 5 s. Whoever draws then begins another log, numbered from 1. Returns whether
    /// there was anything to delete.
    ///
    /// # Errors
    /// When the store does not answer: then it may be gone or not, and can be asked again.
    pub async fn delete_room(&self, room: &RoomId) -> Result<bool, Refused> {
        in_time(async { self.hub.delete(room).await.map_err(Refused::from) }).await
    }

    /// What a session is told to keep to.
    ///
    /// # Errors
    /// When the store does not say how far the client's numbering went.
    pub async fn limits(&self, room: &Room, who: &Identified) -> Result<SessionLimits, Refused> {
        let config = self.config();
        let limits = &config.limits;
        let last_n = if who.is_resumed { room.last_n(who.client).await? } else { 0 };
        Ok(SessionLimits {
            bytes_per_draw: limits.max_draw,
            draws_per_batch: limits.max_batch as u64,
            bytes_per_message: limits.max_message,
            batches_per_second: limits.max_rate.into(),
            last_n,
        })
    }

    /// Counts one batch against the rate of its author, and of whoever its token is made out to, over all transports.
    ///
    /// # Errors
    /// When it comes too fast, with the time after which it would not.
    pub fn check_rate(&self, author: ClientId, grant: &Grant, address: IpAddr) -> Result<(), Refused> {
        self.rates.get().batch(author, grant.subject.as_ref(), address)
    }

    /// Counts a session that somebody opens.
    ///
    /// # Errors
    /// When the address, or whoever the token is made out to, opens them too fast.
    pub fn check_opening(&self, grant: &Grant, address: IpAddr) -> Result<(), Refused> {
        self.rates.get().session(address, grant.subject.as_ref())
    }

    /// Counts what somebody keeps open for as long as what is returned lives; nothing for tokens without a subject.
    ///
    /// # Errors
    /// When whoever the token is made out to has as much open as it may.
    pub fn open_socket(&self, grant: &Grant) -> Result<Option<OpenSocket>, Refused> {
        let max = self.config().limits.max_subject_sockets;
        grant.subject.as_ref().map(|subject| self.sockets.open(subject, max)).transpose()
    }

    /// Counts a room that would come to life for an address.
    ///
    /// # Errors
    /// When it brings rooms to life too fast.
    pub fn check_room(&self, room: &RoomId, address: IpAddr) -> Result<(), Refused> {
        if self.hub.is_live(room) { Ok(()) } else { self.rates.get().room(address) }
    }

    /// What an address is told that was refused: after a few times without a valid token, to wait.
    pub fn refuse(&self, address: IpAddr, refused: Refused) -> Refused {
        if refused.code != ErrorCode::InvalidToken {
            return refused;
        }
        self.rates.get().stranger(address).err().unwrap_or(refused)
    }

    /// Checks `[draw, …]`, which somebody of that role sent, and makes the batch that the store is given. The draws'
    /// bytes are copied here, once, and never re-encoded. `n` numbers the first; anonymous draws get numbers of their
    /// own.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing of the batch is kept then.
    pub fn stamp(&self, role: Role, author: ClientId, n: u64, draws: &[u8]) -> Result<Batch, Refused> {
        let limits: DrawLimits = self.config().limits.draws();
        self.hub.metrics().received_bytes.add(draws.len() as u64);
        // Looked at first: a refusal names a number of the batch, which has to be one.
        let count = Reader::new(draws).array().map_or(0, u64::from);
        if n - 1 > SAFE_INTEGER_MAX - count {
            return Err(Refused::malformed("the numbers of the batch pass 2^53 - 1"));
        }
        let draws = check_batch(draws, &limits, Drawer { client: author, role })?;
        Ok(self.records(author, n, &draws))
    }

    /// The batch of draws that passed the door, or are the server's own.
    fn records(&self, author: ClientId, n: u64, draws: &[&[u8]]) -> Batch {
        let at = self.now();
        let bytes: usize = draws.iter().map(|draw| draw.len() + Record::OVERHEAD_BYTES).sum();
        let mut encoded = Vec::with_capacity(bytes);
        let mut ends = Vec::with_capacity(draws.len());
        for (index, draw) in draws.iter().enumerate() {
            let n = if author.is_anonymous() { anonymous_n() } else { n + index as u64 };
            Record { identity: Identity { author, n, at }, draw }.encode(&mut encoded);
            ends.push(encoded.len());
        }
        let mut encoded = Bytes::from(encoded);
        let mut start = 0;
        let split = |end: usize| encoded.split_to(end - std::mem::replace(&mut start, end));
        let records = ends.into_iter().map(split).collect();
        Batch { author, first_n: n, records }
    }

    /// Milliseconds since 1970; never less than it was, also when the clock is set back.
    fn now(&self) -> u64 {
        let now = clock::unix_ms().min(SAFE_INTEGER_MAX);
        self.last_at.fetch_max(now, Ordering::Relaxed).max(now)
    }
}

/// 53 random bits: unique in a room without asking anyone, but for one case in 180 million in a room of ten thousand.
fn anonymous_n() -> u64 {
    (random::u64() & SAFE_INTEGER_MAX).max(1)
}
