//! Rows: subscribers that stand at the same place of the log, and are told together.
//!
//! A row is a cursor that many share. What comes next is looked up once for all of them, encoded once, and handed to
//! each without waiting. Whoever cannot take it leaves the row, and goes on with a cursor of its own until it has
//! caught up with the others. So nothing is queued for it here either.

use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use inkrelay_protocol::{Position, Seq};

use super::Room;
use super::cursor::Cursor;
use super::feed::Feed;
use crate::lock::lock;

/// Subscribers of one row at most. Rows of one room are told on several cores.
const ROW: usize = 64;
/// Rows that are told at once, by whoever brings the records; tasks of their own tell further ones.
const ROWS_AT_ONCE: usize = 2;
/// How often a subscriber that is to join is told what came meanwhile, before it goes on by itself.
const JOIN_STEPS: usize = 16;
/// Encodings that a [`Stretch`] keeps.
pub const ENCODINGS: usize = 2;

/// Consecutive records, for all who stand before them.
#[derive(Debug)]
pub struct Stretch {
    /// The number of the first.
    pub first: Seq,
    /// In order; at least one.
    pub records: Vec<Bytes>,
    after: Position,
    encoded: [OnceLock<Bytes>; ENCODINGS],
}

impl Stretch {
    pub(super) fn new(before: &Position, records: Vec<Bytes>, after: Position) -> Self {
        Self { first: before.seq.next(), records, after, encoded: Default::default() }
    }

    /// What these records are in one of the encodings, made once for all who want it. Which number stands for
    /// which encoding is up to the subscribers.
    pub fn encoded(&self, encoding: usize, encode: impl FnOnce(Seq, &[Bytes]) -> Bytes) -> &Bytes {
        self.encoded[encoding].get_or_init(|| encode(self.first, &self.records))
    }
}

/// What became of records that were handed to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It has them, and can take more.
    Taken,
    /// It has them, and cannot take more for now.
    TakenAsLast,
    /// It did not take them.
    Refused,
}

/// Someone who is told of records as they come.
pub trait Subscriber: Send + Sync {
    /// Takes records at once, without waiting and without blocking.
    fn deliver(&self, stretch: &Stretch) -> Delivery;

    /// Nothing more comes for now: what else waits for it can go.
    fn flush(&self);

    /// It is in no row any more, and has to go on by itself. Called at most once for each time that it joined.
    fn left(&self);
}

/// A subscriber's place in a row, which it gives up when this is dropped.
pub struct Seat {
    row: Arc<Mutex<Row>>,
    occupant: Arc<Occupant>,
}

struct Occupant {
    subscriber: Arc<dyn Subscriber>,
    /// Where it was when it left the row.
    left_at: OnceLock<Position>,
}

impl Occupant {
    fn leave(&self, position: Position) {
        if self.left_at.set(position).is_ok() {
            self.subscriber.left();
        }
    }
}

impl Seat {
    /// Where the subscriber goes on by itself, if it is no longer in the row.
    pub fn left_at(&self) -> Option<Position> {
        self.occupant.left_at.get().copied()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        lock(&self.row).occupants.retain(|occupant| !Arc::ptr_eq(occupant, &self.occupant));
    }
}

/// See the module's documentation.
struct Row {
    position: Position,
    occupants: Vec<Arc<Occupant>>,
}

/// All rows of a room.
#[derive(Default)]
pub(super) struct Rows(Mutex<Vec<Arc<Mutex<Row>>>>);

/// What comes after a place.
pub(super) enum Following {
    Stretch(Stretch),
    UpToDate,
    Elsewhere,
}

impl Room {
    /// Has a subscriber told of records as they come, from where its feed is. `None` when it is not up to date, or
    /// cannot take more for now; the feed stands behind what it was told in any case.
    pub fn seat(self: &Arc<Self>, feed: &mut Feed, subscriber: Arc<dyn Subscriber>) -> Option<Seat> {
        let mut position = feed.position()?;
        // Held until the seat is taken, so that nobody clears an empty row away meanwhile.
        let mut rows = lock(&self.rows.0);
        rows.retain(|row| !lock(row).occupants.is_empty());
        let row = match rows.iter().find(|row| lock(row).occupants.len() < ROW) {
            Some(row) => Arc::clone(row),
            None => {
                let row = Arc::new(Mutex::new(Row { position, occupants: Vec::new() }));
                rows.push(Arc::clone(&row));
                row
            }
        };
        let mut open = lock(&row);
        for _ in 0..JOIN_STEPS {
            self.advance(&mut open);
            // The start is the same place in every log. Whoever is alone is where the row is.
            let is_start = open.position.seq == Seq::START && position.seq == Seq::START;
            if open.occupants.is_empty() || open.position == position || is_start {
                if open.occupants.is_empty() {
                    open.position = position;
                }
                let occupant = Arc::new(Occupant { subscriber, left_at: OnceLock::new() });
                open.occupants.push(Arc::clone(&occupant));
                self.advance(&mut open);
                drop(open);
                return Some(Seat { row, occupant });
            }
            let Following::Stretch(stretch) = self.following(&position) else { return None };
            let delivery = subscriber.deliver(&stretch);
            if delivery != Delivery::Refused {
                position = stretch.after;
                *feed = Feed::at(Cursor::at(position));
            }
            if delivery != Delivery::Taken {
                return None;
            }
        }
        None
    }

    /// Tells all rows what they lack.
    pub(super) fn tell_rows(self: &Arc<Self>) {
        let rows = lock(&self.rows.0).clone();
        let mut rows = rows.into_iter();
        let at_once: Vec<_> = rows.by_ref().take(ROWS_AT_ONCE).collect();
        for row in rows {
            let room = Arc::clone(self);
            tokio::spawn(async move { room.advance(&mut lock(&row)) });
        }
        for row in at_once {
            self.advance(&mut lock(&row));
        }
    }

    fn advance(&self, row: &mut Row) {
        let mut is_told = false;
        while !row.occupants.is_empty() {
            match self.following(&row.position) {
                Following::Stretch(stretch) => {
                    is_told = true;
                    let before = row.position;
                    row.occupants.retain(|occupant| match occupant.subscriber.deliver(&stretch) {
                        Delivery::Taken => true,
                        Delivery::TakenAsLast => {
                            occupant.leave(stretch.after);
                            false
                        }
                        Delivery::Refused => {
                            occupant.leave(before);
                            false
                        }
                    });
                    row.position = stretch.after;
                }
                Following::UpToDate => {
                    if !is_told {
                        row.occupants.iter().for_each(|occupant| occupant.subscriber.flush());
                    }
                    return;
                }
                Following::Elsewhere => {
                    let position = row.position;
                    row.occupants.drain(..).for_each(|occupant| occupant.leave(position));
                }
            }
        }
    }
}
