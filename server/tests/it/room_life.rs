//! Rooms that end: deleted by somebody, or because nobody has drawn in them for long; and rooms that are full.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use inkrelay_protocol::{After, ClientId, Draw, Identity, Position, Record, Role, RoomId};
use inkrelay_server::hub::{Hub, HubLimits};
use inkrelay_server::retention::{Retention, Step};
use inkrelay_server::room::feed::{Fed, Feed};
use inkrelay_server::room::{Node, NotStored, RoomLimits};
use inkrelay_server::store::rules::{Ban, RuleChange};
use inkrelay_server::store::{
    Batch, EmbeddedStore, Gap, Head, MemoryStore, ReadLimit, RedisConfig, RedisStore, Rules, Store,
    SyncPolicy,
};

use crate::support::eventually;
use crate::support::ledger::Ledger;
use crate::support::reader::{Reader, fresh_log};
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::writer::Writer;

const READ: ReadLimit = ReadLimit { records: 100, bytes: 1 << 20 };
const DAY: u64 = 24 * 3600 * 1000;

fn hub(store: Arc<dyn Store>, room_bytes: u64) -> Arc<Hub> {
    let limits = RoomLimits {
        tail_bytes: 1 << 16,
        room_bytes,
        sessions: 0,
        flush_time: Duration::ZERO,
        idle_time: Duration::from_secs(40),
    };
    Hub::new(
        Arc::new(Node::new(store, limits)),
        HubLimits { rooms: 0, room_idle: Duration::ZERO, tail_bytes: 0 },
    )
}

fn id(name: &str) -> RoomId {
    name.parse().unwrap()
}

fn ada() -> ClientId {
    ClientId::new(7).unwrap()
}

fn batch(n: u64, at: u64, draw: &Draw) -> Batch {
    let mut record = Vec::new();
    Record { identity: Identity { author: ada(), n, at }, draw: &draw.to_bytes() }.encode(&mut record);
    Batch { author: ada(), first_n: n, records: vec![Bytes::from(record)] }
}

async fn redis_store(redis: &RedisServer) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(&redis.url(), RedisConfig::default()).await.unwrap())
}

/// A server of each store.
async fn hubs(room_bytes: u64) -> (Vec<Arc<Hub>>, impl Drop) {
    let (folder, redis) = (tempfile::tempdir().unwrap(), RedisServer::start());
    let embedded = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let stores: [Arc<dyn Store>; 3] =
        [Arc::new(MemoryStore::new()), Arc::new(embedded), redis_store(&redis).await];
    struct Alive(#[allow(dead_code, reason = "held")] (tempfile::TempDir, RedisServer));
    impl Drop for Alive {
        fn drop(&mut self) {}
    }
    (stores.map(|store| hub(store, room_bytes)).into(), Alive((folder, redis)))
}

/// P-5: whoever reads is reset to an empty board, and the next log begins with the number 1.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_deleted_room_are_reset_to_an_empty_board() {
    let (hubs, _alive) = hubs(0).await;
    for hub in hubs {
        let room = hub.enter(&id("a")).await.ok().unwrap().read().unwrap();
        for n in 1..=3 {
            room.append_and_wait(batch(n, 1000, &Draw::Clear), Role::Drawer).await.unwrap();
        }
        let mut feed = Feed::open(&room, After::Start).await.unwrap();
        assert!(
            matches!(feed.next(&room, READ).await, Ok(Fed::Records { records, .. }) if records.len() == 3)
        );
        let mut changes = room.changes();
        changes.borrow_and_update();
        assert!(hub.delete(&id("a")).await.unwrap());
        changes.changed().await.unwrap();
        match feed.next(&room, READ).await.unwrap() {
            Fed::Reset { until, records, more } => {
                assert_eq!((until, records.len(), more), (Head::EMPTY.position, 0, false));
            }
            other => panic!("{other:?}"),
        }
        assert!(matches!(feed.next(&room, READ).await, Ok(Fed::UpToDate)));
        assert_eq!((room.head(), room.bytes()), (Position::start(Head::EMPTY.position.epoch), 0));

        let late = room.append_and_wait(batch(4, 1001, &Draw::Clear), Role::Drawer).await;
        assert_eq!(late.unwrap_err(), NotStored::Gap(Gap { expected: 1 }));
        let (_, head) = room.append_and_wait(batch(1, 1002, &Draw::Clear), Role::Drawer).await.unwrap();
        assert_eq!(head.seq.get(), 1);
        match feed.next(&room, READ).await.unwrap() {
            Fed::Records { first, records, position } => {
                assert_eq!((first.get(), records.len(), position), (1, 1, head));
            }
            other => panic!("{other:?}"),
        }
        assert!(!hub.delete(&id("nobody-drew-here")).await.unwrap());
    }
}

