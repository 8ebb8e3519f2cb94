//! The process ends at any moment, or its disk does not take what it writes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use inkrelay_protocol::Record;
use inkrelay_server::random;
use inkrelay_server::store::{EmbeddedStore, Store, SyncPolicy};

use super::child::Running;
use super::roles::{self, AUTHORS};
use super::the_room;
use crate::store_contract::{author, batch, head, read_all, store_one};

/// How long a start after a crash may take.
const REOPEN: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acked_survives_kill_9_always() {
    survive_kills(SyncPolicy::Always, 25).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acked_survives_kill_9_interval() {
    survive_kills(SyncPolicy::Interval, 10).await;
}

/// Rules 2, 3 and 4: acknowledged is there, unknown is there once or not, and whole.
async fn survive_kills(policy: SyncPolicy, kills: u32) {
    let folder = tempfile::tempdir().unwrap();
    let mut acked: HashMap<u64, (u64, u64)> = HashMap::new();
    let mut sent: HashMap<u64, u64> = HashMap::new();
    for _ in 0..kills {
        let mut child = Running::start("append", folder.path(), policy);
        let mut lines_left = 1 + random::u64() % 400;
        while let Some(line) = child.line() {
            let mut words = line.split(' ');
            let what = words.next().unwrap();
            let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
            match what {
                "sent" => drop(sent.insert(numbers[0], numbers[1])),
                _ => drop(acked.insert(numbers[0], (numbers[1], numbers[2]))),
            }
            lines_left = lines_left.saturating_sub(1);
            // Once: what it said until then is still read.
            if lines_left == 0 {
                lines_left = u64::MAX;
                child.kill();
            }
        }
        let start = Instant::now();
        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        let log = read_all(&store, &the_room()).await.records;
        assert!(start.elapsed() < REOPEN, "{:?}", start.elapsed());
        for id in 1..=AUTHORS {
            let of_author = |(_, record): &(u64, &bytes::Bytes)| {
                Record::parse(record).unwrap().identity.author == author(id)
            };
            let places: Vec<(u64, u64)> = (1..)
                .zip(&log)
                .filter(of_author)
                .map(|(seq, record)| (Record::parse(record).unwrap().identity.n, seq))
                .collect();
            let stored = places.len() as u64;
            assert!(places.iter().map(|(n, _)| *n).eq(1..=stored), "each number once, in order");
            assert_eq!(store.last_n(&the_room(), author(id)).await.unwrap(), stored);
            if let Some(acked) = acked.get(&id) {
                assert!(places.contains(acked), "{acked:?} was acknowledged");
            }
            // A batch that was on its way is there whole or not at all.
            let sent = sent.get(&id).copied().unwrap_or(0);
            let known = acked.get(&id).map_or(0, |(last_n, _)| *last_n);
            assert!(stored == sent || stored == known, "{stored} stored, {sent} sent, {known} acknowledged");
            acked.extend(places.last().map(|last| (id, *last)));
        }
        store.close().await;
    }
}

/// Rule 6.
#[tokio::test]
async fn an_epoch_changes_only_when_the_store_cannot_vouch() {
    for (policy, changes) in [(SyncPolicy::Always, false), (SyncPolicy::Interval, true)] {
        let folder = tempfile::tempdir().unwrap();
        let other = "other".parse().unwrap();
        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        store_one(&store, &other, batch(author(9), 1, 3)).await;
        let before = head(&store, &other).await;
        store.close().await;
        drop(store);

        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        assert_eq!(head(&store, &other).await, before, "{policy:?}: closed in order");
        store.close().await;
        drop(store);

        let mut child = Running::start("append", folder.path(), policy);
        while child.line().is_some_and(|line| !line.starts_with("acked")) {}
        child.kill();
        // Whatever this run's policy is: it is the last one's that could not vouch.
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        let after = head(&store, &other).await;
        assert_eq!(after.position.epoch != before.position.epoch, changes, "{policy:?}: killed");
        assert!(after.position.matches(&before.position));
        let epoch = store.append(&other, &[batch(author(9), 4, 1)]).await.unwrap().epoch;
        assert_eq!(epoch, after.position.epoch);
        store.close().await;
        drop(store);

        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        assert_eq!(head(&store, &other).await.position.epoch, epoch, "{policy:?}: once");
        store.close().await;
    }
}

/// What [`SyncPolicy::Interval`] promises for a power cut: nobody has to append for the last append to be synced.
#[tokio::test]
async fn an_interval_is_synced_without_further_appends() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap();
    let file = rusqlite::Connection::open(folder.path().join("inkrelay.sqlite3")).unwrap();
    let syncs = || -> i64 {
        file.query_row("SELECT value FROM meta WHERE key = 'syncs'", [], |row| row.get(0)).unwrap()
    };
    for turn in 0..2 {
        assert_eq!(syncs(), turn, "without an append there is nothing to sync");
        store_one(&store, &the_room(), batch(author(1), 1 + turn as u64, 1)).await;
        let deadline = Instant::now() + SyncPolicy::INTERVAL + Duration::from_secs(10);
        while syncs() == turn {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    store.close().await;
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let setup = format!("mount -t tmpfs -o size=4m tmpfs {}", folder.path().display());
    Running::start_with_mounts(&setup, "full_disk", folder.path(), SyncPolicy::Always).finish();
}

#[tokio::test]
async fn an_error_while_writing_ends_writing_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // In blocks of 512 or 1024 bytes, as the shell likes. Ignoring the signal makes it an error.
    let child = Running::start_after(
        "trap '' XFSZ && ulimit -f 1500",
        "write_error",
        folder.path(),
        SyncPolicy::Always,
    );
    let line = child.line().expect("the child tells what it got acknowledged");
    let acked = line.strip_prefix("acked ").unwrap().parse().unwrap();
    child.finish();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    roles::assert_acked_or_one_more(&store, acked).await;
    store_one(&store, &the_room(), batch(author(2), 1, 1)).await;
    store.close().await;
}
