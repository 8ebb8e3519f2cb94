//! What the Redis store promises beyond the contract, and its faults. Where a new test goes:
//!
//! - `contract`: what every store promises
//! - `losses`: restarts, rollbacks, failovers, deleted keys: nothing lost is taken for stored
//! - `refusals`: wrong types, no memory, garbage: no half effects, no panics
//! - `stalls`: Redis or the network does not answer: bounded, and no duplicates
//! - `subscription`: what the listener is told, and that it comes back

mod contract;
mod losses;
mod refusals;
mod replica;
mod stalls;
mod subscription;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Record, RoomId};
use inkrelay_server::store::{Batch, Head, RedisConfig, RedisStore, Store};

use crate::support::redis::RedisServer;

/// How long a test waits for a state.
const PATIENCE: Duration = Duration::from_secs(30);

async fn connect(url: &str) -> Arc<RedisStore> {
    Arc::new(RedisStore::connect(url, RedisConfig::default()).await.unwrap())
}

/// The elements of a room's list, as Redis has them.
fn list(server: &RedisServer, room: &RoomId) -> Vec<Bytes> {
    let command = redis::cmd("LRANGE").arg(key(room, "log")).arg(0).arg(-1).to_owned();
    let elements: Vec<Vec<u8>> = command.query(&mut server.connection()).unwrap();
    elements.into_iter().map(Bytes::from).collect()
}

fn key(room: &RoomId, what: &str) -> String {
    format!("inkrelay:{{{room}}}:{what}")
}

/// Author and n of each record.
fn numbers(records: &[Bytes]) -> Vec<(u64, u64)> {
    let identity = |record: &Bytes| Record::parse(record).unwrap().identity;
    records.iter().map(identity).map(|identity| (identity.author.get(), identity.n)).collect()
}

async fn head(store: &RedisStore, room: &RoomId) -> Head {
    store.head(room).await.unwrap()
}

fn epoch(head: Head) -> Epoch {
    head.position.epoch
}

/// An anonymous batch of one record.
fn anonymous(n: u64) -> Batch {
    let record = crate::store_contract::record(ClientId::ANONYMOUS, n);
    Batch { author: ClientId::ANONYMOUS, first_n: n, records: vec![record] }
}

/// Asks again and again, up to [`PATIENCE`].
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < deadline, "not in {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