/// also those who read through other servers, told by the store or not.
#[tokio::test(flavor = "multi_thread")]
async fn readers_of_other_servers_are_reset_within_five_seconds() {
    let redis = RedisServer::start();
    let (one, other) = (redis_store(&redis).await, redis_store(&redis).await);
    let one = Relay::start_on(one, |_| {}).await;
    let other = Relay::start_on(other, |_| {}).await;
    let deleting = redis_store(&redis).await;
    let quietly = ["DEL", "inkrelay:{a}:log", "inkrelay:{a}:meta", "inkrelay:{a}:clients"];
    for is_told in [true, false] {
        let before = Arc::new(Ledger::default());
        let mut writer = Writer::new(&[one.address], "a", &before);
        writer.draw(8).await;
        let mut readers =
            [Reader::join("one", one.address, "a").await, Reader::join("other", other.address, "a").await];
        for reader in &mut readers {
            reader.has(8).await;
        }
        let begin = Instant::now();
        if is_told {
            assert!(deleting.delete(&id("a")).await.unwrap());
        } else {
            redis.command(&quietly);
        }
        for reader in &mut readers {
            reader.until("it is reset", |log| log.resets() == 1 && log.len() == 0).await;
        }
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(if is_told { 2 } else { 6 }), "{took:?}");

        // What is drawn and acknowledged from now on is there.
        let after = Arc::new(Ledger::default());
        Writer::new(&[other.address], "a", &after).draw(5).await;
        for reader in &mut readers {
            reader.has(5).await;
        }
        let fresh = fresh_log("fresh", one.address, "a").await;
        after.assert_agrees(&[&readers[0].log, &readers[1].log, &fresh]);
        assert!(deleting.delete(&id("a")).await.unwrap());
    }
}

/// While somebody draws without end, the room is deleted: the author takes its numbers up again from 1, and all that
/// was acknowledged after the last deletion is there.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_draws_while_the_room_is_deleted_loses_nothing_afterwards() {
    let redis = RedisServer::start();
    let relay = Relay::start_on(redis_store(&redis).await, |_| {}).await;
    let (deleting, ledger) = (redis_store(&redis).await, Arc::new(Ledger::default()));
    let mut writer = Writer::new(&[relay.address], "a", &ledger);
    for _ in 0..5 {
        writer.draw(20).await;
        assert!(deleting.delete(&id("a")).await.unwrap());
    }
    writer.draw(7).await;
    // It has kept all that it drew, and offered it again (P-14).
    let log = fresh_log("fresh", relay.address, "a").await;
    ledger.assert_agrees(&[&log]);
    assert_eq!(log.len(), 107);
}

async fn step(retention: &mut Retention, now: u64) -> Step {
    retention.step(now).await.unwrap()
}

