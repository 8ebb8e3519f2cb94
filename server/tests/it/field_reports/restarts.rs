//! The store, or the relay, goes and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inkrelay_protocol::frame::Hello;
use inkrelay_server::store::Store;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};

use super::node;
use crate::support::ledger::{Fault, Ledger, Outcome};
use crate::support::reader::{Reader, fresh_log};
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::socket::{Socket, mark};
use crate::support::watched::WatchedStore;
use crate::support::writer::Writer;
use crate::support::{PATIENCE, eventually};

/// Writers and readers at two nodes over one Redis.
struct Drawing {
    nodes: [Relay; 2],
    ledger: Arc<Ledger>,
    readers: Vec<Reader>,
    writers: Vec<JoinHandle<Writer>>,
    is_over: Arc<AtomicBool>,
}

impl Drawing {
    async fn begin(redis: &RedisServer) -> Self {
        let nodes = [node(redis, |_| {}).await, node(redis, |_| {}).await];
        let addresses = nodes.each_ref().map(|node| node.address);
        let (ledger, is_over) = (Arc::new(Ledger::default()), Arc::new(AtomicBool::new(false)));
        let mut readers = Vec::new();
        for (index, address) in addresses.into_iter().enumerate() {
            readers.push(Reader::join(format!("reader {index}"), address, "a").await);
        }
        let writers = (0..8).map(|index| {
            let mut writer = Writer::new(&addresses[index % 2..=index % 2], "a", &ledger);
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                let mut beat = interval(Duration::from_millis(20));
                while !is_over.load(Ordering::Acquire) {
                    beat.tick().await;
                    writer.draw(1).await;
                }
                writer
            })
        });
        let writers = writers.collect();
        let drawing = Self { nodes, ledger, readers, writers, is_over };
        drawing.at_least(80).await;
        drawing
    }

    /// Waits until that many more are acked.
    async fn at_least(&self, more: usize) {
        let before = self.ledger.count(Outcome::Acked);
        eventually("more is acked", async || self.ledger.count(Outcome::Acked) >= before + more).await;
    }

    /// Ends the drawing, and holds the ledger against all readers. Returns how often each was reset.
    async fn end(mut self, tolerate: impl Fn(&Fault) -> bool) -> Vec<usize> {
        self.is_over.store(true, Ordering::Release);
        for writer in self.writers.drain(..) {
            // Longer than one draw may take: a loss is offered again.
            let mut writer = tokio::time::timeout(PATIENCE, writer).await.expect("it ends").unwrap();
            writer.disconnect();
            writer.connect().await;
            writer.settle().await;
        }
        assert_eq!(self.ledger.count(Outcome::Unknown), 0);
        let drawn = self.ledger.count(Outcome::Acked);
        for reader in &mut self.readers {
            reader.has(drawn).await;
            assert!(reader.closes.is_empty(), "{:?}", reader.closes);
        }
        let fresh = [
            fresh_log("fresh 0", self.nodes[0].address, "a").await,
            fresh_log("fresh 1", self.nodes[1].address, "a").await,
        ];
        let logs: Vec<_> = self.readers.iter().map(|reader| &reader.log).chain(&fresh).collect();
        let mut faults = self.ledger.faults(&logs);
        faults.retain(|fault| !tolerate(fault));
        assert_eq!(faults, []);
        logs.iter().map(|log| log.resets()).collect()
    }
}

/// Redis is shut down, and comes back two seconds later with all that it had: who is connected never hears anything
/// again, since nobody subscribes anew, or misses what was drawn meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn redis_comes_back_with_its_log_and_everyone_goes_on() {
    let mut redis = RedisServer::durable();
    let drawing = Drawing::begin(&redis).await;
    redis.shut_down();
    sleep(Duration::from_secs(2)).await;
    redis.restart();
    drawing.at_least(80).await;
    let resets = drawing.end(|_| false).await;
    assert_eq!(resets, [0; 4], "nothing was lost, and nobody is told to forget anything");
}

/// It comes back with nothing: everyone goes on from numbers that mean other draws now. Here everyone is reset, and
/// those who drew offer again what was lost.
#[tokio::test(flavor = "multi_thread")]
async fn redis_comes_back_with_nothing_and_everyone_offers_it_again() {
    let mut redis = RedisServer::start();
    let drawing = Drawing::begin(&redis).await;
    redis.shut_down();
    sleep(Duration::from_secs(2)).await;
    redis.restart();
    drawing.at_least(80).await;
    let resets = drawing.end(|fault| matches!(fault, Fault::Reordered { .. })).await;
    assert!(resets[0] > 0 && resets[1] > 0, "{resets:?}");
}

/// Only the subscriptions are cut, again and again: what was published meanwhile never arrives, above all the last
/// draw before a silence.
#[tokio::test(flavor = "multi_thread")]
async fn subscriptions_that_are_cut_leave_no_hole() {
    let redis = RedisServer::start();
    let drawing = Drawing::begin(&redis).await;
    for _ in 0..10 {
        redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        sleep(Duration::from_millis(200)).await;
    }
    drawing.at_least(80).await;
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let resets = drawing.end(|_| false).await;
    assert_eq!(resets, [0; 4]);

    let (one, other) = (node(&redis, |_| {}).await, node(&redis, |_| {}).await);
    let mut reader = Reader::join("reader", other.address, "b").await;
    let mut drawer = Socket::join(one.address, "b").await;
    redis.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    let acked = Instant::now();
    reader.has(1).await;
    assert!(acked.elapsed() < Duration::from_secs(5), "{:?}", acked.elapsed());
}

