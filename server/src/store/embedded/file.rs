//! The file: its folder, its lock, and whether it can be trusted.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::fold::{Journal, fold, replay};
use super::log::{self, Fault};
use super::schema::{self, SCHEMA_VERSION};
use super::unfolded::Rooms;
use super::{SyncPolicy, rooms, rules, wal};
use crate::random;
use inkrelay_protocol::Epoch;

/// The database's name in its folder.
pub(super) const DATABASE: &str = "inkrelay.sqlite3";
const WAL: &str = "inkrelay.sqlite3-wal";
const LOCK: &str = "inkrelay.lock";

/// How long the lock is waited for: in a restart the old process may be about to end. (A process that it forks
/// holds the lock too, until it runs its own program.)
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How long between two tries to take the lock.
const LOCK_RETRY: Duration = Duration::from_millis(10);
/// How long a statement waits for somebody who opened the file by hand.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes to which the write-ahead log is cut when it starts over.
const WAL_BYTES_KEPT: i64 = 64 << 20;
/// Prepared statements that a connection keeps: more than there are.
const STATEMENTS: usize = 32;

/// Why the store did not open. The words are for the operator who reads the log.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not writable, on a read-only file system, or no folder.
    #[error("the folder {} cannot be used: {source}. It is to be a folder in which the server's user may write; or name another one", folder.display())]
    NotWritable {
        /// As it was given.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Another process has the store open.
    #[error("another server has the folder {} open. Stop that one first, or give this one a folder of its own", folder.display())]
    Locked {
        /// As it was given.
        folder: PathBuf,
    },
    /// A later version wrote the file.
    #[error("{} was written by a newer version (schema {found}, this one knows {SCHEMA_VERSION}). Start that version, or name another folder", file.display())]
    Newer {
        /// The database.
        file: PathBuf,
        /// Its schema's version.
        found: i64,
    },
    /// A file of that name which somebody else made.
    #[error("{} is not an Inkrelay database. Move it away, or name another folder", file.display())]
    Foreign {
        /// The database.
        file: PathBuf,
    },
    /// The file contradicts itself.
    #[error("{} is damaged: {what}. Nothing was changed. Restore a copy, or see what is left with `sqlite3 {} .recover`", file.display(), file.display())]
    Corrupt {
        /// The database.
        file: PathBuf,
        /// What contradicts what.
        what: String,
    },
    /// There is no space to open the file.
    #[error("there is no space left in {}. Free some and start again", folder.display())]
    Full {
        /// As it was given.
        folder: PathBuf,
    },
    /// Anything else that SQLite has to say.
    #[error("{} cannot be opened: {what}", file.display())]
    Failed {
        /// The database.
        file: PathBuf,
        /// What SQLite or the operating system said.
        what: String,
    },
}

/// An open file, this process's alone.
pub(super) struct Opened {
    pub connection: Connection,
    /// Released by the operating system when it is dropped, or when the process ends in whatever way.
    pub lock: File,
    pub secret: [u8; 32],
    /// The largest number that a room has, or has had while its rows are not cleared away.
    pub last_room_id: i64,
    /// Numbers of rooms whose rows are to be cleared away.
    pub waste: Vec<i64>,
    /// What the last run left in the journal.
    pub journal: Journal,
    pub unfolded: Rooms,
}

