//! A reader that keeps a log of what it was told, and comes back from where it was when its connection ends.

use std::net::SocketAddr;

use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{Position, Record, Seq, ServerFrame};

use super::PATIENCE;
use super::ledger::ReaderLog;
use super::socket::{Got, Socket};

/// See the module's documentation.
pub struct Reader {
    pub address: SocketAddr,
    pub socket: Socket,
    pub log: ReaderLog,
    /// The codes with which its connections were closed.
    pub closes: Vec<u16>,
    room: String,
    epoch: Position,
}

impl Reader {
    /// From the start of the log.
    pub async fn join(name: impl Into<String>, address: SocketAddr, room: &str) -> Self {
        Self::of(name, address, Socket::join(address, room).await, room)
    }

    /// With a session that is open, and that nothing was taken from.
    pub fn of(name: impl Into<String>, address: SocketAddr, socket: Socket, room: &str) -> Self {
        let epoch = socket.welcome.as_ref().expect("who joined was welcomed").position;
        let (log, closes) = (ReaderLog::new(name), Vec::new());
        Self { address, socket, log, closes, room: room.to_owned(), epoch }
    }

    /// The last record that it has.
    pub fn position(&self) -> Option<Position> {
        let identity = Record::parse(self.log.all().last()?).ok()?.identity;
        Some(Position { epoch: self.epoch.epoch, seq: Seq::new(self.log.len() as u64)?, identity })
    }

    /// Closes its connection. [`Reader::come_back`] opens the next.
    pub async fn leave(&mut self) {
        // The server may have ended it before.
        drop(self.socket.stream.close(None).await);
    }

    /// Comes back from where it was, trying until the server lets it in.
    pub async fn come_back(&mut self) {
        let hello =
            Hello { ticket: Some(self.socket.ticket.clone()), position: self.position(), ..Hello::default() };
        self.socket = Socket::insist(&[self.address], &self.room, &hello).await;
        self.epoch = self.socket.welcome.as_ref().expect("who joined was welcomed").position;
    }

    /// Takes what comes until the log is as wanted. A connection that ends is followed by the next.
    ///
    /// # Panics
    /// When that takes longer than [`PATIENCE`].
    pub async fn until(&mut self, what: &str, mut holds: impl FnMut(&ReaderLog) -> bool) {
        let waited = tokio::time::timeout(PATIENCE, async {
            while !holds(&self.log) {
                self.step().await;
            }
        });
        let is_in_time = waited.await.is_ok();
        assert!(is_in_time, "waited in vain until {what}: {} records, {:?}", self.log.len(), self.closes);
    }

    /// Takes one frame, or comes back when there will be no more.
    pub async fn step(&mut self) {
        match self.socket.next().await {
            Got::Frame(frame) => self.log.take(&ServerFrame::decode(&frame).unwrap()),
            Got::Text(text) => panic!("text was not asked for: {text}"),
            Got::Closed(code, _) => {
                self.closes.push(code);
                self.come_back().await;
            }
        }
    }

    /// Takes what comes until it has that many records.
    pub async fn has(&mut self, records: usize) {
        self.until("it has all records", |log| log.len() >= records).await;
    }
}

/// What a reader that joins now is told, up to the head that its welcome names.
pub async fn fresh_log(name: &str, address: SocketAddr, room: &str) -> ReaderLog {
    let mut reader = Reader::join(name, address, room).await;
    let records = reader.epoch.seq.get();
    reader.has(usize::try_from(records).unwrap()).await;
    reader.log
}
