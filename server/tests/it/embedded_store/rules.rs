//! The rules of rooms in the file.

use inkrelay_server::store::rules::{Ban, RuleChange};
use inkrelay_server::store::{EmbeddedStore, OpenError, Rules, Store, StoreError, SyncPolicy};
use rusqlite::Connection;

use super::{database, the_room};
use crate::store_contract::author;

fn ruled() -> Rules {
    let mut rules = Rules::default();
    rules.change(&RuleChange::Lock(true)).unwrap();
    rules.change(&RuleChange::Client(author(7), Ban::Banned)).unwrap();
    rules
}

/// Rule 12, over the end of the process in order and without.
#[tokio::test]
async fn rules_are_there_when_the_file_opens_again() {
    for policy in [SyncPolicy::Always, SyncPolicy::Interval] {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        assert!(store.set_rules(&the_room(), &Rules::default(), &ruled()).await.unwrap());
        store.close().await;
        let closed = store.set_rules(&the_room(), &ruled(), &Rules::default()).await;
        assert!(matches!(closed, Err(StoreError::Unavailable(_))));
        drop(store);
        let store = EmbeddedStore::open(folder.path(), policy).unwrap();
        assert_eq!(store.rules(&the_room()).await.unwrap(), ruled());
        store.close().await;
    }
}

/// A file of version 2, which knows no rules.
#[tokio::test]
async fn a_file_without_rules_gets_them() {
    let folder = tempfile::tempdir().unwrap();
    EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap().close().await;
    let file = Connection::open(database(folder.path())).unwrap();
    file.execute_batch("DROP TABLE rules; PRAGMA user_version = 2").unwrap();
    drop(file);
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
    assert!(store.set_rules(&the_room(), &Rules::default(), &ruled()).await.unwrap());
    store.close().await;
}

#[tokio::test]
async fn damaged_rules_do_not_open() {
    let folder = tempfile::tempdir().unwrap();
    for change in [
        "UPDATE rules SET rules = x'95'",
        "UPDATE rules SET room = 'another'",
        "UPDATE rules SET checksum = checksum + 1",
    ] {
        let folder = folder.path().join(change.len().to_string());
        let store = EmbeddedStore::open(&folder, SyncPolicy::Always).unwrap();
        store.set_rules(&the_room(), &Rules::default(), &ruled()).await.unwrap();
        store.close().await;
        drop(store);
        Connection::open(database(&folder)).unwrap().execute_batch(change).unwrap();
        let error = EmbeddedStore::open(&folder, SyncPolicy::Always).err().expect(change);
        assert!(matches!(error, OpenError::Corrupt { .. }), "{change}: {error}");
    }
}