/// Opens or makes the database of a folder.
pub(super) fn open(folder: &Path, policy: SyncPolicy) -> Result<Opened, OpenError> {
    let file = folder.join(DATABASE);
    let lock = lock(folder)?;
    let open = |lock: File| -> Result<_, Fault> {
        // Asked before SQLite takes what it can and drops the rest.
        let wal_is_damaged = wal::is_damaged(&folder.join(WAL))?;
        // Made here, not by SQLite, for its mode: what is drawn is not for every user of the machine.
        OpenOptions::new().append(true).create(true).mode(0o600).open(&file)?;
        let mut connection = Connection::open_with_flags(
            &file,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        schema::check_owner(&connection)?;
        configure(&connection)?;
        // One transaction: what is found out above is forgotten by the write-ahead log with the first commit.
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        schema::make(&transaction)?;
        log::check_structure(&transaction)?;
        log::check_clients(&transaction)?;
        rules::check_rules(&transaction)?;
        let waste = rooms::waste(&transaction)?;
        let mut last_room_id = log::check_rooms(&transaction)?.max(waste.last().copied().unwrap_or(0));
        let (mut journal, mut unfolded) = replay(&transaction, &mut last_room_id)?;
        if !is_vouched(&transaction, wal_is_damaged)? {
            // Before the epochs change: rooms may have begun in the journal.
            fold(&transaction, &unfolded, journal.last)?;
            (journal, unfolded) = (Journal { last: journal.last, ..Journal::default() }, Rooms::new());
            change_epochs(&transaction)?;
        }
        // Whether this run will be able to say that it lost nothing.
        let vouched = i64::from(policy == SyncPolicy::Always);
        transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'vouched'", [vouched])?;
        transaction.commit()?;
        settle(&connection)?;
        let secret = schema::secret(&connection)?;
        connection.pragma_update(None, "synchronous", policy.pragma())?;
        Ok(Opened { connection, lock, secret, last_room_id, waste, journal, unfolded })
    };
    open(lock).map_err(|fault| explain(folder, file, fault))
}

/// Whether the write-ahead log is damaged, as far as can be told: while a server writes to it, only that server knows.
pub(super) fn is_lost_in_part(folder: &Path) -> io::Result<bool> {
    let lock = match File::open(folder.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return wal::is_damaged(&folder.join(WAL)),
        Err(error) => return Err(error),
    };
    match lock.try_lock() {
        Ok(()) => wal::is_damaged(&folder.join(WAL)),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// A connection that only reads, beside the one that writes.
pub(super) fn open_reader(file: &Path) -> Result<Connection, rusqlite::Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let not_writable = |source| OpenError::NotWritable { folder: folder.to_owned(), source };
    if !folder.is_dir() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(not_writable)?;
        // A folder whose name is lost in a power cut takes its files along. SQLite syncs what is inside.
        let parent = folder.canonicalize().map_err(not_writable)?.parent().map(Path::to_owned);
        parent.map_or(Ok(()), |parent| File::open(parent)?.sync_all()).map_err(not_writable)?;
    }
    let lock =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(folder.join(LOCK));
    let lock = lock.map_err(not_writable)?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_RETRY),
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked { folder: folder.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(not_writable(source)),
        }
    }
}

fn configure(connection: &Connection) -> Result<(), Fault> {
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::Damaged(format!("its journal mode stays {mode} instead of wal")));
    }
    // What follows up to the first append is durable in any mode.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Where the operating system knows a stronger sync (macOS), it is the one that reaches the disk.
    connection.pragma_update(None, "fullfsync", true)?;
    connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    // The writer checkpoints by itself, because SQLite drops the errors of those that it does unasked.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // In KiB when negative. Most appends change pages that were changed just before.
    connection.pragma_update(None, "cache_size", -16 * 1024)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(())
}

/// Whether it can be said that nothing was lost.
fn is_vouched(connection: &Connection, wal_is_damaged: bool) -> Result<bool, Fault> {
    let vouched: i64 =
        connection.query_row("SELECT value FROM meta WHERE key = 'vouched'", [], |row| row.get(0))?;
    if wal_is_damaged {
        tracing::error!(
            "the write-ahead log is damaged, the newest appends may be lost: every room gets a new epoch"
        );
    } else if vouched != 1 {
        tracing::warn!(
            "the last run did not end in order and did not sync every append: every room gets a new epoch"
        );
    }
    Ok(!wal_is_damaged && vouched == 1)
}

fn change_epochs(connection: &Connection) -> Result<(), Fault> {
    let names: Vec<String> = connection
        .prepare("SELECT name FROM rooms")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut update = connection.prepare("UPDATE rooms SET epoch = ?2 WHERE name = ?1")?;
    for name in names {
        update.execute((name, Epoch::from_random(random::u64()).get().cast_signed()))?;
    }
    Ok(())
}

/// Moves what a crash left in the write-ahead log into the database, and syncs it.
///
/// It may have been written without being synced, or its sync may have failed. Whoever sends such an append
/// again is told that it is stored already, and from now on that is true.
fn settle(connection: &Connection) -> Result<(), Fault> {
    let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    match busy {
        Ok(0) => {}
        Ok(_) => tracing::warn!("somebody reads the database by hand: what a crash left is settled later"),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            tracing::warn!("no space to settle what a crash left");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

pub(super) fn explain(folder: &Path, file: PathBuf, fault: Fault) -> OpenError {
    let folder = folder.to_owned();
    match fault {
        Fault::Foreign => OpenError::Foreign { file },
        Fault::Newer(found) => OpenError::Newer { file, found },
        Fault::Damaged(what) => OpenError::Corrupt { file, what },
        Fault::Io(source) => OpenError::NotWritable { folder, source },
        Fault::Sql(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::Foreign { file },
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Corrupt { file, what: error.to_string() },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                let source = fs::metadata(&file).err().unwrap_or_else(|| io::Error::other(error.to_string()));
                OpenError::NotWritable { folder, source }
            }
            Some(ErrorCode::DiskFull) => OpenError::Full { folder },
            _ => OpenError::Failed { file, what: error.to_string() },
        },
    }
}
