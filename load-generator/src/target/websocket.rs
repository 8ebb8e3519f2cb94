//! WebSockets of the relay, in MessagePack.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, Stream, StreamExt};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::msgpack::{self, Reader as Msgpack};
use inkrelay_protocol::{ClientFrame, ClientId, Identity, Malformed, Position, Record, Seq, ServerFrame};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::measure::{Answers, Outcome};
use crate::target::half::Half;
use crate::target::http::Address;
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Drawer, Reader, Take};

/// Bytes read at once: the library's default would be held by every idle socket.
const READ_BUFFER_BYTES: usize = 4 * 1024;
/// Bytes of one message at most.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The tag of records, the one frame that there are many of.
const RECORDS: u64 = 66;
/// The tag of a reset.
const RESET: u64 = 68;

type Socket = WebSocketStream<Half>;

/// Opens a socket and says hello; the welcome is still to come.
async fn open(address: &Address, room: &str, position: Option<Position>) -> Result<Socket, Broken> {
    let url = format!("ws://{}{}/v1/rooms/{room}/ws", address.authority, address.path);
    let mut request = url.into_client_request().map_err(Broken::new)?;
    let subprotocol = HeaderValue::from_static("v1.msgpack.inkrelay");
    request.headers_mut().insert("Sec-WebSocket-Protocol", subprotocol);
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let stream = Half::from(address.connect().await?);
    let opening = tokio_tungstenite::client_async_with_config(request, stream, Some(config));
    let opened = timeout(ANSWER_TIMEOUT, opening).await.map_err(|_| Broken::new("no WebSocket in time"))?;
    let (mut socket, _) = opened.map_err(Broken::new)?;
    let hello = ClientFrame::Hello(Hello { position, ..Hello::default() }).to_bytes();
    socket.send(Message::Binary(hello.into())).await.map_err(Broken::new)?;
    Ok(socket)
}

/// Waits for the next frame; `None` for a message that is none.
async fn frame(
    stream: &mut (impl Stream<Item = Result<Message, tungstenite::Error>> + Unpin),
) -> Result<Option<Bytes>, Broken> {
    match stream.next().await {
        Some(Ok(Message::Binary(bytes))) => Ok(Some(bytes)),
        Some(Ok(Message::Close(Some(close)))) => {
            Err(Broken::new(format!("the server closed with {}: {}", u16::from(close.code), close.reason)))
        }
        Some(Ok(Message::Text(_))) => Err(Broken::malformed("a text came, and frames are binary")),
        Some(Ok(_)) => Ok(None),
        Some(Err(error)) => Err(broken_by(&error)),
        None => Err(Broken::new("the server closed the connection")),
    }
}

fn broken_by(error: &tungstenite::Error) -> Broken {
    match error {
        // No more than a connection that was cut.
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Broken::new(error),
        tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_) | tungstenite::Error::Capacity(_) => {
            Broken::malformed(error)
        }
        _ => Broken::new(error),
    }
}

/// Waits for the welcome and returns who one is, and the head of the log.
async fn welcomed(socket: &mut Socket) -> Result<(ClientId, Position), Broken> {
    let waiting = async {
        loop {
            let Some(bytes) = frame(socket).await? else { continue };
            match ServerFrame::decode(&bytes)? {
                ServerFrame::Welcome { client, position, .. } => return Ok((client, position)),
                ServerFrame::Error { code, message, .. } => {
                    return Err(Broken::new(format!("{code}: {message}")));
                }
                _ => {}
            }
        }
    };
    timeout(ANSWER_TIMEOUT, waiting).await.unwrap_or_else(|_| Err(Broken::new("no welcome in time")))
}

/// Opens one socket for somebody who reads and draws.
///
/// # Errors
/// When it cannot be opened.
pub async fn participant(
    address: &Address,
    room: &str,
    answers: Answers,
) -> Result<(SocketReader, SocketDrawer), Broken> {
    let mut socket = open(address, room, None).await?;
    let (client, head) = welcomed(&mut socket).await?;
    answers.draws_as(client.get());
    let hold = socket.get_ref().clone();
    let (sink, stream) = socket.split();
    let flight = Arc::new(SharedFlight::new());
    let pen = Pen { flight: flight.clone(), answers: answers.clone(), _hold: hold.clone() };
    let reader = SocketReader { stream, place: start_of(head), bytes: 0, pen: Some(pen) };
    let open = Open { sink, flight, answering: Answering::OtherHalf(hold) };
    let (address, room) = (address.clone(), room.to_owned());
    Ok((reader, SocketDrawer { address, room, answers, open: Some(open) }))
}

/// The start of the log that has this head.
const fn start_of(head: Position) -> Position {
    Position { epoch: head.epoch, seq: Seq::START, identity: Identity::NONE }
}

/// Reads over a socket.
pub struct SocketReader {
    stream: SplitStream<Socket>,
    place: Position,
    bytes: u64,
    pen: Option<Pen>,
}

