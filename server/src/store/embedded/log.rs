//! Reading logs from the file, and noticing when it contradicts itself.
//!
//! SQLite finds damage to its own structure, but not to what is in it. So every row has a CRC-32 over its
//! values, and the head stands twice: in `rooms`, and as the last row of `records`.
//!
//! What the journal holds beyond the tables is the caller's to add (see [`super::unfolded`]).

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Position, RoomId, Seq};
use rusqlite::{Connection, ErrorCode, OptionalExtension};

use super::unfolded::{Stretch, UnfoldedRoom};
use crate::store::{Chunk, Head, LatestBatch, ReadLimit, StoreError, identity_of};

/// What can be wrong with the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Sql(rusqlite::Error),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Damaged(String),
    #[error("not an Inkrelay database")]
    Foreign,
    #[error("schema {0} is newer")]
    Newer(i64),
}

/// Of errors while reading: what SQLite finds malformed, and values of the wrong type, are damage too.
impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) | None => Self::Damaged(error.to_string()),
            Some(_) => Self::Sql(error),
        }
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        Self::Unavailable(match fault {
            Fault::Damaged(what) => format!("the database is damaged: {what}"),
            other => other.to_string(),
        })
    }
}

/// A row of `rooms`.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoomRow {
    pub id: i64,
    pub head: Head,
}

/// Over a row's values: integers as eight bytes in little-endian order, text and bytes as they are.
pub(super) fn checksum(numbers: &[i64], bytes: &[u8]) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(bytes);
    hasher.finalize().into()
}

/// Of a row of `rooms`. The epoch is left out: one that changed by itself does what a changed epoch has to do.
pub(super) fn room_checksum(name: &str, id: i64, head: i64, bytes: i64) -> i64 {
    checksum(&[id, head, bytes], name.as_bytes())
}

/// Of a row of `clients`, whose latest batch is `first_n`, `last_n` and `last_seq`.
pub(super) fn client_checksum(room: i64, client: i64, latest: [i64; 3]) -> i64 {
    let [first_n, last_n, last_seq] = latest;
    checksum(&[room, client, first_n, last_n, last_seq], &[])
}

/// Looks at the structure of the tables in which a row that vanished would not be missed.
///
/// A page that counts its rows wrongly hides some. Among records that shows as a missing number; a client that
/// is hidden would be one that never drew, a room one that nobody drew in or ruled, and the journal's last entry no
/// entry.
pub(super) fn check_structure(connection: &Connection) -> Result<(), Fault> {
    for table in ["rooms", "clients", "journal", "rules"] {
        let verdict: String =
            connection.query_row(&format!("PRAGMA quick_check({table})"), [], |row| row.get(0))?;
        if verdict != "ok" {
            return Err(Fault::Damaged(format!("table {table}: {verdict}")));
        }
    }
    Ok(())
}

/// Looks at every room's row and returns the largest id.
///
/// A room whose name changed by itself would be missed by nobody but its people: asked by its old name it is a
/// room that nobody drew in. So the names are looked at once, at the start: each by its checksum, and all by
/// their order, which is what a search relies on.
pub(super) fn check_rooms(connection: &Connection) -> Result<i64, Fault> {
    let mut statement =
        connection.prepare("SELECT name, id, head, bytes, checksum FROM rooms ORDER BY name")?;
    let mut rows = statement.query([])?;
    let (mut largest, mut previous) = (0, String::new());
    while let Some(row) = rows.next()? {
        let name =
            row.get_ref(0)?.as_str().map_err(|_| Fault::Damaged("a room's name is no text".to_owned()))?;
        let id = row.get(1)?;
        if room_checksum(name, id, row.get(2)?, row.get(3)?) != row.get::<_, i64>(4)? || name <= &*previous {
            return Err(Fault::Damaged(format!(
                "the row of room {name:?}, after {previous:?}, is not as it was written"
            )));
        }
        largest = largest.max(id);
        name.clone_into(&mut previous);
    }
    Ok(largest)
}

