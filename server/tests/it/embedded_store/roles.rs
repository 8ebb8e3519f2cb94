//! What the children do. Those in which the store has to live through something hold it to its promises
//! themselves, because nobody else sees their disk.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use inkrelay_protocol::{Identity, Record, RoomId, Seq};
use inkrelay_server::store::{Batch, EmbeddedStore, OpenError, Store, StoreError, SyncPolicy};

use super::child::say;
use super::{journal, the_room};
use crate::store_contract::{author, batch, read_all};

/// Authors that draw at the same time.
pub const AUTHORS: u64 = 4;

pub async fn play(role: &str, folder: &Path, policy: SyncPolicy) {
    match role {
        "append" => append_without_end(folder, policy).await,
        "unfolded" => leave_unfolded(folder, policy).await,
        "hold" => hold(folder, policy),
        "full_disk" => full_disk(folder).await,
        "read_only_disk" => read_only_disk(folder),
        "write_error" => write_error(folder).await,
        _ => panic!("no such role: {role}"),
    }
}

/// Appends, and says what was sent and what was acknowledged, until it is killed.
async fn append_without_end(folder: &Path, policy: SyncPolicy) {
    let store = Arc::new(EmbeddedStore::open(folder, policy).unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for id in 1..=AUTHORS {
        let store = store.clone();
        tasks.spawn(async move {
            let (room, author) = (the_room(), author(id));
            let mut next = store.last_n(&room, author).await.unwrap() + 1;
            loop {
                let records = 1 + next % 4;
                say(&format!("sent {id} {}", next + records - 1));
                let appended = store.append(&room, &[batch(author, next, records)]).await.unwrap();
                let stored = appended.outcomes[0].unwrap();
                say(&format!("acked {id} {} {}", stored.last_n, stored.last_seq));
                next += records;
            }
        });
    }
    tasks.join_all().await;
}

/// Leaves one batch in the tables and more in the journal, and is killed.
async fn leave_unfolded(folder: &Path, policy: SyncPolicy) {
    let store = EmbeddedStore::open(folder, policy).unwrap();
    store.append(&the_room(), &[journal::folded_batch()]).await.unwrap();
    store.close().await;
    drop(store);
    let store = EmbeddedStore::open(folder, policy).unwrap();
    for (room, batches) in journal::unfolded_batches() {
        store.append(&room, &batches).await.unwrap();
    }
    say("acked");
    std::future::pending().await
}

/// Opens the store and keeps it until the parent lets go.
fn hold(folder: &Path, policy: SyncPolicy) {
    let _store = EmbeddedStore::open(folder, policy).unwrap();
    say("open");
    let _ = std::io::stdin().read(&mut [0]);
}

/// `folder` is on a disk of a few MiB, a part of which a file takes up that can be removed.
async fn full_disk(folder: &Path) {
    let ballast = folder.join("ballast");
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let store = EmbeddedStore::open(folder, SyncPolicy::Always).unwrap();
    let mut acked = fill(&store, 0).await;
    assert!(acked > 50, "the disk was full at once");

    // Refused, and nothing of it was kept; all else is there, and the store is well.
    assert_holds(&store, acked).await;
    store.check().await.unwrap();
    assert!(matches!(append_large(&store, acked + 1).await, Err(StoreError::Full(_))));
    assert_holds(&store, acked).await;

    // There is space: the same draws are taken.
    std::fs::remove_file(&ballast).unwrap();
    append_large(&store, acked + 1).await.unwrap();
    acked += 1;
    acked = fill(&store, acked).await;
    assert_holds(&store, acked).await;

    // A start on the full disk: in order or refused, and refused in words that help.
    store.close().await;
    drop(store);
    let store = match EmbeddedStore::open(folder, SyncPolicy::Always) {
        Ok(store) => store,
        Err(error) => panic!("the store does not open on a full disk: {error}"),
    };
    assert_holds(&store, acked).await;
    fill(&store, acked).await;
}

/// Appends until the disk is full. Returns the last number that was acknowledged.
async fn fill(store: &EmbeddedStore, mut acked: u64) -> u64 {
    loop {
        match append_large(store, acked + 1).await {
            Ok(()) => acked += 1,
            Err(StoreError::Full(_)) => return acked,
            Err(error) => panic!("a full disk is told as {error}"),
        }
        assert!(acked < 100_000, "the disk does not get full");
    }
}

async fn append_large(store: &EmbeddedStore, n: u64) -> Result<(), StoreError> {
    store.append(&the_room(), &[large(n)]).await.map(|appended| assert!(appended.outcomes[0].is_ok()))
}

/// A batch of one record of several KiB.
fn large(n: u64) -> Batch {
    let mut draw = vec![0x92, 5, 0xc5, 0x20, 0x00];
    draw.resize(draw.len() + 0x2000, n as u8);
    let mut record = Vec::new();
    Record { identity: Identity { author: author(1), n, at: n }, draw: &draw }.encode(&mut record);
    Batch { author: author(1), first_n: n, records: vec![record.into()] }
}

/// Exactly the records up to `last_n`.
async fn assert_holds(store: &EmbeddedStore, last_n: u64) {
    let chunk = read_all(store, &the_room()).await;
    let expected: Vec<Bytes> = (1..=last_n).flat_map(|n| large(n).records).collect();
    assert!(chunk.records == expected, "{} records instead of {last_n}", chunk.records.len());
    assert_eq!(chunk.head.position.seq, Seq::new(last_n).unwrap());
    assert_eq!(store.last_n(&the_room(), author(1)).await.unwrap(), last_n);
}

/// `folder` is on a disk that cannot be written; so is a store that was made there before.
fn read_only_disk(folder: &Path) {
    for folder in [folder.to_owned(), folder.join("new"), folder.join("old")] {
        let error = EmbeddedStore::open(&folder, SyncPolicy::Always).err().unwrap();
        assert!(matches!(error, OpenError::NotWritable { .. }), "{error}");
        assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
    }
}

/// The process may not make files of more than a MiB, and that is no lack of space.
async fn write_error(folder: &Path) {
    let store = EmbeddedStore::open(folder, SyncPolicy::Always).unwrap();
    let (mut acked, other): (u64, RoomId) = (0, "other".parse().unwrap());
    let error = loop {
        match append_large(&store, acked + 1).await {
            Ok(()) => acked += 1,
            Err(error) => break error,
        }
        assert!(acked < 100_000, "the limit has no effect");
    };
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(acked > 10, "the limit came at once");
    // Nothing is tried again, however small; reading goes on.
    let small = store.append(&other, &[batch(author(2), 1, 1)]).await;
    assert!(matches!(small, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
    assert_holds(&store, acked).await;
    store.close().await;
    say(&format!("acked {acked}"));
}

/// That the store of [`write_error`] holds what was acknowledged, and perhaps what was unknown.
pub async fn assert_acked_or_one_more(store: &EmbeddedStore, acked: u64) {
    let last_n = store.last_n(&the_room(), author(1)).await.unwrap();
    assert!(last_n == acked || last_n == acked + 1, "{last_n} stored, {acked} acknowledged");
    assert_holds(store, last_n).await;
}
