//! The store: where logs live. It is the one place that assigns sequence numbers.
//!
//! # Contract
//!
//! Every implementation passes the suite in `tests/it/store_contract.rs`, which quotes these rules.
//!
//! 1. **Order.** Records of a room are numbered 1, 2, 3… without gaps, in the order in which appends took
//!    effect. Two appends to one room never interleave: an append's new records stand next to each other.
//! 2. **Whole or not at all.** A batch is stored with the author's new `n`, or nothing of it is. Batches of
//!    one append succeed and fail each for itself.
//! 3. **Idempotent producer.** Per room and author the store keeps the latest batch: its first `n`, its last
//!    `n`, and the `seq` of the last. Numbers up to the last `n` are stored already and dropped; a first
//!    number beyond `last n + 1` is a gap. An author without a latest batch starts at 1. The anonymous author
//!    is exempt: its records are always new.
//! 4. **Durable before answered.** When `append` returns `Ok`, what it calls stored survives whatever this
//!    kind of store promises to survive, and what has not yet survived is read by nobody.
//! 5. **Three answers.** `Ok` is stored (or refused as a gap, batch by batch). [`StoreError::Full`] means
//!    that nothing of the append was kept. [`StoreError::Unavailable`] means unknown: it may or may not
//!    have taken effect, and the same batches may be appended again.
//! 6. **Epochs.** A room's epoch changes whenever the store cannot vouch that nothing acknowledged was lost,
//!    and no later log of that room ever has the old one. A log without records is told as [`Epoch::EMPTY`].
//! 7. **Bytes.** Records come back exactly as they were appended.
//! 8. **Reading does not write.** Asking about a room that nobody has drawn in, or ruled, leaves no trace.
//! 9. **Listing.** `rooms` tells the rooms that have records or rules, in the order of their names' bytes. Whoever walks
//!    through them page by page, until a page is empty, is told every room that is there all the time, and none twice; one
//!    that comes or goes meanwhile may be told or not.
//! 10. **Deleting** is one step against appends: what was appended before is gone, and what is appended after begins
//!     another log. The room's rules go too. From then on it is as one that nobody has drawn in. So its authors are numbered from 1: a
//!     retry of a batch that was not the author's first is a gap. `Ok(true)` is as durable as an append.
//! 11. **Restoring.** A log from elsewhere becomes the room's in one step: until then nobody sees anything of it. Its authors
//!     go on from the numbers that came with it.
//! 12. **Rules.** A room's rules stand apart from its log: either can be there without the other, and a new epoch
//!     leaves them as they are. [`Store::set_rules`] takes effect only where the rules are those that were expected, so
//!     that of two changes at once neither is lost. When it says that it did, they are as durable as an append. Rules
//!     that are the default again are as those of a room that nobody ruled.

mod embedded;
mod memory;
mod redis;
pub mod rules;

use std::sync::Weak;

use async_trait::async_trait;
use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Identity, Position, RoomId, Seq};

pub use embedded::{EmbeddedReader, EmbeddedStore, OpenError, SyncPolicy};
pub use memory::MemoryStore;
pub use redis::{RedisConfig, RedisConnectError, RedisStore};
pub use rules::Rules;

/// Consecutive draws of one author, each encoded as the record that it will be.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Who drew. Anonymous batches are stored whatever their numbers.
    pub author: ClientId,
    /// The author's number of the first record; the others follow without gaps, but for an anonymous batch.
    pub first_n: u64,
    /// At least one; the bytes of [`inkrelay_protocol::Record`], usually slices of one allocation.
    pub records: Vec<Bytes>,
}

impl Batch {
    /// The author's number of the last record.
    pub fn last_n(&self) -> u64 {
        self.first_n + self.records.len() as u64 - 1
    }
}

/// What became of one batch: all of it is stored now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// How many of its records are new: the last so many of the batch.
    pub new: usize,
    /// Where the batch's first record stands; `None` when it was stored before the author's latest batch.
    pub first_seq: Option<Seq>,
    /// The author's newest number that is stored.
    pub last_n: u64,
    /// Where that one stands.
    pub last_seq: Seq,
}

/// A batch that was refused: a number before it is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The number that the author should send next.
    pub expected: u64,
}

/// What an append did.
#[derive(Clone, Debug)]
pub struct Appended {
    /// The incarnation that the records are in.
    pub epoch: Epoch,
    /// The head before the append: its new records are numbered from the one after.
    pub before: Position,
    /// Bytes of all the room's records now.
    pub bytes: u64,
    /// For each batch, in the order given.
    pub outcomes: Vec<Result<Stored, Gap>>,
}

/// The newest of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last record, with its identity; at the start for an empty log.
    pub position: Position,
    /// Bytes of all the room's records.
    pub bytes: u64,
}

impl Head {
    /// Of a log without records.
    pub const EMPTY: Self = Self { position: Position::start(Epoch::EMPTY), bytes: 0 };
}

