//! What opens and what does not, and what the operator is told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::{Identity, Seq};
use inkrelay_server::store::{Batch, EmbeddedStore, OpenError, ReadLimit, Store, StoreError, SyncPolicy};
use rusqlite::Connection;

use super::child::Running;
use super::{database, the_room};
use crate::store_contract::{ALL, author, batch, read_all, store_one};

fn refused(folder: &Path) -> OpenError {
    EmbeddedStore::open(folder, SyncPolicy::Always).err().expect("it does not open")
}

#[tokio::test]
async fn a_new_folder_is_for_its_owner_only() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("some/where");
    let store = EmbeddedStore::open(&folder, SyncPolicy::Always).unwrap();
    store_one(&store, &the_room(), batch(author(1), 1, 1)).await;
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
    store.close().await;
}

#[tokio::test]
async fn what_was_closed_opens_again_with_everything() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    store_one(&store, &the_room(), batch(author(1), 1, 5)).await;
    let (before, secret) = (read_all(&store, &the_room()).await, store.secret().await.unwrap());
    store.close().await;
    for answer in [
        store.check().await,
        store.append(&the_room(), &[batch(author(1), 6, 1)]).await.map(drop),
        store.head(&the_room()).await.map(drop),
    ] {
        assert!(
            matches!(answer, Err(StoreError::Unavailable(_))),
            "a closed store answers that it is closed"
        );
    }
    store.close().await;
    drop(store);

    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let after = read_all(&store, &the_room()).await;
    assert_eq!((after.head, after.records), (before.head, before.records));
    assert_eq!(store.secret().await.unwrap(), secret);
    assert_eq!(store_one(&store, &the_room(), batch(author(1), 3, 3)).await.first_seq, Seq::new(3));
    store.close().await;
}

#[tokio::test]
async fn what_was_dropped_lets_go_of_its_folder_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap();
    store_one(&store, &the_room(), batch(author(1), 1, 5)).await;
    let before = read_all(&store, &the_room()).await;
    drop(store);
    let deadline = Instant::now() + Duration::from_secs(10);
    let store = loop {
        match EmbeddedStore::open(folder.path(), SyncPolicy::Always) {
            Ok(store) => break store,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    let after = read_all(&store, &the_room()).await;
    assert_eq!((after.head, after.records), (before.head, before.records), "it ended in order");
    store.close().await;
}

/// Rule 8, as the file shows it.
#[tokio::test]
async fn reading_and_refusing_leave_no_trace_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    for turn in 0..50 {
        let room = format!("asked-{turn}").parse().unwrap();
        store.head(&room).await.unwrap();
        store.read(&room, Seq::START, ALL).await.unwrap();
        store.last_n(&room, author(1)).await.unwrap();
        store.rules(&room).await.unwrap();
        store.append(&room, &[batch(author(1), 5, 1)]).await.unwrap();
    }
    store.close().await;
    let file = Connection::open(database(folder.path())).unwrap();
    for table in ["rooms", "records", "clients", "journal", "waste", "rules"] {
        let rows: i64 =
            file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test]
async fn a_second_process_is_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Running::start("hold", folder.path(), SyncPolicy::Always);
    child.wait_for("open");
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("Stop that one first"), "{error}");
    // However the other ends, its lock ends with it.
    child.kill();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    assert!(matches!(refused(folder.path()), OpenError::Locked { .. }), "also within one process");
    store.close().await;
}

#[test]
fn a_read_only_disk_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display();
    let setup = format!(
        "mount -t tmpfs tmpfs {path} && mkdir {path}/old && touch {path}/old/inkrelay.lock \
         && mount -o remount,ro {path}"
    );
    Running::start_with_mounts(&setup, "read_only_disk", folder.path(), SyncPolicy::Always).finish();
}

#[test]
fn a_folder_that_is_a_file_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path().to_owned(), file.path().join("below")] {
        assert!(matches!(refused(&path), OpenError::NotWritable { .. }));
    }
}

#[tokio::test]
async fn a_newer_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap().close().await;
    Connection::open(database(folder.path())).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let before = fs::read(database(folder.path())).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    assert!(error.to_string().contains("newer version"), "{error}");
    assert_eq!(fs::read(database(folder.path())).unwrap(), before);
}

#[test]
fn somebody_elses_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(folder.path());
    let foreign = Connection::open(&file).unwrap();
    foreign
        .execute_batch("CREATE TABLE addresses (name TEXT); INSERT INTO addresses VALUES ('Ada')")
        .unwrap();
    drop(foreign);
    let of_somebody = fs::read(&file).unwrap();
    for content in [&of_somebody[..], b"Dear diary", &[7; 5000]] {
        fs::write(&file, content).unwrap();
        let error = refused(folder.path());
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
        assert_eq!(fs::read(&file).unwrap(), content);
    }
}

/// A crash right after the file was made.
#[tokio::test]
async fn an_empty_file_is_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(database(folder.path()), b"").unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    store_one(&store, &the_room(), batch(author(1), 1, 1)).await;
    store.close().await;
}

/// The store takes whatever it is given for a record, and gives it back.
#[tokio::test]
async fn bytes_that_are_no_record_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = [&b""[..], b"\xc1", b"\x94\x01", &[0xdd; 7]].map(Bytes::from_static).to_vec();
    for turn in 0..2 {
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        let batch = Batch { author: author(1), first_n: 1 + 4 * turn, records: garbage.clone() };
        store_one(&store, &the_room(), batch).await;
        let chunk = read_all(&store, &the_room()).await;
        assert_eq!(chunk.records.len() as u64, 4 * (turn + 1));
        assert_eq!(chunk.records[..4], garbage);
        assert_eq!(chunk.head.position.identity, Identity::NONE);
        let limit = ReadLimit { records: 1, bytes: 0 };
        assert_eq!(store.read(&the_room(), Seq::START, limit).await.unwrap().records.len(), 1);
        store.close().await;
    }
}
