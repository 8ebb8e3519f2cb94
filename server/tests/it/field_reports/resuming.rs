//! Coming back: repeats, holes, retries, connections that are replaced, and undo.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use inkrelay_client::client::{Client, ClientConfig, Event, Events, Timing, Transport};
use inkrelay_client::replica::Replica;
use inkrelay_protocol::{Board, ClientFrame, Draw, Record, Role, ServerFrame};
use tokio::time::{interval, sleep};

use super::{begin, node};
use crate::support::http::Http;
use crate::support::ledger::{Fault, Ledger, Outcome, draw};
use crate::support::proxy::{Direction, Fate, Proxy};
use crate::support::reader::{Reader, fresh_log};
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::socket::{Socket, batch, mark, marked};
use crate::support::writer::Writer;
use crate::support::{PATIENCE, eventually};

/// A network in front of a relay.
struct Network {
    proxy: Proxy,
    is_cut: Arc<AtomicBool>,
}

impl Network {
    async fn start(relay: &Relay) -> Self {
        let is_cut = Arc::new(AtomicBool::new(false));
        let rule = {
            let is_cut = Arc::clone(&is_cut);
            move |_: usize, _: Direction, _: &[u8]| match is_cut.load(Ordering::Acquire) {
                true => Fate::Cut,
                false => Fate::Forward,
            }
        };
        Self { proxy: Proxy::start(relay.address.port(), Arc::new(rule)).await, is_cut }
    }

    /// What is open breaks, and nothing gets through.
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        self.proxy.break_all();
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::Release);
    }
}

fn impatient() -> Timing {
    let backoff = Duration::from_millis(50);
    Timing {
        backoff_first: backoff,
        backoff_max: backoff * 4,
        open: Duration::from_secs(1),
        ..Timing::default()
    }
}

/// What a program that uses the client sees.
struct Program {
    client: Client,
    events: Events,
    replica: Replica,
    /// Records that were delivered, and how often it was connected.
    delivered: usize,
    connected: usize,
}

impl Program {
    fn start(network: &Network, transport: Transport) -> Self {
        let server = format!("http://{}", network.proxy.address());
        let mut config = ClientConfig::new(server, "a".parse().unwrap());
        (config.timing, config.transport) = (impatient(), transport);
        let (client, events) = Client::connect(config).unwrap();
        Self { client, events, replica: Replica::new(None, true), delivered: 0, connected: 0 }
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        while !holds(self) {
            let event = tokio::time::timeout(PATIENCE, self.events.recv()).await;
            match event.unwrap_or_else(|_| panic!("waited in vain until {what}")).expect("it goes on") {
                Event::Connected { welcome, .. } => {
                    self.replica.on_connected(welcome.head.epoch);
                    self.connected += 1;
                }
                Event::Records { first, records } => {
                    self.delivered += records.len();
                    self.replica.on_records(first, &records).expect("records come in order");
                }
                Event::Reset { .. } => panic!("nothing was lost"),
                _ => {}
            }
        }
    }

    fn strokes(&self) -> usize {
        self.replica.board().expect("it keeps one").strokes().count()
    }
}

/// Whoever comes back is told once more what it was told when it came back before, since what it got then did not
/// count as got.
#[tokio::test(flavor = "multi_thread")]
async fn coming_back_again_repeats_nothing() {
    let relay = Relay::start(|_| {}).await;
    let network = Network::start(&relay).await;
    let mut program = Program::start(&network, Transport::WebSocket);
    program.until("it is connected", |program| program.connected == 1).await;
    network.cut();

    let mut other = Socket::join(relay.address, "a").await;
    for n in 1..=10 {
        other.draw(n, &[begin(n, &[0, 0, 1, 1], true)]).await;
    }
    other.acked(10).await;
    let mut reader = Reader::join("raw", relay.address, "a").await;
    reader.has(10).await;
    network.heal();
    program.until("it has what it missed", |program| program.delivered == 10).await;
    for _ in 0..5 {
        // Both ways of coming back: the client's own, and the bare protocol.
        let connected = program.connected;
        network.cut();
        sleep(Duration::from_millis(100)).await;
        network.heal();
        program.until("it is connected again", |program| program.connected > connected).await;
        reader.come_back().await;
    }
    // What comes next is the next, so that nothing can have come in between.
    other.draw(11, &[begin(11, &[0, 0, 1, 1], true)]).await;
    program.until("it has the next", |program| program.delivered >= 11).await;
    reader.has(11).await;
    assert_eq!((program.delivered, program.strokes()), (11, 11));
    assert_eq!(reader.log.resets(), 0);
    let faults = Ledger::default().faults(&[&reader.log]);
    assert!(faults.iter().all(|fault| matches!(fault, Fault::NeverIssued { .. })), "{faults:?}");
}

