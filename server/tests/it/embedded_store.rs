//! The embedded store and its faults.

mod child;
mod crash;
mod damage;
mod journal;
mod open;
mod roles;
mod rooms;
mod rules;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use inkrelay_protocol::RoomId;
use inkrelay_server::store::{EmbeddedStore, Store, SyncPolicy};
use tempfile::TempDir;

use crate::store_contract::store_contract_tests;

mod always {
    use super::*;

    async fn open() -> (Arc<dyn Store>, TempDir) {
        open_new(SyncPolicy::Always)
    }

    store_contract_tests!(open);
}

mod interval {
    use super::*;

    async fn open() -> (Arc<dyn Store>, TempDir) {
        open_new(SyncPolicy::Interval)
    }

    store_contract_tests!(open);
}

/// A store in a folder of its own.
fn open_new(policy: SyncPolicy) -> (Arc<dyn Store>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), policy).unwrap();
    (Arc::new(store), folder)
}

fn database(folder: &Path) -> PathBuf {
    folder.join("inkrelay.sqlite3")
}

fn the_room() -> RoomId {
    "the-room".parse().unwrap()
}
