//! Restarts, rollbacks, failovers and deleted keys: what is lost is told by a new epoch, nothing lost is taken
//! for stored, and no place in an epoch is ever given to two records.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use inkrelay_protocol::{Epoch, Seq};
use inkrelay_server::store::{Head, Store};

use super::{connect, epoch, eventually, head, key, list, numbers};
use crate::store_contract::{author, batch, read_all, room, store_one};
use crate::support::proxy::{Fate, Proxy};
use crate::support::redis::RedisServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_an_append_only_file_loses_nothing() {
    let mut server = RedisServer::durable();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 10)).await;
    let before = head(&store, &room).await;

    server.restart();
    // The first question after it comes from a reader: an idle room notices too.
    let chunk = read_all(&*store, &room).await;
    assert_eq!(chunk.records, batch(ada, 1, 10).records);
    assert_ne!(epoch(chunk.head), epoch(before), "Redis might have lost something: the epoch says so");
    assert!(chunk.head.position.matches(&before.position), "and the record says that it did not");
    assert_eq!(chunk.head.bytes, before.bytes);
    assert_eq!(head(&store, &room).await, chunk.head, "the new epoch stays");

    assert_eq!(store.last_n(&room, ada).await.unwrap(), 10);
    let retry = store_one(&*store, &room, batch(ada, 1, 12)).await;
    assert_eq!((retry.new, retry.last_seq), (2, Seq::new(12).unwrap()));
    assert_eq!(epoch(head(&store, &room).await), epoch(chunk.head));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_without_persistence_begins_a_new_log() {
    let mut server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 10)).await;
    let before = head(&store, &room).await;

    server.restart();
    assert_eq!(head(&store, &room).await, Head::EMPTY);
    assert_eq!(store.last_n(&room, ada).await.unwrap(), 0);
    assert_eq!(server.command(&["DBSIZE"]), redis::Value::Int(0), "asking left no trace");
    let again = store_one(&*store, &room, batch(ada, 1, 10)).await;
    assert_eq!((again.new, again.last_seq), (10, Seq::new(10).unwrap()), "what is offered again is stored");
    assert_ne!(epoch(head(&store, &room).await), epoch(before));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_to_an_older_dump_is_noticed() {
    let mut server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 5)).await;
    let dumped = head(&store, &room).await;
    server.command(&["SAVE"]);
    store_one(&*store, &room, batch(ada, 6, 5)).await;

    server.restart();
    assert_eq!(store.last_n(&room, ada).await.unwrap(), 5);
    let rolled_back = head(&store, &room).await;
    assert!(rolled_back.position.matches(&dumped.position));
    assert_ne!(epoch(rolled_back), epoch(dumped));
    let again = store_one(&*store, &room, batch(ada, 1, 10)).await;
    assert_eq!((again.new, again.last_seq), (5, Seq::new(10).unwrap()));
    assert_eq!(numbers(&list(&server, &room)), (1..=10).map(|n| (1, n)).collect::<Vec<_>>());
}

/// Each partial loss, with the number up to which Ada's draws are still there.
#[tokio::test(flavor = "multi_thread")]
async fn deleted_keys_begin_a_new_epoch_and_the_list_is_the_truth() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let ada = author(1);
    for (lost, remaining) in [
        (&["log"][..], 0),
        (&["meta"], 6),
        (&["clients"], 6),
        (&["log", "meta"], 0),
        (&["log", "clients"], 0),
        (&["meta", "clients"], 6),
        (&["log", "meta", "clients"], 0),
    ] {
        for reads_first in [false, true] {
            let room = room();
            store_one(&*store, &room, batch(author(2), 1, 3)).await;
            store_one(&*store, &room, batch(ada, 1, 4)).await;
            store_one(&*store, &room, batch(ada, 5, 2)).await;
            let before = head(&store, &room).await;
            for what in lost {
                server.command(&["DEL", &key(&room, what)]);
            }
            let told = format!("{lost:?}, read first: {reads_first}");
            if reads_first {
                assert_eq!(store.last_n(&room, ada).await.unwrap(), remaining, "{told}");
                let after = head(&store, &room).await;
                if remaining == 0 {
                    assert_eq!(after, Head::EMPTY, "{told}");
                } else {
                    assert!(after.position.matches(&before.position), "{told}");
                    assert_ne!(epoch(after), epoch(before), "{told}");
                    assert_eq!(after.bytes, before.bytes, "{told}");
                }
            }
            let stored = store_one(&*store, &room, batch(ada, 1, 7)).await;
            assert_eq!(stored.new as u64, 7 - remaining, "{told}");
            let after = head(&store, &room).await;
            assert_ne!(epoch(after), epoch(before), "{told}");
            let log = list(&server, &room);
            assert_eq!(after.bytes, log.iter().map(|record| record.len() as u64).sum::<u64>(), "{told}");
            let of_ada: Vec<_> = numbers(&log).into_iter().filter(|(author, _)| *author == 1).collect();
            assert_eq!(of_ada, (1..=7).map(|n| (1, n)).collect::<Vec<_>>(), "{told}");
            let bob = store.last_n(&room, author(2)).await.unwrap();
            assert_eq!(bob, if remaining == 0 { 0 } else { 3 }, "{told}");
            assert_eq!(epoch(head(&store, &room).await), epoch(after), "{told}: settled");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn flushing_everything_begins_a_new_log() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let (room, ada) = (room(), author(1));
    let mut epochs = vec![Epoch::EMPTY];
    for _ in 0..5 {
        let stored = store_one(&*store, &room, batch(ada, 1, 3)).await;
        assert_eq!((stored.new, stored.last_seq), (3, Seq::new(3).unwrap()));
        let epoch = epoch(head(&store, &room).await);
        assert!(!epochs.contains(&epoch));
        epochs.push(epoch);
        server.command(&["FLUSHALL"]);
        assert_eq!(head(&store, &room).await, Head::EMPTY);
    }
}

/// A log that lost its first or last records to somebody's `LTRIM`.
#[tokio::test(flavor = "multi_thread")]
async fn only_an_unbroken_run_from_the_first_counts_as_stored() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let ada = author(1);
    for (from, to, remaining) in [("0", "3", 4), ("2", "-1", 0)] {
        let room = room();
        store_one(&*store, &room, batch(ada, 1, 10)).await;
        let before = head(&store, &room).await;
        server.command(&["LTRIM", &key(&room, "log"), from, to]);
        assert_eq!(store.last_n(&room, ada).await.unwrap(), remaining);
        let stored = store_one(&*store, &room, batch(ada, 1, 10)).await;
        assert_eq!(stored.new as u64, 10 - remaining);
        assert_ne!(epoch(head(&store, &room).await), epoch(before));
    }
}

