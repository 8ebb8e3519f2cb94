//! What stands in the journal and is in no table yet.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use inkrelay_protocol::{ClientId, RoomId, Seq};
use inkrelay_server::random;
use inkrelay_server::store::{Batch, EmbeddedStore, OpenError, ReadLimit, Store, SyncPolicy};
use rusqlite::Connection;
use tempfile::TempDir;

use super::child::Running;
use super::damage::{Image, TRIES, assert_flipped_bits_are_told};
use super::{database, the_room};
use crate::store_contract::{ALL, append, author, batch, head, read, read_all, seq, store_one, stored};
use crate::support::eventually;

fn other() -> RoomId {
    "other".parse().unwrap()
}

fn count(folder: &Path, table: &str) -> i64 {
    let file = Connection::open(database(folder)).unwrap();
    file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// In a room that is in the tables, which ada drew in, and in a new one.
pub fn unfolded_batches() -> [(RoomId, Vec<Batch>); 3] {
    [
        (the_room(), vec![batch(author(1), 4, 2), batch(author(2), 1, 3)]),
        (other(), vec![batch(author(2), 1, 1), batch(ClientId::ANONYMOUS, 7, 2)]),
        (the_room(), vec![batch(author(2), 2, 5), batch(author(1), 9, 1)]),
    ]
}

/// What the child stores before: it is in the tables when the store is closed.
pub fn folded_batch() -> Batch {
    batch(author(1), 1, 3)
}

async fn assert_holds_all(store: &EmbeddedStore) {
    let of = |id, first_n, records| batch(author(id), first_n, records).records;
    let log = [of(1, 1, 5), of(2, 1, 6)].concat();
    let chunk = read_all(store, &the_room()).await;
    assert_eq!(chunk.records, log);
    assert_eq!(chunk.head, head(store, &the_room()).await);
    assert_eq!(chunk.head.bytes, log.iter().map(|record| record.len() as u64).sum::<u64>());
    let log = [of(2, 1, 1), of(0, 7, 2)].concat();
    assert_eq!(read_all(store, &other()).await.records, log);
    for (room, id, last_n) in [(the_room(), 1, 5), (the_room(), 2, 6), (other(), 1, 0), (other(), 2, 1)] {
        assert_eq!(store.last_n(&room, author(id)).await.unwrap(), last_n, "author {id} in {room}");
    }
    // The latest batches are those that were stored, also where one was stored in part.
    let retries = [batch(author(1), 4, 2), batch(author(2), 2, 5), batch(author(2), 4, 3)];
    let told = append(store, &the_room(), &retries).await.outcomes;
    assert_eq!(told, [stored(0, Some(4), 5, 5), stored(0, None, 6, 11), stored(0, Some(9), 6, 11)]);
}

/// A folder of a store that was killed with an unfolded journal, and what it told before.
async fn killed(policy: SyncPolicy) -> (TempDir, Seq) {
    for _ in 0..TRIES {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Running::start("unfolded", folder.path(), policy);
        child.wait_for("acked");
        child.kill();
        let image = Image::of(folder.path());
        if image.count("journal") == 3 {
            assert_eq!(image.count("records"), 3);
            return (folder, seq(11));
        }
    }
    panic!("{TRIES} children folded before they were killed");
}

/// Rules 2, 3 and 4.
#[tokio::test]
async fn what_is_killed_before_it_folds_is_folded_at_the_next_start() {
    for policy in [SyncPolicy::Always, SyncPolicy::Interval] {
        let (folder, last) = killed(policy).await;
        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        assert_holds_all(&store).await;
        assert_eq!(head(&store, &the_room()).await.position.seq, last);
        eventually("the journal is folded", async || count(folder.path(), "journal") == 0).await;
        assert_holds_all(&store).await;
        store.close().await;
        drop(store);
        assert_eq!((count(folder.path(), "records"), count(folder.path(), "rooms")), (14, 2));
        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        assert_holds_all(&store).await;
        assert_eq!(store_one(&store, &the_room(), batch(author(2), 7, 1)).await.last_seq, last.next());
        store.close().await;
    }
}

/// Rule 6: also for a room that began in the journal.
#[tokio::test]
async fn what_an_unsynced_run_left_in_the_journal_has_a_new_epoch() {
    let (folder, _) = killed(SyncPolicy::Interval).await;
    let copy = tempfile::tempdir().unwrap();
    Image::of(folder.path()).restore(copy.path());
    let entry: Vec<u8> = Connection::open(database(copy.path()))
        .unwrap()
        .query_row("SELECT entry FROM journal WHERE number = 3", [], |row| row.get(0))
        .unwrap();
    let mut reader = inkrelay_protocol::msgpack::Reader::new(&entry);
    assert_eq!((reader.array(), reader.str(), reader.nil()), (Ok(4), Ok("other"), false));
    let begun_in = reader.uint().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let epoch = head(&store, &other()).await.position.epoch;
    assert_ne!(epoch.get(), begun_in);
    assert_holds_all(&store).await;
    store.close().await;
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    assert_eq!(head(&store, &other()).await.position.epoch, epoch, "once");
    store.close().await;
}

/// Nobody has to append for the journal to be folded, and what was folded is looked at as what was not.
#[tokio::test]
async fn the_journal_is_folded_without_further_appends() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    for turn in 1..=3 {
        store_one(&store, &the_room(), batch(author(1), turn, 1)).await;
        let before = read_all(&store, &the_room()).await;
        eventually("it is folded", async || count(folder.path(), "records") == turn as i64).await;
        assert_eq!(count(folder.path(), "journal"), 0);
        let after = read_all(&store, &the_room()).await;
        assert_eq!((after.head, after.records), (before.head, before.records));
        assert_eq!(store.last_n(&the_room(), author(1)).await.unwrap(), turn);
    }
    store.close().await;
}

