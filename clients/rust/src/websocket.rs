//! The WebSocket transport.

use std::collections::VecDeque;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, future};
use inkrelay_protocol::{CloseCode, ServerFrame};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{Connector, MaybeTlsStream, WebSocketStream, connect_async_tls_with_config};

use crate::config::Timing;
use crate::event::Stopped;
use crate::http::{Endpoint, Problem};
use crate::outbox::ANSWER_TIMEOUT;
use crate::session::{Ended, Session};

const SUBPROTOCOL: &str = "v1.msgpack.inkrelay";
/// Bytes read at once. The library's default of 128 KiB is held by every idle socket.
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Bytes gathered before they are written.
const WRITE_BUFFER_BYTES: usize = 8 * 1024;
/// Bytes that wait for a slow network at most; beyond it, sending fails and the connection starts over.
const WRITE_BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one message from the server at most.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// How long saying goodbye may take.
const GOODBYE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// An open WebSocket.
pub(crate) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens a socket.
pub(crate) async fn open(endpoint: Endpoint, timing: Timing) -> Result<Box<Socket>, Ended> {
    let mut request = endpoint.websocket().as_str().into_client_request().map_err(|error| refused(&error))?;
    request.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(SUBPROTOCOL));
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(WRITE_BUFFER_BYTES)
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let tls = Connector::Rustls(endpoint.tls().clone());
    match timeout(timing.open, connect_async_tls_with_config(request, Some(config), true, Some(tls))).await {
        Ok(Ok((socket, _))) => Ok(Box::new(socket)),
        Ok(Err(error)) => Err(refused(&error)),
        Err(_) => Err(Ended::lost("no WebSocket could be opened in time")),
    }
}

/// What a failed attempt says. A server that is not there says nothing against WebSockets.
fn refused(error: &tungstenite::Error) -> Ended {
    match error {
        tungstenite::Error::Io(io) if io.kind() == std::io::ErrorKind::ConnectionRefused => {
            Ended::retry(format!("the server cannot be reached: {io}"), None)
        }
        tungstenite::Error::Http(response) => refused_by(response),
        other => Ended::lost(format!("no WebSocket could be opened: {other}")),
    }
}

fn refused_by(response: &Response) -> Ended {
    let retry_after_s = response.headers().get("retry-after");
    let retry_after_s = retry_after_s.and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = response.body().as_deref().unwrap_or_default();
    let problem = Problem::parse(response.status().as_u16(), retry_after_s, body);
    match problem.remedy() {
        Some(remedy) => Ended::by_remedy(remedy, &problem.code, &problem.message, problem.retry_ms),
        None => Ended::lost(format!("no WebSocket could be opened: {}", problem.message)),
    }
}

