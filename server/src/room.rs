//! A room that is live in this process: the tail of its log, the way in for draws, and who is here.
//!
//! A subscriber is a cursor into the log. It asks for what comes next and, when there is nothing, waits for
//! the room to change; nothing is queued for it. Everything that can be decided without waiting is in
//! [`tail`], [`cursor`] and [`presence`].

mod append;
pub mod cursor;
pub mod erasing;
pub mod feed;
mod gossip;
mod log;
mod node;
mod people;
pub mod presence;
pub mod row;
mod rules;
pub mod tail;

mod beat;
mod counts;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use inkrelay_protocol::{After, ClientId, Position, RoomId, Seq};
use tokio::sync::{OnceCell, watch};

use crate::lock::lock;
use crate::store::{Chunk, Head, ReadLimit, StoreError, identity_of};
use append::in_time;
pub use append::{ANSWER_TIME, Answer, NotStored, Reply};
pub use counts::RoomCounts;
use cursor::{Cursor, Diverged};
pub use log::{LogError, LogReader};
pub use node::{Node, RoomLimits};
pub use people::Attachment;
use presence::Presence;
use row::{Following, Stretch};
pub use rules::{Ending, NotChanged, Stay};
use tail::{Offer, Tail, View};

/// Records that a room reads of the end of its log when it comes to life, so that those who reconnect after
/// a restart find what they lack in memory.
const WARM_RECORDS: usize = 512;
/// How much one read of the store brings when a room catches up.
const CATCH_UP: ReadLimit = ReadLimit { records: 4096, bytes: 1024 * 1024 };

/// How much readers are told at once at most.
const STRETCH: ReadLimit = ReadLimit { records: 2048, bytes: 64 * 1024 };

/// See the module's documentation.
pub struct Room {
    id: RoomId,
    node: Arc<Node>,
    tail: Mutex<Tail>,
    /// Bytes of the whole log, as the store last told.
    bytes: AtomicU64,
    /// Wakes cursors. What changed is looked up, so a reader that is late has missed nothing; when the first of it came is
    /// told for those who measure.
    changed: watch::Sender<Option<Instant>>,
    rows: row::Rows,
    beat: beat::Beat,
    loaded: OnceCell<()>,
    /// How often something said that the tail may lack records that the store has.
    doubts: AtomicU64,
    /// How many of these are settled: by a read of the store that began after them.
    settled_doubts: AtomicU64,
    /// Whether a task is about to catch up.
    is_scheduled: AtomicBool,
    /// One catches up for all who wait for it.
    catching_up: tokio::sync::Mutex<()>,
    appends: Mutex<append::Appends>,
    people: people::People,
    rules: rules::RoomRules,
    counts: RoomCounts,
    /// Whoever holds the room now; it is not evicted meanwhile.
    users: AtomicUsize,
    /// Of these, those who read its log.
    readers: AtomicUsize,
    idle_since: Mutex<Instant>,
}

/// What a cursor gets next.
#[derive(Debug)]
pub enum Next {
    /// The records after it; it stands behind them now.
    Records {
        /// The number of the first.
        first: Seq,
        /// In order.
        records: Vec<Bytes>,
    },
    /// Nothing yet: wait for a change.
    UpToDate,
    /// The log is another than the one that was read.
    Reset,
}

impl Room {
    /// A room that knows nothing of its log yet; see [`Room::load`].
    pub fn new(id: RoomId, node: Arc<Node>) -> Self {
        Self {
            tail: Mutex::new(Tail::new(Head::EMPTY.position, node.limits.get().tail_bytes)),
            bytes: AtomicU64::new(0),
            changed: watch::Sender::new(None),
            rows: row::Rows::default(),
            beat: beat::Beat::default(),
            loaded: OnceCell::new(),
            doubts: AtomicU64::new(0),
            settled_doubts: AtomicU64::new(0),
            is_scheduled: AtomicBool::new(false),
            catching_up: tokio::sync::Mutex::default(),
            appends: Mutex::default(),
            people: people::People::default(),
            rules: rules::RoomRules::default(),
            counts: RoomCounts::default(),
            users: AtomicUsize::new(0),
            readers: AtomicUsize::new(0),
            idle_since: Mutex::new(Instant::now()),
            id,
            node,
        }
    }