/// A stretch of a log, read at one moment together with its head.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The head at that moment.
    pub head: Head,
    /// Records from the number that was asked for, in order; empty when there are none from there on.
    pub records: Vec<Bytes>,
}

/// A room as a listing tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomSummary {
    /// Its name.
    pub room: RoomId,
    /// Its last record; the start of an empty log where it has rules alone.
    pub position: Position,
    /// Bytes of all its records.
    pub bytes: u64,
    /// When that record was stored, or, without one, when its rules were laid down: milliseconds since 1970 by the clock
    /// of the server that did it; 0 when that is not told.
    pub last_at: u64,
}

impl RoomSummary {
    /// Of a room with that head and those rules; `None` when it has neither records nor rules.
    pub fn new(room: RoomId, head: &Head, rules: &Rules) -> Option<Self> {
        let Head { position, bytes } = *head;
        let is_drawn = position.seq > Seq::START;
        let last_at = if is_drawn { position.identity.at } else { rules.changed_at };
        (is_drawn || *rules != Rules::default()).then_some(Self { room, position, bytes, last_at })
    }
}

/// How much one read returns at most. Where there is a record, one is returned whatever its size.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimit {
    /// Records.
    pub records: usize,
    /// Bytes of all records together.
    pub bytes: usize,
}

/// Why a store did not do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// No answer. An append may or may not have taken effect.
    #[error("the store gave no answer: {0}")]
    Unavailable(String),
    /// There is no space. Nothing of the append was kept.
    #[error("the store has no space left: {0}")]
    Full(String),
}

/// What a store that other servers share tells on its own account.
#[derive(Clone, Debug)]
pub enum StoreEvent {
    /// Somebody, perhaps this server, appended records.
    Appended {
        /// Where.
        room: RoomId,
        /// The incarnation and the record before the first new one.
        before: Position,
        /// The new records, in order.
        records: Vec<Bytes>,
    },
    /// Something may have been missed in that room, or in all: read on from the store.
    CatchUp(Option<RoomId>),
    /// What another server passed to [`Store::tell`]; one's own does not come back.
    Told {
        /// Where.
        room: RoomId,
        /// As it was passed.
        message: Bytes,
    },
}

/// Who hears of [`StoreEvent`]s. Called on the store's own task: it must return at once and never block.
pub trait StoreListener: Send + Sync {
    /// Takes one event.
    fn on_event(&self, event: StoreEvent);
}

/// How full the place is where logs are kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// What is used, by logs and whatever else is there.
    pub used: u64,
    /// What there is; `None` where nothing says how much.
    pub limit: Option<u64>,
}

/// A place for logs. The module's documentation is the contract.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Where draws are kept and what an ack is worth, in one plain sentence without a full stop.
    fn describe(&self) -> String;

    /// Whether other servers may append to the same logs, so that heads have to be compared now and then.
    fn is_shared(&self) -> bool {
        false
    }

    /// Names who hears of events. Called once, before anything else.
    fn listen(&self, _listener: Weak<dyn StoreListener>) {}

    /// Asks for the events of a room until [`Store::unwatch`]. Returns at once; when the watch has taken hold,
    /// and each time that it takes hold again, the listener gets a [`StoreEvent::CatchUp`].
    fn watch(&self, _room: &RoomId) {}

    /// Ends the watch. Calls come in the order in which rooms come and go.
    fn unwatch(&self, _room: &RoomId) {}

    /// Passes something ephemeral to the other servers that watch the room, if it can be done at once.
    fn tell(&self, _room: &RoomId, _message: Bytes) {}

    /// Appends batches, which share one durable step.
    async fn append(&self, room: &RoomId, batches: &[Batch]) -> Result<Appended, StoreError>;

    /// Reads records from number `from` on, together with the head. [`Seq::START`] reads from the first.
    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError>;

    /// The newest of a log.
    async fn head(&self, room: &RoomId) -> Result<Head, StoreError>;

    /// The newest of several logs, in the order given.
    async fn heads(&self, rooms: &[RoomId]) -> Result<Vec<Head>, StoreError> {
        let mut heads = Vec::with_capacity(rooms.len());
        for room in rooms {
            heads.push(self.head(room).await?);
        }
        Ok(heads)
    }

    /// The newest number of that author which is stored; 0 for none.
    async fn last_n(&self, room: &RoomId, author: ClientId) -> Result<u64, StoreError>;

    /// Rooms with records or rules whose names come after that one, or the first ones; at most so many, at least one where there
    /// is one. A question of operators: in a large store its answer may take seconds.
    async fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError>;

    /// Deletes a room with all its records and its rules. Returns whether there was anything of it. After [`StoreError::Unavailable`] it may be
    /// gone or not, and can be asked again.
    async fn delete(&self, room: &RoomId) -> Result<bool, StoreError>;

    /// Deletes a room whose last record was stored before `before`, in milliseconds since 1970, if no server watches
    /// it; all of it in one step. Without records it is when the rules were laid down that counts. Returns whether it did. A
    /// room that does not say when is never deleted.
    async fn delete_idle(&self, room: &RoomId, before: u64) -> Result<bool, StoreError>;

    /// Begins to bring in a log from elsewhere, which is to be the room's.
    async fn restore(&self, room: &RoomId) -> Result<Box<dyn Restore>, StoreError>;

    /// What moderators laid down for a room; the default where nobody did.
    async fn rules(&self, room: &RoomId) -> Result<Rules, StoreError>;

    /// Lays down other rules, where they are `expected` until now. `false` when they are not, and nothing is changed.
    async fn set_rules(&self, room: &RoomId, expected: &Rules, rules: &Rules) -> Result<bool, StoreError>;

    /// The key under which tickets are signed: made once, then the same for every server on this store.
    async fn secret(&self) -> Result<[u8; 32], StoreError>;

    /// How often a connection to where draws are kept was made anew, since the start.
    fn reconnects(&self) -> u64 {
        0
    }

    /// Whether an append would have a chance.
    async fn check(&self) -> Result<(), StoreError>;

    /// How full it is, where that can be said.
    async fn space(&self) -> Option<Space> {
        None
    }

    /// Finishes what was begun. Nothing is asked of the store after that.
    async fn close(&self) {}
}