/// All steps of a walk, and how many rooms they deleted.
async fn walk(retention: &mut Retention, now: u64) -> usize {
    let mut deleted = 0;
    loop {
        let step = step(retention, now).await;
        deleted += step.deleted;
        if step.is_last {
            return deleted;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_that_nobody_drew_in_for_long_are_deleted() {
    let (hubs, _alive) = hubs(0).await;
    for hub in hubs {
        for room in 0..40 {
            hub.store().append(&id(&format!("old-{room}")), &[batch(1, DAY, &Draw::Clear)]).await.unwrap();
        }
        hub.store().append(&id("new"), &[batch(1, 3 * DAY, &Draw::Clear)]).await.unwrap();
        hub.store().append(&id("undated"), &[batch(1, 0, &Draw::Clear)]).await.unwrap();
        let read = hub.enter(&id("old-7")).await.ok().unwrap();
        let mut retention = Retention::new(Arc::clone(&hub), Duration::from_secs(24 * 3600));
        assert_eq!(walk(&mut retention, 2 * DAY).await, 0, "none is older than a day");
        // Bounded, and the next step goes on from there.
        let first = step(&mut retention, 2 * DAY + 1).await;
        assert_eq!(first, Step { deleted: 32, is_last: false });
        assert_eq!(walk(&mut retention, 2 * DAY + 1).await, 7, "but for the one that somebody is in");
        let left = hub.store().rooms(None, 100).await.unwrap();
        assert_eq!(
            left.into_iter().map(|one| one.room).collect::<Vec<_>>(),
            ["new", "old-7", "undated"].map(id)
        );
        drop(read);
        hub.sweep(Instant::now());
        // On Redis the end of the subscription takes a moment.
        eventually("it goes too", async || walk(&mut retention, 2 * DAY + 1).await == 1).await;
    }
}

/// Their bans go with them.
#[tokio::test(flavor = "multi_thread")]
async fn rooms_that_were_only_ruled_are_deleted_too() {
    let (hubs, _alive) = hubs(0).await;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = u64::try_from(since.as_millis()).unwrap();
    for hub in hubs {
        let room = hub.enter(&id("ruled")).await.ok().unwrap();
        room.change_rules(&RuleChange::Client(ada(), Ban::Banned)).await.unwrap();
        let mut retention = Retention::new(Arc::clone(&hub), Duration::from_secs(24 * 3600));
        assert_eq!(walk(&mut retention, now + 2 * DAY).await, 0, "somebody is in it");
        drop(room);
        hub.sweep(Instant::now());
        assert_eq!(walk(&mut retention, now + DAY - 1).await, 0, "it was ruled within a day");
        assert!(hub.store().rules(&id("ruled")).await.unwrap().ban(ada(), None));
        // On Redis the end of the subscription takes a moment.
        eventually("it goes", async || walk(&mut retention, now + 2 * DAY).await == 1).await;
        assert_eq!(hub.store().rules(&id("ruled")).await.unwrap(), Rules::default());
        assert_eq!(hub.store().rooms(None, 100).await.unwrap(), []);
    }
}

/// Servers on one Redis sweep alike: a room that somebody is in on another server stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_is_read_on_another_server_is_kept() {
    let redis = RedisServer::start();
    let (one, other) = (hub(redis_store(&redis).await, 0), hub(redis_store(&redis).await, 0));
    for name in ["read", "left"] {
        one.store().append(&id(name), &[batch(1, DAY, &Draw::Clear)]).await.unwrap();
    }
    let read = other.enter(&id("read")).await.ok().unwrap();
    eventually("it is subscribed to", async || {
        let counted: (String, u64) =
            redis::cmd("PUBSUB").arg("NUMSUB").arg("inkrelay:{read}").query(&mut redis.connection()).unwrap();
        counted.1 == 1
    })
    .await;
    let mut sweeping = [&one, &other].map(|hub| Retention::new(Arc::clone(hub), Duration::from_secs(1)));
    let [first, second] = &mut sweeping;
    let (first, second) = tokio::join!(walk(first, 9 * DAY), walk(second, 9 * DAY));
    assert!((1..=2).contains(&(first + second)), "one or both say so, when both came at once");
    assert_eq!(one.store().head(&id("left")).await.unwrap(), Head::EMPTY);
    assert_eq!(one.store().head(&id("read")).await.unwrap().position.seq.get(), 1);
    drop(read);
}

/// L-5, L-11: a room that is full can be read, and takes what takes ink away.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_room_is_read_and_cleared_and_deleted() {
    let (hubs, _alive) = hubs(1000).await;
    for hub in hubs {
        let room = hub.enter(&id("a")).await.ok().unwrap();
        let mut n = 1;
        let ink = Draw::Opaque(vec![7; 90]);
        while room.append_and_wait(batch(n, 1, &ink), Role::Drawer).await.is_ok() {
            n += 1;
        }
        assert_eq!(
            room.append_and_wait(batch(n, 1, &ink), Role::Drawer).await.unwrap_err(),
            NotStored::RoomFull
        );
        assert!(room.bytes() <= 1000);
        let stroke = inkrelay_protocol::Draw::Erase(vec![(ada(), 1)]);
        for draw in [&stroke, &Draw::Revoke(vec![(ada(), n)]), &Draw::Clear] {
            room.append_and_wait(batch(n, 1, draw), Role::Drawer).await.unwrap();
            n += 1;
        }
        let large = Draw::Erase((0..400).map(|stroke| (ada(), stroke)).collect());
        assert_eq!(
            room.append_and_wait(batch(n, 1, &large), Role::Drawer).await.unwrap_err(),
            NotStored::RoomFull
        );
        // The reserve has an end too.
        while room.append_and_wait(batch(n, 1, &Draw::Clear), Role::Drawer).await.is_ok() {
            n += 1;
        }
        assert!((4096 + 900..=4096 + 1000).contains(&room.bytes()), "{}", room.bytes());
        // Moderators have one of their own.
        room.append_and_wait(batch(n, 1, &Draw::Clear), Role::Moderator).await.unwrap();
        let log = hub.store().read(&id("a"), inkrelay_protocol::Seq::START, READ).await.unwrap();
        assert_eq!(log.head.bytes, room.bytes());
        assert!(hub.delete(&id("a")).await.unwrap());
        room.append_and_wait(batch(1, 2, &ink), Role::Drawer).await.unwrap();
    }
}
