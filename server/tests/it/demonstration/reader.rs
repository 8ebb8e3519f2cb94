//! Readers that follow a room to the end, each over a transport of its own, and come back when their connection ends.
//!
//! They take what the wire tells as it is, with nothing between that would mend it: a gap or a repeat shows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientId, Epoch, Identity, Position, Record, Seq, ServerFrame, json};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::http::{Http, Polled};
use crate::support::ledger::ReaderLog;
use crate::support::socket::{Got, Socket};

/// Between two connections.
const PAUSE: Duration = Duration::from_millis(50);
/// How long one poll waits, in seconds.
const POLL_WAIT_S: u64 = 10;

/// With this close code the server says that it knows the ticket no more: its store lost the secret.
const UNKNOWN_TICKET: &str = "4401";

/// How a reader reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    WebSocket,
    WebSocketJson,
    LongPoll,
    Events,
}

impl Over {
    /// Every way there is.
    pub const ALL: [Self; 4] = [Self::WebSocket, Self::WebSocketJson, Self::LongPoll, Self::Events];

    /// In plain words.
    pub fn name(self) -> &'static str {
        match self {
            Self::WebSocket => "WebSocket",
            Self::WebSocketJson => "WebSocket in JSON",
            Self::LongPoll => "long poll",
            Self::Events => "server-sent events",
        }
    }
}

/// What a reader has, and where it is.
#[derive(Debug)]
struct State {
    log: ReaderLog,
    position: Option<Position>,
    ticket: Option<String>,
    /// The position before each reset, and the one it led to.
    resets: Vec<(Option<Position>, Position)>,
    connections: usize,
}

