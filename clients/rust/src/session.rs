//! A session: what both transports share. It takes frames, moves the outbox and the replica, and queues the
//! events that follow; it never waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use inkrelay_protocol::code::Remedy;
use inkrelay_protocol::frame::{ClientFrame, Hello};
use inkrelay_protocol::{Epoch, ErrorCode, Position, Seq, ServerFrame};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio::time::Instant;

use crate::backoff::{Backoff, random};
use crate::config::{ClientConfig, Transport};
use crate::event::{Event, Stopped, Welcome};
use crate::http::Http;
use crate::outbox::{Next, NumberingLost};
use crate::replica::{OutOfOrder, Replica};
use crate::shared::Shared;

/// How often a pointer is sent at most.
const POINTER_INTERVAL: Duration = Duration::from_millis(33);
/// Waits between attempts at a draw that got no answer, when the server does not say.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(10);

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The program wanted it.
    Closed,
    /// It comes back after a while.
    Lost {
        why: String,
        retry_ms: Option<u64>,
        /// Whether it speaks against WebSockets when a socket ends so soon.
        blame: bool,
    },
    /// It comes back with a new client id; `lost` when the store is known to have lost what is kept.
    NewClient { why: String, lost: bool },
    /// A token is needed, or the one that was shown is wrong or over.
    TokenRefused { why: String },
    /// A ticket or token is wrong or missing; which, a socket does not say.
    Unauthorized { why: String },
    /// It does not come back.
    Stopped(Stopped),
}

impl Ended {
    pub(crate) fn lost(why: impl Into<String>) -> Self {
        Self::Lost { why: why.into(), retry_ms: None, blame: true }
    }

    pub(crate) fn retry(why: impl Into<String>, retry_ms: Option<u64>) -> Self {
        Self::Lost { why: why.into(), retry_ms, blame: false }
    }

    /// By what is done about an error that concerns the whole session.
    pub(crate) fn by_remedy(remedy: Remedy, code: &str, message: &str, retry_ms: Option<u64>) -> Self {
        if code == ErrorCode::InvalidToken.as_str() {
            return Self::TokenRefused { why: message.to_owned() };
        }
        match remedy {
            Remedy::NewSession => Self::NewClient { why: message.to_owned(), lost: false },
            Remedy::GiveUp | Remedy::Drop => {
                Self::Stopped(Stopped::Refused { code: code.to_owned(), message: message.to_owned() })
            }
            Remedy::Retry | Remedy::Renumber | Remedy::Reset => Self::retry(message, retry_ms),
        }
    }
}

impl From<OutOfOrder> for Ended {
    fn from(error: OutOfOrder) -> Self {
        Self::retry(error.to_string(), None)
    }
}

impl From<NumberingLost> for Ended {
    fn from(error: NumberingLost) -> Self {
        Self::NewClient { why: error.to_string(), lost: true }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) http: Http,
    pub(crate) shared: Arc<Shared>,
    pub(crate) events: mpsc::Sender<Event>,
    /// Events that found no room yet. Nothing is read while there are any.
    pub(crate) queued: VecDeque<Event>,
    replica: Replica,
    retry: Backoff,
    pointer_sent: Option<Instant>,
}

impl Session {
    pub(crate) fn new(
        http: Http,
        shared: Arc<Shared>,
        events: mpsc::Sender<Event>,
        config: &ClientConfig,
    ) -> Self {
        Self {
            http,
            shared,
            events,
            queued: VecDeque::new(),
            replica: Replica::new(config.position, false),
            retry: Backoff::new(RETRY_FIRST, RETRY_MAX),
            pointer_sent: None,
        }
    }

    /// The last record that is here.
    pub(crate) fn position(&self) -> Option<Position> {
        self.replica.position()
    }

    /// The first frame of a socket.
    pub(crate) fn hello(&self) -> Vec<u8> {
        let mut extras = self.shared.extras();
        (extras.new_profile, extras.new_token) = (false, false);
        ClientFrame::Hello(Hello {
            ticket: extras.ticket.clone(),
            position: self.replica.position(),
            profile: extras.profile.clone(),
            token: extras.token.clone(),
        })
        .to_bytes()
    }