/// Runs a session over an open socket until it ends.
pub(crate) async fn run(socket: Socket, session: &mut Session, timing: Timing) -> Ended {
    let (mut sink, mut stream) = socket.split();
    let shared = session.shared.clone();
    let events = session.events.clone();
    let mut out = VecDeque::from([Message::binary(session.hello())]);
    let mut unflushed = false;
    let mut welcomed = false;
    // Silence counts only while somebody listens: a program that takes no events stops the reading.
    let mut heard = Instant::now();
    let mut listening = heard;
    loop {
        let now = Instant::now();
        if !session.queued.is_empty() {
            (heard, listening) = (now, now);
        }
        let silent_at = heard + if welcomed { timing.silence } else { timing.open };
        let due =
            shared.outbox().answer_due().map(|due| Instant::from_std(due).max(listening + ANSWER_TIMEOUT));
        if now >= silent_at {
            return Ended::lost("nothing came from the server for too long");
        }
        if due.is_some_and(|due| now >= due) {
            return Ended::lost("the server did not answer to draws");
        }
        let mut wake_at = due.map_or(silent_at, |due| due.min(silent_at));
        if welcomed && out.is_empty() {
            let (frames, again) = session.frames(now);
            out.extend(frames.into_iter().map(Message::binary));
            wake_at = again.map_or(wake_at, |again| again.min(wake_at));
        }
        tokio::select! {
            () = shared.closed() => {
                let goodbye = CloseFrame { code: CloseCode::Done.number().into(), reason: "".into() };
                // The program is leaving either way.
                let _ = timeout(GOODBYE_TIMEOUT, sink.send(Message::Close(Some(goodbye)))).await;
                return Ended::Closed;
            }
            permit = events.reserve(), if !session.queued.is_empty() => session.deliver(permit),
            message = stream.next(), if session.queued.is_empty() => {
                heard = Instant::now();
                let bytes = match message {
                    Some(Ok(Message::Binary(bytes))) => bytes,
                    Some(Ok(Message::Close(frame))) => return closed(frame.as_ref()),
                    Some(Ok(Message::Text(_))) => return Ended::lost("the server sent text where binary was agreed"),
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return Ended::lost(format!("the connection broke: {error}")),
                    None => return Ended::lost("the connection broke"),
                };
                match take(session, &bytes, heard) {
                    Ok(is_welcome) => welcomed |= is_welcome,
                    Err(ended) => return ended,
                }
            }
            result = write(&mut sink, &mut out, &mut unflushed), if unflushed || !out.is_empty() => {
                if let Err(error) = result {
                    // What the server said before it hung up explains more than a failed write.
                    let said = timeout(GOODBYE_TIMEOUT, last_words(&mut stream, session)).await;
                    return said.ok().flatten().unwrap_or_else(|| Ended::lost(format!("the connection broke: {error}")));
                }
            }
            () = shared.wake.notified() => {}
            () = sleep_until(wake_at) => {}
        }
    }
}

/// Takes one message; returns whether it was the welcome.
fn take(session: &mut Session, bytes: &Bytes, now: Instant) -> Result<bool, Ended> {
    let frame = ServerFrame::decode(bytes)
        .map_err(|error| Ended::retry(format!("the server sent what is no frame: {error}"), None))?;
    let is_welcome = matches!(frame, ServerFrame::Welcome { .. });
    session.on_frame(frame, bytes, now)?;
    Ok(is_welcome)
}

/// Reads what is left of a socket that cannot be written to, for the reason.
async fn last_words(
    stream: &mut (impl futures_util::Stream<Item = tungstenite::Result<Message>> + Unpin),
    session: &mut Session,
) -> Option<Ended> {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(bytes) => {
                if let Err(ended) = take(session, &bytes, Instant::now()) {
                    return Some(ended);
                }
            }
            Message::Close(frame) => return Some(closed(frame.as_ref())),
            _ => {}
        }
    }
    None
}

/// Writes all there is. May be dropped at any await and called again: a message leaves the queue in the same
/// step in which the socket takes it.
async fn write<S>(
    sink: &mut S,
    out: &mut VecDeque<Message>,
    unflushed: &mut bool,
) -> Result<(), tungstenite::Error>
where
    S: futures_util::Sink<Message, Error = tungstenite::Error> + Unpin,
{
    while !out.is_empty() {
        future::poll_fn(|context| sink.poll_ready_unpin(context)).await?;
        if let Some(message) = out.pop_front() {
            *unflushed = true;
            sink.start_send_unpin(message)?;
        }
    }
    sink.flush().await?;
    *unflushed = false;
    Ok(())
}

fn closed(frame: Option<&CloseFrame>) -> Ended {
    let Some(frame) = frame else { return Ended::lost("the server closed the connection") };
    let number = u16::from(frame.code);
    let why = match frame.reason.as_str() {
        "" => format!("the server closed the connection with code {number}"),
        reason => reason.to_owned(),
    };
    match CloseCode::from_number(number) {
        Some(CloseCode::Replaced) => Ended::Stopped(Stopped::Replaced),
        Some(CloseCode::Unauthorized) => Ended::Unauthorized { why },
        Some(CloseCode::TooSlow) | None => Ended::lost(why),
        Some(code) => Ended::by_remedy(code.remedy(), &number.to_string(), &why, None),
    }
}
