//! Socket.IO 4, over WebSocket from the start: the protocols Engine.IO 4 and Socket.IO 5, as far as
//! `load-generator/baselines/socketio` needs them.
//!
//! A text is `TYPE…`: 0 opens, 2 is a ping and 3 its pong, 4 carries Socket.IO. That is `40` to connect, `42` an event,
//! `43` its answer, `45` an event whose binary values follow as messages of their own: `451-7["draw",…]` has one,
//! and wants answer number 7.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::measure::{Answers, Outcome};
use crate::target::http::Address;
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Drawer, Reader, Take, Target, Transport};

/// Draws that wait for the socket to take them.
const OUTGOING: usize = 64;
/// Bytes read at once: the library's default would be held by every idle socket.
const READ_BUFFER_BYTES: usize = 4 * 1024;

type Socket = WebSocketStream<TcpStream>;

/// A Socket.IO server with the events of `load-generator/baselines/socketio`.
#[derive(Debug)]
pub struct SocketIo {
    address: Address,
}

impl SocketIo {
    /// At `http://host:port`.
    ///
    /// # Errors
    /// When the address is none, or the transport is another than WebSocket.
    pub fn new(server: &str, transport: Transport) -> Result<Self, Broken> {
        if transport != Transport::Ws {
            return Err(Broken::new("Socket.IO is measured with --transport ws"));
        }
        Ok(Self { address: Address::parse(server)? })
    }

    /// Connects, and joins a room.
    async fn join(&self, room: &str) -> Result<Socket, Broken> {
        let url = format!("ws://{}/socket.io/?EIO=4&transport=websocket", self.address.authority);
        let config = WebSocketConfig::default().read_buffer_size(READ_BUFFER_BYTES).write_buffer_size(0);
        let stream = self.address.connect().await?;
        let joining = async {
            let opening = tokio_tungstenite::client_async_with_config(url, stream, Some(config));
            let (mut socket, _) = opening.await.map_err(Broken::new)?;
            expect(&mut socket, "0").await?;
            send(&mut socket, "40".to_owned()).await?;
            expect(&mut socket, "40").await?;
            send(&mut socket, format!("420{}", serde_json::json!(["join", room]))).await?;
            expect(&mut socket, "430[]").await?;
            Ok(socket)
        };
        timeout(ANSWER_TIMEOUT, joining).await.unwrap_or_else(|_| Err(Broken::new("not joined in time")))
    }
}

async fn send(socket: &mut Socket, text: String) -> Result<(), Broken> {
    socket.send(Message::Text(text.into())).await.map_err(Broken::new)
}

/// What a message is to those who draw or read.
#[derive(Debug, PartialEq, Eq)]
enum Incoming {
    /// The bytes of an event: there is but one event, and its bytes come alone.
    Draw(Bytes),
    /// A draw with this number was taken, or refused.
    Answer(u32, Outcome),
    /// Answered already, or of no interest.
    Other,
}

/// Waits for the next message, and answers a ping.
async fn receive(socket: &mut Socket) -> Result<Incoming, Broken> {
    let message = socket.next().await.ok_or_else(|| Broken::new("the server closed the connection"))?;
    match message.map_err(Broken::new)? {
        Message::Binary(bytes) => Ok(Incoming::Draw(bytes)),
        Message::Text(text) if text.as_str() == "2" => {
            send(socket, "3".to_owned()).await?;
            Ok(Incoming::Other)
        }
        Message::Text(text) => Ok(answer(&text)),
        Message::Close(_) => Err(Broken::new("the server closed the connection")),
        _ => Ok(Incoming::Other),
    }
}

/// Reads `43NUMBER[]`, or `43NUMBER["why not"]`.
fn answer(text: &str) -> Incoming {
    let parts = text.strip_prefix("43").and_then(|rest| rest.split_at_checked(rest.find('[')?));
    let Some((number, values)) = parts else { return Incoming::Other };
    match number.parse() {
        Ok(number) if values == "[]" => Incoming::Answer(number, Outcome::Stored),
        Ok(number) => Incoming::Answer(number, Outcome::Refused),
        Err(_) => Incoming::Other,
    }
}

/// Waits for a text that begins so.
async fn expect(socket: &mut Socket, start: &str) -> Result<(), Broken> {
    match socket.next().await {
        Some(Ok(Message::Text(text))) if text.starts_with(start) => Ok(()),
        Some(Ok(message)) => Err(Broken::new(format!("{start} was due, and {message} came"))),
        Some(Err(error)) => Err(Broken::new(error)),
        None => Err(Broken::new("the server closed the connection")),
    }
}

#[async_trait]
impl Target for SocketIo {
    fn name(&self) -> String {
        "socketio ws".to_owned()
    }

    fn keeps_log(&self) -> bool {
        false
    }

    async fn reader(&self, room: &str, _place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        Ok(Box::new(EventReader { socket: self.join(room).await?, bytes: 0 }))
    }