/// Rules 1 and 4: a fold is not seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_see_no_hole_and_no_repeat_while_folding() {
    const BATCH: u64 = 40;
    const BATCHES: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap());
    let log = Arc::new(batch(author(1), 1, BATCH * BATCHES).records);
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (store, log, done) = (store.clone(), log.clone(), done.clone());
            tokio::spawn(async move {
                let (mut seen, mut reads) = (0, 0);
                while !done.load(Ordering::Acquire) {
                    // From anywhere, across the border between tables and journal, and at it.
                    let from = 1 + random::u64() % (seen + 2);
                    let limit = ReadLimit { records: 1 + random::u64() as usize % 3000, bytes: 1 << 20 };
                    let chunk = read(&*store, &the_room(), from, limit).await;
                    let head = chunk.head.position.seq.get();
                    assert!(head >= seen, "the head goes back from {seen} to {head}");
                    assert_eq!(head % BATCH, 0, "a batch is seen whole");
                    let there = (head + 1).saturating_sub(from).min(limit.records as u64);
                    assert_eq!(chunk.records.len() as u64, there, "from {from} to {head}");
                    let from = (from - 1) as usize;
                    assert!(chunk.records[..] == log[from..from + chunk.records.len()], "from {from}");
                    seen = head;
                    let heads = store.heads(&[the_room(), other()]).await.unwrap();
                    assert!(heads[0].position.seq.get() >= seen && heads[1].position.seq == Seq::START);
                    seen = heads[0].position.seq.get();
                    let last_n = store.last_n(&the_room(), author(1)).await.unwrap();
                    assert!(last_n >= seen, "author 1 goes back from {seen} to {last_n}");
                    seen = last_n;
                    reads += 1;
                }
                reads
            })
        })
        .collect();
    for turn in 0..BATCHES {
        store_one(&*store, &the_room(), batch(author(1), turn * BATCH + 1, BATCH)).await;
    }
    let file = Connection::open(database(folder.path())).unwrap();
    let folded: i64 =
        file.query_row("SELECT value FROM meta WHERE key = 'folded'", [], |row| row.get(0)).unwrap();
    assert!(folded > 0, "it was folded meanwhile");
    done.store(true, Ordering::Release);
    for reader in readers {
        assert!(reader.await.unwrap() > 10);
    }
    assert!(read_all(&*store, &the_room()).await.records == *log);
    store.close().await;
}

