//! What the listener is told, that nothing is missed for good, and that the subscription comes back by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::{RoomId, Seq};
use inkrelay_server::random;
use inkrelay_server::store::{Batch, RedisConfig, RedisStore, Store, StoreEvent};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

use super::replica::{Replica, listen};
use super::{PATIENCE, connect, eventually, list};
use crate::store_contract::{author, batch, record, room, store_one};
use crate::support::proxy::{Direction, Fate, Proxy};
use crate::support::redis::RedisServer;

async fn next(events: &mut UnboundedReceiver<StoreEvent>) -> StoreEvent {
    timeout(PATIENCE, events.recv()).await.expect("an event comes").expect("the store lives")
}

async fn caught_up(events: &mut UnboundedReceiver<StoreEvent>, room: &RoomId) {
    match next(events).await {
        StoreEvent::CatchUp(Some(told)) if told == *room => {}
        other => panic!("{other:?}"),
    }
}

fn subscribers(server: &RedisServer, room: &RoomId) -> usize {
    let mut command = redis::cmd("PUBSUB");
    command.arg("NUMSUB").arg(format!("inkrelay:{{{room}}}"));
    let (_, subscribers): (String, usize) = command.query(&mut server.connection()).unwrap();
    subscribers
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_is_confirmed_and_appends_are_told() {
    let server = RedisServer::start();
    let (store, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let (_listener, mut events) = listen(&store);
    let (room, ada) = (room(), author(1));
    store.watch(&room);
    caught_up(&mut events, &room).await;

    let first = other.append(&room, &[batch(ada, 1, 2), batch(author(2), 1, 1)]).await.unwrap();
    let second = other.append(&room, &[batch(ada, 3, 1)]).await.unwrap();
    let sent = [vec![record(ada, 1), record(ada, 2), record(author(2), 1)], vec![record(ada, 3)]];
    for (appended, sent) in [first, second].into_iter().zip(sent) {
        match next(&mut events).await {
            StoreEvent::Appended { room: told, before, records } => {
                assert_eq!((told, before, records), (room.clone(), appended.before, sent));
            }
            other => panic!("{other:?}"),
        }
    }
    // A retry is nothing new, and too much to publish is a hint.
    other.append(&room, &[batch(ada, 1, 3)]).await.unwrap();
    let large = Batch { author: ada, first_n: 4, records: batch(ada, 4, 2_000).records };
    other.append(&room, &[large]).await.unwrap();
    caught_up(&mut events, &room).await;

    store.unwatch(&room);
    eventually("the watch has ended", async || subscribers(&server, &room) == 0).await;
    store_one(&*other, &room, batch(ada, 2_004, 1)).await;
    store.watch(&room);
    caught_up(&mut events, &room).await;
    // Left and back before anyone could look: the new watch has its word all the same.
    store.unwatch(&room);
    store.watch(&room);
    caught_up(&mut events, &room).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_is_told_when_another_server_hears_it() {
    let server = RedisServer::start();
    let (store, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let ((_one, mut own), (_two, mut others)) = (listen(&store), listen(&other));
    let (room, ada) = (room(), author(1));
    let told_records = async |events: &mut UnboundedReceiver<StoreEvent>, n| match next(events).await {
        StoreEvent::Appended { records, .. } => assert_eq!(records, [record(ada, n)]),
        other => panic!("{other:?}"),
    };
    store.watch(&room);
    caught_up(&mut own, &room).await;
    // The first would come before the second, were it told to the one who alone hears it, and made it.
    store_one(&*store, &room, batch(ada, 1, 1)).await;
    store_one(&*other, &room, batch(ada, 2, 1)).await;
    told_records(&mut own, 2).await;

    other.watch(&room);
    caught_up(&mut others, &room).await;
    store_one(&*store, &room, batch(ada, 3, 1)).await;
    told_records(&mut others, 3).await;
    told_records(&mut own, 3).await;

    // One that no longer watches is no longer among those who hear it, and the other one is.
    store.unwatch(&room);
    eventually("the watch has ended", async || subscribers(&server, &room) == 1).await;
    store_one(&*store, &room, batch(ada, 4, 1)).await;
    told_records(&mut others, 4).await;

    // Who lost its connection does not take the other's subscription for its own.
    store.watch(&room);
    caught_up(&mut own, &room).await;
    server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    assert!(matches!(next(&mut own).await, StoreEvent::CatchUp(None)));
    assert!(matches!(next(&mut others).await, StoreEvent::CatchUp(None)));
    store_one(&*store, &room, batch(ada, 5, 1)).await;
    told_records(&mut others, 5).await;
}

/// Then everything is published, whoever hears it.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_may_not_ask_who_hears_it_tells_all() {
    let server = RedisServer::start();
    server.command(&["ACL", "SETUSER", "ada", "on", ">pen", "~*", "&*", "+@all", "-pubsub"]);
    let url = server.url().replace("redis://", "redis://ada:pen@");
    let store = connect(&url).await;
    let (_listener, mut events) = listen(&store);
    let (room, ada) = (room(), author(1));
    store.watch(&room);
    caught_up(&mut events, &room).await;
    store_one(&*store, &room, batch(ada, 1, 1)).await;
    assert!(matches!(next(&mut events).await, StoreEvent::Appended { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_reaches_the_other_servers_only() {
    let server = RedisServer::start();
    let (store, other) = (connect(&server.url()).await, connect(&server.url()).await);
    let ((_one, mut own), (_two, mut others)) = (listen(&store), listen(&other));
    let room = room();
    for (store, events) in [(&store, &mut own), (&other, &mut others)] {
        store.watch(&room);
        caught_up(events, &room).await;
    }
    let message = Bytes::from_static(b"\x93\n\x00\xff pointer");
    store.tell(&room, message.clone());
    other.tell(&room, Bytes::from_static(b"back"));
    for (events, expected) in [(&mut others, message), (&mut own, Bytes::from_static(b"back"))] {
        match next(events).await {
            StoreEvent::Told { room: told, message } => assert_eq!((told, message), (room.clone(), expected)),
            other => panic!("{other:?}"),
        }
    }
    store_one(&*store, &room, batch(author(1), 1, 1)).await;
    for events in [&mut own, &mut others] {
        assert!(matches!(next(events).await, StoreEvent::Appended { .. }), "nothing came twice");
    }

    server.command(&["CLIENT", "KILL", "TYPE", "normal"]);
    eventually("telling goes on after the connection was lost", async || {
        store.tell(&room, Bytes::from_static(b"again"));
        matches!(others.try_recv(), Ok(StoreEvent::Told { .. }))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_understands_makes_the_room_catch_up() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (_listener, mut events) = listen(&store);
    let room = room();
    store.watch(&room);
    caught_up(&mut events, &room).await;
    for noise in ["", "\n", "hello", "A n 1 2 3 4 5\n", "A n 1 2 3 4 5\n\u{1}x", "Z n\nx"] {
        server.command(&["PUBLISH", &format!("inkrelay:{{{room}}}"), noise]);
        if noise == "A n 1 2 3 4 5\n\u{1}x" {
            // Elements that are no records are told like those in the list.
            assert!(matches!(next(&mut events).await, StoreEvent::Appended { .. }));
        } else {
            caught_up(&mut events, &room).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_rooms_are_watched_and_come_back_after_a_reconnection() {
    const ROOMS: usize = 700;
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (_listener, mut events) = listen(&store);
    let rooms: Vec<_> = (0..ROOMS).map(|_| room()).collect();
    rooms.iter().for_each(|room| store.watch(room));
    let mut told: Vec<_> = Vec::new();
    for _ in 0..ROOMS {
        match next(&mut events).await {
            StoreEvent::CatchUp(Some(room)) => told.push(room),
            other => panic!("{other:?}"),
        }
    }
    told.sort();
    let mut sorted = rooms.clone();
    sorted.sort();
    assert_eq!(told, sorted);
    for _ in 0..3 {
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
        assert!(matches!(next(&mut events).await, StoreEvent::CatchUp(None)));
        assert!(
            rooms.iter().all(|room| subscribers(&server, room) == 1),
            "the word comes after the last one"
        );
    }
}

/// Two servers, writers on both, and pub/sub that keeps breaking.
#[tokio::test(flavor = "multi_thread")]
async fn logs_are_whole_though_pub_sub_is_cut_under_load() {
    let server = RedisServer::start();
    let stores = [connect(&server.url()).await, connect(&server.url()).await];
    let rooms: Vec<_> = (0..3).map(|_| room()).collect();
    let replicas = stores.each_ref().map(|store| Replica::start(store, &rooms));
    let done = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for (index, store) in stores.iter().enumerate() {
        for (turn, room) in rooms.iter().enumerate() {
            let (store, room, done) = (Arc::clone(store), room.clone(), Arc::clone(&done));
            let writer = author(1 + (index * rooms.len() + turn) as u64);
            writers.push(tokio::spawn(async move {
                let mut n = 1;
                while !done.load(Ordering::Acquire) {
                    let records = 1 + random::u64() % 5;
                    store_one(&*store, &room, batch(writer, n, records)).await;
                    n += records;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }));
        }
    }
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100 + random::u64() % 400)).await;
        server.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    }
    done.store(true, Ordering::Release);
    for writer in writers {
        writer.await.unwrap();
    }
    for room in &rooms {
        let truth = list(&server, room);
        assert!(truth.len() > 100);
        for replica in &replicas {
            eventually("a replica has the list", async || replica.log(room) == truth).await;
        }
    }
}

/// The message vanishes on a connection that stays whole: only comparing heads can tell.
#[tokio::test(flavor = "multi_thread")]
async fn a_last_message_that_is_lost_is_revealed_by_the_heads() {
    let server = RedisServer::start();
    let lost = Arc::new(AtomicUsize::new(0));
    let losing = Arc::new(AtomicBool::new(false));
    let (count, active) = (Arc::clone(&lost), Arc::clone(&losing));
    let rule = move |_, direction, bytes: &[u8]| {
        let message = bytes.windows(9).any(|window| window == b"\r\nmessage");
        if direction == Direction::ToClient && message && active.load(Ordering::Acquire) {
            count.fetch_add(1, Ordering::AcqRel);
            return Fate::Swallow;
        }
        Fate::Forward
    };
    let proxy = Proxy::start(server.port(), Arc::new(rule)).await;
    let (reader, writer) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let (_listener, mut events) = listen(&reader);
    let (room, ada) = (room(), author(1));
    reader.watch(&room);
    caught_up(&mut events, &room).await;
    store_one(&*writer, &room, batch(ada, 1, 1)).await;
    assert!(matches!(next(&mut events).await, StoreEvent::Appended { .. }));

    losing.store(true, Ordering::Release);
    store_one(&*writer, &room, batch(ada, 2, 1)).await;
    eventually("the message is lost", async || lost.load(Ordering::Acquire) == 1).await;
    assert!(events.is_empty());
    let heads = reader.heads(std::slice::from_ref(&room)).await.unwrap();
    assert_eq!(heads[0].position.seq, Seq::new(2).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_long_outage_the_subscription_comes_back_without_a_command() {
    // Longer than the seven tries after which redis-rs would give up.
    const OUTAGE: Duration = Duration::from_secs(8);
    const BACK_WITHIN: Duration = Duration::from_secs(10);
    let mut server = RedisServer::start();
    let config = RedisConfig { answer_within: Duration::from_millis(500) };
    let store = Arc::new(RedisStore::connect(&server.url(), config).await.unwrap());
    let (_listener, mut events) = listen(&store);
    let room = room();
    store.watch(&room);
    caught_up(&mut events, &room).await;
    store.check().await.unwrap();

    server.kill();
    store.check().await.expect_err("health is red without Redis");
    let unheard = crate::store_contract::room();
    store.watch(&unheard);
    tokio::time::sleep(OUTAGE).await;
    server.restart();
    let up = Instant::now();
    assert!(matches!(next(&mut events).await, StoreEvent::CatchUp(None)));
    assert!(up.elapsed() < BACK_WITHIN, "{:?}", up.elapsed());
    assert_eq!((subscribers(&server, &room), subscribers(&server, &unheard)), (1, 1));
    eventually("health is green", async || store.check().await.is_ok()).await;
}

/// Both links die without a word: no bytes, no close.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_died_in_silence_is_replaced() {
    let server = RedisServer::start();
    let dead = Arc::new(AtomicBool::new(false));
    let is_dead = Arc::clone(&dead);
    // The two connections that the store makes first.
    let rule = move |number, _, _: &[u8]| {
        if number < 2 && is_dead.load(Ordering::Acquire) { Fate::Swallow } else { Fate::Forward }
    };
    let proxy = Proxy::start(server.port(), Arc::new(rule)).await;
    let (store, other) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let (_listener, mut events) = listen(&store);
    let (room, ada) = (room(), author(1));
    store.watch(&room);
    caught_up(&mut events, &room).await;
    dead.store(true, Ordering::Release);

    let asked = Instant::now();
    assert_eq!(store_one(&*store, &room, batch(ada, 1, 1)).await.last_n, 1);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert!(matches!(next(&mut events).await, StoreEvent::CatchUp(None)));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    store_one(&*other, &room, batch(ada, 2, 1)).await;
    assert!(matches!(next(&mut events).await, StoreEvent::Appended { .. }));
}

/// A server may still be subscribed at a Redis that has become a replica. What is appended at the primary is told there.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_subscribed_at_a_replica_is_told_too() {
    let (primary, replica) = (RedisServer::start(), RedisServer::start());
    let reader = connect(&replica.url()).await;
    let (_listener, mut events) = listen(&reader);
    let (room, ada) = (room(), author(1));
    reader.watch(&room);
    caught_up(&mut events, &room).await;
    replica.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let info = |server: &RedisServer| server.command(&["INFO", "replication"]);
    eventually("it follows", async || format!("{:?}", info(&primary)).contains("state=online")).await;

    let writer = connect(&primary.url()).await;
    store_one(&*writer, &room, batch(ada, 1, 1)).await;
    while !matches!(next(&mut events).await, StoreEvent::Appended { .. }) {}
}
