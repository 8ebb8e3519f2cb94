//! A relay that breaks one promise: posts and long polls over HTTP, just enough for `replay`, and one room over
//! WebSocket, just enough for `rooms`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use inkrelay_load::measure::mark;
use inkrelay_protocol::frame::SessionLimits;
use inkrelay_protocol::msgpack::{self, Reader};
use inkrelay_protocol::{ClientFrame, ClientId, Epoch, Identity, Position, Record, Role, Seq, ServerFrame};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;

/// The draw that it happens to.
const UNLUCKY: u64 = 40;
/// Who everybody is over a WebSocket.
const CLIENT: u64 = 7;
/// No MessagePack.
const GARBAGE: &[u8] = &[0xc1; 20];
/// How long a stalled server does nothing, and one that is away is away.
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
    /// Kept, and its connection ends without an answer.
    HangsUp,
    /// Kept under another author's id.
    Renames,
    /// The answer to it names the number after its own.
    Misanswers,
    /// Two draws of different writers come the other way round, to the first who connected alone, numbered as ever.
    SwapsForOne,
    /// Whoever read first gets bytes that mean nothing.
    Garbles,
    /// All connections end, and nobody can connect for a second.
    Away,
}

struct Log {
    fault: Fault,
    records: Vec<Vec<u8>>,
    posts: u64,
    /// Whether somebody has got garbage.
    garbled: bool,
    /// Opened up to now.
    sockets: u64,
    held_back: Option<Vec<u8>>,
    stalled_until: Option<Instant>,
}

