//! What the disk answers: errors and what becomes of them, and the write-ahead log's checkpoints.

use rusqlite::{ErrorCode, ffi};

use super::{WAL_PAGES_MAX, Writer, unavailable};
use crate::store::StoreError;

impl Writer {
    /// After an error: nothing of the transaction stays, and perhaps nothing is written any more.
    pub(in super::super) fn give_up(&mut self, error: &rusqlite::Error) -> StoreError {
        self.known.forget();
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
    pub(super) fn checkpoint(&mut self) {
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
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}
