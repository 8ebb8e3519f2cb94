//! The writer: one thread that owns the connection that writes.
//!
//! It takes all appends that wait and commits them together, as one row of the journal, so that one sync and few
//! pages serve them all; while it syncs, the next gather. Nobody hears of an append before its commit returned.
//! From time to time it folds the journal into the tables.

mod disk;
#[cfg(test)]
mod full;
mod gather;
mod rooms;
mod waste;

use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use inkrelay_protocol::{Position, RoomId};
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use self::gather::Gather;
pub(super) use self::rooms::Change;
use self::waste::Waste;
use super::SyncPolicy;
use super::file::Opened;
use super::fold::{Journal, fold};
use super::journal::{self, stored};
use super::known::{Known, Planned};
use super::log::{Fault, checksum};
use super::rules::SetRules;
use super::unfolded::{Rooms, Unfolded, UnfoldedRoom};
use crate::store::{Appended, Batch, StoreError};

/// Appends that go into one commit at most.
const GROUP_APPENDS: usize = 1024;
/// Bytes of records from which on a commit takes no further append.
const GROUP_BYTES: usize = 8 << 20;
/// Records, or bytes of entries, from which on the journal is folded at once.
const FOLD_RECORDS: usize = 2048;
const FOLD_BYTES: usize = 1 << 20;
/// How long an entry stays in the journal.
const FOLD_AFTER: Duration = Duration::from_secs(1);
/// How long after a fold that failed the next is tried.
const FOLD_RETRY: Duration = Duration::from_secs(1);
/// Records, or bytes of entries, from which on nothing is appended until a fold succeeds.
const JOURNAL_RECORDS: usize = 4 * FOLD_RECORDS;
const JOURNAL_BYTES: usize = 4 * FOLD_BYTES;
/// Bytes that the write-ahead log may have grown by, as far as can be told, before it is moved into the database.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// Pages in the write-ahead log from which on a checkpoint waits for readers, so that the log can start over.
const WAL_PAGES_MAX: i64 = 16_384;
/// Bytes of a page, SQLite's default.
const PAGE_BYTES: usize = 4096;
/// Pages that a commit changes beside those that its entry fills.
const PAGES_PER_COMMIT: usize = 2;
/// Pages that a fold changes for a room beside those that its records fill: of records, rooms and clients.
const PAGES_PER_ROOM: usize = 3;

/// What the writer is asked.
pub(super) enum Command {
    Append(Append),
    /// Of a room as a whole.
    Change(Change),
    SetRules(SetRules),
    /// Answered in turn, so that an answer says that the thread is alive and the disk not stuck.
    Check(oneshot::Sender<Result<(), StoreError>>),
    Close,
}

/// An append on its way.
pub(super) struct Append {
    pub room: RoomId,
    pub batches: Vec<Batch>,
    pub reply: oneshot::Sender<Result<Appended, StoreError>>,
    /// The place in the queue.
    pub _place: OwnedSemaphorePermit,
}

/// Why nothing is written any more, once that is so.
pub(super) type Poison = Arc<OnceLock<String>>;

pub(super) struct Writer {
    pub(super) connection: Connection,
    policy: SyncPolicy,
    known: Known,
    journal: Journal,
    unfolded: Arc<Unfolded>,
    /// When the journal is to be folded however little it holds; none while it is empty.
    fold_at: Option<Instant>,
    /// The last fold failed: when to try again, and what its failure means to appends.
    fold_failed: Option<(Instant, StoreError)>,
    /// The bytes of the entry that is being written; kept for their allocation.
    entry: Vec<u8>,
    gather: Gather,
    waste: Waste,
    /// Bytes that the write-ahead log has grown by since the last checkpoint, estimated.
    wal_bytes: usize,
    /// When the first commit was made that is not synced; only under [`SyncPolicy::Interval`].
    unsynced_since: Option<Instant>,
    poison: Poison,
    /// Held until the connection is closed: fields are dropped in the order in which they stand here.
    _lock: File,
}

impl Writer {
    pub fn new(opened: Opened, unfolded: Arc<Unfolded>, policy: SyncPolicy, poison: Poison) -> Self {
        let Opened { connection, lock, last_room_id, waste, journal, .. } = opened;
        Self {
            connection,
            policy,
            known: Known::new(last_room_id),
            fold_at: (journal.records > 0).then(Instant::now),
            journal,
            unfolded,
            fold_failed: None,
            entry: Vec::new(),
            gather: Gather::default(),
            waste: Waste::new(waste),
            wal_bytes: 0,
            unsynced_since: None,
            poison,
            _lock: lock,
        }
    }

