//! The append path of a room: what waits while one append is in flight goes together in the next.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use inkrelay_protocol::msgpack::Reader;
use inkrelay_protocol::{Position, Record, Role};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use super::{Room, bytes_of};
use crate::lock::lock;
use crate::store::{Batch, Gap, StoreError, Stored, identity_of};

/// Within this time every batch is answered, if only with "unknown".
pub const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Of an append that takes so long the log tells.
const SLOW_APPEND: Duration = Duration::from_secs(1);
/// Records that one append takes together at most.
const GROUP_RECORDS: usize = 8192;
/// Bytes that one append takes together at most.
const GROUP_BYTES: usize = 2 * 1024 * 1024;
/// Bytes that may wait in one room; what comes then is refused.
const WAITING_BYTES: usize = 8 * 1024 * 1024;

/// The share of its limit by which a full room may grow for the sake of what takes ink away.
const RESERVE_SHARE: u64 = 16;
/// Bytes of that reserve, also where the limit is small. Moderators have as much again.
const RESERVE_BYTES: u64 = 4096;
/// Bytes of one record that may use it: a hundred strokes to erase.
const RESERVED_RECORD_BYTES: usize = 1024;

/// A store that keeps silent is as one that says it cannot answer.
pub(super) async fn in_time<T, E: From<StoreError>>(
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let no_answer = |_| Err(StoreError::Unavailable("no answer in time".to_owned()).into());
    tokio::time::timeout(ANSWER_TIME, asked).await.unwrap_or_else(no_answer)
}

/// Why a batch is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStored {
    /// A number before it is missing. Nothing of it is kept.
    Gap(Gap),
    /// The room is locked, and its author no moderator. Nothing of it is kept.
    Locked {
        /// How many of its first draws were stored already, by an earlier sending.
        stored: usize,
    },
    /// The room holds as many bytes as it may. Nothing of it is kept.
    RoomFull,
    /// The store has no space. Nothing of it is kept.
    StoreFull,
    /// More waits for the store than may. Nothing of it is kept.
    Overloaded,
    /// The store gave no answer: it may or may not be stored.
    Unknown,
}

/// A batch that is stored, and the head after it.
pub type Answer = Result<(Stored, Position), NotStored>;

/// Hears what became of a batch. Let go of without an answer, as when the store panics, it hears that nobody knows.
pub struct Reply(Option<Box<dyn FnOnce(Answer) + Send>>);

impl Reply {
    /// Of what is called on the room's own task: it returns at once, never blocks and never panics.
    pub fn new(hears: impl FnOnce(Answer) + Send + 'static) -> Self {
        Self(Some(Box::new(hears)))
    }

    /// Tells it.
    pub fn give(mut self, answer: Answer) {
        if let Some(hears) = self.0.take() {
            hears(answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(hears) = self.0.take() {
            hears(Err(NotStored::Unknown));
        }
    }
}

/// A batch that waits for the store.
pub struct Waiting {
    pub batch: Batch,
    pub role: Role,
    pub bytes: usize,
    pub reply: Reply,
}

/// What waits, and whether somebody is at work on it.
#[derive(Default)]
pub struct Appends {
    waiting: std::collections::VecDeque<Waiting>,
    bytes: usize,
    busy: bool,
    /// Whether the last append was of more than one batch.
    is_shared: bool,
}

impl Appends {
    /// Whether an append waits or is in flight.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Adds a batch. Returns whether the caller is to set somebody to work.
    ///
    /// # Errors
    /// Gives the batch back when too much waits already.
    pub fn push(&mut self, waiting: Waiting) -> Result<bool, Waiting> {
        if self.bytes + waiting.bytes > WAITING_BYTES && !self.waiting.is_empty() {
            return Err(waiting);
        }
        self.bytes += waiting.bytes;
        self.waiting.push_back(waiting);
        Ok(!std::mem::replace(&mut self.busy, true))
    }

    /// Takes what goes together in the next append; empty when the work is done.
    pub fn take_group(&mut self) -> Vec<Waiting> {
        let (mut records, mut bytes) = (0, 0);
        let mut group = Vec::new();
        while let Some(next) = self.waiting.front() {
            records += next.batch.records.len();
            bytes += next.bytes;
            if !group.is_empty() && (records > GROUP_RECORDS || bytes > GROUP_BYTES) {
                break;
            }
            let Some(next) = self.waiting.pop_front() else { break };
            self.bytes -= next.bytes;
            group.push(next);
        }
        self.busy = !group.is_empty();
        if self.busy {
            self.is_shared = group.len() > 1;
        }
        group
    }
}

/// Whoever is at work on a room's appends. Where the work breaks off, whatever waits is let go of, and the next batch
/// finds somebody anew.
struct AtWork<'a> {
    room: &'a Room,
    is_done: bool,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // Let go of outside of the lock: replies are given.
        let left = std::mem::take(&mut *lock(&self.room.appends));
        tracing::error!(room = %self.room.id, batches = left.waiting.len(), "the work on a room's appends broke off");
        // What was in flight may be stored: whoever reads next looks, or the watchdog.
        self.room.mark_stale();
    }
}

