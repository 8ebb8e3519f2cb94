//! The embedded store: SQLite in a folder. One machine, one process, nothing to install.
//!
//! # What an ack is worth
//!
//! [`SyncPolicy::Always`]: the append was synced to disk before it was answered. It survives the end of the
//! process, of the operating system and of the power supply, as far as the disk keeps what it called synced.
//!
//! [`SyncPolicy::Interval`]: the append was handed to the operating system, and is synced within about a second.
//! It survives the end of the process. When the machine goes down, acknowledged appends of the last second (and
//! of as long as the sync itself took) may be lost, always the newest ones. The store cannot know afterwards
//! whether any were. So after a run that did not end in order every room has a new epoch.
//!
//! # The journal
//!
//! A commit writes one row: all that it stored, in every room, is an entry of the journal. Rows of their own for
//! each room, record and author would touch a page of 4 KiB each. About once a second, or when 2,048 records or a
//! MiB have come together, the writer *folds*: one transaction moves what the journal holds into the tables and
//! empties it. Until then it is kept in memory too, where a read looks first. What a crash leaves in the journal
//! is folded at the next start. When the disk is too full to fold, appends go on until the journal has four times
//! as much, and are refused then.
//!
//! # Damage
//!
//! What a crash left half written is the end of SQLite's write-ahead log: it was never acknowledged, and is cut
//! off when the file is opened. Everything else that is not as it was written is an error. Every row has a
//! checksum of its own, and records that should be there and are not make a read fail, never shorter. Opening
//! looks at what would otherwise be missed by nobody: the rows of all rooms and clients, the journal, whose entries
//! are numbered, and the structure of these tables (less than a second for a million rows). Records are looked at
//! when they are read. `PRAGMA integrity_check` looks at everything.
//!
//! Where the write-ahead log was damaged before its end, what followed is lost: that is logged, and every room
//! has a new epoch. Not to be told from a crash are damage to the last page in that log, and a file that was
//! replaced by an older one. Readers notice them all the same, because a position names its record. Damage to
//! rooms and clients while the server runs is noticed where a checksum sees it, or else at the next start. Damage to
//! SQLite's list of free pages, which the journal uses all the time, may have records written over; reading these is an
//! error then.
//!
//! After an error while writing or syncing nothing is written until the server is started again; reading goes on.
//! A full disk is no such error: appends are refused until there is space.
//!
//! # The file
//!
//! `inkrelay.sqlite3`, beside it `-wal` and `-shm` of SQLite, and `inkrelay.lock`, which keeps a second server
//! out. To copy it while the server runs: `sqlite3 inkrelay.sqlite3 '.backup copy.sqlite3'`. To look inside:
//! `sqlite3 -readonly inkrelay.sqlite3`. Rows changed by hand no longer fit their checksums.
//!
//! | table | a row is | columns |
//! |---|---|---|
//! | `meta` | a fact about the file | `key`, `value`: `secret` (32 bytes: keep them to yourself), `vouched` (1 unless the last run could not say that it lost nothing), `syncs` (counts those of `Interval`), `folded` (the number of the last entry that is folded) |
//! | `journal` | a commit that is not folded | `number`; `entry`: MessagePack, `[room, epoch, before, [[author, first n, [record, …]], …]]` for each append, with nil for the epoch but for a room's first records; `checksum` |
//! | `rooms` | a room with records | `name`; `id`: what the other tables call it; `epoch`; `head`: the last record's `seq`; `bytes` of all records; `checksum` |
//! | `records` | a record | `room`, `seq`, `record`: its bytes as they go over the wire; `checksum` |
//! | `rules` | the rules of a room that somebody ruled, with or without records | `room`: its name; `rules`: MessagePack, `[is locked, [banned client, …], [banned subject, …], kicks, [client of each of the last kicks, …]]`; `checksum` |
//! | `clients` | an author's latest batch in a room | `room`, `client`, `first_n`, `last_n`, `last_seq`; `checksum` |
//! | `waste` | a room that is gone, with rows in the two tables above that are to be cleared away | `room` |
//!
//! A room is deleted with its row in `rooms`. What else it left is cleared away in small steps between appends, and its
//! pages are used again. The file does not get smaller by itself: `sqlite3 inkrelay.sqlite3 VACUUM`, with the server
//! stopped, gives the space back. Under [`SyncPolicy::Interval`] a room that was deleted in the last second before the
//! machine went down may be there again, with a new epoch.
//!
//! A file of version 1 (without the journal) or 2 (without the rules and `waste`) gets what it lacks when it is opened; an
//! older server does not open it then. The newest second of what was drawn may stand in the journal only, also in a copy.
//!
//! Records are clustered by room and number, so a log is read in one sweep. (Rows of several records saved 5 % of
//! the writer's CPU, and were a puzzle to read.)
//!
//! Memory-mapped reading stays off: there, a disk that fails ends the process instead of one read.