    /// Works until it is told to close, or nobody is left to tell it.
    pub fn run(mut self, commands: &Receiver<Command>) {
        // What the last run left.
        if self.fold_is_due() {
            let _ = self.fold();
        }
        let mut open = true;
        while open {
            let mut group = Vec::new();
            let mut bytes = 0;
            let mut change = None;
            let mut next = self.wait(commands);
            loop {
                match next {
                    Ok(Command::Append(append)) => {
                        bytes += append
                            .batches
                            .iter()
                            .flat_map(|batch| &batch.records)
                            .map(|r| r.len())
                            .sum::<usize>();
                        group.push(append);
                    }
                    // After what was asked before it.
                    Ok(Command::Change(asked)) => {
                        change = Some(asked);
                        break;
                    }
                    Ok(Command::SetRules(asked)) => self.set_rules(asked),
                    Ok(Command::Check(reply)) => {
                        // Whoever asked may have stopped waiting.
                        let _ = reply.send(self.poisoned().map_or(Ok(()), Err));
                    }
                    Ok(Command::Close) | Err(TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                    Err(TryRecvError::Empty) if self.gather.waits(group.len(), Instant::now()) => {
                        thread::sleep(gather::SLICE);
                    }
                    Err(TryRecvError::Empty) => break,
                }
                if group.len() >= GROUP_APPENDS || bytes >= GROUP_BYTES {
                    break;
                }
                next = commands.try_recv();
            }
            self.commit(group);
            if let Some(change) = change {
                self.change(change);
            }
            // One of them in one turn: appends wait meanwhile.
            if self.checkpoint_is_due() {
                self.checkpoint();
            } else if self.fold_is_due() {
                // An error was logged. What it left in the journal is as durable there.
                let _ = self.fold();
            } else {
                self.clear_waste_when_due();
            }
            self.sync_when_due();
        }
        self.finish();
    }

    fn checkpoint_is_due(&self) -> bool {
        self.wal_bytes >= CHECKPOINT_BYTES && self.poison.get().is_none()
    }

    /// The next command, or none once there is something else to do.
    fn wait(&self, commands: &Receiver<Command>) -> Result<Command, TryRecvError> {
        if self.checkpoint_is_due() {
            return commands.try_recv();
        }
        let fold = self.fold_at.filter(|_| self.poison.get().is_none());
        let fold = fold.map(|at| self.fold_failed.as_ref().map_or(at, |(again, _)| at.max(*again)));
        let sync = self.unsynced_since.map(|since| since + SyncPolicy::INTERVAL);
        let waste = self.waste.due().filter(|_| self.poison.get().is_none());
        let Some(due) = [fold, sync, waste].into_iter().flatten().min() else {
            return commands.recv().map_err(|_| TryRecvError::Disconnected);
        };
        let left = due.saturating_duration_since(Instant::now());
        commands.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => TryRecvError::Empty,
            RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
        })
    }

    fn commit(&mut self, group: Vec<Append>) {
        if group.is_empty() {
            return;
        }
        self.gather.begin(group.len(), Instant::now());
        // Whoever asked may have stopped waiting; what is stored stays stored.
        match self.write(&group) {
            Ok(answers) => {
                for (append, answer) in group.into_iter().zip(answers) {
                    let _ = append.reply.send(answer);
                }
            }
            Err(error) => {
                for append in group {
                    let _ = append.reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// One transaction. Returns an answer for each append.
    fn write(&mut self, group: &[Append]) -> Result<Vec<Result<Appended, StoreError>>, StoreError> {
        if let Some(why) = self.poisoned() {
            return Err(why);
        }
        self.known.forget_when_many();
        self.entry.clear();
        let mut plans = Vec::with_capacity(group.len());
        for Append { room, batches, .. } in group {
            let planned = match self.known.append(&self.connection, &self.unfolded, room, batches) {
                Ok(planned) => Ok(planned),
                Err(Fault::Sql(error)) => return Err(self.give_up(&error)),
                // The other rooms need not suffer for it.
                Err(fault) => Err(StoreError::from(fault)),
            };
            if let Ok(Planned { before, appended, .. }) = &planned {
                let mut new = stored(batches, &appended.outcomes).peekable();
                if new.peek().is_some() {
                    let Position { epoch, seq, .. } = before.position;
                    journal::encode(&mut self.entry, room, epoch, seq, new);
                }
            }
            plans.push(planned);
        }
        if !self.entry.is_empty() {
            self.make_room()?;
            self.write_entry().map_err(|error| self.give_up(&error))?;
            self.publish(group, &plans);
        }
        Ok(plans.into_iter().map(|planned| planned.map(|planned| planned.appended)).collect())
    }

    /// Has the journal folded where it holds as much as it may.
    fn make_room(&mut self) -> Result<(), StoreError> {
        if self.journal.records < JOURNAL_RECORDS && self.journal.bytes < JOURNAL_BYTES {
            return Ok(());
        }
        match &self.fold_failed {
            // Not with each append: a fold that fails writes as much as one that does not.
            Some((again, error)) if Instant::now() < *again => {
                self.known.forget();
                Err(error.clone())
            }
            _ => self.fold(),
        }
    }

    /// The commit: a statement by itself is a transaction.
    fn write_entry(&mut self) -> Result<(), rusqlite::Error> {
        let number = self.journal.last + 1;
        self.connection
            .prepare_cached("INSERT INTO journal (number, entry, checksum) VALUES (?1, ?2, ?3)")?
            .execute((number, &self.entry[..], checksum(&[number], &self.entry)))?;
        self.journal.last = number;
        self.journal.bytes += self.entry.len();
        self.wal_bytes += self.entry.len() + PAGES_PER_COMMIT * PAGE_BYTES;
        self.fold_at.get_or_insert(Instant::now() + FOLD_AFTER);
        self.count_unsynced();
        Ok(())
    }

    /// A small commit was made that is no entry of the journal.
    pub(super) fn wrote_beside_the_journal(&mut self) {
        self.wal_bytes += PAGES_PER_COMMIT * PAGE_BYTES;
        self.count_unsynced();
    }

    /// Why nothing is written any more, once that is so.
    pub(super) fn poisoned(&self) -> Option<StoreError> {
        self.poison.get().map(|why| unavailable(why))
    }

    /// Notes a commit that is perhaps not synced.
    fn count_unsynced(&mut self) {
        if self.policy == SyncPolicy::Interval {
            self.unsynced_since.get_or_insert(Instant::now());
        }
    }

    /// Shows readers what is committed.
    fn publish(&mut self, group: &[Append], plans: &[Result<Planned, StoreError>]) {
        let mut records = 0;
        self.unfolded.change(|rooms| {
            for (append, planned) in group.iter().zip(plans) {
                let Ok(Planned { room: id, before, appended }) = planned else { continue };
                let mut new = stored(&append.batches, &appended.outcomes).peekable();
                if new.peek().is_none() {
                    continue;
                }
                let room = rooms
                    .entry(append.room.clone())
                    .or_insert_with(|| Arc::new(UnfoldedRoom::new(*id, *before)));
                // A copy is made while a read holds it.
                let room = Arc::make_mut(room);
                for new in new {
                    records += new.records.len();
                    room.push(new);
                }
            }
        });
        self.journal.records += records;
    }

    fn fold_is_due(&self) -> bool {
        let Some(at) = self.fold_at.filter(|_| self.poison.get().is_none()) else { return false };
        let is_full = self.journal.records >= FOLD_RECORDS || self.journal.bytes >= FOLD_BYTES;
        let now = Instant::now();
        (is_full || now >= at) && self.fold_failed.as_ref().is_none_or(|(again, _)| now >= *again)
    }

    /// Moves what the journal holds into the tables. Until that succeeds all stays where it is.
    fn fold(&mut self) -> Result<(), StoreError> {
        let rooms = self.unfolded.rooms();
        if let Err(error) = self.fold_with(&rooms, |_| Ok(())) {
            let answer = self.give_up(&error);
            if self.poison.get().is_none() {
                tracing::warn!("the newest records stay in the journal for now: {error}");
            }
            self.fold_failed = Some((Instant::now() + FOLD_RETRY, answer.clone()));
            return Err(answer);
        }
        Ok(())
    }

    /// Moves these rooms' records from the journal into the tables, and forgets what else it holds. All of it in one
    /// transaction, after a change of the caller's.
    fn fold_with(
        &mut self,
        rooms: &Rooms,
        change: impl FnOnce(&Connection) -> Result<(), rusqlite::Error>,
    ) -> Result<(), rusqlite::Error> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        change(&self.connection)?;
        fold(&self.connection, rooms, self.journal.last)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        // That it is not synced yet matters to nobody: until it is, the journal is there instead.
        self.unfolded.clear();
        self.wal_bytes += self.journal.bytes + rooms.len() * PAGES_PER_ROOM * PAGE_BYTES;
        self.journal = Journal { last: self.journal.last, ..Journal::default() };
        (self.fold_at, self.fold_failed) = (None, None);
        Ok(())
    }

    fn sync_when_due(&mut self) {
        if self.unsynced_since.is_some_and(|since| since.elapsed() >= SyncPolicy::INTERVAL) {
            self.sync("UPDATE meta SET value = value + 1 WHERE key = 'syncs'");
        }
    }

    /// Syncs all commits before it, being a commit that is synced. (A change is needed: SQLite skips an empty one.)
    fn sync(&mut self, change: &str) {
        if self.poison.get().is_some() {
            self.unsynced_since = None;
            return;
        }
        let result = self
            .connection
            .execute_batch("PRAGMA synchronous = FULL")
            .and_then(|()| self.connection.execute_batch(change))
            .and_then(|()| self.connection.execute_batch("PRAGMA synchronous = NORMAL"));
        match result {
            Ok(()) => self.unsynced_since = None,
            // Tried again after another interval, unless it was an error after which nothing is. For want of
            // space there are no new appends in the meantime.
            Err(error) => {
                self.give_up(&error);
                self.unsynced_since = Some(Instant::now());
            }
        }
    }

    fn finish(mut self) {
        if self.poison.get().is_some() {
            return;
        }
        if self.fold_at.is_some() {
            // What it leaves in the journal is folded at the next start.
            let _ = self.fold();
        }
        if self.policy == SyncPolicy::Interval {
            self.sync("UPDATE meta SET value = 1 WHERE key = 'vouched'");
        }
        if self.poison.get().is_none() {
            let truncated = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            if let Err(error) = truncated {
                tracing::warn!("the write-ahead log stays as it is, and is read at the next start: {error}");
            }
        }
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}