    /// Its name.
    pub const fn id(&self) -> &RoomId {
        &self.id
    }

    /// The newest record known here.
    pub fn head(&self) -> Position {
        lock(&self.tail).head()
    }

    /// Bytes of the whole log, as the store last told.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the recent records in memory.
    pub fn tail_bytes(&self) -> usize {
        lock(&self.tail).bytes()
    }

    /// Wakes with every change of the log that readers are to see. Told with it is when the first of what was then new came.
    pub fn changes(&self) -> watch::Receiver<Option<Instant>> {
        self.changed.subscribe()
    }

    /// Reads the rules and the end of the log, once for all who come at the same time.
    ///
    /// # Errors
    /// When the store does not answer. The next caller tries again.
    pub async fn load(self: &Arc<Self>) -> Result<(), StoreError> {
        self.loaded.get_or_try_init(|| self.load_all()).await?;
        self.renew_rules().await;
        if !self.is_stale() {
            return Ok(());
        }
        // One reads the store for all who wait here.
        let _alone = self.catching_up.lock().await;
        if self.is_stale() { self.catch_up().await } else { Ok(()) }
    }

    async fn load_all(self: &Arc<Self>) -> Result<(), StoreError> {
        self.read_rules().await?;
        let head = self.stored_head().await?;
        self.bytes.store(head.bytes, Ordering::Relaxed);
        let warm_from = head.position.seq.get().saturating_sub(WARM_RECORDS as u64);
        let base = match Seq::new(warm_from) {
            Some(base) if base > Seq::START => {
                let chunk = self.read(base, ReadLimit { records: 1, bytes: 0 }).await?;
                chunk.records.first().map(|record| {
                    let identity = identity_of(record);
                    Position { epoch: chunk.head.position.epoch, seq: base, identity }
                })
            }
            _ => Some(Position::start(head.position.epoch)),
        };
        self.change_tail(|tail| tail.reset(base.unwrap_or(head.position)));
        self.catch_up().await
    }

    async fn read(&self, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        in_time(self.node.store.read(&self.id, from, limit)).await
    }

