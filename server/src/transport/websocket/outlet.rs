//! The way out of one WebSocket: whole frames go in, from whoever has one, and leave in their order.
//!
//! These write here: the connection's own task, the room with its answers and rows, and the library, which answers pings
//! and closes. Each hands over whole frames under a lock, so that none of them can tear another's. What the kernel does
//! not take at once waits here; from then on rows hand over nothing, and the connection's task sends it when it can.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use inkrelay_protocol::ServerFrame;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::cipher::Cipher;
use super::records_frame;
use crate::lock::lock;
use crate::room::row::{Delivery, Stretch, Subscriber};
use crate::transport::encoding::Encoding;

/// A buffer that was larger is given back when it is empty.
const KEPT_BYTES: usize = 512;

/// See the module's documentation.
pub(super) struct Outlet {
    socket: OwnedWriteHalf,
    /// Where the connection is encrypted. Boxed: the others are many.
    cipher: Option<Box<Cipher>>,
    encoding: Encoding,
    state: Mutex<State>,
    is_seated: AtomicBool,
    /// Wakes the connection's task: it left its row, or something waits to be sent.
    call: Notify,
}

struct State {
    waiting: Vec<u8>,
    /// Of `waiting`, what is sent already.
    sent: usize,
    /// Answers in it.
    answers: usize,
    /// When a frame of data was last handed over.
    sent_at: Instant,
    /// The kernel did not take all that it was given.
    is_blocked: bool,
    /// A close was sent: nothing may follow.
    is_closed: bool,
}

impl State {
    fn add_frame(&mut self, kind: OpCode, payload: &[u8]) {
        if self.is_closed {
            return;
        }
        // A page in a browser cannot see pings: to it nothing was sent.
        if matches!(kind, OpCode::Data(_)) {
            self.sent_at = Instant::now();
        }
        frame(kind, payload, &mut self.waiting);
    }
}

impl Outlet {
    pub(super) fn new(socket: OwnedWriteHalf, cipher: Option<Box<Cipher>>, encoding: Encoding) -> Self {
        let state = State {
            waiting: Vec::new(),
            sent: 0,
            answers: 0,
            sent_at: Instant::now(),
            is_blocked: false,
            is_closed: false,
        };
        Self {
            socket,
            cipher,
            encoding,
            state: Mutex::new(state),
            is_seated: AtomicBool::new(false),
            call: Notify::new(),
        }
    }

    pub(super) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub(super) fn cipher(&self) -> Option<&Cipher> {
        self.cipher.as_deref()
    }

    /// When a frame of data was last handed over.
    pub(super) fn sent_at(&self) -> Instant {
        lock(&self.state).sent_at
    }

    /// Bytes that wait to be sent.
    pub(super) fn waiting(&self) -> usize {
        let state = lock(&self.state);
        state.waiting.len() - state.sent
    }

    /// Waits until the connection's task has something to do here.
    pub(super) async fn called(&self) {
        self.call.notified().await;
    }

    /// Adds the frame of a message in MessagePack, which goes out with the next flush.
    pub(super) fn add(&self, message: Bytes) {
        let payload = self.encoding.encode(message);
        lock(&self.state).add_frame(data(self.encoding), &payload);
    }

    /// Adds the answer to a batch, which goes out with the next flush.
    pub(super) fn add_answer(&self, answer: &ServerFrame<'_>) {
        let payload = self.encoding.encode(answer.to_bytes().into());
        let mut state = lock(&self.state);
        state.answers += 1;
        state.add_frame(data(self.encoding), &payload);
    }

    /// Answers that wait to be sent.
    pub(super) fn answers(&self) -> usize {
        lock(&self.state).answers
    }

    /// Whether one of the room's rows hands over records, so that what waits goes along.
    pub(super) fn is_seated(&self) -> bool {
        self.is_seated.load(Ordering::Relaxed)
    }

    pub(super) fn set_seated(&self, is_seated: bool) {
        self.is_seated.store(is_seated, Ordering::Relaxed);
    }

