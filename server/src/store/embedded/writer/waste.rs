//! Clearing away the rows of rooms that are gone, a few at a time.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{PAGE_BYTES, Writer};

/// Rows that one step clears away at most.
const STEP_ROWS: i64 = 1024;
/// Bytes of records after which a step takes no further one.
const STEP_BYTES: i64 = 1 << 20;
/// How long after a step the next one begins: appends go first.
const STEP_EVERY: Duration = Duration::from_millis(20);
/// How long after a step that failed the next is tried.
const RETRY: Duration = Duration::from_secs(5);
/// Pages that a step changes: freed ones need not be written.
const PAGES_PER_STEP: usize = 16;

/// Rooms whose rows are to be cleared away.
pub(super) struct Waste {
    rooms: VecDeque<i64>,
    /// Logs that are being restored: waste only when they are given up.
    kept: HashSet<i64>,
    next_at: Instant,
}

impl Waste {
    pub fn new(rooms: Vec<i64>) -> Self {
        Self { rooms: rooms.into(), kept: HashSet::new(), next_at: Instant::now() }
    }

    pub fn add(&mut self, rooms: impl IntoIterator<Item = i64>) {
        self.rooms.extend(rooms);
    }

    /// A log is being restored under that number.
    pub fn keep(&mut self, room: i64) {
        self.kept.insert(room);
    }

    /// It is a room's now.
    pub fn is_used(&mut self, room: i64) {
        self.kept.remove(&room);
    }

    /// It will not be a room's.
    pub fn give_up(&mut self, room: i64) {
        if self.kept.remove(&room) {
            self.rooms.push_back(room);
        }
    }

    /// When the next step is due, if there is anything to do.
    pub fn due(&self) -> Option<Instant> {
        (!self.rooms.is_empty()).then_some(self.next_at)
    }
}

/// Clears away some rows of a room. Returns whether there are none left.
pub(super) fn clear_some(connection: &Connection, room: i64) -> Result<bool, rusqlite::Error> {
    let mut records = connection
        .prepare_cached("SELECT seq, length(record) FROM records WHERE room = ?1 ORDER BY seq LIMIT ?2")?;
    let mut rows = records.query((room, STEP_ROWS))?;
    let (mut last, mut bytes) = (None, 0);
    while bytes < STEP_BYTES
        && let Some(row) = rows.next()?
    {
        last = Some(row.get::<_, i64>(0)?);
        bytes += row.get::<_, i64>(1)?;
    }
    drop(rows);
    if let Some(last) = last {
        let mut clear = connection.prepare_cached("DELETE FROM records WHERE room = ?1 AND seq <= ?2")?;
        clear.execute((room, last))?;
        return Ok(false);
    }
    let mut clear = connection.prepare_cached(
        "DELETE FROM clients WHERE room = ?1 AND client IN
             (SELECT client FROM clients WHERE room = ?1 ORDER BY client LIMIT ?2)",
    )?;
    if clear.execute((room, STEP_ROWS))? > 0 {
        return Ok(false);
    }
    connection.prepare_cached("DELETE FROM waste WHERE room = ?1")?.execute([room])?;
    Ok(true)
}

impl Writer {
    pub(super) fn clear_waste_when_due(&mut self) {
        let now = Instant::now();
        let is_due = self.waste.due().is_some_and(|due| now >= due) && self.poison.get().is_none();
        let Some(room) = self.waste.rooms.front().copied().filter(|_| is_due) else { return };
        // One statement of a step changes something, and is a transaction by itself.
        match clear_some(&self.connection, room) {
            Ok(is_done) => {
                if is_done {
                    self.waste.rooms.pop_front();
                }
                self.wal_bytes += PAGES_PER_STEP * PAGE_BYTES;
                self.waste.next_at = now + STEP_EVERY;
            }
            Err(error) => {
                self.give_up(&error);
                tracing::warn!("the rows of deleted rooms stay for now: {error}");
                self.waste.next_at = now + RETRY;
            }
        }
    }
}
