//! Bytes that are missing, or not what they were.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use inkrelay_protocol::{RoomId, Seq};
use inkrelay_server::random;
use inkrelay_server::store::{EmbeddedStore, Store, StoreError, SyncPolicy};
use rusqlite::Connection;
use tempfile::TempDir;

use super::the_room;
use crate::store_contract::{ALL, author, batch, head, read_all, store_one};

/// Bytes of SQLite's page; of the header before each page in the write-ahead log, and of that log's own header.
const PAGE: usize = 4096;
const FRAME_HEADER: usize = 24;
const WAL_HEADER: usize = 32;
const RECORDS_PER_BATCH: u64 = 3;

/// In memory where that can be had: what is tested is what stands in the files, and syncing takes its time.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Tries to copy or end a store before it folds. One that is slow at that has folded.
pub const TRIES: usize = 20;

/// What a folder looked like when the power went.
pub struct Image {
    pub database: Vec<u8>,
    wal: Vec<u8>,
}

impl Image {
    /// Batches of three records, each in a commit of its own, all of them in the write-ahead log and the journal.
    async fn with_batches(batches: u64) -> Self {
        for _ in 0..TRIES {
            let folder = folder();
            let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
            for turn in 0..batches {
                let first_n = turn * RECORDS_PER_BATCH + 1;
                store_one(&store, &the_room(), batch(author(1), first_n, RECORDS_PER_BATCH)).await;
            }
            let image = Self::of(folder.path());
            store.close().await;
            if image.count("journal") == batches as i64 {
                return image;
            }
        }
        panic!("{TRIES} stores folded before they were copied");
    }