/// A database with all of that in the journal, and nothing in a write-ahead log.
async fn unfolded_database() -> TempDir {
    let (folder, _) = killed(SyncPolicy::Always).await;
    let file = Connection::open(database(folder.path())).unwrap();
    file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(file);
    folder
}

#[tokio::test]
async fn a_damaged_journal_does_not_open_and_is_left_alone() {
    let folder = unfolded_database().await;
    let image = Image::of(folder.path());
    for (change, what) in [
        ("UPDATE journal SET entry = x'00' WHERE number = 3", "entry 3 of the journal is not as"),
        ("UPDATE journal SET checksum = checksum + 1 WHERE number = 4", "entry 4 of the journal is not as"),
        ("UPDATE journal SET number = 9 WHERE number = 4", "entry 4 of the journal is missing"),
        ("DELETE FROM journal WHERE number = 2", "entry 2 of the journal is missing"),
        ("DELETE FROM journal WHERE number = 3", "entry 3 of the journal is missing"),
        ("UPDATE meta SET value = 2 WHERE key = 'folded'", "entry 3 of the journal is missing"),
        ("DELETE FROM meta WHERE key = 'folded'", "how much of the journal"),
        ("DELETE FROM rooms WHERE name = 'the-room'", "continues room the-room, which is not there"),
    ] {
        image.restore(folder.path());
        Connection::open(database(folder.path())).unwrap().execute_batch(change).unwrap();
        let damaged = Image::of(folder.path());
        let error = EmbeddedStore::open(folder.path(), SyncPolicy::Always).err().expect(change);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{change}: {error}");
        assert!(error.to_string().contains(what), "{change}: {error}");
        assert_eq!(Image::of(folder.path()).database, damaged.database, "{change}");
    }
    image.restore(folder.path());
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    assert_holds_all(&store).await;
    store.close().await;
}

#[tokio::test]
async fn a_flipped_bit_of_the_journal_is_told_or_does_no_harm() {
    let folder = unfolded_database().await;
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let mut logs = Vec::new();
    for room in [the_room(), other()] {
        logs.push((room.clone(), store.read(&room, Seq::START, ALL).await.unwrap().records));
    }
    store.close().await;
    drop(store);
    let folder = unfolded_database().await;
    assert_flipped_bits_are_told(folder.path(), &logs, 61).await;
}

/// A file that the version before the journal left.
#[tokio::test]
async fn a_file_of_version_1_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let file = Connection::open(database(folder.path())).unwrap();
    file.execute_batch(include_str!("version_1.sql")).unwrap();
    drop(file);
    let of = |id, first_n, records| batch(author(id), first_n, records).records;
    let mut log = [of(1, 1, 3), of(2, 1, 2), of(1, 4, 2)].concat();
    for turn in 0..3 {
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        let chunk = read_all(&store, &the_room()).await;
        assert_eq!(chunk.records, log);
        assert_eq!(chunk.head.position.epoch.get(), 8_586_653_397_289_278, "nothing was lost");
        assert_eq!(store.secret().await.unwrap()[..4], [0x14, 0xa0, 0x9f, 0x4a]);
        let retry = append(&store, &the_room(), &[batch(author(2), 1, 2)]).await.outcomes;
        assert_eq!(retry, [stored(0, Some(4), 2, 5)]);
        let others = [of(1, 1, 4), of(0, 1, 1)].concat();
        assert_eq!(read_all(&store, &other()).await.records, others);
        store_one(&store, &the_room(), batch(author(1), 6 + turn, 1)).await;
        log.extend(of(1, 6 + turn, 1));
        let new = format!("new-{turn}").parse().unwrap();
        store_one(&store, &new, batch(author(3), 1, 1)).await;
        store.close().await;
        drop(store);
        let file = Connection::open(database(folder.path())).unwrap();
        let version: i64 = file.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        assert_eq!(version, 3);
    }
    assert_eq!(count(folder.path(), "rooms"), 5);
}
