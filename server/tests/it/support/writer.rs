//! A writer that keeps the wire's contract: it numbers its draws, sends the same again until it is answered, over
//! whichever relay lets it in, and offers again what a store lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{Draw, ServerFrame};

use super::PATIENCE;
use super::ledger::{Ledger, padded};
use super::socket::{Got, Socket};

/// Waits so long for an answer before it takes the connection for dead: longer than every answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(7);

/// See the module's documentation.
pub struct Writer {
    /// Tried in turn.
    pub addresses: Vec<SocketAddr>,
    /// How many connections it has had.
    pub connections: usize,
    /// Bytes of each draw beyond its number.
    pub padding_bytes: usize,
    room: String,
    ledger: Arc<Ledger>,
    socket: Option<Socket>,
    ticket: Option<String>,
    /// Every draw's number in the ledger: the writer's own `n`, from 1.
    drawn: Vec<u64>,
    /// How many of them are acked.
    stored: usize,
}

impl Writer {
    /// Of no draw yet; it connects when it draws.
    pub fn new(addresses: &[SocketAddr], room: &str, ledger: &Arc<Ledger>) -> Self {
        Self {
            addresses: addresses.to_vec(),
            connections: 0,
            padding_bytes: 0,
            room: room.to_owned(),
            ledger: Arc::clone(ledger),
            socket: None,
            ticket: None,
            drawn: Vec::new(),
            stored: 0,
        }
    }

    /// Draws that many at once, and waits until all are stored.
    ///
    /// # Panics
    /// When that takes longer than [`PATIENCE`], or one is refused.
    pub async fn draw(&mut self, count: usize) {
        self.drawn.extend((0..count).map(|_| self.ledger.issue()));
        self.settle().await;
    }

    /// Waits until all that was drawn is stored. Called again after a store's loss, it offers that again.
    ///
    /// # Panics
    /// As [`Writer::draw`].
    pub async fn settle(&mut self) {
        let settled = tokio::time::timeout(PATIENCE, async {
            while self.stored < self.drawn.len() {
                self.step().await;
            }
        });
        let is_in_time = settled.await.is_ok();
        assert!(is_in_time, "{} of {} draws stored in time", self.stored, self.drawn.len());
    }

    /// Closes its connection, if it has one. The next draw opens another.
    pub fn disconnect(&mut self) {
        self.socket = None;
    }

    /// Opens a connection if there is none, which tells what is stored.
    pub async fn connect(&mut self) {
        if self.socket.is_some() {
            return;
        }
        let hello = Hello { ticket: self.ticket.clone(), ..Hello::default() };
        let socket = Socket::insist(&self.addresses, &self.room, &hello).await;
        self.addresses.rotate_left(1);
        self.connections += 1;
        let last_n = socket.welcome.as_ref().expect("who joined was welcomed").limits.last_n;
        self.stored = usize::try_from(last_n).unwrap();
        self.drawn[..self.stored].iter().for_each(|number| self.ledger.acked(*number));
        self.ticket = Some(socket.ticket.clone());
        self.socket = Some(socket);
    }

    /// Sends what is not stored, as one batch, and takes its answer.
    async fn step(&mut self) {
        self.connect().await;
        if self.stored == self.drawn.len() {
            return;
        }
        let draws: Vec<Draw> =
            self.drawn[self.stored..].iter().map(|number| padded(*number, self.padding_bytes)).collect();
        let (n, last_n) = (self.stored as u64 + 1, self.drawn.len() as u64);
        let Some(mut socket) = self.socket.take() else { return };
        socket.draw(n, &draws).await;
        if let Ok(true) = tokio::time::timeout(ANSWER_TIME, self.answer(&mut socket, last_n)).await {
            self.socket = Some(socket);
        }
    }

    /// Waits until all is acked, or it is to be sent again. Returns whether the connection lives on.
    async fn answer(&mut self, socket: &mut Socket, last_n: u64) -> bool {
        loop {
            let frame = match socket.next().await {
                Got::Frame(frame) => frame,
                _ => return false,
            };
            match ServerFrame::decode(&frame).unwrap() {
                ServerFrame::Ack { n, .. } => {
                    let acked = usize::try_from(n).unwrap();
                    self.drawn[..acked].iter().for_each(|number| self.ledger.acked(*number));
                    self.stored = acked;
                    if n >= last_n {
                        return true;
                    }
                }
                ServerFrame::Error { retry_ms: Some(retry_ms), .. } => {
                    tokio::time::sleep(Duration::from_millis(retry_ms.min(300))).await;
                    return true;
                }
                // A store that lost what it had acked finds a gap: the next welcome tells from where.
                ServerFrame::Error { code, .. } if code == "gap" => return false,
                ServerFrame::Error { code, message, .. } => panic!("refused: {code}: {message}"),
                _ => {}
            }
        }
    }
}