impl Log {
    /// Takes a draw and returns the status of its answer, and the number at which the draw stands.
    fn append(&mut self, author: ClientId, draw: &[u8]) -> (u16, Option<usize>) {
        self.posts += 1;
        let renames = self.fault == Fault::Renames && self.posts == UNLUCKY;
        let author = if renames { ClientId::new(4711).unwrap() } else { author };
        let identity = Identity { author, n: self.posts, at: 1 };
        let mut seq = self.records.len() + 1;
        let mut record = Vec::new();
        Record { identity, draw }.encode(&mut record);
        let is_unlucky = self.posts == UNLUCKY;
        match self.fault {
            Fault::RefusesAll => return (422, None),
            Fault::Drops if is_unlucky => return (200, None),
            Fault::Misanswers if is_unlucky => {
                self.records.push(record);
                seq += 1;
            }
            Fault::Doubles if is_unlucky => self.records.extend([record.clone(), record]),
            Fault::Swaps if is_unlucky => {
                self.held_back = Some(record);
                seq += 1;
            }
            Fault::Corrupts if is_unlucky => {
                // Within the points, so that it stays a valid draw.
                let place = record.len() - 30;
                record[place] ^= 1;
                self.records.push(record);
            }
            Fault::KeepsRefused if is_unlucky => {
                self.records.push(record);
                return (422, None);
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
        (200, Some(seq))
    }

    /// Whether this is the answer that means nothing.
    fn garbles(&mut self) -> bool {
        let garbles = self.fault == Fault::Garbles && !self.garbled && self.records.len() as u64 >= UNLUCKY;
        self.garbled |= garbles;
        garbles
    }

    /// `[epoch, first seq, [record, …]]` and the position behind it.
    fn after(&mut self, seq: usize) -> (Vec<u8>, usize) {
        if self.garbles() {
            return (GARBAGE.to_vec(), seq);
        }
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

    /// The frame with all records after a number, which becomes that of the last.
    fn frame_after(&mut self, sent: &mut usize, swaps: &mut bool) -> Vec<u8> {
        if self.garbles() {
            return GARBAGE.to_vec();
        }
        let mut records: Vec<&[u8]> = self.records[*sent..].iter().map(Vec::as_slice).collect();
        if *swaps && *sent as u64 >= UNLUCKY {
            let writer = |record: &[u8]| mark::read(Record::parse(record).unwrap().draw).unwrap().writer;
            let pair = records.windows(2).position(|pair| writer(pair[0]) != writer(pair[1]));
            if let Some(first) = pair {
                records.swap(first, first + 1);
                *swaps = false;
            }
        }
        let skips = self.fault == Fault::Misnumbers && self.records.len() as u64 > UNLUCKY;
        let seq = Seq::START.plus(*sent + 1 + usize::from(skips));
        *sent = self.records.len();
        ServerFrame::Records { seq, records }.to_bytes()
    }
}

/// Starts one for as long as the runtime lives.
pub async fn start(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let log = Log {
        fault,
        records: Vec::new(),
        posts: 0,
        garbled: false,
        sockets: 0,
        held_back: None,
        stalled_until: None,
    };
    let (log, news) = (Arc::new(Mutex::new(log)), Arc::new(watch::Sender::new(0)));
    tokio::spawn(async move {
        let mut goes = (fault == Fault::Away).then(|| news.subscribe());
        accept(listener, &log, &news, goes.as_mut()).await;
        if goes.is_some() {
            tokio::time::sleep(STALL).await;
            accept(TcpListener::bind(address).await.unwrap(), &log, &news, None).await;
        }
    });
    address
}

/// Serves until so much is there that the server goes away, and its connections with it.
async fn accept(
    listener: TcpListener,
    log: &Arc<Mutex<Log>>,
    news: &Arc<watch::Sender<usize>>,
    goes: Option<&mut watch::Receiver<usize>>,
) {
    let mut serving = JoinSet::new();
    let gone = async {
        match goes {
            Some(news) => drop(news.wait_for(|head| *head as u64 >= UNLUCKY).await),
            None => std::future::pending().await,
        }
    };
    tokio::pin!(gone);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut gone => return,
        };
        let Ok((socket, _)) = accepted else { return };
        socket.set_nodelay(true).unwrap();
        let (log, news) = (log.clone(), news.clone());
        serving.spawn(async move {
            let mut first = [0; 256];
            let len = socket.peek(&mut first).await.ok()?;
            let line = String::from_utf8_lossy(&first[..len]).into_owned();
            let path = line.split(' ').nth(1)?;
            if path.ends_with("/ws") {
                serve_socket(socket, log, news).await
            } else {
                serve(socket, log, news).await
            }
        });
    }
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
            let (status, seq, head) = {
                let mut log = log.lock().unwrap();
                let mut reader = Reader::new(&body);
                reader.array().ok()?;
                let (status, seq) = log.append(ClientId::ANONYMOUS, reader.raw().ok()?);
                (status, seq, log.records.len())
            };
            let stalled_until = log.lock().unwrap().stalled_until;
            if let Some(until) = stalled_until {
                tokio::time::sleep_until(until.into()).await;
            }
            news.send_replace(head);
            let seq = seq.map_or("null".to_owned(), |seq| seq.to_string());
            (status, format!("{{\"seq\":{seq}}}").into_bytes(), head)
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

#[expect(clippy::result_large_err, reason = "the type is the library's")]
fn agree(_: &Request, mut response: Response) -> Result<Response, ErrorResponse> {
    let subprotocol = HeaderValue::from_static("v1.msgpack.inkrelay");
    response.headers_mut().insert("Sec-WebSocket-Protocol", subprotocol);
    Ok(response)
}

/// One WebSocket, until it ends. All rooms are one.
async fn serve_socket(
    socket: TcpStream,
    log: Arc<Mutex<Log>>,
    news: Arc<watch::Sender<usize>>,
) -> Option<()> {
    let mut socket = tokio_tungstenite::accept_hdr_async(socket, agree).await.ok()?;
    let mut changed = news.subscribe();
    // Nothing before hello.
    let mut sent = usize::MAX;
    // What was on its way behind a refusal is dropped.
    let mut refused = None;
    let mut swaps = {
        let mut log = log.lock().unwrap();
        log.sockets += 1;
        log.fault == Fault::SwapsForOne && log.sockets == 1
    };
    loop {
        let message = tokio::select! {
            message = socket.next() => Some(message?.ok()?),
            // Whoever swaps two has to have two.
            is_open = async {
                let least = if swaps && sent as u64 >= UNLUCKY { 2 } else { 1 };
                changed.wait_for(|head| *head >= sent.saturating_add(least)).await.is_ok()
            } => {
                is_open.then_some(())?;
                None
            }
        };
        let Some(message) = message else {
            let frame = log.lock().unwrap().frame_after(&mut sent, &mut swaps);
            socket.send(Message::Binary(frame.into())).await.ok()?;
            continue;
        };
        let answer = match ClientFrame::decode(&message.into_data()).ok()? {
            ClientFrame::Hello(hello) => {
                sent = hello.position.map_or(0, |position| position.seq.get() as usize);
                welcome()
            }
            ClientFrame::Draws { n, .. } if refused.is_some_and(|refused| n != refused) => continue,
            ClientFrame::Draws { n, draws } => {
                let (status, seq, hangs_up, head) = {
                    let mut log = log.lock().unwrap();
                    let mut reader = Reader::new(draws);
                    reader.array().ok()?;
                    let (status, seq) = log.append(ClientId::new(CLIENT).unwrap(), reader.raw().ok()?);
                    let hangs_up = log.fault == Fault::HangsUp && log.posts == UNLUCKY;
                    (status, seq, hangs_up, log.records.len())
                };
                news.send_replace(head);
                if hangs_up {
                    return None;
                }
                let refusal = ServerFrame::Error {
                    code: "refused".to_owned(),
                    message: String::new(),
                    retry_ms: None,
                    n: Some(n),
                };
                let ack = ServerFrame::Ack { n, seq: Seq::START.plus(seq.unwrap_or(head)) };
                refused = (status != 200).then_some(n);
                if status == 200 { ack.to_bytes() } else { refusal.to_bytes() }
            }
            _ => continue,
        };
        socket.send(Message::Binary(answer.into())).await.ok()?;
    }
}

fn welcome() -> Vec<u8> {
    let identity = Identity::NONE;
    let frame = ServerFrame::Welcome {
        client: ClientId::new(CLIENT).unwrap(),
        ticket: "ticket".to_owned(),
        position: Position { epoch: Epoch::EMPTY, seq: Seq::START, identity },
        role: Role::Drawer,
        limits: SessionLimits::from_array([0; 5]),
    };
    frame.to_bytes()
}
