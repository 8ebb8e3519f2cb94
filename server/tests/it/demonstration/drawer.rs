//! Drawers that use the client library, and write down in a ledger what it tells them of each draw.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inkrelay_client::client::{Client, ClientConfig, Event, Events, Timing, Transport};
use inkrelay_protocol::{ClientId, Draw, Position};
use tokio::task::JoinHandle;

use crate::support::PATIENCE;
use crate::support::ledger::{Ledger, ReaderLog, numbered};

/// A live pen sends that often.
const BEAT: Duration = Duration::from_millis(16);
/// One draw of so many is one that the server must refuse.
const FORBIDDEN_EVERY: usize = 50;
/// Waits between connections are short, so that a test sees many.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// A draw, and what is known of it.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    /// In the ledger.
    number: u64,
    /// Whether it breaks a rule.
    is_forbidden: bool,
    is_answered: bool,
}

/// What a drawer knows.
#[derive(Debug)]
struct State {
    /// What the library told of the log.
    log: ReaderLog,
    /// Parts of a reset that is not yet whole.
    reset: Vec<Vec<u8>>,
    resets: Vec<Position>,
    /// In the order of drawing.
    drawn: Vec<Drawn>,
    /// How many of them were answered, refusals included.
    answered: usize,
    /// All before this place were answered.
    open_from: usize,
    connections: usize,
}

impl State {
    /// Notes the first answer to the draw at that place; another one changes nothing.
    fn answer(&mut self, place: usize, note: impl FnOnce(Drawn)) {
        let drawn = &mut self.drawn[place];
        if !std::mem::replace(&mut drawn.is_answered, true) {
            note(*drawn);
            self.answered += 1;
        }
    }
}

/// See the module's documentation. It vanishes when it is dropped.
pub struct Drawer {
    pub name: String,
    client: Arc<Client>,
    state: Arc<Mutex<State>>,
    drawing: JoinHandle<()>,
    following: JoinHandle<()>,
}

impl Drawer {
    /// Draws these at a pen's pace until it is stopped.
    pub fn start(
        name: impl Into<String>,
        transport: Transport,
        address: SocketAddr,
        room: &str,
        ledger: &Arc<Ledger>,
        draws: impl Iterator<Item = Draw> + Send + 'static,
    ) -> Self {
        let name = name.into();
        let mut config = ClientConfig::new(format!("http://{address}"), room.parse().expect("a room's name"));
        config.transport = transport;
        config.timing = Timing { backoff_max: BACKOFF_MAX, ..Timing::default() };
        let (client, events) = Client::connect(config).expect("the address is a server's");
        let client = Arc::new(client);
        let state = Arc::new(Mutex::new(State {
            log: ReaderLog::new(name.clone()),
            reset: Vec::new(),
            resets: Vec::new(),
            drawn: Vec::new(),
            answered: 0,
            open_from: 0,
            connections: 0,
        }));
        let drawing = draw(Arc::clone(&client), Arc::clone(&state), Arc::clone(ledger), draws);
        let following = follow(events, Arc::clone(&state), Arc::clone(ledger));
        let (drawing, following) = (tokio::spawn(drawing), tokio::spawn(following));
        Self { name, client, state, drawing, following }
    }

    /// How many draws were answered.
    ///
    /// # Panics
    /// When it has stopped, because of an answer that may not be.
    pub fn answered(&self) -> usize {
        assert!(!self.following.is_finished(), "{} stopped; it says above why", self.name);
        self.state.lock().unwrap().answered
    }

    /// How many records the library has told it.
    pub fn len(&self) -> usize {
        self.state.lock().unwrap().log.len()
    }

    /// What the library told of the log.
    pub fn log(&self) -> ReaderLog {
        self.state.lock().unwrap().log.clone()
    }

    /// Where resets led.
    pub fn resets(&self) -> Vec<Position> {
        self.state.lock().unwrap().resets.clone()
    }