    /// Frames that are to be sent now, and when to ask again.
    pub(crate) fn frames(&mut self, now: Instant) -> (Vec<Vec<u8>>, Option<Instant>) {
        let mut frames = Vec::new();
        let mut again = None;
        {
            let mut outbox = self.shared.outbox();
            loop {
                match outbox.next(now.into_std()) {
                    Next::Batch(batch) => frames.push(batch.frame()),
                    Next::Wait(at) => break again = Some(Instant::from_std(at)),
                    Next::Idle => break,
                }
            }
        }
        let mut extras = self.shared.extras();
        if std::mem::take(&mut extras.new_token) {
            frames.extend(extras.token.clone().map(|token| ClientFrame::Token(token).to_bytes()));
        }
        if std::mem::take(&mut extras.new_profile) {
            frames.extend(extras.profile.clone().map(|profile| ClientFrame::Profile(profile).to_bytes()));
        }
        if let Some((x, y)) = extras.pointer {
            let due = self.pointer_sent.map_or(now, |at| at + POINTER_INTERVAL);
            if due <= now {
                extras.pointer = None;
                self.pointer_sent = Some(now);
                frames.push(ClientFrame::Pointer { x, y }.to_bytes());
            } else {
                again = Some(again.map_or(due, |at| at.min(due)));
            }
        }
        (frames, again)
    }

    /// Hands the first queued event over; without a permit nobody listens any more.
    pub(crate) fn deliver(&mut self, permit: Result<mpsc::Permit<'_, Event>, SendError<()>>) {
        match (permit, self.queued.pop_front()) {
            (Ok(permit), Some(event)) => permit.send(event),
            _ => self.queued.clear(),
        }
    }

    /// Takes one frame, whose bytes lie in `raw`.
    pub(crate) fn on_frame(
        &mut self,
        frame: ServerFrame<'_>,
        raw: &Bytes,
        now: Instant,
    ) -> Result<(), Ended> {
        let share = |records: Vec<&[u8]>| records.into_iter().map(|record| raw.slice_ref(record)).collect();
        match frame {
            ServerFrame::Welcome { client, ticket, position, role, limits } => {
                let welcome = Welcome { client, role, limits, head: position };
                self.on_welcome(Transport::WebSocket, welcome, ticket, now)?;
            }
            ServerFrame::Records { seq, records } => self.on_records(seq, share(records))?,
            ServerFrame::Ack { n, seq } => self.on_ack(n, Some(seq), now),
            ServerFrame::Reset { position, records, more } => {
                self.on_reset(position, share(records), more)?
            }
            ServerFrame::Participants(participants) => {
                self.queued.push_back(Event::Participants(participants));
            }
            ServerFrame::Pointer { client, x, y } => {
                self.queued.push_back(Event::Pointer { client, x, y });
            }
            ServerFrame::Heartbeat(head) => {
                if self.replica.on_heartbeat(head.seq) {
                    return Err(Ended::retry("the server has records that do not arrive", None));
                }
            }
            ServerFrame::Error { code, message, retry_ms, n } => {
                self.on_error(&code, &message, retry_ms, n, now)?;
            }
            ServerFrame::GoAway { reason, retry_ms } => {
                return Err(Ended::retry(format!("the server is going away: {reason}"), Some(retry_ms)));
            }
            // What it means for a draw is told by an error.
            ServerFrame::Lock(_) | ServerFrame::Unknown(_) => {}
        }
        Ok(())
    }

    /// A session is open.
    pub(crate) fn on_welcome(
        &mut self,
        transport: Transport,
        welcome: Welcome,
        ticket: String,
        now: Instant,
    ) -> Result<(), Ended> {
        self.shared.extras().ticket = Some(ticket);
        self.replica.on_connected(welcome.head.epoch);
        self.queued.push_back(Event::Connected { transport, welcome });
        let refused = self.shared.outbox().on_welcome(welcome.limits, now.into_std())?;
        for (draw, too_large) in refused {
            let code = ErrorCode::TooLarge.as_str().to_owned();
            self.queued.push_back(Event::Refused { draw, code, message: too_large.to_string() });
        }
        self.tell_status();
        Ok(())
    }

