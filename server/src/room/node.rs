//! A node: what all rooms of this process share, and what each is held to.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use super::presence::NodeId;
use crate::live::Live;
use crate::metrics::Metrics;
use crate::random;
use crate::store::Store;

/// What all rooms of this process share.
pub struct Node {
    /// Tells this process from the others on the same store.
    pub id: NodeId,
    /// Where the logs live.
    pub store: Arc<dyn Store>,
    /// What rooms are held to.
    pub limits: Live<RoomLimits>,
    /// Bytes of all tails together.
    pub tail_bytes: AtomicUsize,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl Node {
    /// A process with an id of its own, and nothing in memory.
    pub fn new(store: Arc<dyn Store>, limits: RoomLimits) -> Self {
        let (id, tail_bytes, metrics) = (random::u64(), AtomicUsize::new(0), Arc::default());
        Self { id, store, limits: limits.into(), tail_bytes, metrics }
    }
}

/// What a room is held to. 0 is no limit.
#[derive(Clone, Copy, Debug)]
pub struct RoomLimits {
    /// Bytes of a room's recent records in memory; the newest always stays, and 0 keeps no other.
    pub tail_bytes: usize,
    /// Bytes of a room's log.
    pub room_bytes: u64,
    /// Readers of one room on this node, and participants of one room in all.
    pub sessions: usize,
    /// Records that come within this time of those before are told together with what else comes by then; zero
    /// tells each at once. Not a limit.
    pub flush_time: Duration,
    /// How long a node is believed that says who is with it, without saying it again. Not a limit: never 0.
    pub idle_time: Duration,
}
