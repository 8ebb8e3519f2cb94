//! The WebSocket: frames in, and a cursor's records out.
//!
//! One task serves a connection with two halves that do not wait for each other. The reading half takes frames
//! and gives draws to the store; its answers go through a short queue, which holds it up when the client
//! does not read. The writing half sends answers, what is new about the people here, and what the cursor
//! lacks; when it gets its turn, it takes all that is waiting in one write.

mod reading;
mod writing;

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Extension, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use http::{HeaderMap, HeaderValue, header};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::json::{Shape, to_msgpack};
use inkrelay_protocol::{After, ClientFrame, CloseCode, ErrorCode, RoomId, ServerFrame};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite;

use self::reading::Reading;
use self::writing::Outgoing;
use super::encoding::Encoding;
use super::listener::ConnectionCount;
use super::problem::Problem;
use super::request::PeerAddress;
use super::request::{RoomName, Shared};
use crate::hub::ReaderHandle;
use crate::room::Attachment;
use crate::room::feed::Feed;
use crate::session::{Identified, Refused, Relay, in_time};

/// Bytes read at a time. The library's own 128 KiB would cost 134 KiB of memory for each idle connection.
const READ_BUFFER: usize = 4 * 1024;
/// Bytes gathered before they are written.
const WRITE_BUFFER: usize = 4 * 1024;
/// Bytes gathered at most, beyond one message.
const MAX_WRITE_BUFFER: usize = 1024 * 1024;

const MESSAGE_PACK: &str = "v1.msgpack.inkrelay";
const JSON: &str = "v1.json.inkrelay";

/// Answers that wait for the writing half.
const ANSWERS: usize = 64;
/// A client that is told that the connection ends has so long to take the last bytes.
const CLOSE_TIME: Duration = Duration::from_secs(5);

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
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    if relay.is_draining() {
        return Err(Refused::draining().into());
    }
    let upgrade =
        upgrade.map_err(|error| Problem::new(ErrorCode::Malformed, format!("no WebSocket: {error}")))?;
    let mut upgrade = configure(upgrade, relay.config.limits.message_bytes());
    let protocol = subprotocol(&headers);
    if let Some(protocol) = protocol {
        upgrade.set_selected_protocol(HeaderValue::from_static(protocol));
    }
    let encoding = if protocol == Some(JSON) { Encoding::Json } else { Encoding::MessagePack };
    let on_failed = |error| tracing::debug!(%error, "a WebSocket did not come about");
    Ok(upgrade.on_failed_upgrade(on_failed).on_upgrade(move |socket| async move {
        let Some(counted) = count.take() else { return };
        tokio::select! {
            () = serve(relay, room, socket, encoding, address) => {}
            () = counted.cut() => {}
        }
    }))
}

/// The settings of every WebSocket here: small buffers for many idle connections, and messages, whole or in
/// fragments, of so many bytes at most.
pub fn configure(upgrade: WebSocketUpgrade, max_message: usize) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(MAX_WRITE_BUFFER.saturating_add(max_message))
        .max_message_size(max_message)
        .max_frame_size(max_message)
}

/// The first of the subprotocols offered that is spoken here; the client's order is its preference.
fn subprotocol(headers: &HeaderMap) -> Option<&'static str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let names = offered.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    names.map(str::trim).find_map(|name| [MESSAGE_PACK, JSON].into_iter().find(|known| *known == name))
}

async fn serve(relay: Arc<Relay>, room: RoomId, socket: WebSocket, encoding: Encoding, address: IpAddr) {
    let (sink, mut incoming) = socket.split();
    let mut out = Outgoing::new(sink, encoding, relay.config.times.stall_time);
    let end = match hello(&relay, &mut incoming, encoding).await {
        Ok(hello) => match in_time(Session::open(&relay, &room, &hello, address)).await {
            Ok((session, feed, welcome)) => match out.feed(welcome.to_bytes().into()).await {
                Ok(()) => session.run(&mut out, &mut incoming, feed).await,
                Err(end) => end,
            },
            Err(end) => end,
        },
        Err(end) => end,
    };
    // The client may be gone or stuck; after the close time the connection is dropped either way.
    match end {
        End::Close(code, reason) => {
            tracing::debug!(%room, code = code.number(), reason, "closing a WebSocket");
            drop(timeout(CLOSE_TIME, out.close(code, reason, &mut incoming)).await);
        }
        End::Peer => drop(timeout(CLOSE_TIME, out.finish()).await),
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
                Some(tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_)) => {
                    Err(End::malformed("this is no frame of the WebSocket protocol"))
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
        let reading = relay.enter(room).await?.read_by_socket(who.client).ok_or_else(crowded)?;
        let profile = hello.profile.clone().unwrap_or_default();
        let attachment = reading.attach(who.client, profile).ok_or_else(crowded)?;
        let session = Self { relay, reading, who, address, attachment };
        let limits = relay.limits(&session.reading, &session.who).await?;
        let feed =
            Feed::open(&session.reading, After::position(hello.position)).await.map_err(Refused::from)?;
        // The store may have told the feed more than the room has heard of.
        let head = session.reading.head();
        let position = feed.position().filter(|read| read.seq > head.seq).unwrap_or(head);
        let welcome = ServerFrame::Welcome {
            client: session.who.client,
            ticket: session.who.ticket.clone(),
            position,
            role: relay.role(),
            limits,
        };
        Ok((session, feed, welcome))
    }

    async fn run(self, out: &mut Outgoing, incoming: &mut Incoming, feed: Feed) -> End {
        let encoding = out.encoding();
        let (answers, waiting) = mpsc::channel(ANSWERS);
        let took = out.took();
        let mut write = pin!(self.write(out, feed, waiting));
        let read = pin!(Reading::new(&self, answers, took).run(incoming, encoding));
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
}