/// What the reading half does for the drawing half.
struct Pen {
    flight: Arc<SharedFlight>,
    answers: Answers,
    _hold: Half,
}

impl Drop for Pen {
    fn drop(&mut self) {
        self.flight.break_off(Broken::new("the reading half of the connection is gone"));
    }
}

impl SocketReader {
    /// Opens it: from a place on, or from the start.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(address: &Address, room: &str, place: Option<&str>) -> Result<Self, Broken> {
        let position = match place {
            Some(place) => Some(place.parse().map_err(|_| Broken::new(format!("{place:?} is no position")))?),
            None => None,
        };
        let mut socket = open(address, room, position).await?;
        let (_, head) = welcomed(&mut socket).await?;
        let (_, stream) = socket.split();
        Ok(Self { stream, place: position.unwrap_or(start_of(head)), bytes: 0, pen: None })
    }

    fn take_records(&mut self, reader: &mut Msgpack<'_>, take: &mut Take<'_>) -> Result<(), Malformed> {
        let first = reader.uint()?;
        let records = reader.array()?;
        for index in 0..u64::from(records) {
            let record = Record::read(reader)?;
            let seq = first.checked_add(index).and_then(Seq::new);
            self.place.seq = seq.ok_or(Malformed("a seq is at most 2^53 - 1"))?;
            take(Arrived {
                seq: Some(first + index),
                author: Some(record.identity.author.get()),
                draw: record.draw,
            });
            self.place.identity = record.identity;
        }
        reader.finish()
    }
}

/// Reads a frame's tag; its fields follow.
fn tag(bytes: &[u8]) -> Result<(u64, Msgpack<'_>), Malformed> {
    let mut reader = Msgpack::new(bytes);
    reader.array()?;
    Ok((reader.uint()?, reader))
}

