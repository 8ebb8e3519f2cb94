//! A relay that breaks one promise: posts and long polls over HTTP, just enough for `replay`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inkrelay_protocol::msgpack::{self, Reader};
use inkrelay_protocol::{ClientId, Identity, Record};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The draw that it happens to.
const UNLUCKY: u64 = 40;
/// How long a stalled server does nothing.
pub const STALL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Acknowledged, and not kept.
    Drops,
    /// Kept twice.
    Doubles,
    /// Kept behind the next one of the same writer.
    Swaps,
    /// One bit of it changes.
    Corrupts,
    /// A number is left out.
    Misnumbers,
    /// Refused, and kept.
    KeepsRefused,
    /// Nothing is taken.
    RefusesAll,
    /// Nothing is answered for a second.
    Stalls,
}

struct Log {
    fault: Fault,
    records: Vec<Vec<u8>>,
    posts: u64,
    held_back: Option<Vec<u8>>,
    stalled_until: Option<Instant>,
}

impl Log {
    /// Takes a draw and returns the status of its answer.
    fn append(&mut self, draw: &[u8]) -> u16 {
        self.posts += 1;
        let identity = Identity { author: ClientId::ANONYMOUS, n: self.posts, at: 1 };
        let mut record = Vec::new();
        Record { identity, draw }.encode(&mut record);
        let is_unlucky = self.posts == UNLUCKY;
        match self.fault {
            Fault::RefusesAll => return 422,
            Fault::Drops if is_unlucky => {}
            Fault::Doubles if is_unlucky => self.records.extend([record.clone(), record]),
            Fault::Swaps if is_unlucky => self.held_back = Some(record),
            Fault::Corrupts if is_unlucky => {
                // Within the points, so that it stays a valid draw.
                let place = record.len() - 30;
                record[place] ^= 1;
                self.records.push(record);
            }
            Fault::KeepsRefused if is_unlucky => {
                self.records.push(record);
                return 422;
            }
            Fault::Stalls if is_unlucky => {
                self.stalled_until = Some(Instant::now() + STALL);
                self.records.push(record);
            }
            _ => {
                self.records.push(record);
                self.records.extend(self.held_back.take());
            }
        }
        200
    }

    /// `[epoch, first seq, [record, …]]` and the position behind it.
    fn after(&self, seq: usize) -> (Vec<u8>, usize) {
        let records = &self.records[seq.min(self.records.len())..];
        let skips = self.fault == Fault::Misnumbers && self.records.len() as u64 > UNLUCKY;
        let mut body = Vec::new();
        msgpack::write_array(&mut body, 3);
        msgpack::write_uint(&mut body, 1);
        msgpack::write_uint(&mut body, seq as u64 + 1 + u64::from(skips));
        msgpack::write_array(&mut body, records.len());
        body.extend(records.concat());
        (body, self.records.len())
    }
}

/// Starts one for as long as the runtime lives.
pub async fn start(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Log { fault, records: Vec::new(), posts: 0, held_back: None, stalled_until: None };
    let (log, news) = (Arc::new(Mutex::new(log)), Arc::new(watch::Sender::new(0)));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, log.clone(), news.clone()));
        }
    });
    address
}

/// Requests of one connection, until it ends.
async fn serve(socket: TcpStream, log: Arc<Mutex<Log>>, news: Arc<watch::Sender<usize>>) -> Option<()> {
    let mut socket = BufReader::new(socket);
    loop {
        let (mut first, mut body_len) = (String::new(), 0);
        socket.read_line(&mut first).await.ok().filter(|len| *len > 0)?;
        loop {
            let mut header = String::new();
            socket.read_line(&mut header).await.ok()?;
            if let Some(len) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                body_len = len.trim().parse().ok()?;
            }
            if header.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; body_len];
        socket.read_exact(&mut body).await.ok()?;
        let (status, body, position) = if first.starts_with("POST") {
            let (status, head) = {
                let mut log = log.lock().unwrap();
                let mut reader = Reader::new(&body);
                reader.array().ok()?;
                let status = log.append(reader.raw().ok()?);
                (status, log.records.len())
            };
            let stalled_until = log.lock().unwrap().stalled_until;
            if let Some(until) = stalled_until {
                tokio::time::sleep_until(until.into()).await;
            }
            news.send_replace(head);
            (status, b"{}".to_vec(), head)
        } else {
            let after = first.split("after=").nth(1)?.split(['&', ' ']).next()?;
            let after: usize = after.parse().ok()?;
            let mut changed = news.subscribe();
            let waiting = changed.wait_for(|head| *head > after);
            // Nothing new is an answer too.
            let _ = tokio::time::timeout(Duration::from_secs(20), waiting).await;
            let (body, head) = log.lock().unwrap().after(after);
            (200, body, head)
        };
        let head = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\ninkrelay-position: {position}\r\n\r\n",
            body.len()
        );
        socket.write_all(&[head.as_bytes(), &body].concat()).await.ok()?;
    }
}