/// Looks at every client's row, for the same reason: under another key it would be missed by nobody.
pub(super) fn check_clients(connection: &Connection) -> Result<(), Fault> {
    let mut statement =
        connection.prepare("SELECT room, client, first_n, last_n, last_seq, checksum FROM clients")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (room, client) = (row.get(0)?, row.get(1)?);
        if client_checksum(room, client, [row.get(2)?, row.get(3)?, row.get(4)?]) != row.get::<_, i64>(5)? {
            let what = format!("the row of client {client} in room number {room} is not as it was written");
            return Err(Fault::Damaged(what));
        }
    }
    Ok(())
}

/// The room's row, with a head whose record is not looked at; `None` for a room without records.
pub(super) fn row(connection: &Connection, room: &RoomId) -> Result<Option<RoomRow>, Fault> {
    let damaged = |what| Fault::Damaged(format!("room {room}: {what}"));
    let mut statement =
        connection.prepare_cached("SELECT id, epoch, head, bytes, checksum FROM rooms WHERE name = ?1")?;
    let row = statement.query_row([room.as_str()], |row| {
        Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
    });
    let Some([id, epoch, head, bytes, sum]) = row.optional()? else { return Ok(None) };
    if sum != room_checksum(room.as_str(), id, head, bytes) {
        return Err(damaged("its row is not as it was written"));
    }
    let epoch = Epoch::new(epoch.cast_unsigned()).ok_or_else(|| damaged("its epoch is out of range"))?;
    let seq = Seq::new(head.cast_unsigned()).ok_or_else(|| damaged("its head is out of range"))?;
    let position = Position { seq, ..Position::start(epoch) };
    Ok(Some(RoomRow { id, head: Head { position, bytes: bytes.cast_unsigned() } }))
}

/// The room's row, with the identity of the record at its head; `None` for a room without records.
pub(super) fn room(connection: &Connection, room: &RoomId) -> Result<Option<RoomRow>, Fault> {
    let damaged = |what| Fault::Damaged(format!("room {room}: {what}"));
    let Some(mut found) = row(connection, room)? else { return Ok(None) };
    let mut statement = connection.prepare_cached(
        "SELECT seq, record, checksum FROM records WHERE room = ?1 ORDER BY seq DESC LIMIT 1",
    )?;
    let last = statement.query_row([found.id], |row| {
        let (seq, record) = (row.get(0)?, row.get_ref(1)?.as_blob()?);
        let is_whole = row.get::<_, i64>(2)? == checksum(&[found.id, seq], record);
        Ok((seq, is_whole, identity_of(record)))
    });
    let Some((seq, is_whole, identity)) = last.optional()? else {
        return Err(damaged("its records are missing"));
    };
    if seq.cast_unsigned() != found.head.position.seq.get() {
        return Err(damaged("its last record is not the one at its head"));
    }
    if !is_whole {
        return Err(damaged("its last record is not as it was written"));
    }
    found.head.position.identity = identity;
    Ok(Some(found))
}

/// The author's latest batch.
pub(super) fn latest(
    connection: &Connection,
    room: i64,
    author: ClientId,
) -> Result<Option<LatestBatch>, Fault> {
    let client = author.get().cast_signed();
    let mut statement = connection.prepare_cached(
        "SELECT first_n, last_n, last_seq, checksum FROM clients WHERE room = ?1 AND client = ?2",
    )?;
    let row = statement.query_row((room, client), |row| {
        Ok(([row.get(0)?, row.get(1)?, row.get(2)?], row.get::<_, i64>(3)?))
    });
    let Some((latest, sum)) = row.optional()? else { return Ok(None) };
    let [first_n, last_n, last_seq] = latest.map(i64::cast_unsigned);
    Seq::new(last_seq)
        .filter(|_| sum == client_checksum(room, client, latest))
        .map(|last_seq| Some(LatestBatch { first_n, last_n, last_seq }))
        .ok_or_else(|| Fault::Damaged(format!("the row of client {client} is not as it was written")))
}

