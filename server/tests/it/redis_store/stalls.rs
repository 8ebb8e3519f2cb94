//! Redis or the network does not answer: every answer is bounded, says no more than is known, and whatever is
//! repeated is stored once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use inkrelay_protocol::{RoomId, Seq};
use inkrelay_server::store::{RedisStore, Store, StoreError};

use super::{anonymous, connect, eventually, list, numbers};
use crate::store_contract::{author, batch, read_all, room, store_one};
use crate::support::proxy::{Direction, Fate, Proxy};
use crate::support::redis::RedisServer;

/// What the relay promises for every request.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Appends one batch until it is stored, each answer within its bound. Returns how often it was unknown.
async fn insist(store: &RedisStore, room: &RoomId, id: u64, first_n: u64) -> usize {
    for unknown in 0..20 {
        let asked = Instant::now();
        let answer = store.append(room, &[batch(author(id), first_n, 2)]).await;
        assert!(asked.elapsed() < ANSWER_WITHIN, "{:?}", asked.elapsed());
        match answer {
            Ok(appended) => {
                assert_eq!(appended.outcomes[0].expect("there is no gap").last_n, first_n + 1);
                return unknown;
            }
            Err(StoreError::Unavailable(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    panic!("twenty answers, and none told that it was stored");
}

async fn stall(seconds: f64) -> usize {
    const AUTHORS: u64 = 8;
    let server = Arc::new(RedisServer::start());
    let store = connect(&server.url()).await;
    let room = room();
    store_one(&*store, &room, batch(author(AUTHORS + 1), 1, 1)).await;
    let resumed = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=AUTHORS)
        .map(|id| {
            let (store, room, resumed) = (Arc::clone(&store), room.clone(), Arc::clone(&resumed));
            tokio::spawn(async move {
                let (mut first_n, mut unknown) = (1, 0);
                // A few more after it is over: what was late must not come in between.
                let mut more = 20;
                while more > 0 {
                    unknown += insist(&store, &room, id, first_n).await;
                    first_n += 2;
                    more -= i32::from(resumed.load(Ordering::Acquire));
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                (first_n - 1, unknown)
            })
        })
        .collect();
    eventually("the writers write", async || list(&server, &room).len() > 50).await;
    server.pause();
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    server.resume();
    resumed.store(true, Ordering::Release);
    let mut unknown = 0;
    let mut last = Vec::new();
    for writer in writers {
        let (last_n, unknowns) = writer.await.unwrap();
        last.push(last_n);
        unknown += unknowns;
    }
    let all = numbers(&list(&server, &room));
    for (id, last_n) in (1..=AUTHORS).zip(last) {
        let of_one: Vec<_> = all.iter().filter(|(author, _)| *author == id).map(|(_, n)| *n).collect();
        assert_eq!(of_one, (1..=last_n).collect::<Vec<_>>(), "author {id}: each once, in order");
    }
    unknown
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_stall_is_only_a_delay() {
    assert_eq!(stall(0.4).await, 0, "nobody was told of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stall_within_the_deadline_is_only_a_delay() {
    assert_eq!(stall(2.0).await, 0, "nobody was told of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_stall_is_answered_as_unknown() {
    assert!(stall(6.0).await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_is_answered_in_time_while_redis_is_stalled() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let room = room();
    // Redis knows the script: the append below takes one message, and that one is on its way.
    store_one(&*store, &crate::store_contract::room(), batch(author(1), 1, 1)).await;
    server.pause();
    let asked = Instant::now();
    let (rooms, one) = ([room.clone(), room.clone()], [anonymous(1)]);
    let limit = crate::store_contract::ALL;
    let (append, read, heads, last_n, secret, check) = tokio::join!(
        store.append(&room, &one),
        store.read(&room, Seq::START, limit),
        store.heads(&rooms),
        store.last_n(&room, author(1)),
        store.secret(),
        store.check(),
    );
    assert!(asked.elapsed() < ANSWER_WITHIN, "{:?}", asked.elapsed());
    assert!(append.is_err() && read.is_err() && heads.is_err());
    assert!(last_n.is_err() && secret.is_err() && check.is_err());
    server.resume();
    // It was sent once, and is stored once now that Redis goes on.
    eventually("the late append takes effect", async || list(&server, &room).len() == 1).await;
    store.append(&room, &[anonymous(2)]).await.unwrap();
    assert_eq!(numbers(&list(&server, &room)), [(0, 1), (0, 2)]);
}

/// A proxy that, when armed, passes an append on, swallows the answer and cuts the connection.
async fn lossy(port: u16) -> (Proxy, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (armed, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let doomed = AtomicUsize::new(usize::MAX);
    let (is_armed, count) = (Arc::clone(&armed), Arc::clone(&cuts));
    let rule = move |number, direction, bytes: &[u8]| {
        if direction == Direction::ToServer {
            let script = bytes.windows(7).any(|window| window == b"EVALSHA");
            if script && is_armed.swap(false, Ordering::AcqRel) {
                doomed.store(number, Ordering::Release);
            }
        } else if doomed.load(Ordering::Acquire) == number {
            doomed.store(usize::MAX, Ordering::Release);
            count.fetch_add(1, Ordering::AcqRel);
            return Fate::Cut;
        }
        Fate::Forward
    };
    (Proxy::start(port, Arc::new(rule)).await, armed, cuts)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_leaves_one_copy() {
    let server = RedisServer::start();
    let (proxy, armed, cuts) = lossy(server.port()).await;
    let store = connect(&proxy.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 1)).await;
    for turn in 0..10 {
        armed.store(true, Ordering::Release);
        let stored = store_one(&*store, &room, batch(ada, turn * 3 + 2, 3)).await;
        assert_eq!(stored.new, 0, "the first try stored it, the second was told so");
        assert_eq!(stored.first_seq, Seq::new(turn * 3 + 2));
    }
    assert_eq!(cuts.load(Ordering::Acquire), 10);
    assert_eq!(numbers(&list(&server, &room)), (1..=31).map(|n| (1, n)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_anonymous_append_is_never_repeated() {
    let server = RedisServer::start();
    let (proxy, armed, cuts) = lossy(server.port()).await;
    let store = connect(&proxy.url()).await;
    let room = room();
    store.append(&room, &[anonymous(1)]).await.unwrap();
    for turn in 0..10 {
        armed.store(true, Ordering::Release);
        // Also when it is together with somebody's who could be repeated.
        let batches = [batch(author(1), turn + 1, 1), anonymous(turn + 2)];
        let answer = store.append(&room, &batches).await;
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "it is not known");
    }
    assert_eq!(cuts.load(Ordering::Acquire), 10);
    let all = numbers(&list(&server, &room));
    let (of_none, of_one): (Vec<_>, Vec<_>) = all.into_iter().partition(|(author, _)| *author == 0);
    assert_eq!(of_none, (1..=11).map(|n| (0, n)).collect::<Vec<_>>());
    assert_eq!(of_one, (1..=10).map(|n| (1, n)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_reached_redis_is_tried_again_even_if_anonymous() {
    let mut server = RedisServer::durable();
    let store = connect(&server.url()).await;
    let room = room();
    store.append(&room, &[anonymous(1)]).await.unwrap();
    server.kill();
    // The store knows that there is no connection; otherwise it might send into one that is just closing.
    store.head(&room).await.expect_err("there is no Redis");
    let late = tokio::spawn({
        let (store, room) = (Arc::clone(&store), room.clone());
        async move { store.append(&room, &[anonymous(2)]).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!late.is_finished());
    server.restart();
    late.await.unwrap().unwrap();
    assert_eq!(numbers(&list(&server, &room)), [(0, 1), (0, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn forgotten_scripts_are_nobody_s_trouble() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let room = room();
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (1..=4)
        .map(|id| {
            let (store, room, done) = (Arc::clone(&store), room.clone(), Arc::clone(&done));
            tokio::spawn(async move {
                let mut n = 0;
                while !done.load(Ordering::Acquire) {
                    n += 1;
                    assert_eq!(store_one(&*store, &room, batch(author(id), n, 1)).await.new, 1);
                    assert!(store.last_n(&room, author(id)).await.unwrap() == n);
                    store.head(&room).await.unwrap();
                }
                n
            })
        })
        .collect();
    let until = Instant::now() + Duration::from_secs(2);
    let mut connection = server.connection();
    while Instant::now() < until {
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    done.store(true, Ordering::Release);
    let mut appended = 0;
    for writer in writers {
        appended += writer.await.unwrap();
    }
    assert_eq!(read_all(&*store, &room).await.records.len() as u64, appended);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_command_after_an_idle_time_does_not_fail() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    server.command(&["CONFIG", "SET", "timeout", "1"]);
    let clients = async |kind: &str| {
        let mut command = redis::cmd("CLIENT");
        command.arg("LIST").arg("TYPE").arg(kind);
        command.query::<String>(&mut server.connection()).unwrap().lines().count()
    };
    for n in 1..=2 {
        // One is who asks.
        eventually("Redis closes the idle connection", async || clients("normal").await == 1).await;
        assert_eq!(clients("pubsub").await, 1, "the subscription stays");
        store.append(&room, &[anonymous(n)]).await.unwrap();
        eventually("Redis closes the idle connection", async || clients("normal").await == 1).await;
        store_one(&*store, &room, batch(ada, n, 1)).await;
    }
    assert_eq!(list(&server, &room).len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_is_a_replica_for_a_while_is_waited_for() {
    let (server, primary) = (RedisServer::start(), RedisServer::start());
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 1)).await;
    server.command(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    let late = tokio::spawn({
        let (store, room) = (Arc::clone(&store), room.clone());
        async move { store.append(&room, &[anonymous(1)]).await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!late.is_finished());
    server.command(&["REPLICAOF", "NO", "ONE"]);
    late.await.unwrap().unwrap();
    assert_eq!(list(&server, &room).iter().filter(|record| record[1] == 0).count(), 1);
}
