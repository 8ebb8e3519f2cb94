//! The writer: one thread that owns the connection that writes.
//!
//! It takes all appends that wait and commits them together, so that one sync serves them all; while it syncs,
//! the next gather. Nobody hears of an append before its commit returned.

use std::collections::HashMap;
use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use inkrelay_protocol::{ClientId, Epoch, Identity, Position, RoomId};
use rusqlite::{CachedStatement, Connection, ErrorCode, ffi};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::SyncPolicy;
use super::file::Opened;
use super::log::{self, Fault, RoomRow, checksum, client_checksum, room_checksum};
use crate::random;
use crate::store::{
    Appended, Batch, Gap, Head, LatestBatch, Plan, StoreError, Stored, identity_of, place, plan,
};

/// Appends that go into one commit at most.
const GROUP_APPENDS: usize = 1024;
/// Bytes of records from which on a commit takes no further append.
const GROUP_BYTES: usize = 8 << 20;
/// Rooms and authors that are remembered between commits. Beyond it all are forgotten, and read again when met.
const REMEMBERED: usize = 65_536;
/// Bytes that the write-ahead log may have grown by, as far as can be told, before it is moved into the database.
const CHECKPOINT_BYTES: usize = 8 << 20;
/// Pages in the write-ahead log from which on a checkpoint waits for readers, so that the log can start over.
const WAL_PAGES_MAX: i64 = 16_384;
/// Bytes of a page, SQLite's default.
const PAGE_BYTES: usize = 4096;
/// Pages that an append to a room changes beside those that its records fill: of records, rooms and clients.
const PAGES_PER_ROOM: usize = 3;

/// What the writer is asked.
pub(super) enum Command {
    Append(Append),
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
    connection: Connection,
    policy: SyncPolicy,
    memory: Memory,
    /// Bytes that the write-ahead log has grown by since the last checkpoint, estimated.
    wal_bytes: usize,
    /// When the first commit was made that is not synced; only under [`SyncPolicy::Interval`].
    unsynced_since: Option<Instant>,
    poison: Poison,
    /// Held until the connection is closed: fields are dropped in the order in which they stand here.
    _lock: File,
}

/// What the file holds of the rooms that were lately appended to, so that an append need not read.
struct Memory {
    rooms: HashMap<RoomId, Room>,
    /// Entries: rooms, and authors of rooms.
    entries: usize,
    last_room_id: i64,
}

struct Room {
    id: i64,
    epoch: Epoch,
    head: Head,
    authors: HashMap<ClientId, Option<LatestBatch>>,
    /// The rows that this commit has to write.
    changed: bool,
    changed_authors: Vec<ClientId>,
}

impl Writer {
    pub fn new(opened: Opened, policy: SyncPolicy, poison: Poison) -> Self {
        let Opened { connection, lock, last_room_id, .. } = opened;
        let memory = Memory { rooms: HashMap::new(), entries: 0, last_room_id };
        Self { connection, policy, memory, wal_bytes: 0, unsynced_since: None, poison, _lock: lock }
    }