/// An answer is lost and the draw is sent again, to this server and the other, by POST and over a socket: each time
/// it is stored once more. Here every answer names the one place where it stands.
#[tokio::test(flavor = "multi_thread")]
async fn a_draw_that_is_sent_again_is_stored_once() {
    let redis = RedisServer::start();
    let (one, other) = (node(&redis, |_| {}).await, node(&redis, |_| {}).await);
    let swallowed = Arc::new(AtomicUsize::new(0));
    let rule = {
        let swallowed = Arc::clone(&swallowed);
        move |_: usize, direction: Direction, _: &[u8]| match direction {
            Direction::ToServer => Fate::Forward,
            Direction::ToClient => {
                swallowed.fetch_add(1, Ordering::AcqRel);
                Fate::Cut
            }
        }
    };
    let proxy = Proxy::start(one.address.port(), Arc::new(rule)).await;
    let session = Http::new(one.address, "a").session().await.unwrap();
    let ticket = session["ticket"].as_str().unwrap();
    let stroke = batch(&[begin(1, &[0, 0, 5, 5], true)]);

    let lost = Http::new(proxy.address(), "a").post(stroke.clone(), Some((ticket, 1))).await;
    assert!(lost.is_err(), "the answer is lost: {lost:?}");
    assert!(swallowed.load(Ordering::Acquire) >= 1);
    let mut answers = Vec::new();
    for again in [&one, &one, &other] {
        // Others draw in between.
        Http::new(other.address, "a").post(batch(&[draw(7)]), None).await.unwrap();
        let (status, answer) =
            Http::new(again.address, "a").post(stroke.clone(), Some((ticket, 1))).await.unwrap();
        assert_eq!((status, &answer["stored"]), (200, &0.into()));
        answers.push(answer["seq"].as_u64().unwrap());
    }
    let hello = inkrelay_protocol::frame::Hello { ticket: Some(ticket.to_owned()), ..Default::default() };
    let mut socket = Socket::join_as(other.address, "a", hello).await;
    socket.send(&ClientFrame::Draws { n: 1, draws: &stroke }).await;
    let (n, seq) = socket.acked(1).await;
    answers.push(seq.get());
    assert_eq!((n, &answers[..]), (1, &[1, 1, 1, 1][..]));
    let log = fresh_log("fresh", one.address, "a").await;
    let copies =
        log.all().iter().filter(|record| Record::parse(record).unwrap().identity.n == 1 && !is_mark(record));
    assert_eq!((log.len(), copies.count()), (4, 1));
}

fn is_mark(record: &[u8]) -> bool {
    matches!(Draw::decode(Record::parse(record).unwrap().draw), Ok(Draw::Opaque(_)))
}

/// Memory holds fewer records than somebody missed: it is given the few as if they were all.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_missed_more_than_memory_holds_gets_all_of_it() {
    let relay = Relay::start(|config| config.limits.room_memory = 1).await;
    let ledger = Arc::new(Ledger::default());
    let mut writer = Writer::new(&[relay.address], "a", &ledger);
    writer.draw(3).await;
    let mut reader = Reader::join("left", relay.address, "a").await;
    reader.has(3).await;
    let http = Http::new(relay.address, "a");
    let polled = http.poll("", 0).await.unwrap();
    let position = reader.position();
    reader.leave().await;
    writer.draw(7).await;

    reader.come_back().await;
    assert_eq!(reader.position(), position, "it came back from where it was");
    reader.has(10).await;
    assert_eq!((reader.log.resets(), reader.log.len()), (0, 10));
    let missed = http.poll(&polled.position, 0).await.unwrap();
    assert_eq!((missed.first, missed.records.len()), (4, 7));
    ledger.assert_agrees(&[&reader.log]);
}