/// Work on a room's appends, which others wait for too: when whoever does it stops, it goes on by itself.
struct Work(Option<Pin<Box<dyn Future<Output = ()> + Send>>>);

impl Work {
    fn poll(&mut self, context: &mut Context<'_>) {
        // Not there while it is polled: if that panics, it does not go on. Whoever does the work is answered as all others.
        if let Some(mut work) = self.0.take()
            && let Ok(Poll::Pending) = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)))
        {
            self.0 = Some(work);
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // Without a runtime the process ends, and nobody waits any more.
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

impl Room {
    /// Gives a batch of somebody with that role to the store, together with whatever else waits. Replies come in the
    /// order of the batches, but for those that the store is not asked about.
    pub fn append(self: &Arc<Self>, batch: Batch, role: Role, reply: Reply) {
        // Without anybody who waits for it, the work goes on by itself.
        drop(self.begin_append(batch, role, reply));
    }

    /// The same for whoever does nothing but wait for the answer, as long as it takes: the work is done in that very
    /// task, which saves waking others. Whoever gives up before learns nothing, and the batch may be stored all the same.
    ///
    /// # Errors
    /// Why the batch is not, or may not be, stored.
    pub async fn append_and_wait(self: &Arc<Self>, batch: Batch, role: Role) -> Answer {
        let (sender, mut answer) = oneshot::channel();
        let reply = |answer| {
            // Whoever asked may be gone; then nobody needs the answer.
            let _ = sender.send(answer);
        };
        if let Some(mut work) = self.begin_append(batch, role, Reply::new(reply)) {
            // The first append of this work has the batch in it.
            return poll_fn(|context| {
                work.poll(context);
                match answer.try_recv() {
                    Ok(answer) => Poll::Ready(answer),
                    Err(TryRecvError::Empty) => Poll::Pending,
                    Err(TryRecvError::Closed) => Poll::Ready(Err(NotStored::Unknown)),
                }
            })
            .await;
        }
        answer.await.unwrap_or(Err(NotStored::Unknown))
    }

    fn begin_append(self: &Arc<Self>, batch: Batch, role: Role, reply: Reply) -> Option<Work> {
        let bytes = batch.records.iter().map(bytes::Bytes::len).sum();
        let pushed = lock(&self.appends).push(Waiting { batch, role, bytes, reply });
        match pushed {
            Ok(true) => {
                let room = Arc::clone(self);
                Some(Work(Some(Box::pin(async move { room.work_on_appends().await }))))
            }
            Ok(false) => None,
            Err(waiting) => {
                waiting.reply.give(Err(NotStored::Overloaded));
                None
            }
        }
    }

    async fn work_on_appends(self: &Arc<Self>) {
        let mut at_work = AtWork { room: self, is_done: false };
        loop {
            if lock(&self.appends).is_shared {
                // Those who were answered together come again together: what has arrived is read first.
                tokio::task::yield_now().await;
            }
            let group = lock(&self.appends).take_group();
            if group.is_empty() {
                // Somebody else may be at work already.
                at_work.is_done = true;
                return;
            }
            let group = if self.is_locked() { self.refuse_in_lock(group).await } else { group };
            let group = self.refuse_what_does_not_fit(group).await;
            if !group.is_empty() {
                self.append_group(group).await;
            }
        }
    }

    /// A locked room still answers retries of what it has.
    async fn refuse_in_lock(&self, group: Vec<Waiting>) -> Vec<Waiting> {
        let mut fitting = Vec::with_capacity(group.len());
        for waiting in group {
            let Batch { author, first_n, .. } = waiting.batch;
            if waiting.role >= Role::Moderator {
                fitting.push(waiting);
                continue;
            }
            let last_n = if author.is_anonymous() { Ok(0) } else { self.last_n(author).await };
            match last_n {
                Ok(last_n) if waiting.batch.last_n() <= last_n => fitting.push(waiting),
                Ok(last_n) => {
                    let stored = usize::try_from((last_n + 1).saturating_sub(first_n)).unwrap_or(usize::MAX);
                    waiting.reply.give(Err(NotStored::Locked { stored }));
                }
                Err(_) => waiting.reply.give(Err(NotStored::Unknown)),
            }
        }
        fitting
    }

    /// A full room still answers retries of what it has, and has a reserve for what takes ink away.
    async fn refuse_what_does_not_fit(&self, group: Vec<Waiting>) -> Vec<Waiting> {
        let max = self.node.limits.get().room_bytes;
        let group_bytes: u64 = group.iter().map(|waiting| waiting.bytes as u64).sum();
        let mut bytes = self.bytes();
        if max == 0 || bytes + group_bytes <= max {
            return group;
        }
        let mut fitting = Vec::with_capacity(group.len());
        for waiting in group {
            let Batch { author, .. } = waiting.batch;
            let reserve = match (takes_ink_away(&waiting.batch), waiting.role) {
                (false, _) => 0,
                (true, Role::Moderator) => 2 * (max / RESERVE_SHARE).max(RESERVE_BYTES),
                (true, _) => (max / RESERVE_SHARE).max(RESERVE_BYTES),
            };
            if bytes + waiting.bytes as u64 <= max.saturating_add(reserve) {
                bytes += waiting.bytes as u64;
                fitting.push(waiting);
                continue;
            }
            let last_n = if author.is_anonymous() { Ok(0) } else { self.last_n(author).await };
            match last_n {
                Ok(last_n) if waiting.batch.last_n() <= last_n => fitting.push(waiting),
                Ok(_) => waiting.reply.give(Err(NotStored::RoomFull)),
                Err(_) => waiting.reply.give(Err(NotStored::Unknown)),
            }
        }
        fitting
    }

    async fn append_group(self: &Arc<Self>, group: Vec<Waiting>) {
        let (batches, replies): (Vec<Batch>, Vec<_>) =
            group.into_iter().map(|waiting| (waiting.batch, waiting.reply)).unzip();
        let begun = Instant::now();
        let appended = tokio::time::timeout(ANSWER_TIME, self.node.store.append(&self.id, &batches)).await;
        let took = begun.elapsed();
        self.node.metrics.append.took(took);
        if took >= SLOW_APPEND {
            let (batches, ms) = (batches.len(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
            tracing::warn!(room = %self.id, batches, ms, "an append was slow: the store took long to answer");
        }
        let appended = match appended {
            Ok(Ok(appended)) => appended,
            Ok(Err(StoreError::Full(reason))) => {
                tracing::error!(room = %self.id, reason, "the store has no space left");
                return answer_all(replies, NotStored::StoreFull);
            }
            Ok(Err(StoreError::Unavailable(reason))) => {
                tracing::warn!(room = %self.id, reason, "the store gave no answer to an append");
                self.request_catch_up();
                return answer_all(replies, NotStored::Unknown);
            }
            Err(_) => {
                tracing::warn!(room = %self.id, "the store gave no answer to an append in time");
                self.request_catch_up();
                return answer_all(replies, NotStored::Unknown);
            }
        };
        self.bytes.store(appended.bytes, Ordering::Relaxed);
        let new = |(batch, outcome): (&Batch, &Result<Stored, Gap>)| {
            let new = outcome.as_ref().map_or(0, |stored| stored.new);
            batch.records[batch.records.len() - new..].to_vec()
        };
        let records: Vec<_> = batches.iter().zip(&appended.outcomes).flat_map(new).collect();
        let is_new = self.take(&appended.before, &records);
        let head = records.last().map_or(appended.before, |last| Position {
            epoch: appended.epoch,
            seq: appended.before.seq.plus(records.len()),
            identity: identity_of(last),
        });
        if self.head().seq < head.seq {
            // Known batches may stand behind records that this node has not seen.
            self.request_catch_up();
        }
        if !records.is_empty() {
            self.count_draws(records.len());
        }
        if is_new {
            self.promise_beat();
        }
        for (reply, outcome) in replies.into_iter().zip(appended.outcomes) {
            reply.give(outcome.map(|stored| (stored, head)).map_err(NotStored::Gap));
        }
        if is_new {
            self.keep_promise(bytes_of(&records), begun);
        }
    }
}

/// Whether all of a batch is small erases, revokes and clears.
fn takes_ink_away(batch: &Batch) -> bool {
    // Kinds of draws: erase, revoke and clear.
    let takes_away = |record: &bytes::Bytes| {
        let kind = Record::parse(record).and_then(|record| {
            let mut draw = Reader::new(record.draw);
            draw.array()?;
            draw.uint()
        });
        record.len() <= RESERVED_RECORD_BYTES && matches!(kind, Ok(2..=4))
    };
    batch.records.iter().all(takes_away)
}

fn answer_all(replies: Vec<Reply>, why: NotStored) {
    for reply in replies {
        reply.give(Err(why));
    }
}