/// Thousands of records and authors: more than fit one call on Lua's stack.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_log_is_recounted_whole() {
    let server = RedisServer::start();
    let store = connect(&server.url()).await;
    let room = room();
    let batches: Vec<_> = (1..=3_000).map(|id| batch(author(id), 1, 4)).collect();
    let appended = store.append(&room, &batches).await.unwrap();
    assert!(appended.outcomes.iter().all(|outcome| outcome.unwrap().new == 4));
    server.command(&["DEL", &key(&room, "meta"), &key(&room, "clients")]);
    let again: Vec<_> = (1..=3_000).map(|id| batch(author(id), 1, 5)).collect();
    let appended = store.append(&room, &again).await.unwrap();
    assert!(appended.outcomes.iter().all(|outcome| outcome.unwrap().new == 1));
    assert_eq!(head(&store, &room).await.position.seq, Seq::new(15_000).unwrap());
    for id in [1, 2, 511, 512, 513, 3_000] {
        assert_eq!(store.last_n(&room, author(id)).await.unwrap(), 5);
    }
}

/// The primary answers for writes that its replica never gets, and dies.
#[tokio::test(flavor = "multi_thread")]
async fn a_lossy_failover_gives_no_place_to_two_records() {
    let mut primary = RedisServer::start();
    let cut = Arc::new(AtomicBool::new(false));
    let is_cut = Arc::clone(&cut);
    let rule = move |_, _, _: &[u8]| if is_cut.load(Ordering::Acquire) { Fate::Cut } else { Fate::Forward };
    let replication = Proxy::start(primary.port(), Arc::new(rule)).await;
    let replica = RedisServer::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &replication.port().to_string()]);

    let old = connect(&primary.url()).await;
    let (room, ada, bob) = (room(), author(1), author(2));
    store_one(&*old, &room, batch(ada, 1, 5)).await;
    eventually("the replica has five records", async || list(&replica, &room).len() == 5).await;
    cut.store(true, Ordering::Release);
    store_one(&*old, &room, batch(ada, 6, 3)).await;

    // Who stood at which place of which epoch.
    let mut places = HashMap::new();
    let before = read_all(&*old, &room).await;
    for (seq, who) in numbers(&before.records).into_iter().enumerate() {
        places.insert((epoch(before.head), seq), who);
    }
    primary.kill();
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(list(&replica, &room).len(), 5, "three acknowledged records are lost");

    let new = connect(&replica.url()).await;
    assert_eq!(new.last_n(&room, ada).await.unwrap(), 5, "so that Ada offers the others again");
    store_one(&*new, &room, batch(bob, 1, 2)).await;
    store_one(&*new, &room, batch(ada, 6, 3)).await;
    let after = read_all(&*new, &room).await;
    assert_eq!(numbers(&after.records)[5..], [(2, 1), (2, 2), (1, 6), (1, 7), (1, 8)]);
    for (seq, who) in numbers(&after.records).into_iter().enumerate() {
        let held = places.insert((epoch(after.head), seq), who);
        assert!(held.is_none_or(|held| held == who), "place {seq} was {held:?}'s and is {who:?}'s");
    }
    assert!(!after.head.position.matches(&before.head.position), "a reader at the lost head is reset");
}