/// A log that is brought in from elsewhere, part by part. Dropped before it is finished, it leaves nothing that anybody
/// sees, and what it took is given back in time.
#[async_trait]
pub trait Restore: Send {
    /// Adds the next records, in order: as many as go well into memory at once.
    async fn records(&mut self, records: Vec<Bytes>) -> Result<(), StoreError>;

    /// Adds authors with their latest batches, each author once.
    async fn authors(&mut self, authors: Vec<(ClientId, LatestBatch)>) -> Result<(), StoreError>;

    /// Makes the log the room's, if it has a record. Where the room has records already it is replaced, or nothing is
    /// done and `false` is returned.
    async fn finish(self: Box<Self>, replace: bool) -> Result<bool, StoreError>;
}

/// What a store keeps of an author: its latest batch, whose records stand next to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatestBatch {
    /// The author's number of the first of them.
    pub first_n: u64,
    /// The author's newest number.
    pub last_n: u64,
    /// Where that one stands.
    pub last_seq: Seq,
}

/// What a log without records is answered that is to be a room's.
pub(crate) fn nothing_to_restore() -> StoreError {
    StoreError::Unavailable("a log without records cannot be restored".to_owned())
}

/// Whether a room's last record, or its rules, say that they are from before that time.
pub(crate) fn is_idle(last_at: u64, before: u64) -> bool {
    last_at > 0 && last_at < before
}

/// What to do with a batch, given the author's latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Drop that many records from the front and store the others.
    Store { skip: usize },
    /// All are stored.
    Known(Stored),
    /// A number is missing.
    Refuse(Gap),
}

/// The idempotent producer's rule, for the stores that decide in Rust.
pub(crate) fn plan(batch: &Batch, latest: Option<LatestBatch>) -> Plan {
    if batch.author.is_anonymous() {
        return Plan::Store { skip: 0 };
    }
    let expected = latest.map_or(1, |latest| latest.last_n + 1);
    if batch.first_n > expected {
        return Plan::Refuse(Gap { expected });
    }
    match latest {
        Some(latest) if batch.last_n() <= latest.last_n => Plan::Known(Stored {
            new: 0,
            first_seq: seq_in_latest(latest, batch.first_n),
            last_n: latest.last_n,
            last_seq: latest.last_seq,
        }),
        _ => Plan::Store { skip: usize::try_from(expected - batch.first_n).unwrap_or(usize::MAX) },
    }
}

/// What becomes of a batch that is stored behind `head`, but for its first `skip` records, and of its author.
pub(crate) fn place(
    batch: &Batch,
    skip: usize,
    latest: Option<LatestBatch>,
    head: Seq,
) -> (Stored, LatestBatch) {
    let new = batch.records.len() - skip;
    let kept = LatestBatch {
        first_n: batch.first_n + skip as u64,
        last_n: batch.last_n(),
        last_seq: head.plus(new),
    };
    let first_seq = match (skip, latest) {
        (0, _) => Some(head.next()),
        (_, Some(latest)) => seq_in_latest(latest, batch.first_n),
        (_, None) => None,
    };
    (Stored { new, first_seq, last_n: kept.last_n, last_seq: kept.last_seq }, kept)
}

/// Where the author's draw `n` stands, if it is of the latest batch, whose records stand next to each other.
pub(crate) fn seq_in_latest(latest: LatestBatch, n: u64) -> Option<Seq> {
    let back = latest.last_n.checked_sub(n).filter(|_| n >= latest.first_n)?;
    Seq::new(latest.last_seq.get() - back)
}

/// The identity at the head of a log, given its last record.
pub(crate) fn identity_of(record: &[u8]) -> Identity {
    inkrelay_protocol::Record::parse(record).map_or(Identity::NONE, |record| record.identity)
}