    /// Works until it is told to close, or nobody is left to tell it.
    pub fn run(mut self, commands: &Receiver<Command>) {
        let mut open = true;
        while open {
            let mut group = Vec::new();
            let mut bytes = 0;
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
                    Ok(Command::Check(reply)) => {
                        // Whoever asked may have stopped waiting.
                        let _ = reply.send(self.poison.get().map_or(Ok(()), |why| Err(unavailable(why))));
                    }
                    Ok(Command::Close) | Err(TryRecvError::Disconnected) => {
                        open = false;
                        break;
                    }
                    Err(TryRecvError::Empty) => break,
                }
                if group.len() >= GROUP_APPENDS || bytes >= GROUP_BYTES {
                    break;
                }
                next = commands.try_recv();
            }
            self.commit(group, bytes);
            self.sync_when_due();
        }
        self.finish();
    }

    /// The next command, or none once a sync is due.
    fn wait(&self, commands: &Receiver<Command>) -> Result<Command, TryRecvError> {
        let Some(since) = self.unsynced_since else {
            return commands.recv().map_err(|_| TryRecvError::Disconnected);
        };
        let left = SyncPolicy::INTERVAL.saturating_sub(since.elapsed());
        commands.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => TryRecvError::Empty,
            RecvTimeoutError::Disconnected => TryRecvError::Disconnected,
        })
    }

    fn commit(&mut self, group: Vec<Append>, bytes: usize) {
        if group.is_empty() {
            return;
        }
        let result = match self.poison.get() {
            Some(why) => Err(unavailable(why)),
            None => self.write(&group).map_err(|error| self.give_up(&error)),
        };
        // Whoever asked may have stopped waiting; what is stored stays stored.
        match result {
            Ok((answers, rooms)) => {
                for (append, answer) in group.into_iter().zip(answers) {
                    let _ = append.reply.send(answer);
                }
                self.wal_bytes += bytes + rooms * PAGES_PER_ROOM * PAGE_BYTES;
                if self.wal_bytes >= CHECKPOINT_BYTES {
                    self.checkpoint();
                }
            }
            Err(error) => {
                for append in group {
                    let _ = append.reply.send(Err(error.clone()));
                }
            }
        }
    }

    /// One transaction. Returns an answer for each append, and how many rooms it changed.
    fn write(
        &mut self,
        group: &[Append],
    ) -> Result<(Vec<Result<Appended, StoreError>>, usize), rusqlite::Error> {
        if self.memory.entries > REMEMBERED {
            self.memory.forget();
        }
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut answers = Vec::with_capacity(group.len());
        for append in group {
            answers.push(match self.memory.append(&self.connection, &append.room, &append.batches) {
                Ok(appended) => Ok(appended),
                Err(Fault::Sql(error)) => return Err(error),
                // Found before anything of that append was written: the other rooms need not suffer for it.
                Err(fault) => Err(fault.into()),
            });
        }
        let rooms = self.memory.write_changed(&self.connection, group)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        if rooms > 0 && self.policy == SyncPolicy::Interval {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        Ok((answers, rooms))
    }

    /// After an error: nothing of the transaction stays, and perhaps nothing is written any more.
    fn give_up(&mut self, error: &rusqlite::Error) -> StoreError {
        self.memory.forget();
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            return self.poison(&error);
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                StoreError::Full("the disk, or the server's share of it, is full".to_owned())
            }
            // Somebody has the file open by hand and is writing.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(&error.to_string()),
            // The shared index of the write-ahead log could not grow, most likely for want of space. It is
            // rebuilt from the write-ahead log, and holds nothing that could be lost.
            _ if extended_code(error) == Some(ffi::SQLITE_IOERR_SHMSIZE) => unavailable(&error.to_string()),
            _ => self.poison(error),
        }
    }

    /// Stops all writing until the server is started again.
    ///
    /// After a failed sync the operating system may have dropped the pages that it could not write and call the
    /// next sync a success (Rebello et al. 2020, "Can Applications Recover from fsync Failures?"). So a sync is
    /// not tried again: what the disk really holds is found out by opening the file anew.
    fn poison(&self, error: &rusqlite::Error) -> StoreError {
        let why = self.poison.get_or_init(|| {
            let why =
                format!("writing failed, and nothing is written until the server is started again: {error}");
            tracing::error!("{why}");
            why
        });
        unavailable(why)
    }

    /// Moves what the write-ahead log holds into the database, so that the log can start over.
    fn checkpoint(&mut self) {
        let run = |mode| {
            let sql = format!("PRAGMA wal_checkpoint({mode})");
            self.connection.query_row(&sql, [], |row| row.get::<_, i64>(1))
        };
        let result =
            run("PASSIVE").and_then(|pages| if pages > WAL_PAGES_MAX { run("RESTART") } else { Ok(pages) });
        self.wal_bytes = 0;
        match result {
            Ok(_) => {}
            // Without space the records stay where they are, in the write-ahead log, just as durable.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                tracing::warn!("no space to move records from the write-ahead log into the database");
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {}
            Err(error) => {
                self.poison(&error);
            }
        }
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

impl Memory {
    fn forget(&mut self) {
        self.rooms.clear();
        self.entries = 0;
    }

    /// Adds the records to the transaction. The rows of room and clients follow in [`Memory::write_changed`].
    fn append(
        &mut self,
        connection: &Connection,
        name: &RoomId,
        batches: &[Batch],
    ) -> Result<Appended, Fault> {
        if !self.rooms.contains_key(name) {
            let room = match log::room(connection, name)? {
                Some(RoomRow { id, epoch, head }) => Room::new(id, epoch, head),
                None => {
                    self.last_room_id += 1;
                    Room::new(self.last_room_id, Epoch::from_random(random::u64()), Head::EMPTY)
                }
            };
            self.rooms.insert(name.clone(), room);
            self.entries += 1;
        }
        let room =
            self.rooms.get_mut(name).ok_or_else(|| Fault::Damaged(format!("room {name} was forgotten")))?;
        // All that may be found damaged is read before the first write.
        for batch in batches.iter().filter(|batch| !batch.author.is_anonymous()) {
            if !room.authors.contains_key(&batch.author) {
                room.authors.insert(batch.author, log::latest(connection, room.id, batch.author)?);
                self.entries += 1;
            }
        }
        let before = room.head.position;
        let mut insert = connection
            .prepare_cached("INSERT INTO records (room, seq, record, checksum) VALUES (?1, ?2, ?3, ?4)")?;
        let outcomes = batches.iter().map(|batch| room.append(&mut insert, batch)).collect::<Result<_, _>>();
        // Not by `?`: damage that shows only now is the whole transaction's.
        let outcomes = outcomes.map_err(Fault::Sql)?;
        let epoch = room.head.position.epoch;
        Ok(Appended { epoch, before: Position { epoch, ..before }, bytes: room.head.bytes, outcomes })
    }

    /// Writes the rows of rooms and clients that the group's appends changed. Returns how many rooms.
    fn write_changed(&mut self, connection: &Connection, group: &[Append]) -> Result<usize, rusqlite::Error> {
        let mut write_room = connection.prepare_cached(
            "INSERT INTO rooms (name, id, epoch, head, bytes, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (name) DO UPDATE
             SET head = excluded.head, bytes = excluded.bytes, checksum = excluded.checksum",
        )?;
        let mut write_client = connection.prepare_cached(
            "INSERT OR REPLACE INTO clients (room, client, first_n, last_n, last_seq, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?;
        let mut rooms = 0;
        for Append { room: name, .. } in group {
            let Some(room) = self.rooms.get_mut(name).filter(|room| room.changed) else { continue };
            let (id, head) = (room.id, room.head.position.seq.get().cast_signed());
            let (epoch, bytes) = (room.epoch.get().cast_signed(), room.head.bytes.cast_signed());
            let sum = room_checksum(name.as_str(), id, head, bytes);
            write_room.execute((name.as_str(), id, epoch, head, bytes, sum))?;
            for author in room.changed_authors.drain(..) {
                let Some(Some(latest)) = room.authors.get(&author) else { continue };
                let client = author.get().cast_signed();
                let LatestBatch { first_n, last_n, last_seq } = *latest;
                let [first_n, last_n, last_seq] = [first_n, last_n, last_seq.get()].map(u64::cast_signed);
                let sum = client_checksum(id, client, [first_n, last_n, last_seq]);
                write_client.execute((id, client, first_n, last_n, last_seq, sum))?;
            }
            room.changed = false;
            rooms += 1;
        }
        Ok(rooms)
    }
}

impl Room {
    fn new(id: i64, epoch: Epoch, head: Head) -> Self {
        Self { id, epoch, head, authors: HashMap::new(), changed: false, changed_authors: Vec::new() }
    }

    fn append(
        &mut self,
        insert: &mut CachedStatement<'_>,
        batch: &Batch,
    ) -> Result<Result<Stored, Gap>, rusqlite::Error> {
        let latest = self.authors.get(&batch.author).copied().flatten();
        let skip = match plan(batch, latest) {
            Plan::Store { skip } => skip,
            Plan::Known(stored) => return Ok(Ok(stored)),
            Plan::Refuse(gap) => return Ok(Err(gap)),
        };
        let (stored, kept) = place(batch, skip, latest, self.head.position.seq);
        let mut seq = self.head.position.seq;
        for record in &batch.records[skip..] {
            seq = seq.next();
            let number = seq.get().cast_signed();
            insert.execute((self.id, number, &record[..], checksum(&[self.id, number], record)))?;
            self.head.bytes += record.len() as u64;
        }
        let identity = batch.records.last().map_or(Identity::NONE, |record| identity_of(record));
        self.head.position = Position { epoch: self.epoch, seq, identity };
        self.changed = true;
        if !batch.author.is_anonymous() {
            self.authors.insert(batch.author, Some(kept));
            // Pushed once for each run of batches by one author; a row too many costs less than looking for it.
            if self.changed_authors.last() != Some(&batch.author) {
                self.changed_authors.push(batch.author);
            }
        }
        Ok(Ok(stored))
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