    /// Rows of a table.
    pub fn count(&self, table: &str) -> i64 {
        // In a copy: SQLite tidies up after those that look.
        let copy = folder();
        self.restore(copy.path());
        let file = Connection::open(paths(copy.path()).0).unwrap();
        file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    /// As it is; without a write-ahead log where there is none.
    pub fn of(folder: &Path) -> Self {
        let (database, wal) = paths(folder);
        Self { database: fs::read(database).unwrap(), wal: fs::read(wal).unwrap_or_default() }
    }

    pub fn restore(&self, folder: &Path) {
        let (database, wal) = paths(folder);
        fs::write(database, &self.database).unwrap();
        fs::write(wal, &self.wal).unwrap();
        let _ = fs::remove_file(folder.join("inkrelay.sqlite3-shm"));
    }
}

fn paths(folder: &Path) -> (PathBuf, PathBuf) {
    (folder.join("inkrelay.sqlite3"), folder.join("inkrelay.sqlite3-wal"))
}

fn records(count: u64) -> Vec<Bytes> {
    batch(author(1), 1, count).records
}

/// The log is the first so many batches, whole. Returns how many records these are.
async fn assert_whole_prefix(store: &EmbeddedStore) -> u64 {
    let chunk = read_all(store, &the_room()).await;
    let count = chunk.records.len() as u64;
    assert_eq!(count % RECORDS_PER_BATCH, 0, "no half batch");
    assert_eq!(chunk.records, records(count));
    assert_eq!(chunk.head.position.seq.get(), count);
    assert_eq!(store.last_n(&the_room(), author(1)).await.unwrap(), count);
    count
}

/// Rule 2: what a power cut left of the last write is cut off, and no batch is there by half.
#[tokio::test]
async fn a_torn_write_leaves_whole_batches() {
    const BATCHES: u64 = 12;
    let image = Image::with_batches(BATCHES).await;
    let whole = image.wal.len();
    assert_eq!((whole - WAL_HEADER) % (FRAME_HEADER + PAGE), 0);
    let last_frame = whole - FRAME_HEADER - PAGE..whole;
    // Bytes that SQLite looks at in different ways: the headers and where frames meet; between them by strides.
    let sample = (0..last_frame.start).filter(|at| {
        let in_frame = at.saturating_sub(WAL_HEADER) % (FRAME_HEADER + PAGE);
        *at < WAL_HEADER || in_frame < 2 || in_frame == FRAME_HEADER || at % 1009 == 0
    });
    let folder = folder();
    let mut longest = 0;
    for at in sample.chain(last_frame).chain([whole]) {
        let torn = Image { database: image.database.clone(), wal: image.wal[..at].to_vec() };
        torn.restore(folder.path());
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        let count = assert_whole_prefix(&store).await;
        assert!(count >= longest, "cut at {at}: a longer log holds more");
        longest = count;
        let is_last = at == whole;
        assert_eq!(count == BATCHES * RECORDS_PER_BATCH, is_last, "cut at {at}");
        if at % 97 == 0 {
            // It goes on from there.
            store_one(&store, &the_room(), batch(author(1), count + 1, RECORDS_PER_BATCH)).await;
            assert_whole_prefix(&store).await;
        }
        store.close().await;
    }
}

/// Rule 6: what a damaged write-ahead log lost is not lost in silence.
#[tokio::test]
async fn a_flipped_bit_in_the_write_ahead_log_costs_no_more_than_an_epoch() {
    const BATCHES: u64 = 6;
    let image = Image::with_batches(BATCHES).await;
    let folder = folder();
    image.restore(folder.path());
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let whole = head(&store, &the_room()).await;
    assert_eq!(assert_whole_prefix(&store).await, BATCHES * RECORDS_PER_BATCH);
    store.close().await;
    let last_frame = image.wal.len() - FRAME_HEADER - PAGE;
    let mut shortened = 0;
    for at in (0..last_frame).filter(|at| *at < WAL_HEADER + FRAME_HEADER || at % 211 == 0) {
        let mut flipped = Image { database: image.database.clone(), wal: image.wal.clone() };
        flipped.wal[at] ^= 1 << (at % 8);
        flipped.restore(folder.path());
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        let count = assert_whole_prefix(&store).await;
        if count > 0 && count < BATCHES * RECORDS_PER_BATCH {
            shortened += 1;
            assert_ne!(head(&store, &the_room()).await.position.epoch, whole.position.epoch, "byte {at}");
        }
        // Once: the next start finds all in order.
        let epoch = head(&store, &the_room()).await.position.epoch;
        store.close().await;
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        assert_eq!(head(&store, &the_room()).await.position.epoch, epoch);
        store.close().await;
    }
    assert!(shortened > 20, "{shortened}");
}

/// A store with all in the database, and what it holds.
async fn closed_store() -> (TempDir, Vec<(RoomId, Vec<Bytes>)>) {
    let folder = folder();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    let mut logs = Vec::new();
    for turn in 0..40 {
        let room: RoomId = format!("room-{turn}").parse().unwrap();
        let batches: Vec<_> = (1..=3).map(|id| batch(author(id), 1, 1 + turn % 7 * id)).collect();
        store.append(&room, &batches).await.unwrap();
        logs.push((room, batches.into_iter().flat_map(|batch| batch.records).collect()));
    }
    store.close().await;
    (folder, logs)
}

/// Damage is told or does no harm. A log is never shorter, longer or other than it was, and nothing panics.
#[tokio::test]
async fn a_flipped_bit_is_told_or_does_no_harm() {
    let (folder, logs) = closed_store().await;
    assert_flipped_bits_are_told(folder.path(), &logs, 127).await;
}

/// Flips one bit of every so many bytes, each by itself, in a database that holds these logs and has no
/// write-ahead log.
pub async fn assert_flipped_bits_are_told(folder: &Path, logs: &[(RoomId, Vec<Bytes>)], stride: usize) {
    let (database, wal) = paths(folder);
    let image = fs::read(&database).unwrap();
    let offset = random::u64() as usize % stride;
    println!("offset {offset} of every {stride}");
    let header = 0..100;
    let pages = (0..image.len()).filter(|at| at % PAGE < 12 || at % stride == offset);
    let (mut told, mut harmless) = (0, 0);
    for at in header.chain(pages) {
        let mut flipped = image.clone();
        flipped[at] ^= 1 << (at / 7 % 8);
        fs::write(&database, &flipped).unwrap();
        let _ = fs::remove_file(&wal);
        let Ok(store) = EmbeddedStore::open(folder, SyncPolicy::Always) else {
            told += 1;
            continue;
        };
        let mut is_told = false;
        for (room, log) in logs {
            match store.read(room, Seq::START, ALL).await {
                Ok(chunk) => assert!(chunk.records == *log, "byte {at}: {room} is not what it was"),
                Err(StoreError::Unavailable(_)) => is_told = true,
                Err(error) => panic!("byte {at}: {error}"),
            }
            for id in 1..=3 {
                let expected = log.iter().filter(|record| record[1] == id).count() as u64;
                match store.last_n(room, author(id.into())).await {
                    Ok(last_n) => assert_eq!(last_n, expected, "byte {at}: {room}, author {id}"),
                    Err(_) => is_told = true,
                }
            }
        }
        if is_told {
            told += 1
        } else {
            harmless += 1
        }
        store.close().await;
    }
    println!("{told} told, {harmless} harmless");
    assert!(told > harmless / 10, "{told} told, {harmless} harmless");
}

async fn with_change(change: &str) -> (TempDir, EmbeddedStore) {
    let folder = folder();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    store_one(&store, &the_room(), batch(author(1), 1, 9)).await;
    store_one(&store, &"other".parse().unwrap(), batch(author(1), 1, 2)).await;
    store.close().await;
    drop(store);
    Connection::open(paths(folder.path()).0).unwrap().execute_batch(change).unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    (folder, store)
}

fn is_damage<T>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Unavailable(why)) if why.contains("damaged") && why.contains("the-room"))
}

#[tokio::test]
async fn a_missing_record_is_an_error_and_not_a_shorter_log() {
    for change in
        ["DELETE FROM records WHERE seq = 5", "UPDATE records SET record = x'94010203' WHERE seq = 5"]
    {
        let (_folder, store) = with_change(change).await;
        assert!(is_damage(store.read(&the_room(), Seq::START, ALL).await), "{change}");
        assert!(is_damage(store.read(&the_room(), Seq::new(5).unwrap(), ALL).await), "{change}");
        let after = store.read(&the_room(), Seq::new(6).unwrap(), ALL).await.unwrap();
        assert_eq!(after.records, records(9)[5..]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_room_without_its_last_record_is_an_error_and_others_are_well() {
    for change in [
        "DELETE FROM records WHERE seq = 9",
        "DELETE FROM records WHERE seq > 0 AND room = (SELECT id FROM rooms WHERE name = 'the-room')",
        "UPDATE records SET record = x'91' WHERE seq = 9",
    ] {
        let (_folder, store) = with_change(change).await;
        assert!(is_damage(store.head(&the_room()).await), "{change}");
        assert!(is_damage(store.read(&the_room(), Seq::START, ALL).await), "{change}");
        assert!(is_damage(store.append(&the_room(), &[batch(author(1), 10, 1)]).await), "{change}");
        let other = "other".parse().unwrap();
        store_one(&store, &other, batch(author(1), 3, 1)).await;
        assert_eq!(head(&store, &other).await.position.seq, Seq::new(3).unwrap());
        store.check().await.unwrap();
        store.close().await;
    }
}
