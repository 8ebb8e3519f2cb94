//! The WebSocket: frames in, and a cursor's records out.
//!
//! One task serves a connection with two halves that do not wait for each other. The reading half takes frames
//! and gives draws to the store; its answers go through a short queue, which holds it up when the client
//! does not read. The writing half sends answers, what is new about the people here, and what the cursor
//! lacks; when it gets its turn, it takes all that is waiting in one write.

use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesOrdered, SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use inkrelay_protocol::frame::{Hello, write_records};
use inkrelay_protocol::json::{Shape, to_msgpack};
use inkrelay_protocol::{
    After, ClientFrame, ClientId, CloseCode, ErrorCode, Position, RoomId, Seq, ServerFrame, msgpack,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite;

use super::MESSAGE;
use super::encoding::Encoding;
use super::http::{RoomName, Shared};
use super::listener::{ConnectionCount, PeerAddress};
use super::problem::Problem;
use crate::hub::ReaderHandle;
use crate::room::feed::{Fed, Feed};
use crate::room::{Attachment, NotStored, Room};
use crate::session::{Identified, Refused, Relay, spread_retry};
use crate::store::Stored;

/// Sizes of a connection's buffers, in bytes. The library's own would cost 134 KiB for each idle connection.
pub struct Buffers {
    /// Read at a time.
    pub read: usize,
    /// Gathered before it is written.
    pub write: usize,
    /// Gathered at most, beyond one message.
    pub max_write: usize,
}

/// See [`Buffers`].
pub const WEBSOCKET_BUFFERS: Buffers = Buffers { read: 4 * 1024, write: 4 * 1024, max_write: 1024 * 1024 };

const MESSAGE_PACK: &str = "v1.msgpack.inkrelay";
const JSON: &str = "v1.json.inkrelay";

/// Batches of one connection that wait for the store; then its frames are no longer read.
const IN_FLIGHT: usize = 64;
/// Answers that wait for the writing half.
const ANSWERS: usize = 64;
/// A client that is told that the connection ends has so long to take the last bytes.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// A store that did not answer a reader is asked again after this time.
const STORE_RETRY: Duration = Duration::from_millis(500);

type Incoming = SplitStream<WebSocket>;

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client closed it, or is gone.
    Peer,
    /// It is closed with that code.
    Close(CloseCode, String),
}

impl End {
    fn close(code: CloseCode, reason: impl Into<String>) -> Self {
        Self::Close(code, reason.into())
    }

    fn malformed(reason: impl Into<String>) -> Self {
        Self::close(CloseCode::Malformed, reason)
    }
}

impl From<Refused> for End {
    /// For what is refused before there is a session.
    fn from(refused: Refused) -> Self {
        let code = match refused.code {
            ErrorCode::InvalidTicket | ErrorCode::InvalidToken => CloseCode::Unauthorized,
            ErrorCode::Draining => CloseCode::GoingAway,
            ErrorCode::Malformed => CloseCode::Malformed,
            ErrorCode::Forbidden | ErrorCode::OriginRefused => CloseCode::Refused,
            _ => CloseCode::TryAgainLater,
        };
        Self::close(code, refused.message)
    }
}

/// Takes a request over to the WebSocket protocol.
pub async fn upgrade(
    State(relay): Shared,
    RoomName(room): RoomName,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    Extension(count): Extension<ConnectionCount>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    if relay.is_draining() {
        return Err(Refused::draining().into());
    }
    let upgrade =
        upgrade.map_err(|error| Problem::new(ErrorCode::Malformed, format!("no WebSocket: {error}")))?;
    let max_message = relay.config.limits.message_bytes();
    let upgrade = upgrade
        .read_buffer_size(WEBSOCKET_BUFFERS.read)
        .write_buffer_size(WEBSOCKET_BUFFERS.write)
        .max_write_buffer_size(WEBSOCKET_BUFFERS.max_write.saturating_add(max_message))
        .max_message_size(max_message)
        .max_frame_size(max_message)
        .protocols([MESSAGE_PACK, JSON]);
    let is_json = upgrade.selected_protocol().is_some_and(|protocol| protocol == JSON);
    let encoding = if is_json { Encoding::Json } else { Encoding::MessagePack };
    let on_failed = |error| tracing::debug!(%error, "a WebSocket did not come about");
    Ok(upgrade.on_failed_upgrade(on_failed).on_upgrade(move |socket| async move {
        let _counted = count.take();
        serve(relay, room, socket, encoding, address).await;
    }))
}