/// The store loses everything, and a few draws later somebody comes back: the numbers go on from there as if
/// nothing had happened, or the few new ones are told as the rest of the old log.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_to_another_log_is_told_so() {
    let redis = RedisServer::start();
    let relay = node(&redis, |_| {}).await;
    let before = Arc::new(Ledger::default());
    Writer::new(&[relay.address], "a", &before).draw(8).await;
    let mut left = Reader::join("left", relay.address, "a").await;
    let mut stayed = Reader::join("stayed", relay.address, "a").await;
    left.has(8).await;
    stayed.has(8).await;
    let http = Http::new(relay.address, "a");
    let polled = http.poll("", 0).await.unwrap();
    left.leave().await;

    redis.command(&["FLUSHALL"]);
    let after = Arc::new(Ledger::default());
    Writer::new(&[relay.address], "a", &after).draw(3).await;
    // Polls are answered 410, with where to start anew.
    let (status, problem) = http.poll(&polled.position, 0).await.unwrap_err();
    assert_eq!((status, &problem["code"]), (410, &"position_gone".into()));
    assert_eq!(problem["snapshot"], "/v1/rooms/a/snapshot");
    assert_eq!(http.snapshot().await.unwrap().records.len(), 3);
    // Sockets are reset, also those that were there all the time.
    left.come_back().await;
    left.until("it is reset", |log| log.resets() == 1 && log.len() == 3).await;
    stayed.until("it is reset", |log| log.resets() >= 1 && log.len() == 3).await;
    after.assert_agrees(&[&left.log, &stayed.log, &fresh_log("fresh", relay.address, "a").await]);
}

/// The network fails for half a second every now and then, in the middle of strokes too: what its author sees is
/// not what the others get.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_drawn_around_a_short_failure_disappears() {
    let relay = Relay::start(|_| {}).await;
    let network = Network::start(&relay).await;
    let program = Program::start(&network, Transport::Auto);
    let Program { client, mut events, .. } = program;
    let events = tokio::spawn(async move { while events.recv().await.is_some() {} });
    let blips = async {
        for _ in 0..4 {
            sleep(Duration::from_millis(600)).await;
            network.cut();
            sleep(Duration::from_millis(400)).await;
            network.heal();
        }
    };
    let drawing = async {
        let mut beat = interval(Duration::from_millis(8));
        for stroke in 0..100 {
            for index in 0..5 {
                beat.tick().await;
                let draw = match index {
                    0 => begin(stroke, &[0, 0], false),
                    _ => Draw::Extend { stroke, points: vec![1, 1], end: index == 4 },
                };
                client.draw_when_room(&draw).await.unwrap();
            }
        }
    };
    tokio::join!(blips, drawing);
    tokio::time::timeout(PATIENCE, client.flush()).await.expect("all is stored").unwrap();
    assert_eq!(client.pending(), 0);
    let log = fresh_log("fresh", relay.address, "a").await;
    let board = drawn(&log.all().iter().collect::<Vec<_>>());
    let strokes: Vec<_> =
        board.strokes().map(|stroke| (stroke.number, stroke.points().len(), stroke.closed)).collect();
    assert_eq!(strokes, (0..100).map(|stroke| (stroke, 5, true)).collect::<Vec<_>>());
    drop(client);
    events.await.unwrap();
}

fn drawn(records: &[&Vec<u8>]) -> Board {
    let mut board = Board::new();
    records.iter().for_each(|record| board.apply(&Record::parse(record).unwrap()));
    board
}

