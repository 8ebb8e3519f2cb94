//! A relay in one file: one room in memory, WebSocket and HTTP on one port, and faults on demand. It keeps to
//! the protocol as far as the client can tell, and to nothing else.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use inkrelay_protocol::draw::{Drawer, check_batch};
use inkrelay_protocol::frame::write_records;
use inkrelay_protocol::limits::DrawLimits;
use inkrelay_protocol::{
    After, ClientFrame, ClientId, Draw, Epoch, Identity, Position, Record, Role, Seq, ServerFrame,
    SessionLimits, msgpack,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// What goes wrong.
#[derive(Default)]
pub struct Faults {
    /// Sockets are answered with a proxy's 502.
    pub refuse_sockets: bool,
    /// Sockets say nothing after the welcome.
    pub mute: bool,
    /// That many batches are stored and then the connection is cut instead of an ack.
    pub lost_acks: u32,
    /// Resets come in parts of one record.
    pub small_parts: bool,
}

#[derive(Default)]
pub struct State {
    pub epoch: u64,
    pub log: Vec<Vec<u8>>,
    pub last_n: HashMap<u64, u64>,
    pub faults: Faults,
    pub sockets: u32,
    pub posts: u32,
    clients: u64,
    clock: u64,
}

impl State {
    fn position(&self, seq: usize) -> Position {
        let epoch = Epoch::new(self.epoch).unwrap();
        match seq.checked_sub(1) {
            None => Position::start(epoch),
            Some(index) => {
                let identity = Record::parse(&self.log[index]).unwrap().identity;
                Position { epoch, seq: Seq::new(seq as u64).unwrap(), identity }
            }
        }
    }

    fn head(&self) -> Position {
        self.position(self.log.len())
    }

    /// The cursor of a reader, or nothing when it needs a reset.
    fn resume(&self, after: After) -> Option<usize> {
        match after {
            After::Start => Some(0),
            After::Seq(seq) => Some(seq.get() as usize),
            After::Position(position) => {
                let seq = position.seq.get() as usize;
                (seq <= self.log.len() && self.position(seq).matches(&position)).then_some(seq)
            }
        }
    }

    fn join(&mut self, ticket: Option<&str>) -> Option<u64> {
        let Some(ticket) = ticket else {
            self.clients += 1;
            self.last_n.insert(self.clients, 0);
            return Some(self.clients);
        };
        let client = ticket.strip_prefix('t')?.parse().ok()?;
        self.last_n.contains_key(&client).then_some(client)
    }

    fn limits(&self, client: u64) -> SessionLimits {
        SessionLimits {
            bytes_per_draw: 1000,
            draws_per_batch: 8,
            bytes_per_message: 4000,
            batches_per_second: 0,
            last_n: self.last_n[&client],
        }
    }

    fn append(&mut self, client: u64, n: u64, batch: &[u8]) -> Result<u64, Refused> {
        let drawer = Drawer { client: ClientId::new(client).unwrap(), role: Role::Drawer };
        let limits = DrawLimits { bytes_per_draw: 1000, draws_per_batch: 8 };
        let draws = check_batch(batch, &limits, drawer).expect("the client sends no malformed batch");
        // This relay dislikes erasing.
        if let Some(index) = draws.iter().position(|draw| matches!(Draw::decode(draw), Ok(Draw::Erase(_)))) {
            return Err(Refused::Draw(index as u64));
        }
        let last = self.last_n[&client];
        if n > last + 1 {
            return Err(Refused::Gap(last + 1));
        }
        for (n, draw) in (n..).zip(draws).filter(|(n, _)| *n > last) {
            // No two appends share an identity, also after a loss.
            self.clock += 1;
            let identity = Identity { author: drawer.client, n, at: self.clock };
            let mut record = Vec::new();
            Record { identity, draw }.encode(&mut record);
            self.log.push(record);
            self.last_n.insert(client, n);
        }
        Ok(self.last_n[&client])
    }
}

enum Refused {
    Draw(u64),
    Gap(u64),
}

/// What all connections are told.
#[derive(Clone, Default)]
struct Signal {
    /// Counts changes of the log.
    changes: u64,
    /// Counts cuts of all sockets, and how they are closed.
    cuts: u64,
    code: u16,
}

pub struct Relay {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    signal: watch::Sender<Signal>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { epoch: 5, ..State::default() }));
        let signal = watch::Sender::new(Signal::default());
        let server = Server { state: state.clone(), signal: signal.clone() };
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = server.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        Self { address, state, signal, task }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Closes all sockets: with a code, or without a word for 0.
    pub fn cut(&self, code: u16) {
        self.signal.send_modify(|signal| {
            signal.cuts += 1;
            signal.code = code;
        });
    }

    /// Loses the newest records, as a failover does: a new epoch, and older numbers for the authors.
    pub fn lose(&self, records: usize) {
        {
            let mut state = self.state();
            let keep = state.log.len() - records;
            state.log.truncate(keep);
            state.epoch += 1;
            state.last_n.values_mut().for_each(|n| *n = 0);
            let State { log, last_n, .. } = &mut *state;
            for record in log {
                let Identity { author, n, .. } = Record::parse(record).unwrap().identity;
                last_n.insert(author.get(), n);
            }
        }
        self.cut(0);
    }
}