    pub(super) fn add_ping(&self) {
        lock(&self.state).add_frame(OpCode::Control(Control::Ping), &[]);
    }

    /// Sends what the library writes, frame by frame: pongs, and closes, after which it does not flush. Waits while the
    /// client takes nothing: the library then keeps its newest pong alone, however many pings come.
    ///
    /// # Errors
    /// When the connection is gone.
    pub(super) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<()>> {
        let is_blocked = lock(&self.state).is_blocked;
        if is_blocked {
            ready!(self.poll_send(context))?;
        }
        lock(&self.state).waiting.extend_from_slice(bytes);
        self.send();
        Poll::Ready(Ok(()))
    }

    /// Lets nothing more in but what the library writes.
    pub(super) fn close(&self) {
        lock(&self.state).is_closed = true;
    }

    /// Sends what waits, as far as it goes without waiting. Of the rest the connection's task is told.
    pub(super) fn send(&self) {
        // An error shows when the connection's task sends the rest.
        if !matches!(self.send_waiting(&mut lock(&self.state)), Ok(true)) {
            self.call.notify_one();
        }
    }

    /// Sends what waits.
    ///
    /// # Errors
    /// When the connection is gone.
    pub(super) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let socket: &TcpStream = self.socket.as_ref();
        while !self.send_waiting(&mut lock(&self.state))? {
            ready!(socket.poll_write_ready(context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Gives the kernel what it takes at once of these bytes. It is offered the same again after `WouldBlock`.
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.cipher {
            None => self.socket.try_write(bytes),
            Some(cipher) => cipher.try_write(self.socket.as_ref(), bytes),
        }
    }

    /// Whether the kernel took everything.
    fn send_waiting(&self, state: &mut State) -> io::Result<bool> {
        while state.sent < state.waiting.len() {
            match self.try_write(&state.waiting[state.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => state.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    state.is_blocked = true;
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        (state.sent, state.answers) = (0, 0);
        if state.waiting.capacity() > KEPT_BYTES {
            state.waiting = Vec::new();
        } else {
            state.waiting.clear();
        }
        state.is_blocked = false;
        Ok(true)
    }
}

impl Subscriber for Outlet {
    fn deliver(&self, stretch: &Stretch) -> Delivery {
        let encoding = self.encoding;
        let frame = stretch.encoded(encoding as usize, |first, records| {
            let payload = encoding.encode(records_frame(first, records));
            let mut out = Vec::with_capacity(payload.len() + 10);
            frame(data(encoding), &payload, &mut out);
            out.into()
        });
        let mut state = lock(&self.state);
        if state.is_closed || state.is_blocked {
            return Delivery::Refused;
        }
        state.sent_at = Instant::now();
        let taken = if state.waiting.is_empty() {
            // Straight from what all share.
            let taken = self.try_write(frame).unwrap_or(0);
            state.waiting.extend_from_slice(&frame[taken..]);
            taken == frame.len()
        } else {
            state.waiting.extend_from_slice(frame);
            false
        };
        // An error shows when the connection's task sends the rest.
        if taken || matches!(self.send_waiting(&mut state), Ok(true)) {
            Delivery::Taken
        } else {
            Delivery::TakenAsLast
        }
    }

    fn flush(&self) {
        self.send();
    }

    fn left(&self) {
        self.call.notify_one();
    }
}

const fn data(encoding: Encoding) -> OpCode {
    OpCode::Data(match encoding {
        Encoding::MessagePack => Data::Binary,
        Encoding::Json => Data::Text,
    })
}

/// RFC 6455, section 5.2; a server's frames are not masked.
fn frame(opcode: OpCode, payload: &[u8], out: &mut Vec<u8>) {
    let header = FrameHeader { is_final: true, opcode, ..FrameHeader::default() };
    out.reserve(header.len(payload.len() as u64) + payload.len());
    header.format(payload.len() as u64, out).expect("a Vec takes everything");
    out.extend_from_slice(payload);
}