/// The client says that all is well after it came back, and nothing that is drawn from then on is kept.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_drawn_without_a_network_and_after_it_is_kept() {
    let relay = Relay::start(|_| {}).await;
    let network = Network::start(&relay).await;
    let mut program = Program::start(&network, Transport::Auto);
    program.until("it is connected", |program| program.connected == 1).await;
    network.cut();
    for stroke in 0..5 {
        program.client.draw(&begin(stroke, &[0, 0], true)).unwrap();
    }
    sleep(Duration::from_millis(500)).await;
    assert_eq!(program.client.pending(), 5, "nothing is called stored that is not");
    assert_eq!(fresh_log("meanwhile", relay.address, "a").await.len(), 0);
    network.heal();
    program.until("it is connected again", |program| program.connected == 2).await;
    for stroke in 5..10 {
        program.client.draw(&begin(stroke, &[0, 0], true)).unwrap();
    }
    tokio::time::timeout(PATIENCE, program.client.flush()).await.expect("all is stored").unwrap();
    program.client.close().await;
    let log = fresh_log("fresh", relay.address, "a").await;
    assert_eq!(drawn(&log.all().iter().collect::<Vec<_>>()).strokes().count(), 10);
}

/// A client's old connection dies without a word, the client is back already, and then the late close arrives: it
/// takes the new session along, or its owner is shown twice.
#[tokio::test(flavor = "multi_thread")]
async fn the_late_close_of_an_old_connection_ends_nothing_new() {
    let relay = Relay::start(|config| config.times.idle_time = Duration::from_secs(2)).await;
    let is_silent = Arc::new(AtomicBool::new(false));
    let rule = {
        let is_silent = Arc::clone(&is_silent);
        move |_: usize, _: Direction, _: &[u8]| {
            if is_silent.load(Ordering::Acquire) { Fate::Swallow } else { Fate::Forward }
        }
    };
    let proxy = Proxy::start(relay.address.port(), Arc::new(rule)).await;
    let mut other = Reader::join("other", relay.address, "a").await;
    let mut old = Socket::join_as(proxy.address(), "a", Socket::named("Ada")).await;
    old.draw(1, &[mark(1)]).await;
    old.acked(1).await;
    is_silent.store(true, Ordering::Release);

    let mut new = Socket::join_as(relay.address, "a", old.resume(None)).await;
    assert_eq!(new.client, old.client);
    let http = Http::new(relay.address, "a");
    assert_eq!(http.participants().await, 2, "Ada once, and the other");
    // The old connection's end, as late as it can come: what the proxy swallowed is followed by a reset.
    drop(old);
    drop(proxy);
    // Longer than the server itself would have taken to give the old one up.
    for n in 2..=12 {
        new.draw(n, &[mark(n)]).await;
        new.acked(n).await;
        sleep(Duration::from_millis(250)).await;
    }
    other.has(12).await;
    other.socket.draw(1, &[mark(13)]).await;
    new.wait_for("what the other drew", |frame| match frame {
        ServerFrame::Records { records, .. } => {
            records.iter().any(|record| marked(record) == 13).then_some(())
        }
        _ => None,
    })
    .await;
    assert_eq!(http.participants().await, 2);
}

/// Undo takes away the newest draw, whoever drew it.
#[tokio::test(flavor = "multi_thread")]
async fn undo_takes_away_ones_own_only() {
    let relay = Relay::start(|_| {}).await;
    let mut ada = Socket::join(relay.address, "a").await;
    let mut bob = Socket::join(relay.address, "a").await;
    ada.draw(1, &[begin(1, &[0, 0], true)]).await;
    ada.acked(1).await;
    bob.draw(1, &[begin(1, &[10, 10], true)]).await;
    bob.acked(1).await;
    ada.draw(2, &[begin(2, &[20, 20], true)]).await;
    ada.acked(2).await;
    let shown = async || {
        let log = fresh_log("late", relay.address, "a").await;
        let board = drawn(&log.all().iter().collect::<Vec<_>>());
        board.strokes().map(|stroke| (stroke.author, stroke.number)).collect::<Vec<_>>()
    };
    let (a1, b1, a2) = ((ada.client, 1), (bob.client, 1), (ada.client, 2));
    assert_eq!(shown().await, [a1, b1, a2]);
    // A stroke is undone by erasing it, and an erase by revoking it.
    bob.draw(2, &[Draw::Erase(vec![b1])]).await;
    bob.acked(2).await;
    assert_eq!(shown().await, [a1, a2]);
    ada.draw(3, &[Draw::Erase(vec![a2])]).await;
    ada.acked(3).await;
    assert_eq!(shown().await, [a1]);
    // Bob comes back and tries to take back what Ada did: that is refused, and changes nothing.
    let mut bob = Socket::join_as(relay.address, "a", bob.resume(None)).await;
    assert_eq!(bob.welcome.clone().unwrap().role, Role::Drawer);
    bob.draw(3, &[Draw::Revoke(vec![(ada.client, 3)])]).await;
    assert_eq!(bob.refused().await, ("forbidden".to_owned(), Some(3)));
    assert_eq!(shown().await, [a1]);
    // His own erase he may take back.
    bob.draw(3, &[Draw::Revoke(vec![(bob.client, 2)])]).await;
    bob.acked(3).await;
    assert_eq!(shown().await, [a1, b1]);
}