async fn serve(relay: Arc<Relay>, room: RoomId, socket: WebSocket, encoding: Encoding, address: IpAddr) {
    let (sink, mut incoming) = socket.split();
    let stall = relay.config.times.stall_time;
    let mut out = Outgoing { sink, encoding, stall, sent_at: Instant::now() };
    let end = match hello(&relay, &mut incoming, encoding).await {
        Ok(hello) => match Session::open(&relay, &room, &hello, address).await {
            Ok((session, feed, welcome)) => match out.feed(welcome.to_bytes().into()).await {
                Ok(()) => session.run(&mut out, &mut incoming, feed).await,
                Err(end) => end,
            },
            Err(end) => end,
        },
        Err(end) => end,
    };
    if let End::Close(code, reason) = end {
        tracing::debug!(%room, code = code.number(), reason, "closing a WebSocket");
        // The client may be gone or stuck; after the close time the connection is dropped either way.
        drop(timeout(CLOSE_TIME, out.close(code, reason, &mut incoming)).await);
    }
}

/// Waits for the first frame, which is a hello.
async fn hello(relay: &Relay, incoming: &mut Incoming, encoding: Encoding) -> Result<Hello, End> {
    let mut draining = relay.draining();
    let first = async {
        loop {
            if let Some(bytes) = frame_bytes(incoming.next().await, encoding)? {
                return Ok::<_, End>(bytes);
            }
        }
    };
    let bytes = tokio::select! {
        first = timeout(relay.config.times.first_frame_time, first) => {
            first.map_err(|_| End::close(CloseCode::TooSlow, "no hello came in time"))??
        }
        () = draining.begun() => return Err(Refused::draining().into()),
    };
    match ClientFrame::decode(&bytes) {
        Ok(ClientFrame::Hello(hello)) => Ok(hello),
        Ok(_) => Err(End::malformed("the first frame is a hello")),
        Err(error) => Err(End::malformed(error.to_string())),
    }
}

/// The MessagePack of a message, whatever it came in; `None` for what is no frame.
fn frame_bytes(
    message: Option<Result<Message, axum::Error>>,
    encoding: Encoding,
) -> Result<Option<Bytes>, End> {
    match (message, encoding) {
        (Some(Ok(Message::Binary(bytes))), Encoding::MessagePack) => Ok(Some(bytes)),
        (Some(Ok(Message::Text(text))), Encoding::Json) => to_msgpack(text.as_bytes(), Shape::ClientFrame)
            .map(|bytes| Some(bytes.into()))
            .map_err(|error| End::malformed(format!("no JSON that is taken: {error}"))),
        (Some(Ok(Message::Binary(_))), Encoding::Json) => {
            Err(End::malformed("this subprotocol takes text messages"))
        }
        (Some(Ok(Message::Text(_))), Encoding::MessagePack) => {
            Err(End::malformed("this subprotocol takes binary messages"))
        }
        (Some(Ok(Message::Ping(_) | Message::Pong(_))), _) => Ok(None),
        (Some(Ok(Message::Close(_))) | None, _) => Err(End::Peer),
        (Some(Err(error)), _) => {
            let error = error.into_inner();
            match error.downcast_ref::<tungstenite::Error>() {
                Some(tungstenite::Error::Capacity(_)) => {
                    Err(End::close(CloseCode::TooLarge, "the message is larger than the limit in welcome"))
                }
                _ => Err(End::Peer),
            }
        }
    }
}

/// One participant's session over a WebSocket.
struct Session<'r> {
    relay: &'r Relay,
    reading: ReaderHandle,
    who: Identified,
    address: IpAddr,
    attachment: Attachment,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.reading.detach(self.who.client, &self.attachment);
    }
}