/// A stretch of the log. Records that should be there and are not make it fail; they never make it shorter.
///
/// `newest` is what was unfolded before the read began: it tells the head, and is read behind the tables.
pub(super) fn read(
    connection: &Connection,
    name: &RoomId,
    from: Seq,
    limit: ReadLimit,
    newest: Option<&UnfoldedRoom>,
) -> Result<Chunk, Fault> {
    // One transaction, so that head and records are of one moment.
    read_in(&*connection.unchecked_transaction()?, name, from, limit, newest)
}

/// The same in a transaction of the caller's.
pub(super) fn read_in(
    connection: &Connection,
    name: &RoomId,
    from: Seq,
    limit: ReadLimit,
    newest: Option<&UnfoldedRoom>,
) -> Result<Chunk, Fault> {
    let damaged = |what| Fault::Damaged(format!("room {name}: {what}"));
    let row = room(connection, name)?;
    // Deleted since then: what the tables have now is all there is, if only the beginning of another log.
    let is_gone = |newest: &&UnfoldedRoom| newest.leaves() && row.is_none_or(|row| row.id != newest.id);
    let newest = newest.filter(|newest| !is_gone(newest));
    let (id, head, end) = match (row, newest) {
        (None, None) => return Ok(Chunk { head: Head::EMPTY, records: Vec::new() }),
        (None, Some(_)) => return Err(damaged("its row is missing".to_owned())),
        (Some(row), None) => (row.id, row.head, row.head.position.seq),
        (Some(row), Some(newest)) if row.head.position.seq < newest.base() => {
            return Err(damaged("the records before the journal's are missing".to_owned()));
        }
        // What was folded since then is read from memory, so that it ends at the head that is told.
        (Some(row), Some(newest)) => (row.id, newest.head, newest.base()),
    };
    let mut next = from.max(Seq::START.next());
    let mut stretch = Stretch::new(limit);
    let mut statement = connection.prepare_cached(
        "SELECT seq, record, checksum FROM records WHERE room = ?1 AND seq >= ?2 ORDER BY seq",
    )?;
    let mut rows = statement.query((id, next.get().cast_signed()))?;
    while next <= end && !stretch.is_full {
        let found = rows.next()?;
        let whole = found.map(|found| -> Result<_, rusqlite::Error> {
            let (seq, record): (i64, _) = (found.get(0)?, found.get_ref(1)?.as_blob()?);
            let is_whole = found.get::<_, i64>(2)? == checksum(&[id, seq], record);
            Ok((is_whole && seq.cast_unsigned() == next.get()).then_some(record))
        });
        let Some(record) = whole.transpose()?.flatten() else {
            return Err(damaged(format!("record {next} is missing or not as it was written")));
        };
        stretch.push(Bytes::copy_from_slice(record));
        next = next.next();
    }
    if let Some(newest) = newest.filter(|_| !stretch.is_full) {
        stretch.extend(newest.after(end).unwrap_or_default());
    }
    Ok(Chunk { head, records: stretch.records })
}

/// The newest of a log.
pub(super) fn head(connection: &Connection, name: &RoomId) -> Result<Head, Fault> {
    // One transaction, so that the row and the record at its head are of one moment.
    let transaction = connection.unchecked_transaction()?;
    Ok(room(&transaction, name)?.map_or(Head::EMPTY, |row| row.head))
}

/// The author's newest number.
pub(super) fn last_n(connection: &Connection, name: &RoomId, author: ClientId) -> Result<u64, Fault> {
    let transaction = connection.unchecked_transaction()?;
    let Some(row) = room(&transaction, name)? else { return Ok(0) };
    Ok(latest(&transaction, row.id, author)?.map_or(0, |latest| latest.last_n))
}