/// A socket breaks after the draw was stored and before its answer came; the retry goes to the other server.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_lost_with_its_socket_leaves_one_copy() {
    let redis = RedisServer::start();
    let (one, other) = (node(&redis, |_| {}).await, node(&redis, |_| {}).await);
    // The connection dies with the answer to a batch: the first that is short, once a draw was sent.
    let has_drawn = Arc::new(AtomicBool::new(false));
    let cuts = Arc::new(AtomicUsize::new(0));
    let rule = {
        let (has_drawn, cuts) = (Arc::clone(&has_drawn), Arc::clone(&cuts));
        move |_: usize, direction: Direction, _: &[u8]| {
            if direction == Direction::ToClient && has_drawn.swap(false, Ordering::AcqRel) {
                cuts.fetch_add(1, Ordering::AcqRel);
                return Fate::Cut;
            }
            Fate::Forward
        }
    };
    let proxy = Proxy::start(one.address.port(), Arc::new(rule)).await;
    let ledger = Arc::new(Ledger::default());
    let mut reader = Reader::join("reader", other.address, "a").await;
    for round in 0..10 {
        let mut writer = Writer::new(&[proxy.address(), other.address], "a", &ledger);
        writer.connect().await;
        // Participants and whatever else is on its way comes first.
        eventually("the reader sees the writer", async || {
            Http::new(one.address, "a").participants().await >= 1
        })
        .await;
        sleep(Duration::from_millis(100)).await;
        has_drawn.store(true, Ordering::Release);
        writer.draw(5).await;
        assert_eq!(writer.connections, 2, "round {round}: the answer was lost");
        reader.has((round + 1) * 5).await;
    }
    assert_eq!((cuts.load(Ordering::Acquire), ledger.count(Outcome::Acked)), (10, 50));
    ledger.assert_agrees(&[&reader.log, &fresh_log("fresh", one.address, "a").await]);
}

/// Two connections with one ticket, on two servers, both numbering from where they think the client is: what they
/// draw is merged, or one of them draws on into nothing.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_connections_with_one_ticket_the_newer_stays() {
    let redis = RedisServer::start();
    let (one, other) = (node(&redis, |_| {}).await, node(&redis, |_| {}).await);
    let mut older = Socket::join(one.address, "a").await;
    older.draw(1, &[mark(1)]).await;
    older.acked(1).await;
    let mut newer = Socket::join_as(other.address, "a", older.resume(None)).await;
    assert_eq!(newer.welcome.clone().unwrap().limits.last_n, 1);
    assert_eq!(older.closed().await, 4410);
    newer.draw(2, &[mark(2)]).await;
    newer.acked(2).await;
    // And back again, on the first one.
    let mut newest = Socket::join_as(one.address, "a", newer.resume(None)).await;
    assert_eq!(newer.closed().await, 4410);
    newest.draw(3, &[mark(3)]).await;
    newest.acked(3).await;
    for relay in [&one, &other] {
        let http = Http::new(relay.address, "a");
        eventually("it is shown once", async || http.participants().await == 1).await;
    }
    assert_eq!(fresh_log("fresh", other.address, "a").await.len(), 3);
}