impl<'r> Session<'r> {
    /// Opens a session and welcomes the client.
    async fn open(
        relay: &'r Relay,
        room: &RoomId,
        hello: &Hello,
        address: IpAddr,
    ) -> Result<(Self, Feed, ServerFrame<'static>), End> {
        let who = relay.identify(room, hello.ticket.as_deref())?;
        let crowded = || End::close(CloseCode::TryAgainLater, "the room has as many participants as it may");
        let reading = relay.enter(room).await?.read().ok_or_else(crowded)?;
        let profile = hello.profile.clone().unwrap_or_default();
        let attachment = reading.attach(who.client, profile).ok_or_else(crowded)?;
        let session = Self { relay, reading, who, address, attachment };
        let limits = relay.limits(&session.reading, &session.who).await?;
        let feed =
            Feed::open(&session.reading, After::position(hello.position)).await.map_err(Refused::from)?;
        let welcome = ServerFrame::Welcome {
            client: session.who.client,
            ticket: session.who.ticket.clone(),
            position: session.reading.head(),
            role: relay.role(),
            limits,
        };
        Ok((session, feed, welcome))
    }

    async fn run(self, out: &mut Outgoing, incoming: &mut Incoming, feed: Feed) -> End {
        let encoding = out.encoding;
        let (answers, waiting) = mpsc::channel(ANSWERS);
        let mut write = pin!(self.write(out, feed, waiting));
        let read = pin!(Reading::new(&self, answers).run(incoming, encoding));
        tokio::select! {
            end = read => {
                // What was answered is still sent: the go away, and the error before a close.
                if !matches!(end, End::Peer) {
                    drop(timeout(CLOSE_TIME, write).await);
                }
                end
            }
            end = write.as_mut() => end,
            () = self.attachment.replaced() => {
                End::close(CloseCode::Replaced, "a newer connection has the same ticket")
            }
        }
    }

    /// The writing half: ends when no more answers can come, or the client does not take what it is sent.
    async fn write(&self, out: &mut Outgoing, feed: Feed, answers: mpsc::Receiver<Bytes>) -> End {
        match self.write_all(out, feed, answers).await {
            Ok(()) => End::Peer,
            Err(end) => end,
        }
    }

    async fn write_all(
        &self,
        out: &mut Outgoing,
        mut feed: Feed,
        mut answers: mpsc::Receiver<Bytes>,
    ) -> Result<(), End> {
        let room: &Arc<Room> = &self.reading;
        let times = &self.relay.config.times;
        let mut changes = room.changes();
        let mut people = SeenPeople::default();
        let mut ping_at = Instant::now() + times.idle_time / 2;
        loop {
            // Marked as seen before it is looked at: a change meanwhile wakes again.
            changes.borrow_and_update();
            while let Ok(answer) = answers.try_recv() {
                out.feed(answer).await?;
            }
            people.feed(room, self.who.client, out).await?;
            if Instant::now() >= ping_at {
                out.ping().await?;
                ping_at = Instant::now() + times.idle_time / 2;
            }
            let mut wake_at = ping_at;
            match feed.next(room, MESSAGE).await {
                Ok(Fed::Records { first, records, .. }) => {
                    out.feed(records_frame(first, &records)).await?;
                    continue;
                }
                Ok(Fed::Reset { until, records, more }) => {
                    let records = records.iter().map(|record| &record[..]).collect();
                    out.feed(ServerFrame::Reset { position: until, records, more }.to_bytes().into()).await?;
                    continue;
                }
                Ok(Fed::UpToDate) => {}
                Err(error) => {
                    tracing::warn!(room = %room.id(), %error, "a reader waits for the store");
                    wake_at = wake_at.min(Instant::now() + STORE_RETRY);
                }
            }
            if out.sent_at.elapsed() >= times.heartbeat {
                out.feed(ServerFrame::Heartbeat(room.head()).to_bytes().into()).await?;
            }
            out.flush().await?;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                answer = answers.recv() => match answer {
                    Some(answer) => out.feed(answer).await?,
                    None => return Ok(()),
                },
                () = sleep_until(wake_at.min(out.sent_at + times.heartbeat)) => {}
            }
        }
    }
}

fn records_frame(first: Seq, records: &[Bytes]) -> Bytes {
    let mut frame = Vec::with_capacity(16 + records.iter().map(Bytes::len).sum::<usize>());
    msgpack::write_array(&mut frame, 3);
    msgpack::write_uint(&mut frame, 66);
    msgpack::write_uint(&mut frame, first.get());
    write_records(&mut frame, records);
    frame.into()
}