mod file;
mod fold;
mod journal;
mod known;
mod log;
mod reader;
mod readonly;
mod restore;
mod rooms;
mod rules;
mod schema;
mod unfolded;
mod wal;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use inkrelay_protocol::{ClientId, RoomId, Seq};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

use super::{Appended, Batch, Chunk, Head, ReadLimit, Restore, RoomSummary, Rules, Space, Store, StoreError};
pub use file::OpenError;
use reader::Readers;
pub use readonly::EmbeddedReader;
use restore::Restoring;
use rules::SetRules;
use unfolded::Unfolded;
use writer::{Append, Change, Command, Poison, Writer};

/// Appends that may wait for the writer. Further ones wait for a place.
const QUEUE_APPENDS: usize = 4096;
/// Rooms that one listing tells at most.
const LISTED_ROOMS: usize = 4096;
/// How long an answer may take before it is *unknown*. A server has 5 s to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(4);
/// How long closing may take before the rest is left to the next start.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// When appends reach the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncPolicy {
    /// Before they are answered.
    #[default]
    Always,
    /// Within [`SyncPolicy::INTERVAL`] or so.
    Interval,
}

impl SyncPolicy {
    /// How long an append stays unsynced under [`SyncPolicy::Interval`].
    pub const INTERVAL: Duration = Duration::from_secs(1);

    fn pragma(self) -> &'static str {
        match self {
            Self::Always => "FULL",
            Self::Interval => "NORMAL",
        }
    }
}

/// Logs in an SQLite database. See the module's documentation.
pub struct EmbeddedStore {
    folder: PathBuf,
    policy: SyncPolicy,
    secret: [u8; 32],
    commands: Sender<Command>,
    places: Arc<Semaphore>,
    /// Looked at before the readers are asked.
    unfolded: Arc<Unfolded>,
    readers: Readers,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl EmbeddedStore {
    /// Opens the store of a folder, or makes one there. Blocks: reads each room's and each client's row, and the journal.
    ///
    /// # Errors
    /// [`OpenError`], in words for the operator. Nothing was changed, unless there was an empty folder.
    pub fn open(folder: &Path, policy: SyncPolicy) -> Result<Self, OpenError> {
        let mut opened = file::open(folder, policy)?;
        let unfolded = Arc::new(Unfolded::new(std::mem::take(&mut opened.unfolded)));
        let file = folder.join(file::DATABASE);
        let secret = opened.secret;
        let (commands, receiver) = mpsc::channel();
        let writer = Writer::new(opened, unfolded.clone(), policy, Poison::default());
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&receiver))
            .map_err(|error| OpenError::Failed { file: file.clone(), what: error.to_string() })?;
        Ok(Self {
            folder: folder.to_owned(),
            policy,
            secret,
            commands,
            places: Arc::new(Semaphore::new(QUEUE_APPENDS)),
            unfolded,
            readers: Readers::new(file),
            writer: Mutex::new(Some(thread)),
        })
    }

    async fn delete_if(&self, room: &RoomId, idle_before: Option<u64>) -> Result<bool, StoreError> {
        let delete = |reply| Command::Change(Change::Delete { room: room.clone(), idle_before, reply });
        in_time(ask(&self.commands, delete)).await
    }
}

/// Hands a command to the writer and waits for its answer.
async fn ask<T>(
    commands: &Sender<Command>,
    command: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Command,
) -> Result<T, StoreError> {
    // Neither fails while the writer's thread is there.
    let gone = || StoreError::Unavailable("the store is closed, or its writer has failed".to_owned());
    let (reply, answer) = oneshot::channel();
    commands.send(command(reply)).map_err(|_| gone())?;
    answer.await.map_err(|_| gone())?
}

/// An answer in time, or that there was none.
async fn in_time<T>(work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let too_slow = || StoreError::Unavailable(format!("the disk did not answer within {ANSWER_TIMEOUT:?}"));
    timeout(ANSWER_TIMEOUT, work).await.unwrap_or_else(|_| Err(too_slow()))
}

#[async_trait]
impl Store for EmbeddedStore {
    fn describe(&self) -> String {
        let worth = match self.policy {
            SyncPolicy::Always => "synced to disk before they are acknowledged",
            SyncPolicy::Interval => {
                "synced to disk every second: \
                 when the machine goes down, what was acknowledged in the last second may be lost"
            }
        };
        format!("draws are kept in {}, and {worth}", self.folder.display())
    }

