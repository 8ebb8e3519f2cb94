//! The schema: the tables of a new file, and what an older file lacks of them.

use rusqlite::{Connection, OptionalExtension};

use super::log::Fault;
use crate::random;

/// "Inkr": what `file` and SQLite's own tools show of the file's owner.
const APPLICATION_ID: i64 = 0x496e_6b72;
/// Goes up when an older server could no longer read the file.
pub(super) const SCHEMA_VERSION: i64 = 3;

/// Version 1.
const SCHEMA: &str = "
    CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value ANY NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE rooms (
        name TEXT PRIMARY KEY,
        id INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        head INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE records (
        room INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        record BLOB NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (room, seq)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE clients (
        room INTEGER NOT NULL,
        client INTEGER NOT NULL,
        first_n INTEGER NOT NULL,
        last_n INTEGER NOT NULL,
        last_seq INTEGER NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (room, client)
    ) STRICT, WITHOUT ROWID;";

/// What version 2 added: the journal.
const SCHEMA_2: &str = "
    CREATE TABLE journal (
        number INTEGER PRIMARY KEY,
        entry BLOB NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT;
    INSERT INTO meta (key, value) VALUES ('folded', 0);";

/// What version 3 added: the rules of rooms, and rooms whose rows of records and clients nobody needs any more.
const SCHEMA_3: &str = "
    CREATE TABLE rules (
        room TEXT PRIMARY KEY,
        rules BLOB NOT NULL,
        checksum INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE waste (
        room INTEGER PRIMARY KEY
    ) STRICT;";

/// Before anything is written: a file that is not ours stays as it is.
pub(super) fn check_owner(connection: &Connection) -> Result<(), Fault> {
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (application, version, tables) {
        (0, 0, 0) => Ok(()),
        (APPLICATION_ID, version, _) if version > SCHEMA_VERSION => Err(Fault::Newer(version)),
        (APPLICATION_ID, 1..=SCHEMA_VERSION, _) => Ok(()),
        _ => Err(Fault::Foreign),
    }
}

/// Makes the tables of a new file, or those that an older one lacks. In a transaction of the caller's.
pub(super) fn make(connection: &Connection) -> Result<(), Fault> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version < 1 {
        connection.execute_batch(SCHEMA)?;
        let secret: [u8; 32] = random::bytes();
        connection.execute(
            "INSERT INTO meta (key, value) VALUES ('secret', ?1), ('vouched', 1), ('syncs', 0)",
            [&secret[..]],
        )?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    }
    if version < 2 {
        connection.execute_batch(SCHEMA_2)?;
    }
    if version < 3 {
        connection.execute_batch(SCHEMA_3)?;
        connection.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    }
    Ok(())
}

pub(super) fn secret(connection: &Connection) -> Result<[u8; 32], Fault> {
    connection
        .query_row("SELECT value FROM meta WHERE key = 'secret'", [], |row| row.get(0))
        .optional()?
        .ok_or_else(|| Fault::Damaged("it has no secret".to_owned()))
}