    /// The newest of the log, as the store tells it now.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn stored_head(&self) -> Result<Head, StoreError> {
        in_time(self.node.store.head(&self.id)).await
    }

    /// The newest number of that author which is stored; 0 for none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn last_n(&self, author: ClientId) -> Result<u64, StoreError> {
        in_time(self.node.store.last_n(&self.id, author)).await
    }

    fn change_tail<T>(&self, change: impl FnOnce(&mut Tail) -> T) -> T {
        let (result, before, after) = {
            let mut tail = lock(&self.tail);
            let before = tail.bytes();
            let result = change(&mut tail);
            (result, before, tail.bytes())
        };
        self.node.tail_bytes.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        result
    }

    /// Forgets the oldest records in memory until at most that many bytes are left.
    pub fn shrink_tail(&self, max_bytes: usize) {
        self.change_tail(|tail| tail.shrink(max_bytes));
    }

    /// Takes records that follow `before`, from wherever they come first, and tells readers of them.
    pub fn offer(self: &Arc<Self>, before: &Position, records: &[Bytes]) {
        let came_at = Instant::now();
        if self.take(before, records) {
            self.records_came(bytes_of(records), came_at);
        }
    }

    /// Takes records that follow `before`. Returns whether readers are to be told.
    fn take(self: &Arc<Self>, before: &Position, records: &[Bytes]) -> bool {
        match self.change_tail(|tail| tail.offer(before, records)) {
            Offer::Taken => true,
            Offer::Known => false,
            Offer::Hole | Offer::Foreign => {
                self.request_catch_up();
                false
            }
        }
    }

    /// Has the tail compared with the store, soon and in the background. Whoever enters meanwhile waits for it.
    pub fn request_catch_up(self: &Arc<Self>) {
        self.mark_stale();
        if self.loaded.initialized() && !self.is_scheduled.swap(true, Ordering::AcqRel) {
            let room = Arc::clone(self);
            tokio::spawn(async move {
                let _alone = room.catching_up.lock().await;
                // From here on a doubt may come after the read began, and needs another task.
                room.is_scheduled.store(false, Ordering::Release);
                let caught_up = if room.is_stale() { room.catch_up().await } else { Ok(()) };
                if let Err(error) = caught_up {
                    // The room stays stale, and the watchdog comes back to it.
                    tracing::warn!(room = %room.id, %error, "could not catch up with the store");
                }
            });
        }
    }

    /// Notes that the tail may lack records that the store has. Whoever reads next catches up first.
    pub fn mark_stale(&self) {
        self.doubts.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether the tail may lack records that the store has.
    pub fn is_stale(&self) -> bool {
        self.settled_doubts.load(Ordering::Acquire) < self.doubts.load(Ordering::Acquire)
    }

    /// Reads from the store what the tail lacks. What matches goes on; what does not is reset.
    async fn catch_up(self: &Arc<Self>) -> Result<(), StoreError> {
        let doubts = self.doubts.load(Ordering::Acquire);
        while self.catch_up_step().await? {}
        self.settled_doubts.fetch_max(doubts, Ordering::AcqRel);
        Ok(())
    }

    /// Returns whether there is more to read.
    async fn catch_up_step(self: &Arc<Self>) -> Result<bool, StoreError> {
        let before = self.head();
        let mut cursor = Cursor::at(before);
        let (read, head) = self.read_after(&mut cursor, CATCH_UP).await?;
        self.bytes.store(head.bytes, Ordering::Relaxed);
        let changed = self.change_tail(|tail| {
            if tail.head() != before {
                return false; // Somebody else took it further: look again.
            }
            match read {
                Ok(records) => {
                    let same = Position { epoch: head.position.epoch, ..before };
                    tail.rename(same.epoch);
                    if tail.offer(&same, &records) == Offer::Taken && self.loaded.initialized() {
                        self.node.metrics.gaps_healed.inc();
                    }
                }
                Err(Diverged) => {
                    tracing::warn!(room = %self.id, ?before, now = ?head.position, "the log is another one now");
                    tail.reset(head.position);
                }
            }
            true
        });
        self.show_records();
        Ok(!changed || self.head().seq < head.position.seq)
    }

    /// Reads what follows the cursor, at least one record if there is any.
    async fn read_after(
        &self,
        cursor: &mut Cursor,
        limit: ReadLimit,
    ) -> Result<(Result<Vec<Bytes>, Diverged>, Head), StoreError> {
        loop {
            let from = cursor.read_from();
            // One more than asked for: the record at the cursor comes along.
            let along = ReadLimit { records: limit.records.saturating_add(1), bytes: limit.bytes };
            let chunk = self.read(from, along).await?;
            let head = chunk.head;
            let taken = cursor.take(chunk);
            let has_more = head.position.seq > cursor.position().seq;
            match taken {
                Ok(records) if records.is_empty() && has_more => {
                    // The record at the cursor was larger than the limit, and came alone.
                    let chunk = self.read(from.next(), limit).await?;
                    if chunk.head.position.epoch == head.position.epoch && !chunk.records.is_empty() {
                        let position = cursor.position();
                        let last =
                            chunk.records.last().map_or(position.identity, |record| identity_of(record));
                        let seq = position.seq.plus(chunk.records.len());
                        *cursor = Cursor::at(Position { seq, identity: last, ..position });
                        return Ok((Ok(chunk.records), chunk.head));
                    }
                }
                taken => return Ok((taken, head)),
            }
        }
    }

    /// A cursor behind that place, or `None` where the log does not have it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn cursor(&self, after: After) -> Result<Option<Cursor>, StoreError> {
        let (seq, identity) = match after {
            After::Start => return Ok(Some(Cursor::start(self.head().epoch))),
            After::Seq(seq) => (seq, None),
            After::Position(position) => (position.seq, Some(position.identity)),
        };
        let (epoch, known) = {
            let tail = lock(&self.tail);
            (tail.head().epoch, tail.identity(seq))
        };
        if let Some(known) = known.filter(|known| identity.is_none_or(|identity| identity == *known)) {
            return Ok(Some(Cursor::at(Position { epoch, seq, identity: known })));
        }
        // The tail may be behind the store, or have forgotten so old a record: the store decides.
        let chunk = self.read(seq, ReadLimit { records: 1, bytes: 0 }).await?;
        let found = chunk.records.first().map(|record| identity_of(record));
        Ok(found
            .filter(|found| identity.is_none_or(|identity| identity == *found))
            .map(|identity| Cursor::at(Position { epoch: chunk.head.position.epoch, seq, identity })))
    }

    /// What follows a cursor; it is moved behind what is returned.
    ///
    /// # Errors
    /// When the store has to be read and does not answer.
    pub async fn next(self: &Arc<Self>, cursor: &mut Cursor, limit: ReadLimit) -> Result<Next, StoreError> {
        let first = cursor.position().seq.next();
        let view = lock(&self.tail).after(&cursor.position(), limit.records, limit.bytes);
        match view {
            View::Records(records, position) => {
                *cursor = Cursor::at(position);
                self.count_sent(1, records.len(), bytes_of(&records));
                return Ok(Next::Records { first, records });
            }
            View::UpToDate => return Ok(Next::UpToDate),
            View::Elsewhere => {}
        }
        let (read, store_head) = self.read_after(cursor, limit).await?;
        let head = self.head();
        if store_head.position.epoch != head.epoch || store_head.position.seq > head.seq {
            self.request_catch_up();
        }
        Ok(match read {
            Ok(records) if records.is_empty() => Next::UpToDate,
            Ok(records) => {
                self.count_sent(1, records.len(), bytes_of(&records));
                Next::Records { first, records }
            }
            Err(Diverged) => Next::Reset,
        })
    }

    /// What the tail has after a place, for all who stand there.
    fn following(&self, position: &Position) -> Following {
        let view = lock(&self.tail).after(position, STRETCH.records, STRETCH.bytes);
        match view {
            View::Records(records, after) => Following::Stretch(Stretch::new(position, records, after)),
            View::UpToDate => Following::UpToDate,
            View::Elsewhere => Following::Elsewhere,
        }
    }

    /// Somebody holds the room now.
    pub(crate) fn enter(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Somebody let go of it.
    pub(crate) fn leave(&self) {
        *lock(&self.idle_since) = Instant::now();
        self.users.fetch_sub(1, Ordering::AcqRel);
    }

    /// One more reads its log, unless as many do as may and it does not replace one of them.
    pub(crate) fn start_reading(&self, replaces: bool) -> bool {
        let max = self.node.limits.get().sessions;
        let readers = self.readers.fetch_add(1, Ordering::AcqRel);
        if max != 0 && readers >= max && !replaces {
            self.readers.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        true
    }

    /// One less reads its log.
    pub(crate) fn stop_reading(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether anybody reads its log here.
    pub fn has_readers(&self) -> bool {
        self.readers.load(Ordering::Acquire) > 0
    }

    /// Since when nobody holds it, nobody is present and nothing waits for the store.
    pub fn idle_since(&self) -> Option<Instant> {
        let busy =
            self.users.load(Ordering::Acquire) > 0 || lock(&self.appends).is_busy() || self.people.any_here();
        if busy { None } else { Some(*lock(&self.idle_since)) }
    }

    /// Compares with what the store says its head is.
    pub fn compare(self: &Arc<Self>, head: &Head) {
        let here = self.head();
        if here.epoch != head.position.epoch || here.seq < head.position.seq || !here.matches(&head.position)
        {
            // An append that is about to be offered looks the same; the catch-up then finds nothing to do.
            self.request_catch_up();
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.node.tail_bytes.fetch_sub(self.tail_bytes(), Ordering::Relaxed);
    }
}

fn bytes_of(records: &[Bytes]) -> usize {
    records.iter().map(Bytes::len).sum()
}

type RoomPresence = Mutex<Presence<Attachment>>;