    async fn drawer(&self, room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken> {
        let open = Open::alone(self.join(room).await?, answers.clone());
        let target = Self { address: self.address.clone() };
        Ok(Box::new(EventDrawer { target, room: room.to_owned(), answers, open: Some(open) }))
    }

    async fn participant(
        &self,
        room: &str,
        answers: Answers,
    ) -> Result<(Box<dyn Reader>, Box<dyn Drawer>), Broken> {
        let socket = self.join(room).await?;
        let (open, pen) = Open::new(answers.clone());
        let target = Self { address: self.address.clone() };
        let drawer = EventDrawer { target, room: room.to_owned(), answers, open: Some(open) };
        Ok((Box::new(Both { socket, pen, bytes: 0 }), Box::new(drawer)))
    }
}

struct EventReader {
    socket: Socket,
    bytes: u64,
}

#[async_trait]
impl Reader for EventReader {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        if let Incoming::Draw(draw) = receive(&mut self.socket).await? {
            self.bytes += draw.len() as u64;
            take(Arrived { seq: None, author: None, draw: &draw });
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a drawer hands to whoever has its socket, since pings want an answer also while nobody draws: a task, or the
/// half that reads.
struct Open {
    outgoing: mpsc::Sender<(String, Bytes)>,
    sent: u64,
    answered: watch::Receiver<u64>,
    task: Option<JoinHandle<()>>,
}

/// The other end of [`Open`].
struct Pen {
    waiting: mpsc::Receiver<(String, Bytes)>,
    answers: Answers,
    answered: watch::Sender<u64>,
}

impl Open {
    fn new(answers: Answers) -> (Self, Pen) {
        let (outgoing, waiting) = mpsc::channel(OUTGOING);
        let (counting, answered) = watch::channel(0);
        let open = Self { outgoing, sent: 0, answered, task: None };
        (open, Pen { waiting, answers, answered: counting })
    }

    fn alone(socket: Socket, answers: Answers) -> Self {
        let (mut open, pen) = Self::new(answers);
        let mut both = Both { socket, pen, bytes: 0 };
        // Its own draws come back too. Ends with the connection, which shows as a closed channel.
        open.task = Some(tokio::spawn(async move { while both.next(&mut |_| {}).await.is_ok() {} }));
        open
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// A socket over which somebody draws and reads.
struct Both {
    socket: Socket,
    pen: Pen,
    bytes: u64,
}

#[async_trait]
impl Reader for Both {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        tokio::select! {
            outgoing = self.pen.waiting.recv() => {
                let (head, draw) = outgoing.ok_or_else(|| Broken::new("the drawing half is gone"))?;
                self.socket.feed(Message::Text(head.into())).await.map_err(Broken::new)?;
                self.socket.send(Message::Binary(draw)).await.map_err(Broken::new)?;
            }
            incoming = receive(&mut self.socket) => match incoming? {
                Incoming::Answer(number, outcome) => {
                    self.pen.answers.answered(number, outcome);
                    self.pen.answered.send_modify(|count| *count += 1);
                }
                Incoming::Draw(draw) => {
                    self.bytes += draw.len() as u64;
                    take(Arrived { seq: None, author: None, draw: &draw });
                }
                Incoming::Other => {}
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Draws without waiting for answers.
struct EventDrawer {
    target: SocketIo,
    room: String,
    answers: Answers,
    open: Option<Open>,
}

#[async_trait]
impl Drawer for EventDrawer {
    async fn ready(&mut self) -> Result<(), Broken> {
        if let Some(open) = self.open.take_if(|open| open.outgoing.is_closed()) {
            // Of the other half, whoever read there has told of it.
            if open.task.is_some() {
                return Err(Broken::new("the connection broke"));
            }
        }
        if self.open.is_none() {
            let socket = self.target.join(&self.room).await?;
            self.open = Some(Open::alone(socket, self.answers.clone()));
        }
        Ok(())
    }

    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken> {
        let open = self.open.as_mut().ok_or_else(|| Broken::new("not connected"))?;
        let event = serde_json::json!(["draw", self.room, { "_placeholder": true, "num": 0 }]);
        let message = (format!("451-{number}{event}"), Bytes::copy_from_slice(draw));
        open.sent += 1;
        if open.outgoing.send(message).await.is_err() {
            self.open = None;
            return Err(Broken::new("the connection broke"));
        }
        Ok(())
    }

    async fn settle(&mut self, unanswered_max: usize, within: Duration) {
        let Some(open) = &mut self.open else { return };
        let due = open.sent.saturating_sub(unanswered_max as u64);
        // What has no answer by then stays unknown.
        let _ = timeout(within, open.answered.wait_for(|answered| *answered >= due)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_from_events() {
        assert_eq!(answer("4317[]"), Incoming::Answer(17, Outcome::Stored));
        assert_eq!(answer("4317[\"join first\"]"), Incoming::Answer(17, Outcome::Refused));
        assert_eq!(answer("451-[\"draw\",{\"_placeholder\":true,\"num\":0}]"), Incoming::Other);
        assert_eq!(answer("43"), Incoming::Other);
    }
}
