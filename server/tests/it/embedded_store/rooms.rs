//! Deleting rooms: what stays in the file, and what a crash leaves.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use inkrelay_protocol::RoomId;
use inkrelay_server::store::{EmbeddedStore, Head, Store, SyncPolicy};
use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::{database, the_room};
use crate::store_contract::{ALL, author, batch, head, read, read_all, store_one};
use crate::support::eventually;

/// Records after which the journal is folded at once, and some.
const MANY: u64 = 5000;

fn open(folder: &Path) -> EmbeddedStore {
    EmbeddedStore::open(folder, SyncPolicy::Always).unwrap()
}

fn reading(folder: &Path) -> Connection {
    Connection::open_with_flags(database(folder), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn count(folder: &Path, table: &str) -> i64 {
    reading(folder).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

/// What a crash now would leave.
fn crashed(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["inkrelay.sqlite3", "inkrelay.sqlite3-wal"] {
        fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

async fn all_is_folded(folder: &Path) {
    eventually("the journal is folded", async || count(folder, "journal") == 0).await;
}

/// Rules 4 and 10: whether its records were in the tables, in the journal or in both.
#[tokio::test]
async fn a_crash_does_not_bring_a_deleted_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let [folded, unfolded, both, other] = ["a", "b", "c", "d"].map(|name| name.parse::<RoomId>().unwrap());
    store_one(&store, &folded, batch(author(1), 1, 30)).await;
    store_one(&store, &both, batch(author(1), 1, 30)).await;
    all_is_folded(folder.path()).await;
    store_one(&store, &both, batch(author(1), 31, 3)).await;
    store_one(&store, &unfolded, batch(author(1), 1, 3)).await;
    store_one(&store, &other, batch(author(1), 1, 7)).await;
    let kept = read_all(&store, &other).await;
    for room in [&folded, &unfolded, &both] {
        assert!(store.delete(room).await.unwrap());
    }
    let copy = crashed(folder.path());
    let after = open(copy.path());
    for room in [&folded, &unfolded, &both] {
        assert_eq!(head(&after, room).await, Head::EMPTY, "{room}");
        assert_eq!(after.last_n(room, author(1)).await.unwrap(), 0);
        store_one(&after, room, batch(author(1), 1, 1)).await;
    }
    let found = read_all(&after, &other).await;
    assert_eq!((found.head, found.records), (kept.head, kept.records));
    after.close().await;
    store.close().await;
}

/// What a deleted room leaves is cleared away, also after a restart, and its pages are used again.
#[tokio::test]
async fn what_a_deleted_room_took_is_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let pages =
        || reading(folder.path()).pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0)).unwrap();
    store_one(&store, &the_room(), batch(author(1), 1, MANY)).await;
    for id in 2..2000 {
        store_one(&store, &the_room(), batch(author(id), 1, 1)).await;
    }
    all_is_folded(folder.path()).await;
    let before = pages();
    assert!(store.delete(&the_room()).await.unwrap());
    assert_eq!(count(folder.path(), "waste"), 1, "it takes more than a step");
    let is_clear =
        async || ["waste", "records", "clients"].map(|table| count(folder.path(), table)) == [0; 3];
    store.close().await;

    let store = open(folder.path());
    eventually("all is cleared away", is_clear).await;
    store_one(&store, &the_room(), batch(author(1), 1, MANY)).await;
    all_is_folded(folder.path()).await;
    assert!(pages() <= before + 64, "{} pages, and {before} before", pages());
    assert_eq!(read_all(&store, &the_room()).await.records, batch(author(1), 1, MANY).records);
    store.close().await;
}

/// A read that began before a deletion, and asks the tables after it, finds no fault with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_go_on_while_rooms_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let (store, done) = (Arc::new(open(folder.path())), Arc::new(AtomicBool::new(false)));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            tokio::spawn(async move {
                while !done.load(Ordering::Acquire) {
                    let chunk = read(&*store, &the_room(), 1, ALL).await;
                    assert_eq!(chunk.head.position.seq.get(), chunk.records.len() as u64);
                    let listed = store.rooms(None, 10).await.unwrap();
                    assert!(listed.len() <= 1);
                }
            })
        })
        .collect();
    for turn in 0..10 {
        // Enough for a fold, so that what comes then is in the journal and the beginning in the tables.
        store_one(&*store, &the_room(), batch(author(1), 1, 2048)).await;
        store_one(&*store, &the_room(), batch(author(1), 2049, 1 + turn)).await;
        assert!(store.delete(&the_room()).await.unwrap());
    }
    done.store(true, Ordering::Release);
    for reader in readers {
        reader.await.unwrap();
    }
    store.close().await;
}

/// Version 2 of the file, which has no waste.
#[tokio::test]
async fn a_file_of_the_version_before_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store_one(&store, &the_room(), batch(author(1), 1, 3)).await;
    store.close().await;
    let file = Connection::open(database(folder.path())).unwrap();
    file.execute_batch("DROP TABLE waste; PRAGMA user_version = 2").unwrap();
    drop(file);
    let store = open(folder.path());
    assert_eq!(read_all(&store, &the_room()).await.records, batch(author(1), 1, 3).records);
    assert!(store.delete(&the_room()).await.unwrap());
    store.close().await;
}