#[async_trait]
impl Reader for SocketReader {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        let Some(bytes) = frame(&mut self.stream).await? else { return Ok(()) };
        self.bytes += bytes.len() as u64;
        match (tag(&bytes)?, &self.pen) {
            ((RECORDS, mut fields), _) => Ok(self.take_records(&mut fields, take)?),
            // A run's log is never trimmed, and its reader never behind it.
            ((RESET, _), _) => Err(Broken::new("the server reset the board")),
            (_, Some(pen)) => answer(&bytes, &pen.flight, &pen.answers),
            (_, None) => Ok(ServerFrame::decode(&bytes).map(drop)?),
        }
    }

    fn place(&self) -> Option<String> {
        (self.place.seq > Seq::START).then(|| self.place.to_string())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What is on its way: the number on the wire, and that in the mark.
#[derive(Debug, Default)]
struct Flight {
    waiting: VecDeque<(u64, u32)>,
    /// What the next draw is numbered on the wire. A refusal takes it back.
    next_n: u64,
    broken: Option<Broken>,
}

#[derive(Debug, Default)]
struct SharedFlight {
    flight: Mutex<Flight>,
    changed: Notify,
}

impl SharedFlight {
    fn new() -> Self {
        let flight = Flight { next_n: 1, ..Flight::default() };
        Self { flight: Mutex::new(flight), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is answered any more. Only the first reason counts.
    fn break_off(&self, broken: Broken) {
        self.lock().broken.get_or_insert(broken);
        self.changed.notify_waiters();
    }
}

struct Open {
    sink: SplitSink<Socket, Message>,
    flight: Arc<SharedFlight>,
    answering: Answering,
}

/// Who takes the answers.
enum Answering {
    /// A task of its own, which ends with the socket.
    Task(JoinHandle<()>),
    /// The half that reads. It also tells of a connection that broke.
    OtherHalf(#[expect(dead_code, reason = "when it is dropped, the connection ends for both")] Half),
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Answering::Task(task) = &self.answering {
            task.abort();
        }
    }
}

/// Draws over a socket, without waiting for answers, one batch to a frame.
pub struct SocketDrawer {
    address: Address,
    room: String,
    answers: Answers,
    open: Option<Open>,
}

impl SocketDrawer {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub async fn open(address: &Address, room: &str, answers: Answers) -> Result<Self, Broken> {
        let mut drawer = Self { address: address.clone(), room: room.to_owned(), answers, open: None };
        drawer.connect().await?;
        Ok(drawer)
    }

    /// Always as somebody new: with the old ticket, what is unknown would have to be sent again first.
    async fn connect(&mut self) -> Result<(), Broken> {
        let mut socket = open(&self.address, &self.room, None).await?;
        let (client, _) = welcomed(&mut socket).await?;
        self.answers.draws_as(client.get());
        let (sink, stream) = socket.split();
        let flight = Arc::new(SharedFlight::new());
        let task = tokio::spawn(take_answers(stream, flight.clone(), self.answers.clone()));
        self.open = Some(Open { sink, flight, answering: Answering::Task(task) });
        Ok(())
    }

    async fn send(&mut self, first: u32, draws: &[impl AsRef<[u8]>]) -> Result<(), Broken> {
        let open = self.open.as_mut().ok_or_else(|| Broken::new("not connected"))?;
        let mut batch = Vec::with_capacity(draws.iter().map(|draw| draw.as_ref().len()).sum::<usize>() + 5);
        msgpack::write_array(&mut batch, draws.len());
        for draw in draws {
            batch.extend_from_slice(draw.as_ref());
        }
        let message = {
            let mut flight = open.flight.lock();
            let n = flight.next_n;
            flight.next_n += draws.len() as u64;
            flight.waiting.extend((n..).zip(first..).take(draws.len()));
            Message::Binary(ClientFrame::Draws { n, draws: &batch }.to_bytes().into())
        };
        let sent = open.sink.send(message).await;
        let broken = open.flight.lock().broken.clone();
        let result = match broken {
            Some(broken) => Err(broken),
            None => sent.map_err(Broken::new),
        };
        if result.is_err() {
            self.open = None;
        }
        result
    }
}

/// Reads what comes back, its own records included.
async fn take_answers(mut stream: SplitStream<Socket>, flight: Arc<SharedFlight>, answers: Answers) {
    loop {
        let result = match frame(&mut stream).await {
            Ok(Some(bytes)) => answer(&bytes, &flight, &answers),
            Ok(None) => Ok(()),
            Err(broken) => Err(broken),
        };
        if let Err(mut broken) = result {
            if std::mem::take(&mut broken.is_malformed) {
                answers.malformed(&broken);
            }
            flight.break_off(broken);
            return;
        }
    }
}

fn answer(bytes: &[u8], flight: &SharedFlight, answers: &Answers) -> Result<(), Broken> {
    if tag(bytes)?.0 == RECORDS {
        return Ok(());
    }
    let mut done = Vec::new();
    let outcome = match ServerFrame::decode(bytes)? {
        ServerFrame::Ack { n, seq } => {
            let mut flight = flight.lock();
            if n >= flight.next_n {
                return Err(Broken::malformed(format!(
                    "an ack names {n}, and {} is still to come",
                    flight.next_n
                )));
            }
            // They wait in the order of their numbers, without gaps.
            let front = flight.waiting.front().map_or(u64::MAX, |(wire, _)| *wire);
            let place = n.checked_sub(front).and_then(|place| usize::try_from(place).ok());
            if let Some((_, number)) = place.and_then(|place| flight.waiting.get(place)) {
                answers.placed(*number, seq.get());
            }
            while let Some((_, number)) = flight.waiting.front().copied().filter(|(wire, _)| *wire <= n) {
                done.push(number);
                flight.waiting.pop_front();
            }
            Outcome::Stored
        }
        ServerFrame::Error { code, message, n, .. } => {
            // The store may have it or not, and would have to be asked with the same number.
            if code == "store_unavailable" {
                return Err(Broken::new(format!("{code}: {message}")));
            }
            let Some(n) = n else { return Err(Broken::new(format!("{code}: {message}"))) };
            let mut flight = flight.lock();
            // Nothing of what was on its way behind it is kept either.
            while let Some((_, number)) = flight.waiting.back().copied().filter(|(wire, _)| *wire >= n) {
                done.push(number);
                flight.waiting.pop_back();
            }
            flight.next_n = n;
            Outcome::Refused
        }
        ServerFrame::GoAway { reason, .. } => return Err(Broken::new(reason)),
        _ => return Ok(()),
    };
    for number in done {
        answers.answered(number, outcome);
    }
    flight.changed.notify_waiters();
    Ok(())
}

#[async_trait]
impl Drawer for SocketDrawer {
    async fn ready(&mut self) -> Result<(), Broken> {
        let broken = self.open.as_ref().and_then(|open| open.flight.lock().broken.clone());
        if let Some(broken) = broken {
            let open = self.open.take();
            // Of the other half, whoever read there has told of it.
            if let Some(Open { answering: Answering::Task(_), .. }) = open {
                return Err(broken);
            }
        }
        if self.open.is_some() { Ok(()) } else { self.connect().await }
    }

    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken> {
        self.send(number, &[draw]).await
    }

    async fn draw_batch(&mut self, first: u32, draws: &[Vec<u8>]) -> Result<(), Broken> {
        self.send(first, draws).await
    }

    async fn settle(&mut self, unanswered_max: usize, within: Duration) {
        let Some(open) = &self.open else { return };
        let settled = async {
            loop {
                let changed = open.flight.changed.notified();
                let is_done = {
                    let flight = open.flight.lock();
                    flight.waiting.len() <= unanswered_max || flight.broken.is_some()
                };
                if is_done {
                    return;
                }
                changed.await;
            }
        };
        // What has no answer by then stays unknown.
        let _ = timeout(within, settled).await;
    }
}