    async fn append(&self, room: &RoomId, batches: &[Batch]) -> Result<Appended, StoreError> {
        in_time(async {
            let place = self.places.clone().acquire_owned().await;
            let place = place.map_err(|_| StoreError::Unavailable("the store is closed".to_owned()))?;
            let (room, batches) = (room.clone(), batches.to_vec());
            let append = |reply| Command::Append(Append { room, batches, reply, _place: place });
            ask(&self.commands, append).await
        })
        .await
    }

    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        let newest = self.unfolded.get(room);
        if let Some(chunk) = newest.as_ref().and_then(|newest| newest.read(from, limit)) {
            return Ok(chunk);
        }
        let room = room.clone();
        let read = move |connection: &_| log::read(connection, &room, from, limit, newest.as_deref());
        in_time(self.readers.run(read)).await
    }

    async fn head(&self, room: &RoomId) -> Result<Head, StoreError> {
        if let Some(newest) = self.unfolded.get(room) {
            return Ok(newest.head);
        }
        let room = room.clone();
        in_time(self.readers.run(move |connection| log::head(connection, &room))).await
    }

    async fn heads(&self, rooms: &[RoomId]) -> Result<Vec<Head>, StoreError> {
        let newest = |room: &RoomId| (room.clone(), self.unfolded.get(room).map(|newest| newest.head));
        let rooms: Vec<_> = rooms.iter().map(newest).collect();
        let head = |connection: &_, (room, newest): (RoomId, Option<Head>)| match newest {
            Some(head) => Ok(head),
            None => log::head(connection, &room),
        };
        let heads = move |connection: &_| rooms.into_iter().map(|room| head(connection, room)).collect();
        in_time(self.readers.run(heads)).await
    }

    async fn last_n(&self, room: &RoomId, author: ClientId) -> Result<u64, StoreError> {
        let newest = self.unfolded.get(room);
        if let Some(latest) = newest.and_then(|newest| newest.authors.get(&author).copied()) {
            return Ok(latest.last_n);
        }
        let room = room.clone();
        in_time(self.readers.run(move |connection| log::last_n(connection, &room, author))).await
    }

    async fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError> {
        let (newest, after) = (self.unfolded.rooms(), after.cloned());
        let limit = limit.clamp(1, LISTED_ROOMS);
        let list = move |connection: &_| rooms::list(connection, &newest, after.as_ref(), limit);
        in_time(self.readers.run(list)).await
    }

    async fn delete(&self, room: &RoomId) -> Result<bool, StoreError> {
        self.delete_if(room, None).await
    }

    async fn delete_idle(&self, room: &RoomId, before: u64) -> Result<bool, StoreError> {
        self.delete_if(room, Some(before)).await
    }

    async fn restore(&self, room: &RoomId) -> Result<Box<dyn Restore>, StoreError> {
        Ok(Box::new(Restoring::begin(self.commands.clone(), room.clone()).await?))
    }

    async fn rules(&self, room: &RoomId) -> Result<Rules, StoreError> {
        let room = room.clone();
        in_time(self.readers.run(move |connection| rules::rules(connection, &room))).await
    }

    async fn set_rules(&self, room: &RoomId, expected: &Rules, rules: &Rules) -> Result<bool, StoreError> {
        let set = |reply| {
            let (room, expected, rules) = (room.clone(), expected.clone(), rules.clone());
            Command::SetRules(SetRules { room, expected, rules, reply })
        };
        in_time(ask(&self.commands, set)).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        Ok(self.secret)
    }

    async fn check(&self) -> Result<(), StoreError> {
        in_time(ask(&self.commands, Command::Check)).await
    }

    /// The disk's, since the file grows into what others leave free.
    async fn space(&self) -> Option<Space> {
        let folder = self.folder.clone();
        let look = tokio::task::spawn_blocking(move || rustix::fs::statvfs(&folder));
        let disk = look.await.ok()?.ok()?;
        // Without the blocks that are kept for the machine's administrator.
        let used = disk.f_blocks.saturating_sub(disk.f_bfree);
        let limit = used.saturating_add(disk.f_bavail);
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(Space { used: bytes(used), limit: Some(bytes(limit)) })
    }

    async fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(writer) = writer else { return };
        // Readers hold the write-ahead log back from being cut.
        self.readers.close();
        // It fails when the thread has ended already, which is what it asks for.
        let _ = self.commands.send(Command::Close);
        let joined = timeout(CLOSE_TIMEOUT, tokio::task::spawn_blocking(|| writer.join())).await;
        if !matches!(joined, Ok(Ok(Ok(())))) {
            tracing::error!("the store did not close in order");
        }
    }
}