#[derive(Clone)]
struct Server {
    state: Arc<Mutex<State>>,
    signal: watch::Sender<Signal>,
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn serve(&self, stream: TcpStream) {
        let mut head = [0; 4096];
        let is_socket = loop {
            match stream.peek(&mut head).await {
                Ok(0) | Err(_) => return,
                Ok(len) if head[..len].windows(4).any(|end| end == b"\r\n\r\n") => {
                    break head[..len]
                        .to_ascii_lowercase()
                        .windows(18)
                        .any(|part| part == b"upgrade: websocket");
                }
                Ok(_) => tokio::task::yield_now().await,
            }
        };
        // A client that leaves in the middle is no failure of the relay's.
        let _ = match is_socket && !self.state().faults.refuse_sockets {
            true => self.socket(stream).await,
            false => self.http(stream, is_socket).await,
        };
    }

    async fn socket(&self, stream: TcpStream) -> Option<()> {
        #[allow(clippy::result_large_err)]
        let subprotocol = |request: &Request, mut response: Response| {
            assert_eq!(request.headers()["sec-websocket-protocol"], "v1.msgpack.inkrelay");
            let name = HeaderValue::from_static("v1.msgpack.inkrelay");
            response.headers_mut().insert("sec-websocket-protocol", name);
            Ok(response)
        };
        let mut socket = tokio_tungstenite::accept_hdr_async(stream, subprotocol).await.ok()?;
        let mut signal = self.signal.subscribe();
        let cuts = signal.borrow_and_update().cuts;
        let Message::Binary(bytes) = socket.next().await?.ok()? else { return None };
        let Ok(ClientFrame::Hello(hello)) = ClientFrame::decode(&bytes) else { panic!("no hello") };
        let joined = self.state().join(hello.ticket.as_deref());
        let Some(client) = joined else {
            let close = CloseFrame { code: 4401.into(), reason: "no such ticket".into() };
            return socket.send(Message::Close(Some(close))).await.ok();
        };
        let mut cursor = None;
        let mut frames = Vec::new();
        {
            let mut state = self.state();
            state.sockets += 1;
            let welcome = ServerFrame::Welcome {
                client: ClientId::new(client).unwrap(),
                ticket: format!("t{client}"),
                position: state.head(),
                role: Role::Drawer,
                limits: state.limits(client),
            };
            frames.push(welcome.to_bytes());
            if !state.faults.mute {
                cursor = Some(state.resume(After::position(hello.position)).unwrap_or_else(|| {
                    let size = if state.faults.small_parts { 1 } else { state.log.len().max(1) };
                    let parts = state.log.len().div_ceil(size);
                    for (index, part) in state.log.chunks(size).enumerate() {
                        let records = part.iter().map(Vec::as_slice).collect();
                        let more = index + 1 < parts;
                        frames.push(ServerFrame::Reset { position: state.head(), records, more }.to_bytes());
                    }
                    state.log.len()
                }));
            }
        }
        loop {
            if let Some(from) = cursor {
                let state = self.state();
                if from < state.log.len() {
                    let records = state.log[from..].iter().map(Vec::as_slice).collect();
                    let seq = Seq::new(from as u64 + 1).unwrap();
                    frames.push(ServerFrame::Records { seq, records }.to_bytes());
                    cursor = Some(state.log.len());
                }
            }
            for frame in frames.drain(..) {
                socket.send(Message::binary(frame)).await.ok()?;
            }
            let message = tokio::select! {
                message = socket.next() => message?.ok()?,
                changed = signal.changed() => {
                    changed.ok()?;
                    let told = signal.borrow_and_update().clone();
                    if told.cuts > cuts {
                        if told.code != 0 {
                            let close = CloseFrame { code: told.code.into(), reason: "".into() };
                            socket.send(Message::Close(Some(close))).await.ok()?;
                        }
                        return None;
                    }
                    continue;
                }
            };
            let Message::Binary(bytes) = message else { continue };
            let Ok(ClientFrame::Draws { n, draws }) = ClientFrame::decode(&bytes) else { continue };
            let (frame, lost) = self.take(client, n, draws);
            if lost {
                return None;
            }
            frames.push(frame);
        }
    }

    /// Takes a batch; returns the answer, and whether it is to be lost.
    fn take(&self, client: u64, n: u64, draws: &[u8]) -> (Vec<u8>, bool) {
        let mut state = self.state();
        let answer = match state.append(client, n, draws) {
            Ok(last) => ServerFrame::Ack { n: last, seq: state.head().seq },
            Err(Refused::Draw(index)) => error("invalid_draw", Some(n + index)),
            Err(Refused::Gap(expected)) => error("gap", Some(expected)),
        };
        let lost = matches!(answer, ServerFrame::Ack { .. }) && state.faults.lost_acks > 0;
        state.faults.lost_acks -= u32::from(lost);
        drop(state);
        self.signal.send_modify(|signal| signal.changes += 1);
        (answer.to_bytes(), lost)
    }