/// See the module's documentation. It ends when it is dropped.
pub struct Reader {
    pub name: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

impl Reader {
    /// From the start of the room's log.
    pub fn start(name: impl Into<String>, over: Over, address: SocketAddr, room: &str) -> Self {
        let name = name.into();
        let log = ReaderLog::new(name.clone());
        let state = State { log, position: None, ticket: None, resets: Vec::new(), connections: 0 };
        let state = Arc::new(Mutex::new(state));
        let (shared, room) = (Arc::clone(&state), room.to_owned());
        let task = tokio::spawn(async move {
            loop {
                shared.lock().unwrap().connections += 1;
                let end = match over {
                    Over::WebSocket => over_socket(address, &room, &shared).await,
                    Over::WebSocketJson => over_socket_in_json(address, &room, &shared).await,
                    Over::LongPoll => over_polls(address, &room, &shared).await,
                    Over::Events => over_events(address, &room, &shared).await,
                };
                // Other reasons do not matter: what is missing afterwards does.
                if end.is_err_and(|why| why.contains(UNKNOWN_TICKET)) {
                    shared.lock().unwrap().ticket = None;
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { name, state, task }
    }

    /// How many records it has.
    ///
    /// # Panics
    /// When it has stopped, because something was told to it that no server may say.
    pub fn len(&self) -> usize {
        assert!(!self.task.is_finished(), "{} stopped; it says above why", self.name);
        self.state.lock().unwrap().log.len()
    }

    /// What it has.
    pub fn log(&self) -> ReaderLog {
        self.state.lock().unwrap().log.clone()
    }

    /// How many connections it has had.
    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// The position before each reset, and the one it led to.
    pub fn resets(&self) -> Vec<(Option<Position>, Position)> {
        self.state.lock().unwrap().resets.clone()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl State {
    fn records<R: AsRef<[u8]>>(&mut self, epoch: Epoch, first: u64, records: &[R]) {
        let Some(last) = records.last() else { return };
        self.log.records(first, records);
        let identity = Record::parse(last.as_ref()).expect("a record").identity;
        let seq = Seq::new(first).expect("a number").plus(records.len() - 1);
        self.position = Some(Position { epoch, seq, identity });
    }

    fn reset<R: AsRef<[u8]>>(&mut self, position: Position, records: &[R], more: bool) {
        let records = records.iter().map(AsRef::as_ref).collect();
        self.log.take(&ServerFrame::Reset { position, records, more });
        if !more {
            self.resets.push((self.position, position));
            self.position = (position.seq > Seq::START).then_some(position);
        }
    }
}

async fn over_socket(address: SocketAddr, room: &str, state: &Mutex<State>) -> Result<(), String> {
    let hello = {
        let state = state.lock().unwrap();
        Hello { ticket: state.ticket.clone(), position: state.position, ..Hello::default() }
    };
    let mut socket = Socket::try_join(address, room, &hello).await?;
    state.lock().unwrap().ticket = Some(socket.ticket.clone());
    let epoch = socket.welcome.as_ref().expect("who joined was welcomed").position.epoch;
    loop {
        let frame = match socket.next().await {
            Got::Frame(frame) => frame,
            end => return Err(format!("{end:?}")),
        };
        let mut state = state.lock().unwrap();
        match ServerFrame::decode(&frame).unwrap() {
            ServerFrame::Records { seq, records } => state.records(epoch, seq.get(), &records),
            ServerFrame::Reset { position, records, more } => state.reset(position, &records, more),
            _ => {}
        }
    }
}

async fn over_socket_in_json(address: SocketAddr, room: &str, state: &Mutex<State>) -> Result<(), String> {
    let hello = {
        let state = state.lock().unwrap();
        let position = state.position.map(|at| {
            let Identity { author, n, at: time } = at.identity;
            json!([at.epoch.get(), at.seq.get(), author.get(), n, time])
        });
        json!([1, state.ticket, position]).to_string()
    };
    let protocol = Some("v1.json.inkrelay");
    let (mut socket, _) =
        Socket::handshake(address, room, protocol).await.map_err(|error| error.to_string())?;
    socket.send_text(&hello).await;
    let mut epoch = None;
    loop {
        let text = match socket.next().await {
            Got::Text(text) => text,
            end => return Err(format!("{end:?}")),
        };
        let frame: Value = serde_json::from_str(&text).unwrap();
        let mut state = state.lock().unwrap();
        match frame[0].as_u64() {
            Some(65) => {
                state.ticket = frame[2].as_str().map(str::to_owned);
                epoch = frame[3][0].as_u64().and_then(Epoch::new);
            }
            Some(66) => {
                let epoch = epoch.expect("the welcome comes first");
                state.records(epoch, number(&frame[1]), &records_of(&frame[2]));
            }
            Some(68) => {
                let numbers = [1, 2, 5, 6, 7].map(|index: usize| number(&frame[index]));
                state.reset(position_of(numbers), &records_of(&frame[3]), frame[4] == true);
            }
            _ => {}
        }
    }
}

async fn over_polls(address: SocketAddr, room: &str, state: &Mutex<State>) -> Result<(), String> {
    let http = Http::new(address, room);
    loop {
        let after = state.lock().unwrap().position.map(|position| position.to_string()).unwrap_or_default();
        let polled = http.try_get(&format!("/draws?after={after}&wait={POLL_WAIT_S}")).await;
        let is_reset = match polled.map_err(|error| error.to_string())? {
            Ok(Polled { first, records, position: at }) => {
                let epoch = position(&at).expect("a position").epoch;
                state.lock().unwrap().records(epoch, first, &records);
                false
            }
            Err((410, _)) => true,
            Err((_, problem)) => return Err(problem.to_string()),
        };
        if is_reset {
            let snapshot = http.try_get("/snapshot").await.map_err(|error| error.to_string())?;
            let Polled { records, position: at, .. } = snapshot.map_err(|problem| format!("{problem:?}"))?;
            state.lock().unwrap().reset(position(&at).expect("a position"), &records, false);
        }
    }
}

async fn over_events(address: SocketAddr, room: &str, state: &Mutex<State>) -> Result<(), String> {
    let client = crate::support::requests::client();
    let mut request = client.get(format!("http://{address}/v1/rooms/{room}/events"));
    if let Some(position) = state.lock().unwrap().position {
        request = request.header("last-event-id", position.to_string());
    }
    let mut response = request.send().await.map_err(|error| error.to_string())?;
    if response.status() != 200 {
        return Err(response.status().to_string());
    }
    let mut waiting = String::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| error.to_string())? {
        // What the relay writes into events is ASCII as long as nobody writes text into draws.
        waiting.push_str(std::str::from_utf8(&chunk).expect("ASCII"));
        while let Some((event, rest)) = waiting.split_once("\n\n") {
            take_event(event, &mut state.lock().unwrap());
            waiting = rest.to_owned();
        }
    }
    Ok(())
}

fn take_event(event: &str, state: &mut State) {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    let Some(data) = field("data") else { return };
    let data: Value = serde_json::from_str(data).unwrap();
    let is_reset = field("event") == Some("reset");
    if is_reset && data[3] == true {
        assert_eq!(field("id"), None, "R-13: a part that another one follows");
        let (epoch, seq) = (Epoch::new(number(&data[0])), Seq::new(number(&data[1])));
        let (epoch, seq) = (epoch.expect("an epoch"), seq.expect("a seq"));
        let position = Position { epoch, seq, identity: Identity::NONE };
        return state.reset(position, &records_of(&data[2]), true);
    }
    let id = field("id").expect("an event with data has an id");
    let position = position(id).unwrap_or_else(|| panic!("the id {id} is no position"));
    if is_reset {
        return state.reset(position, &records_of(&data[2]), false);
    }
    state.records(position.epoch, position.seq.get(), &[record_of(&data)]);
    assert_eq!(state.position, Some(position), "the id is the position");
}

/// A record's bytes, from its JSON.
pub fn record_of(json: &Value) -> Vec<u8> {
    let draws = json!([json[3]]).to_string();
    let draws = json::to_msgpack(draws.as_bytes(), json::Shape::Draws).unwrap();
    let author = ClientId::new(number(&json[0])).unwrap();
    let identity = Identity { author, n: number(&json[1]), at: number(&json[2]) };
    let mut out = Vec::new();
    // An array of one draw has a head of one byte.
    Record { identity, draw: &draws[1..] }.encode(&mut out);
    out
}

fn records_of(json: &Value) -> Vec<Vec<u8>> {
    json.as_array().expect("a list of records").iter().map(record_of).collect()
}

/// `epoch.seq.author.n.at`, of a log without records too.
fn position(text: &str) -> Option<Position> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let position = position_of([(); 5].map(|()| numbers.next().flatten().unwrap_or(0)));
    (position.to_string() == text).then_some(position)
}

fn position_of([epoch, seq, author, n, at]: [u64; 5]) -> Position {
    let identity = Identity { author: ClientId::new(author).unwrap(), n, at };
    Position { epoch: Epoch::new(epoch).unwrap(), seq: Seq::new(seq).unwrap(), identity }
}

fn number(json: &Value) -> u64 {
    json.as_u64().unwrap_or_else(|| panic!("{json} is no number"))
}
