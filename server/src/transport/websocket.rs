//! The WebSocket: frames in, and a cursor's records out.
//!
//! One task serves a connection with two halves that do not wait for each other. The reading half takes frames, and
//! gives draws to the room, which answers them. The writing half tells what is new about the people here, and what the
//! cursor lacks, until it has a seat in one of the room's rows: from then on the row hands over records as they come.
//! All of them write to one outlet.

mod answers;
mod cipher;
mod echo;
mod outlet;
mod reading;
mod wire;
mod writing;

use std::borrow::Cow;
use std::fmt::Display;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Request, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, HeaderValue, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use inkrelay_protocol::frame::{Hello, write_records};
use inkrelay_protocol::json::{Shape, to_msgpack};
use inkrelay_protocol::{After, ClientFrame, CloseCode, ErrorCode, RoomId, Seq, ServerFrame, msgpack};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};

use self::answers::error_frame;
use self::cipher::Cipher;
pub use self::echo::echo;
use self::outlet::Outlet;
use self::reading::Reading;
use self::wire::Wire;
use self::writing::Outgoing;
use super::encoding::Encoding;
use super::listener::ConnectionCount;
use super::problem::Problem;
use super::request::{Admitted, Door, PeerAddress, Shared};
use super::stream::Stream;
use super::trace::RequestId;
use crate::access::Grant;
use crate::hub::ReaderHandle;
use crate::metrics::{Caller, InSession, Transport};
use crate::room::feed::Feed;
use crate::room::{Attachment, Stay};
use crate::session::sockets::OpenSocket;
use crate::session::{Identified, Refused, Relay, in_time};

/// Bytes read at a time, and held by each connection. The library's own 128 KiB would be so for each idle one.
const READ_BUFFER: usize = 2 * 1024;

/// Bytes of the library's own frames, pongs, that wait for a client which takes nothing.
const PONGS: usize = 4 * 1024;

const MESSAGE_PACK: &str = "v1.msgpack.inkrelay";
const JSON: &str = "v1.json.inkrelay";
/// Before a token that is offered as a subprotocol.
const TOKEN: &str = "token.";

/// A client that is told that the connection ends has so long to take the last bytes.
const CLOSE_TIME: Duration = Duration::from_secs(5);

type Incoming = WebSocketStream<Wire>;

/// Who is at the other end of a connection.
#[derive(Debug)]
struct Peer {
    address: IpAddr,
    room: RoomId,
    /// Of the request that opened it.
    id: Option<RequestId>,
}

impl Peer {
    /// For what is refused.
    fn caller(&self) -> Caller<'_> {
        let request = self.id.as_ref().map(|id| id as &dyn Display);
        Caller { room: Some(&self.room), request, ..Caller::at(self.address) }
    }
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client closed it.
    Left,
    /// The client is gone, without a close.
    Vanished,
    /// It is closed with that code. Where that is since something was refused, an error has said so already.
    Close(CloseCode, String),
    /// It is closed for what is refused.
    Refused(Refused),
}

impl End {
    fn close(code: CloseCode, reason: impl Into<String>) -> Self {
        Self::Close(code, reason.into())
    }

    fn malformed(reason: impl Into<Cow<'static, str>>) -> Self {
        Refused::malformed(reason).into()
    }
}

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// The close code that tells of a refusal.
const fn close_code(code: ErrorCode) -> CloseCode {
    match code {
        ErrorCode::InvalidTicket | ErrorCode::InvalidToken => CloseCode::Unauthorized,
        ErrorCode::Draining => CloseCode::GoingAway,
        ErrorCode::Malformed => CloseCode::Malformed,
        ErrorCode::TooLarge => CloseCode::TooLarge,
        ErrorCode::TooSlow => CloseCode::TooSlow,
        ErrorCode::Kicked | ErrorCode::Banned | ErrorCode::Forbidden | ErrorCode::OriginRefused => {
            CloseCode::Refused
        }
        _ => CloseCode::TryAgainLater,
    }
}