/// What of presence a reader was told.
#[derive(Default)]
struct SeenPeople {
    list: Option<u64>,
    moves: u64,
}

impl SeenPeople {
    async fn feed(&mut self, room: &Room, own: ClientId, out: &mut Outgoing) -> Result<(), End> {
        if self.list.is_none_or(|seen| room.shown_participants() > seen) {
            let (version, frame) = room.participants_frame();
            self.list = Some(version);
            out.feed(frame).await?;
        }
        if room.shown_moves() > self.moves {
            let (moves, pointers) = room.pointers_since(self.moves);
            self.moves = moves;
            for (client, x, y) in pointers.into_iter().filter(|(client, ..)| *client != own) {
                out.feed(ServerFrame::Pointer { client, x, y }.to_bytes().into()).await?;
            }
        }
        Ok(())
    }
}

/// The reading half.
struct Reading<'s> {
    session: &'s Session<'s>,
    answers: mpsc::Sender<Bytes>,
    /// The first number of a refused batch: what has higher numbers was on its way, and is dropped.
    refused: Option<u64>,
    /// How many refusals there were. A batch that was given to the store before the newest one may find a gap
    /// that is no fault of the client's.
    refusals: u64,
}

/// A batch that was given to the store, and what came of it.
struct Answered {
    n: u64,
    /// How many refusals there were when it was given.
    refusals: u64,
    result: Result<(Stored, Position), NotStored>,
}

type InFlight = FuturesOrdered<BoxFuture<'static, Answered>>;

impl<'s> Reading<'s> {
    const fn new(session: &'s Session<'s>, answers: mpsc::Sender<Bytes>) -> Self {
        Self { session, answers, refused: None, refusals: 0 }
    }

    async fn run(mut self, incoming: &mut Incoming, encoding: Encoding) -> End {
        match self.read_all(incoming, encoding).await {
            Ok(()) => End::close(CloseCode::GoingAway, "the server is going away"),
            Err(end) => end,
        }
    }

    /// Reads until the connection ends, or the server drains and what was begun is answered.
    async fn read_all(&mut self, incoming: &mut Incoming, encoding: Encoding) -> Result<(), End> {
        let idle_time = self.session.relay.config.times.idle_time;
        let mut draining = self.session.relay.draining();
        let mut in_flight = InFlight::new();
        let mut idle = pin!(sleep(idle_time));
        loop {
            let has_room = in_flight.len() < IN_FLIGHT;
            tokio::select! {
                biased;
                Some(answered) = in_flight.next(), if !in_flight.is_empty() => self.answer(answered).await?,
                () = draining.begun() => {
                    while let Some(answered) = in_flight.next().await {
                        self.answer(answered).await?;
                    }
                    let retry_ms = u64::try_from(spread_retry().as_millis()).unwrap_or(u64::MAX);
                    let reason = "the server is going away: come back in a moment".to_owned();
                    return self.send(&ServerFrame::GoAway { reason, retry_ms }).await;
                }
                message = incoming.next(), if has_room => {
                    idle.as_mut().reset(Instant::now() + idle_time);
                    if let Some(bytes) = frame_bytes(message, encoding)? {
                        self.take(&bytes, &mut in_flight).await?;
                    }
                }
                () = idle.as_mut(), if has_room => {
                    return Err(End::close(CloseCode::TooSlow, "there was no sign of life"));
                }
            }
        }
    }

    /// Takes one frame.
    async fn take(&mut self, bytes: &[u8], in_flight: &mut InFlight) -> Result<(), End> {
        let (room, client) = (&self.session.reading, self.session.who.client);
        match ClientFrame::decode(bytes).map_err(|error| End::malformed(error.to_string()))? {
            ClientFrame::Hello(_) => return Err(End::malformed("a hello comes once")),
            ClientFrame::Draws { n, draws } => return self.take_draws(n, draws, in_flight).await,
            ClientFrame::Pointer { x, y } => room.point(client, x, y),
            ClientFrame::Profile(profile) => room.rename(client, profile),
            // Roles do not come from tokens yet, so that a fresh one changes nothing.
            ClientFrame::Token(_) | ClientFrame::Unknown(_) => {}
        }
        Ok(())
    }

