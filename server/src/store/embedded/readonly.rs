//! The file of a store, opened to be read only: also beside the server that has it open.

use std::path::Path;

use inkrelay_protocol::{RoomId, Seq};
use rusqlite::Connection;

use super::fold::replay;
use super::log::{self, Fault};
use super::unfolded::Rooms;
use super::{LISTED_ROOMS, OpenError, file, rooms, rules, schema};
use crate::store::{Chunk, ReadLimit, RoomSummary, Rules, StoreError};

/// The first version with a journal.
const OLDEST: i64 = 2;
/// The first version with rules.
const WITH_RULES: i64 = 3;
/// Above every number that a room has: for those that only the journal knows.
const UNKNOWN_ROOMS: i64 = 1 << 60;

/// Reads a store's file, and never writes. What the server's journal holds is read too, so that all that is acknowledged
/// is there. Its methods block; each reads at one moment.
pub struct EmbeddedReader {
    connection: Connection,
    /// Whether the file has a table for them.
    has_rules: bool,
}

impl EmbeddedReader {
    /// Opens the file of that folder, and looks at what would otherwise be missed by nobody.
    ///
    /// # Errors
    /// [`OpenError`], in words for the operator.
    pub fn open(folder: &Path) -> Result<Self, OpenError> {
        let file = folder.join(file::DATABASE);
        let failed = |what: String| OpenError::Failed { file: file.clone(), what };
        if !file.exists() {
            return Err(failed("there is no such file".to_owned()));
        }
        let open = || -> Result<_, Fault> {
            let connection = file::open_reader(&file)?;
            schema::check_owner(&connection)?;
            if file::is_lost_in_part(folder)? {
                let what = "its write-ahead log was damaged, and what followed is lost";
                return Err(Fault::Damaged(what.to_owned()));
            }
            let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if version >= OLDEST {
                log::check_structure(&connection, version >= WITH_RULES)?;
                log::check_rooms(&connection)?;
            }
            if version >= WITH_RULES {
                rules::check_rules(&connection)?;
            }
            Ok((connection, version))
        };
        match open() {
            Ok((_, version)) if version < OLDEST => {
                Err(failed("an older version wrote it: start a server of this version on it once".to_owned()))
            }
            Ok((connection, version)) => Ok(Self { connection, has_rules: version >= WITH_RULES }),
            Err(fault) => Err(file::explain(folder, file.clone(), fault)),
        }
    }

    /// As [`crate::store::Store::rooms`].
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError> {
        let list = || {
            let transaction = self.connection.unchecked_transaction()?;
            let newest = unfolded(&transaction)?;
            rooms::list_in(&transaction, &newest, self.has_rules, after, limit.clamp(1, LISTED_ROOMS))
        };
        list().map_err(StoreError::from)
    }

    /// As [`crate::store::Store::rules`].
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn rules(&self, room: &RoomId) -> Result<Rules, StoreError> {
        if !self.has_rules {
            return Ok(Rules::default());
        }
        rules::rules(&self.connection, room).map_err(StoreError::from)
    }

    /// As [`crate::store::Store::read`].
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        let read = || {
            let transaction = self.connection.unchecked_transaction()?;
            let newest = unfolded(&transaction)?.remove(room);
            match newest.as_ref().and_then(|newest| newest.read(from, limit)) {
                Some(chunk) => Ok(chunk),
                None => log::read_in(&transaction, room, from, limit, newest.as_deref()),
            }
        };
        read().map_err(StoreError::from)
    }
}

fn unfolded(connection: &Connection) -> Result<Rooms, Fault> {
    let (_, rooms) = replay(connection, &mut { UNKNOWN_ROOMS })?;
    Ok(rooms)
}