/// Takes a request over to the WebSocket protocol.
pub async fn upgrade(
    State(relay): Shared,
    door: Door,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    Extension(count): Extension<ConnectionCount>,
    request: Request,
) -> Result<Response, Problem> {
    if relay.is_draining() {
        return Err(Refused::draining().into());
    }
    if !count.move_to(address, relay.config().limits.max_connections) {
        let detail = "this address has as many connections as it may";
        return Err(Problem::new(ErrorCode::TooManyConnections, detail));
    }
    let protocol = subprotocol(request.headers());
    let id = request.extensions().get::<RequestId>().cloned();
    let peer = Arc::new(Peer { address, room: door.room().clone(), id });
    let door = door.with_token(token_protocol(request.headers()));
    let encoding = if protocol == Some(JSON) { Encoding::Json } else { Encoding::MessagePack };
    let (mut response, upgraded) = handshake(request)?;
    if let Some(protocol) = protocol {
        response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    }
    tokio::spawn(async move {
        let (mut incoming, outlet) = match upgraded.await {
            Ok(upgraded) => {
                match open(upgraded, encoding, config(relay.config().limits.message_bytes(), PONGS)).await {
                    Some(open) => open,
                    None => {
                        return tracing::error!(
                            "a WebSocket is over another kind of connection than any here"
                        );
                    }
                }
            }
            Err(error) => return tracing::debug!(%error, "a WebSocket did not come about"),
        };
        let Some(counted) = count.take() else { return };
        tokio::select! {
            () = serve(relay, door, &mut incoming, outlet, peer) => {}
            () = counted.cut() => {}
        }
    });
    Ok(response)
}

/// Answers the opening handshake (RFC 6455, section 4.2).
fn handshake(mut request: Request) -> Result<(Response, hyper::upgrade::OnUpgrade), Problem> {
    let upgraded = hyper::upgrade::on(&mut request);
    let response = create_response_with_body(&request.map(drop), Body::empty)
        .map_err(|error| Problem::new(ErrorCode::Malformed, format!("no WebSocket: {error}")))?;
    Ok((response, upgraded))
}

/// Takes over a connection that was upgraded.
async fn open(
    upgraded: Upgraded,
    encoding: Encoding,
    config: WebSocketConfig,
) -> Option<(Incoming, Arc<Outlet>)> {
    let parts = upgraded.downcast::<TokioIo<Stream>>().ok()?;
    let (stream, session, farewells) = parts.io.into_inner().into_parts();
    let cipher = session.map(|session| Box::new(Cipher::new(session)));
    let (read, write) = stream.into_split();
    let outlet = Arc::new(Outlet::new(write, cipher, encoding));
    let wire = Wire::new(read, Arc::clone(&outlet), farewells);
    // A client that speaks before it has the answer may have said something already.
    let early = parts.read_buf.to_vec();
    Some((WebSocketStream::from_partially_read(wire, early, Role::Server, Some(config)).await, outlet))
}

/// The settings of every WebSocket here: small buffers for many idle connections, messages, whole or in fragments, of
/// so many bytes at most, and so many bytes of what the library sends.
fn config(max_message: usize, max_own: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        // The outlet takes everything at once, unless the client takes nothing; then pongs wait here, and few of them.
        .write_buffer_size(0)
        .max_write_buffer_size(max_own)
        .max_message_size(Some(max_message))
        .max_frame_size(Some(max_message))
}

/// The first of the subprotocols offered that is spoken here; the client's order is its preference.
fn subprotocol(headers: &HeaderMap) -> Option<&'static str> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let names = offered.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    names.map(str::trim).find_map(|name| [MESSAGE_PACK, JSON].into_iter().find(|known| *known == name))
}

/// The token that is offered as a subprotocol, for pages, which can set no header. It is never chosen, so that it is not
/// said again.
fn token_protocol(headers: &HeaderMap) -> Option<String> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let mut names = offered.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    names.find_map(|name| name.trim().strip_prefix(TOKEN)).map(str::to_owned)
}