    /// How many connections it has had.
    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// Is gone, without another word. Returns the numbers in the ledger of what it drew.
    pub async fn vanish(mut self) -> Vec<u64> {
        self.stop().await;
        self.state.lock().unwrap().drawn.iter().map(|drawn| drawn.number).collect()
    }

    async fn stop(&mut self) {
        self.drawing.abort();
        // An error is that it was aborted, which is what is waited for.
        drop((&mut self.drawing).await);
    }

    /// Draws no more, and waits until every draw is answered.
    ///
    /// # Panics
    /// When that takes longer than [`PATIENCE`].
    pub async fn finish(&mut self) {
        self.stop().await;
        let flushed = tokio::time::timeout(PATIENCE, self.client.flush()).await;
        let pending = self.client.pending();
        let flushed = flushed.unwrap_or_else(|_| panic!("{} waits for {pending} answers", self.name));
        flushed.expect("it has not stopped");
        let all = || self.answered() == self.state.lock().unwrap().drawn.len();
        crate::support::eventually(&format!("{} has heard all answers", self.name), async || all()).await;
    }
}

impl Drop for Drawer {
    fn drop(&mut self) {
        self.drawing.abort();
        self.following.abort();
    }
}

async fn draw(
    client: Arc<Client>,
    state: Arc<Mutex<State>>,
    ledger: Arc<Ledger>,
    draws: impl Iterator<Item = Draw>,
) {
    // Nobody is client 1: ids are random.
    let someone = ClientId::new(1).expect("1 is an id");
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for (index, draw) in draws.enumerate() {
        beat.tick().await;
        if index % FORBIDDEN_EVERY == FORBIDDEN_EVERY - 1 {
            put(&client, &state, &ledger, &Draw::Revoke(vec![(someone, 1)]), true);
        }
        put(&client, &state, &ledger, &draw, false);
    }
}

/// Writes the draw down, and then hands it to the library: its answer may come at once.
fn put(client: &Client, state: &Mutex<State>, ledger: &Ledger, draw: &Draw, is_forbidden: bool) {
    let number = ledger.issue();
    let count = {
        let mut state = state.lock().unwrap();
        state.drawn.push(Drawn { number, is_forbidden, is_answered: false });
        state.drawn.len() as u64
    };
    let id = client.draw_bytes(numbered(draw, number).into()).expect("the library takes it");
    assert_eq!(id.get(), count, "draws are counted alike");
}

async fn follow(mut events: Events, state: Arc<Mutex<State>>, ledger: Arc<Ledger>) {
    while let Some(event) = events.recv().await {
        let mut state = state.lock().unwrap();
        match event {
            Event::Connected { .. } => state.connections += 1,
            Event::Records { first, records } => state.log.records(first.get(), &records),
            Event::Reset { position, records, first, last } => {
                if first {
                    state.reset.clear();
                }
                state.reset.extend(records.iter().map(|record| record.to_vec()));
                if last {
                    let whole = std::mem::take(&mut state.reset);
                    state.log.replace(whole, position.seq.get());
                    state.resets.push(position);
                }
            }
            Event::Stored { through, .. } => {
                let through = usize::try_from(through.get()).unwrap();
                for place in state.open_from..through {
                    state.answer(place, |drawn| {
                        assert!(
                            !drawn.is_forbidden,
                            "draw {} is forbidden, and was not refused",
                            drawn.number
                        );
                        ledger.acked(drawn.number);
                    });
                }
                state.open_from = through.max(state.open_from);
            }
            Event::Refused { draw, code, message } => {
                state.answer(usize::try_from(draw.get()).unwrap() - 1, |drawn| {
                    let number = drawn.number;
                    assert!(drawn.is_forbidden, "draw {number} breaks no rule: {message} ({code})");
                    ledger.refused(number);
                });
            }
            Event::Stopped(why) => panic!("the library gave up: {why}"),
            _ => {}
        }
    }
}
