//! Faults that people met in systems that do this job, each tried on the whole relay. Where a new test goes:
//!
//! - `abandoned`: what is left behind by those who go without a word, and by those who do not keep up
//! - `polling`: long polls that do not wake, and what falls between two of them
//! - `resuming`: coming back: repeats, holes, retries, replaced connections, undo
//! - `eviction`: coming just when the room is dropped from memory
//! - `oversize`: messages and rooms that are too large for somebody
//! - `restarts`: the store, or the relay, goes and comes back
//! - `poison`: bytes that break whoever reads them
//! - `nodes`: several relays over one store, and the network between
//!
//! Each test's comment tells the fault. No answer of the relay's about itself counts: a ledger is held against
//! what fresh readers get.

mod abandoned;
mod eviction;
mod nodes;
mod oversize;
mod poison;
mod polling;
mod restarts;
mod resuming;

use std::sync::Arc;

use inkrelay_protocol::{Channels, Draw, Style};
use inkrelay_server::config::Config;
use inkrelay_server::store::{RedisConfig, RedisStore};

use crate::support::redis::RedisServer;
use crate::support::relay::Relay;

const PEN: Style = Style { tool: 0, rgba: 0xff, width: 32 };

/// The beginning of a stroke.
fn begin(stroke: u64, points: &[i32], end: bool) -> Draw {
    Draw::Begin { stroke, style: PEN, channels: Channels::NONE, points: points.to_vec(), end }
}

/// A relay over that Redis, with a connection of its own.
async fn node(redis: &RedisServer, set: impl FnOnce(&mut Config)) -> Relay {
    let store = RedisStore::connect(&redis.url(), RedisConfig::default()).await.unwrap();
    Relay::start_on(Arc::new(store), set).await
}

/// The time within which nine and ninety of a hundred stayed.
fn p99(mut times: Vec<std::time::Duration>) -> std::time::Duration {
    times.sort_unstable();
    times[(times.len() * 99).div_ceil(100) - 1]
}