async fn serve(relay: Arc<Relay>, door: Door, incoming: &mut Incoming, outlet: Arc<Outlet>, peer: Arc<Peer>) {
    let (room, request) = (peer.room.as_str(), peer.id.as_ref().map(tracing::field::display));
    let out = Outgoing::new(outlet, relay.config().times.stall_time);
    let metrics = relay.hub.metrics();
    // Boxed: what opening needs for a moment would be held by every idle connection.
    let end = match Box::pin(Session::open(&relay, door, incoming, &out, &peer)).await {
        Ok((session, feed)) => {
            let end = session.run(&out, incoming, feed).await;
            if let End::Close(CloseCode::TooSlow, reason) = &end {
                metrics.slow_readers_closed.inc();
                tracing::info!(
                    room,
                    request,
                    reason,
                    waiting_bytes = out.outlet().waiting(),
                    "closing a slow reader"
                );
            }
            end
        }
        Err(end) => end,
    };
    let (code, reason) = match end {
        End::Close(code, reason) => (code, reason),
        End::Refused(refused) => {
            let code = refused.code;
            metrics.refuse(code, peer.caller());
            let reason = refused.message.to_string();
            if matches!(code, ErrorCode::Kicked | ErrorCode::Banned) {
                // Which of the two, the close code does not say. The close that follows sends it, and has a time of its own.
                out.add(&error_frame(refused, None));
            }
            (close_code(code), reason)
        }
        End::Left | End::Vanished => {
            let is_closed = matches!(end, End::Left);
            if is_closed { &metrics.left } else { &metrics.vanished }.inc();
            tracing::debug!(room, request, is_closed, "a client left its WebSocket");
            return drop(timeout(CLOSE_TIME, out.finish(incoming)).await);
        }
    };
    metrics.close(code);
    tracing::debug!(room, request, code = code.number(), reason, "closing a WebSocket");
    // The client may be gone or stuck; after the close time the connection is dropped either way.
    drop(timeout(CLOSE_TIME, out.close(code, &reason, incoming)).await);
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
        first = timeout(relay.config().times.first_frame_time, first) => {
            first.map_err(|_| Refused::new(ErrorCode::TooSlow, "no hello came in time"))??
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
    message: Option<Result<Message, tungstenite::Error>>,
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
        (Some(Ok(Message::Close(_))), _) => Err(End::Left),
        (None, _) => Err(End::Vanished),
        (Some(Ok(Message::Frame(_))), _) => Ok(None),
        (Some(Err(error)), _) => Err(match error {
            tungstenite::Error::Capacity(_) => {
                let message = "the message is larger than the limit in welcome";
                Refused::new(ErrorCode::TooLarge, message).into()
            }
            // No fault of the client's: a tablet out of reach, or a tab that was killed.
            tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => End::Vanished,
            tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_) => {
                End::malformed("this is no frame of the WebSocket protocol")
            }
            _ => End::Vanished,
        }),
    }
}

/// The frame of records.
fn records_frame(first: Seq, records: &[Bytes]) -> Bytes {
    let mut frame = Vec::with_capacity(16 + records.iter().map(Bytes::len).sum::<usize>());
    msgpack::write_array(&mut frame, 3);
    msgpack::write_uint(&mut frame, 66);
    msgpack::write_uint(&mut frame, first.get());
    write_records(&mut frame, records);
    frame.into()
}

/// One participant's session over a WebSocket.
struct Session<'r> {
    relay: &'r Relay,
    reading: ReaderHandle,
    /// What it was admitted with.
    grant: Grant,
    who: Identified,
    peer: &'r Arc<Peer>,
    stay: Stay,
    attachment: Attachment,
    _counted: InSession,
    _socket: Option<OpenSocket>,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.reading.detach(self.who.client, &self.attachment);
    }
}

impl<'r> Session<'r> {
    /// Opens a session for the client that says hello, and welcomes it.
    async fn open(
        relay: &'r Relay,
        door: Door,
        incoming: &mut Incoming,
        out: &Outgoing,
        peer: &'r Arc<Peer>,
    ) -> Result<(Box<Self>, Feed), End> {
        let hello = hello(relay, incoming, out.encoding()).await?;
        let (session, feed, welcome) = in_time(Self::enter(relay, door, &hello, peer)).await?;
        out.add(&welcome);
        // What a task waits with is held several times over by its future; of this only where it is.
        Ok((Box::new(session), feed))
    }

    async fn enter(
        relay: &'r Relay,
        door: Door,
        hello: &Hello,
        peer: &'r Arc<Peer>,
    ) -> Result<(Self, Feed, ServerFrame<'static>), End> {
        let Admitted { room, grant } = door.open(relay, hello.token.as_deref())?;
        relay.check_opening(&grant, peer.address)?;
        let socket = relay.open_socket(&grant)?;
        let who = relay.identify(&room, &grant, hello.ticket.as_deref())?;
        let reading = relay.enter(&room).await?.read_by_socket(who.client).ok_or_else(Refused::crowded)?;
        let stay = reading.stay(who.client, grant.subject.clone()).map_err(Refused::from)?;
        // Whoever was kicked comes back by this.
        reading.was_kicked(who.client);
        let profile = grant.profile(hello.profile.clone().unwrap_or_default());
        let attachment = reading.attach(who.client, profile).ok_or_else(Refused::crowded)?;
        let counted = reading.metrics().session(Transport::WebSocket);
        let session =
            Self { relay, reading, grant, who, peer, stay, attachment, _counted: counted, _socket: socket };
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
            role: session.grant.role,
            limits,
        };
        Ok((session, feed, welcome))
    }

    async fn run(&self, out: &Outgoing, incoming: &mut Incoming, mut feed: Feed) -> End {
        let write = pin!(self.write(out, &mut feed));
        let mut reading = Reading::new(self, out);
        let read = pin!(reading.run(incoming));
        tokio::select! {
            end = read => end,
            end = write => end,
            () = self.attachment.replaced() => {
                End::close(CloseCode::Replaced, "a newer connection has the same ticket")
            }
            ending = self.stay.ended() => Refused::from(ending).into(),
        }
    }
}