    async fn http(&self, mut stream: TcpStream, refuse: bool) -> Option<()> {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        };
        let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
        let header = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(": "))
                .find(|(key, _)| key.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.to_owned())
        };
        let length = header("content-length").map_or(0, |length| length.parse().unwrap());
        while bytes.len() < end + length {
            if stream.read_buf(&mut bytes).await.ok()? == 0 {
                return None;
            }
        }
        let path = head.split(' ').nth(1)?.to_owned();
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let argument = |name: &str| {
            query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)
        };
        let route = path.strip_prefix("/v1/rooms/test")?;
        let (status, body) = match (head.split(' ').next()?, route) {
            _ if refuse => (502, b"<html>Bad gateway</html>".to_vec()),
            ("POST", "/sessions") => {
                let mut state = self.state();
                match state.join(header("inkrelay-ticket").as_deref()) {
                    Some(client) => {
                        let answer = json!({
                            "client": client,
                            "ticket": format!("t{client}"),
                            "position": wire(&state.head()),
                            "role": 1,
                            "limits": state.limits(client).to_array(),
                        });
                        (200, answer.to_string().into_bytes())
                    }
                    None => unknown_ticket(),
                }
            }
            ("POST", "/draws") => {
                let client = self.state().join(header("inkrelay-ticket").as_deref());
                let n = header("inkrelay-n")?.parse().ok()?;
                match client {
                    Some(client) => self.post(client, n, &bytes[end..])?,
                    None => unknown_ticket(),
                }
            }
            ("GET", "/draws") => {
                let after = argument("after").map_or(After::Start, |(_, after)| after.parse().unwrap());
                let wait_s = argument("wait").map_or(25, |(_, wait)| wait.parse().unwrap());
                self.poll(after, Duration::from_secs(wait_s)).await?
            }
            ("GET", "/snapshot") => (200, snapshot(&self.state())),
            _ => (404, json!({"code": "not_found"}).to_string().into_bytes()),
        };
        let head =
            format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).await.ok()?;
        stream.write_all(&body).await.ok()
    }

    /// Nothing is answered when the answer is to be lost.
    fn post(&self, client: u64, n: u64, batch: &[u8]) -> Option<(u16, Vec<u8>)> {
        let mut state = self.state();
        state.posts += 1;
        let before = state.log.len() as u64;
        let answer = match state.append(client, n, batch) {
            Ok(_) if state.faults.lost_acks > 0 => {
                state.faults.lost_acks -= 1;
                None
            }
            Ok(_) => {
                let stored = state.log.len() as u64 - before;
                let seq = (stored > 0).then_some(before + 1);
                Some((200, json!({"seq": seq, "position": wire(&state.head()), "stored": stored})))
            }
            Err(Refused::Draw(index)) => Some((422, json!({"code": "invalid_draw", "index": index}))),
            Err(Refused::Gap(expected)) => Some((409, json!({"code": "gap", "expected": expected}))),
        };
        drop(state);
        self.signal.send_modify(|signal| signal.changes += 1);
        answer.map(|(status, body)| (status, body.to_string().into_bytes()))
    }

    async fn poll(&self, after: After, wait: Duration) -> Option<(u16, Vec<u8>)> {
        let mut signal = self.signal.subscribe();
        let deadline = tokio::time::Instant::now() + wait;
        loop {
            {
                let state = self.state();
                let Some(cursor) = state.resume(after) else {
                    return Some((410, json!({"code": "position_gone"}).to_string().into_bytes()));
                };
                if cursor < state.log.len() || tokio::time::Instant::now() >= deadline {
                    let mut body = Vec::new();
                    msgpack::write_array(&mut body, 3);
                    msgpack::write_uint(&mut body, state.epoch);
                    msgpack::write_uint(&mut body, cursor as u64 + 1);
                    write_records(&mut body, &state.log[cursor..]);
                    return Some((200, body));
                }
            }
            let _ = tokio::time::timeout_at(deadline, signal.changed()).await;
        }
    }
}

fn error(code: &str, n: Option<u64>) -> ServerFrame<'static> {
    ServerFrame::Error { code: code.to_owned(), message: "no".to_owned(), retry_ms: None, n }
}

fn unknown_ticket() -> (u16, Vec<u8>) {
    (401, json!({"code": "invalid_ticket"}).to_string().into_bytes())
}

fn wire(position: &Position) -> [u64; 5] {
    let Position { epoch, seq, identity } = position;
    [epoch.get(), seq.get(), identity.author.get(), identity.n, identity.at]
}

fn snapshot(state: &State) -> Vec<u8> {
    let [epoch, seq, author, n, at] = wire(&state.head());
    let mut body = Vec::new();
    msgpack::write_array(&mut body, 6);
    msgpack::write_uint(&mut body, epoch);
    msgpack::write_uint(&mut body, seq);
    write_records(&mut body, &state.log);
    [author, n, at].iter().for_each(|value| msgpack::write_uint(&mut body, *value));
    body
}