/// The relay starts anew, and all who were connected come back at once: each of them has the store read what it
/// lacks.
#[tokio::test(flavor = "multi_thread")]
async fn all_who_come_back_at_once_cost_one_read_for_each_room() {
    const ROOMS: usize = 10;
    const READERS: usize = 30;
    let store = Arc::new(WatchedStore::default());
    let shared: Arc<dyn Store> = store.clone();
    let relay = Relay::start_on(Arc::clone(&shared), |_| {}).await;
    let ledger = Arc::new(Ledger::default());
    let room = |index: usize| format!("room-{index}");
    let mut readers = Vec::new();
    for index in 0..ROOMS {
        Writer::new(&[relay.address], &room(index), &ledger).draw(50).await;
        for _ in 0..READERS {
            let mut reader = Reader::join("reader", relay.address, &room(index)).await;
            reader.has(50).await;
            readers.push((index, reader));
        }
    }
    relay.stopped().await;
    for (_, reader) in &mut readers {
        assert_eq!(reader.socket.closed().await, 1001);
    }
    let relay = Relay::start_on(shared, |_| {}).await;
    store.take_reads();
    let begun = Instant::now();
    let back: Vec<_> = readers
        .into_iter()
        .map(|(index, mut reader)| {
            reader.address = relay.address;
            tokio::spawn(async move {
                reader.come_back().await;
                (index, reader)
            })
        })
        .collect();
    let mut readers = Vec::new();
    for reader in back {
        readers.push(reader.await.unwrap());
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    for index in 0..ROOMS {
        Writer::new(&[relay.address], &room(index), &ledger).draw(1).await;
    }
    for (_, reader) in &mut readers {
        reader.has(51).await;
        assert_eq!(reader.log.resets(), 0);
    }
    let reads = store.take_reads();
    assert_eq!(reads.len(), ROOMS);
    assert!(reads.values().all(|reads| *reads <= 4), "head and records, whoever comes: {reads:?}");
}

/// The store stands still while many join: they wait for locks that the others hold, and with them everything else.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_stands_still_holds_up_nothing_else() {
    let redis = RedisServer::start();
    let relay = node(&redis, |config| config.limits.room_memory = 1).await;
    let address = relay.address;
    // Somebody who is known and was told something that is no longer in memory: that takes several questions.
    let ledger = Arc::new(Ledger::default());
    let mut known = Reader::join("known", address, "live").await;
    let mut writer = Writer::new(&[address], "live", &ledger);
    writer.draw(3).await;
    known.has(3).await;
    let hello = known.socket.resume(known.position());
    writer.draw(30).await;
    redis.pause();
    let resumed = tokio::spawn(async move {
        let begun = Instant::now();
        (Socket::try_join(address, "live", &hello).await.is_ok(), begun.elapsed())
    });
    let joins: Vec<_> = (0..200)
        .map(|index| {
            tokio::spawn(async move {
                let begun = Instant::now();
                let joined =
                    Socket::try_join(address, &format!("room-{}", index % 20), &Hello::default()).await;
                (joined.is_ok(), begun.elapsed())
            })
        })
        .collect();
    let http = crate::support::requests::client();
    let ready = async |path: &str| {
        let begun = Instant::now();
        let status = http.get(format!("http://{address}{path}")).send().await.unwrap().status().as_u16();
        (status, begun.elapsed())
    };
    for _ in 0..20 {
        let (status, took) = ready("/healthz").await;
        assert!(status == 200 && took < Duration::from_secs(1), "{status} after {took:?}");
        sleep(Duration::from_millis(100)).await;
    }
    let (status, took) = ready("/readyz").await;
    assert!(status == 503 && took < Duration::from_secs(3), "{status} after {took:?}");
    for join in joins.into_iter().chain([resumed]) {
        let (is_joined, took) = join.await.unwrap();
        assert!(!is_joined && took < Duration::from_millis(5500), "answered after {took:?}");
    }
    redis.resume();
    eventually("it is ready again", async || ready("/readyz").await.0 == 200).await;
    Reader::join("after", address, "room-1").await;
}

/// The store keeps a batch, and its answer is lost; the next batch, which was on its way, is acked, and with it the
/// first. What is drawn after that is dropped, since the relay still waits for the first to come again.
#[tokio::test(flavor = "multi_thread")]
async fn an_ack_ends_the_wait_for_what_was_unknown() {
    let store = Arc::new(WatchedStore::default());
    let relay = Relay::start_on(store.clone(), |_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    store.answers_to_lose.store(1, Ordering::Release);
    drawer.draw(2, &[mark(2)]).await;
    drawer.draw(3, &[mark(3)]).await;
    assert_eq!(drawer.refused().await, ("store_unavailable".to_owned(), Some(2)));
    drawer.acked(3).await;
    drawer.draw(4, &[mark(4)]).await;
    drawer.acked(4).await;
    let log = fresh_log("fresh", relay.address, "a").await;
    assert_eq!(log.numbers(), [1, 2, 3, 4]);
}
