//! Folding: what the journal holds moves into the tables.
//!
//! A room's row is written once for all of its commits since the last fold, and so is an author's.

use std::sync::Arc;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Position};
use rusqlite::{Connection, OptionalExtension};

use super::journal::{self, New, Section};
use super::log::{self, Fault, checksum, client_checksum, room_checksum};
use super::unfolded::{Rooms, UnfoldedRoom};
use crate::store::{Head, LatestBatch};

/// What the journal holds.
#[derive(Default)]
pub(super) struct Journal {
    /// The number of the last entry, also when that is folded.
    pub last: i64,
    /// Records that are not folded.
    pub records: usize,
    /// Bytes of entries that are not folded.
    pub bytes: usize,
}

/// Writes all of these rooms' records into the tables, and empties the journal. `last` is the number of its last
/// entry. In a transaction of the caller's.
pub(super) fn fold(connection: &Connection, rooms: &Rooms, last: i64) -> Result<(), rusqlite::Error> {
    let mut write_room = connection.prepare_cached(
        "INSERT INTO rooms (name, id, epoch, head, bytes, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (name) DO UPDATE
         SET head = excluded.head, bytes = excluded.bytes, checksum = excluded.checksum",
    )?;
    // First, so that the tables grow into the pages that the journal leaves.
    connection.prepare_cached("DELETE FROM journal")?.execute([])?;
    connection.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'folded'")?.execute([last])?;
    let mut rooms: Vec<_> = rooms.iter().collect();
    // In the tables' order, which touches each page once.
    rooms.sort_unstable_by_key(|(_, room)| room.id);
    for (name, room) in rooms {
        let UnfoldedRoom { id, head, records, authors, .. } = &**room;
        let first = room.base().next().get().cast_signed();
        write_records(connection, *id, first, records)?;
        let (position, bytes) = (head.position, head.bytes.cast_signed());
        let (epoch, last) = (position.epoch.get().cast_signed(), position.seq.get().cast_signed());
        let sum = room_checksum(name.as_str(), *id, last, bytes);
        write_room.execute((name.as_str(), id, epoch, last, bytes, sum))?;
        write_clients(connection, *id, authors)?;
    }
    Ok(())
}

/// Writes records of a room from that number on.
pub(super) fn write_records(
    connection: &Connection,
    room: i64,
    first: i64,
    records: &[Bytes],
) -> Result<(), rusqlite::Error> {
    let mut write = connection
        .prepare_cached("INSERT INTO records (room, seq, record, checksum) VALUES (?1, ?2, ?3, ?4)")?;
    for (seq, record) in (first..).zip(records) {
        write.execute((room, seq, &record[..], checksum(&[room, seq], record)))?;
    }
    Ok(())
}

/// Writes authors' latest batches in a room.
pub(super) fn write_clients<'a>(
    connection: &Connection,
    room: i64,
    authors: impl IntoIterator<Item = (&'a ClientId, &'a LatestBatch)>,
) -> Result<(), rusqlite::Error> {
    let mut write = connection.prepare_cached(
        "INSERT OR REPLACE INTO clients (room, client, first_n, last_n, last_seq, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (author, latest) in authors {
        let client = author.get().cast_signed();
        let LatestBatch { first_n, last_n, last_seq } = *latest;
        let [first_n, last_n, last_seq] = [first_n, last_n, last_seq.get()].map(u64::cast_signed);
        let sum = client_checksum(room, client, [first_n, last_n, last_seq]);
        write.execute((room, client, first_n, last_n, last_seq, sum))?;
    }
    Ok(())
}

/// Reads what the last run left in the journal. `last_room_id` is the largest number that a room has, and goes up
/// with the rooms that the journal begins.
pub(super) fn replay(connection: &Connection, last_room_id: &mut i64) -> Result<(Journal, Rooms), Fault> {
    let folded = connection.query_row("SELECT value FROM meta WHERE key = 'folded'", [], |row| row.get(0));
    let Some(folded) = folded.optional()? else {
        return Err(Fault::Damaged("it does not say how much of the journal is folded".to_owned()));
    };
    let (mut journal, mut rooms) = (Journal { last: folded, ..Journal::default() }, Rooms::new());
    let mut statement = connection.prepare("SELECT number, entry, checksum FROM journal ORDER BY number")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get(0)?;
        let entry = Bytes::from(row.get::<_, Vec<u8>>(1)?);
        journal.last += 1;
        let damaged = |what: &str| Fault::Damaged(format!("entry {} of the journal {what}", journal.last));
        if number != journal.last {
            return Err(damaged("is missing"));
        }
        if row.get::<_, i64>(2)? != checksum(&[number], &entry) {
            return Err(damaged("is not as it was written"));
        }
        journal.bytes += entry.len();
        for section in journal::decode(&entry).map_err(|error| damaged(&error.to_string()))? {
            let Section { room: name, epoch, before, batches } = section;
            if !rooms.contains_key(&name) {
                let room = begin(connection, &name, epoch, last_room_id)?;
                rooms.insert(name.clone(), Arc::new(room));
            }
            let room = rooms.get_mut(&name).map(Arc::make_mut);
            let Some(room) = room.filter(|room| room.head.position.seq == before) else {
                return Err(damaged(&format!("does not continue room {name}")));
            };
            for batch in &batches {
                journal.records += batch.records.len();
                room.push(New { author: batch.author, first_n: batch.first_n, records: &batch.records });
            }
        }
    }
    Ok((journal, rooms))
}

/// The room as the tables have it, or a new one.
fn begin(
    connection: &Connection,
    name: &inkrelay_protocol::RoomId,
    epoch: Option<Epoch>,
    last_room_id: &mut i64,
) -> Result<UnfoldedRoom, Fault> {
    match (log::row(connection, name)?, epoch) {
        // The record at its head need not be looked at: it is not to be continued from there.
        (Some(row), None) => Ok(UnfoldedRoom::new(row.id, row.head)),
        (None, Some(epoch)) => {
            *last_room_id += 1;
            let head = Head { position: Position::start(epoch), bytes: 0 };
            Ok(UnfoldedRoom::new(*last_room_id, head))
        }
        (Some(_), Some(_)) => Err(Fault::Damaged(format!("the journal begins room {name}, which is there"))),
        (None, None) => Err(Fault::Damaged(format!("the journal continues room {name}, which is not there"))),
    }
}
