//! Rooms as a whole: listing them, and taking one out of the tables or putting one in.
//!
//! A room is there while it has a row in `rooms`. Without one, its rows in the other tables are *waste*: nobody finds
//! them, and they are cleared away little by little, so that a large room is deleted as quickly as a small one. The
//! pages that they leave are used again; the file does not get smaller. A log that is being restored is waste until it
//! is the room's, so that nothing has to be done about one that is broken off.

use std::collections::BTreeSet;

use inkrelay_protocol::RoomId;
use rusqlite::Connection;

use super::log::{self, Fault, room_checksum};
use super::rules;
use super::unfolded::Rooms;
use crate::store::{Head, RoomSummary, Rules};

/// The numbers of rooms whose rows are waste, in order.
pub(super) fn waste(connection: &Connection) -> Result<Vec<i64>, Fault> {
    let mut statement = connection.prepare("SELECT room FROM waste ORDER BY room")?;
    let rooms = statement.query_map([], |row| row.get(0))?;
    Ok(rooms.collect::<Result<_, _>>()?)
}

/// Takes a room out, and calls its rows waste.
pub(super) fn remove(connection: &Connection, name: &RoomId, id: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("DELETE FROM rooms WHERE name = ?1")?.execute([name.as_str()])?;
    connection.prepare_cached("INSERT INTO waste (room) VALUES (?1)")?.execute([id])?;
    Ok(())
}

/// Gives a number to a log that is to be restored. Until it is a room's, it is waste.
pub(super) fn begin(connection: &Connection, id: i64) -> Result<(), rusqlite::Error> {
    connection.prepare_cached("INSERT INTO waste (room) VALUES (?1)")?.execute([id]).map(drop)
}

/// Makes a log with that number the room's, which has no other.
pub(super) fn put(
    connection: &Connection,
    name: &RoomId,
    id: i64,
    head: &Head,
) -> Result<(), rusqlite::Error> {
    let Head { position, bytes } = head;
    let (epoch, last) = (position.epoch.get().cast_signed(), position.seq.get().cast_signed());
    let bytes = bytes.cast_signed();
    let sum = room_checksum(name.as_str(), id, last, bytes);
    connection
        .prepare_cached(
            "INSERT INTO rooms (name, id, epoch, head, bytes, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((name.as_str(), id, epoch, last, bytes, sum))?;
    connection.prepare_cached("DELETE FROM waste WHERE room = ?1")?.execute([id]).map(drop)
}

/// Rooms whose names come after that one, at most so many. `newest` is what was unfolded before the read began.
pub(super) fn list(
    connection: &Connection,
    newest: &Rooms,
    after: Option<&RoomId>,
    limit: usize,
) -> Result<Vec<RoomSummary>, Fault> {
    list_in(&*connection.unchecked_transaction()?, newest, true, after, limit)
}

/// The same in a transaction of the caller's, of a file that has rules or not.
pub(super) fn list_in(
    connection: &Connection,
    newest: &Rooms,
    has_rules: bool,
    after: Option<&RoomId>,
    limit: usize,
) -> Result<Vec<RoomSummary>, Fault> {
    const DRAWN: &str = "SELECT name FROM rooms WHERE name > ?1 ORDER BY name LIMIT ?2";
    const RULED: &str = "SELECT room FROM rules WHERE room > ?1 ORDER BY room LIMIT ?2";
    // No name is empty.
    let first = (after.map_or("", RoomId::as_str), i64::try_from(limit).unwrap_or(i64::MAX));
    let mut names: BTreeSet<RoomId> =
        newest.keys().filter(|name| after.is_none_or(|after| *name > after)).cloned().collect();
    for table in [DRAWN].into_iter().chain(has_rules.then_some(RULED)) {
        let mut statement = connection.prepare_cached(table)?;
        let mut rows = statement.query(first)?;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(0)?.as_str().ok().and_then(|name| name.parse().ok());
            names.insert(name.ok_or_else(|| Fault::Damaged("the name of a room is none".to_owned()))?);
        }
    }
    let summary = |name: RoomId| {
        let head = head(connection, newest, &name)?;
        let rules = if has_rules { rules::rules(connection, &name)? } else { Rules::default() };
        Ok(RoomSummary::new(name, &head, &rules))
    };
    // What only the newest know may be deleted since; all that the tables name is there.
    names.into_iter().filter_map(|name| summary(name).transpose()).take(limit).collect()
}

fn head(connection: &Connection, newest: &Rooms, name: &RoomId) -> Result<Head, Fault> {
    let row = log::room(connection, name)?;
    let newest = newest.get(name).filter(|newest| match row {
        Some(row) => row.id == newest.id,
        None => !newest.leaves(),
    });
    Ok(newest.map(|newest| newest.head).or(row.map(|row| row.head)).unwrap_or(Head::EMPTY))
}