    async fn take_draws(&mut self, n: u64, draws: &[u8], in_flight: &mut InFlight) -> Result<(), End> {
        if self.refused.is_some_and(|refused| n > refused) {
            return Ok(());
        }
        self.refused = None;
        let Session { relay, reading, who, address, .. } = self.session;
        let checked = relay.check_rate(who.client, *address);
        match checked.and_then(|()| relay.submit(reading, who.client, n, draws)) {
            Ok(submitted) => {
                let refusals = self.refusals;
                in_flight.push_back(Box::pin(async move {
                    Answered { n, refusals, result: submitted.answer().await }
                }));
                Ok(())
            }
            Err(refused) if refused.code == ErrorCode::Malformed => Err(End::malformed(refused.message)),
            Err(refused) => {
                // Nothing of the batch is kept, so that it is its first draw which is to come again.
                let first_refused = n + refused.index.unwrap_or(0) as u64;
                self.refuse(refused, first_refused).await
            }
        }
    }

    async fn answer(&mut self, answered: Answered) -> Result<(), End> {
        let Answered { n, refusals, result } = answered;
        match result {
            Ok((stored, _)) => self.send(&ServerFrame::Ack { n: stored.last_n, seq: stored.last_seq }).await,
            Err(NotStored::Gap(_)) if refusals < self.refusals => Ok(()),
            Err(NotStored::Gap(gap)) => {
                let refused = Refused::from(NotStored::Gap(gap));
                let reason = refused.message.to_string();
                self.refuse(refused, gap.expected).await?;
                Err(End::close(CloseCode::OutOfStep, reason))
            }
            Err(why) => self.refuse(why.into(), n).await,
        }
    }

    /// Tells that a batch is refused, or that its fate is unknown. From then on batches with numbers above the
    /// one named are dropped until it comes again.
    async fn refuse(&mut self, refused: Refused, named: u64) -> Result<(), End> {
        self.refused = Some(self.refused.map_or(named, |earlier| earlier.min(named)));
        self.refusals += 1;
        let retry_ms = refused.retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX));
        let code = refused.code.as_str().to_owned();
        let message = refused.message.into_owned();
        self.send(&ServerFrame::Error { code, message, retry_ms, n: Some(named) }).await
    }

    /// Waits while the writing half is held up by a client that does not read.
    async fn send(&self, frame: &ServerFrame<'_>) -> Result<(), End> {
        self.answers.send(frame.to_bytes().into()).await.map_err(|_| End::Peer)
    }
}

/// The way out, in the client's encoding.
struct Outgoing {
    sink: SplitSink<WebSocket, Message>,
    encoding: Encoding,
    /// How long a client may take nothing.
    stall: Duration,
    /// When something was last sent, for the heartbeat.
    sent_at: Instant,
}

impl Outgoing {
    /// Gathers a frame; what is gathered goes out at the next flush at the latest.
    async fn feed(&mut self, frame: Bytes) -> Result<(), End> {
        self.sent_at = Instant::now();
        let encoded = self.encoding.encode(frame);
        let message = match self.encoding {
            Encoding::MessagePack => Message::Binary(encoded),
            Encoding::Json => Message::Text(Utf8Bytes::try_from(encoded).map_err(|_| End::Peer)?),
        };
        stalled(self.stall, self.sink.feed(message)).await
    }

    async fn flush(&mut self) -> Result<(), End> {
        stalled(self.stall, self.sink.flush()).await
    }

    async fn ping(&mut self) -> Result<(), End> {
        stalled(self.stall, self.sink.feed(Message::Ping(Bytes::new()))).await
    }

    /// Closes, and waits until the client has closed too.
    async fn close(&mut self, code: CloseCode, reason: String, incoming: &mut Incoming) {
        // RFC 6455, section 5.5: a control frame holds 125 bytes, two of which are the code.
        let end = reason.floor_char_boundary(123);
        let frame = CloseFrame { code: code.number(), reason: reason[..end].into() };
        if self.sink.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = incoming.next().await {}
        }
    }
}

async fn stalled(within: Duration, write: impl Future<Output = Result<(), axum::Error>>) -> Result<(), End> {
    match timeout(within, write).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Peer),
        Err(_) => Err(End::close(CloseCode::TooSlow, "what is sent is not taken")),
    }
}