    /// The connection is gone.
    pub(crate) fn on_disconnected(&mut self) {
        self.shared.outbox().on_disconnected();
    }

    /// The next records, as a poll tells them.
    pub(crate) fn on_polled(&mut self, epoch: Epoch, first: Seq, records: Vec<Bytes>) -> Result<(), Ended> {
        self.replica.on_connected(epoch);
        self.on_records(first, records)
    }

    /// The next records.
    pub(crate) fn on_records(&mut self, first: Seq, mut records: Vec<Bytes>) -> Result<(), Ended> {
        let repeats = self.replica.on_records(first, &records)?;
        records.drain(..repeats);
        if !records.is_empty() {
            self.queued.push_back(Event::Records { first: first.plus(repeats), records });
        }
        Ok(())
    }

    /// One part of a reset.
    pub(crate) fn on_reset(
        &mut self,
        position: Position,
        records: Vec<Bytes>,
        more: bool,
    ) -> Result<(), Ended> {
        let part = self.replica.on_reset(position, &records, more)?;
        self.queued.push_back(Event::Reset { position, records, first: part.first, last: part.last });
        if part.new_epoch {
            // The store may have lost what it acked, also where no welcome comes to say so.
            self.shared.outbox().offer_kept();
            self.tell_status();
        }
        Ok(())
    }

    /// All draws up to `n` are stored.
    pub(crate) fn on_ack(&mut self, n: u64, seq: Option<Seq>, now: Instant) {
        self.retry.reset();
        if let Some(through) = self.shared.outbox().on_ack(n, now.into_std()) {
            self.queued.push_back(Event::Stored { through, seq });
        }
        self.tell_status();
    }

    /// Something was refused or got no answer.
    pub(crate) fn on_error(
        &mut self,
        code: &str,
        message: &str,
        retry_ms: Option<u64>,
        n: Option<u64>,
        now: Instant,
    ) -> Result<(), Ended> {
        if code == ErrorCode::InvalidToken.as_str() && n.is_none() {
            // The old one stays until it is over.
            self.queued.push_back(Event::TokenRefused { message: message.to_owned() });
            return Ok(());
        }
        // A later server's code that comes with a retry time is one to try again.
        let unknown = if retry_ms.is_some() { Remedy::Retry } else { Remedy::Drop };
        let remedy = ErrorCode::from_wire(code).map_or(unknown, ErrorCode::remedy);
        match (remedy, n) {
            (Remedy::Renumber, Some(expected)) => self.shared.outbox().on_gap(expected, now.into_std())?,
            (Remedy::Retry, Some(n)) => {
                let wait = self.retry_after(retry_ms);
                self.shared.outbox().on_retry(n, (now + wait).into_std());
            }
            (Remedy::Drop | Remedy::GiveUp, Some(n)) => {
                if let Some(draw) = self.shared.outbox().on_refused(n) {
                    let (code, message) = (code.to_owned(), message.to_owned());
                    self.queued.push_back(Event::Refused { draw, code, message });
                }
                self.tell_status();
            }
            // Of a pointer or profile that came too fast: the next one will do.
            (Remedy::Retry | Remedy::Drop, None) => tracing::debug!(code, message, "not taken"),
            (remedy, _) => return Err(Ended::by_remedy(remedy, code, message, retry_ms)),
        }
        Ok(())
    }

    /// How long to wait before the same is tried again.
    pub(crate) fn retry_after(&mut self, retry_ms: Option<u64>) -> Duration {
        match retry_ms {
            Some(retry_ms) => Backoff::asked(retry_ms, random()),
            None => self.retry.next(random()),
        }
    }

    /// From now on with a new client id.
    pub(crate) fn on_new_client(&mut self, lost: bool) {
        self.shared.outbox().on_new_client(lost);
        self.shared.extras().ticket = None;
    }

    fn tell_status(&self) {
        let settled = self.shared.outbox().settled();
        self.shared.status.send_modify(|status| status.settled = settled);
    }
}
