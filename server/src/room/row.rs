//! Rows: subscribers that stand at the same place of the log, and are told together.
//!
//! A row is a cursor that many share. What comes next is looked up once for all of them, encoded once, and handed to
//! each without waiting. Whoever cannot take it leaves the row, and goes on with a cursor of its own until it has
//! caught up with the others. So nothing is queued for it here either.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use inkrelay_protocol::{Position, Seq};

use super::Room;
use super::bytes_of;
use super::cursor::Cursor;
use super::feed::Feed;
use crate::lock::lock;
use crate::metrics::Transport;

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
            self.advance(&mut open, None);
            // The start is the same place in every log. Whoever is alone is where the row is.
            let is_start = open.position.seq == Seq::START && position.seq == Seq::START;
            if open.occupants.is_empty() || open.position == position || is_start {
                if open.occupants.is_empty() {
                    open.position = position;
                }
                let occupant = Arc::new(Occupant { subscriber, left_at: OnceLock::new() });
                open.occupants.push(Arc::clone(&occupant));
                self.advance(&mut open, None);
                drop(open);
                return Some(Seat { row, occupant });
            }
            let Following::Stretch(stretch) = self.following(&position) else { return None };
            let delivery = subscriber.deliver(&stretch);
            if delivery != Delivery::Refused {
                self.count_sent(1, stretch.records.len(), bytes_of(&stretch.records));
                position = stretch.after;
                *feed = Feed::at(Cursor::at(position));
            }
            if delivery != Delivery::Taken {
                return None;
            }
        }
        None
    }

    /// Tells all rows what they lack; the first of it came then.
    pub(super) fn tell_rows(self: &Arc<Self>, since: Option<Instant>) {
        let rows = lock(&self.rows.0).clone();
        let mut rows = rows.into_iter();
        let at_once: Vec<_> = rows.by_ref().take(ROWS_AT_ONCE).collect();
        for row in rows {
            let room = Arc::clone(self);
            tokio::spawn(async move { room.advance(&mut lock(&row), since) });
        }
        for row in at_once {
            self.advance(&mut lock(&row), since);
        }
    }

    fn advance(&self, row: &mut Row, since: Option<Instant>) {
        let mut is_told = false;
        while !row.occupants.is_empty() {
            match self.following(&row.position) {
                Following::Stretch(stretch) => {
                    is_told = true;
                    let before = row.position;
                    let mut readers = row.occupants.len();
                    row.occupants.retain(|occupant| match occupant.subscriber.deliver(&stretch) {
                        Delivery::Taken => true,
                        Delivery::TakenAsLast => {
                            occupant.leave(stretch.after);
                            false
                        }
                        Delivery::Refused => {
                            readers -= 1;
                            occupant.leave(before);
                            false
                        }
                    });
                    row.position = stretch.after;
                    self.count_sent(readers, stretch.records.len(), bytes_of(&stretch.records));
                    if let Some(since) = since.filter(|_| readers > 0) {
                        self.count_delivery(Transport::WebSocket, since.elapsed());
                    }
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use inkrelay_protocol::{After, ClientId, Identity, Record};

    use super::*;
    use crate::lock::lock;
    use crate::room::{Node, RoomLimits};
    use crate::store::{Batch, MemoryStore};

    /// Takes as many stretches as it may, and says then that the last was the last, or refuses.
    struct Listener {
        seqs: Mutex<Vec<u64>>,
        stretches_left: AtomicUsize,
        at_the_end: Delivery,
        lefts: AtomicUsize,
    }

    impl Listener {
        fn new(stretches: usize, at_the_end: Delivery) -> Arc<Self> {
            let (seqs, lefts) = (Mutex::default(), AtomicUsize::new(0));
            Arc::new(Self { seqs, stretches_left: AtomicUsize::new(stretches), at_the_end, lefts })
        }

        fn seqs(&self) -> Vec<u64> {
            lock(&self.seqs).clone()
        }
    }

    impl Subscriber for Listener {
        fn deliver(&self, stretch: &Stretch) -> Delivery {
            let left = self.stretches_left.load(Ordering::Relaxed);
            let delivery = if left == 0 { self.at_the_end } else { Delivery::Taken };
            self.stretches_left.store(left.saturating_sub(1), Ordering::Relaxed);
            if delivery != Delivery::Refused {
                lock(&self.seqs)
                    .extend((0..stretch.records.len()).map(|index| stretch.first.plus(index).get()));
            }
            delivery
        }

        fn flush(&self) {}

        fn left(&self) {
            self.lefts.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn room() -> Arc<Room> {
        room_with(Duration::ZERO).await
    }

    async fn room_with(flush_time: Duration) -> Arc<Room> {
        let limits = RoomLimits {
            tail_bytes: 1 << 16,
            room_bytes: 0,
            sessions: 0,
            flush_time,
            idle_time: Duration::from_secs(40),
        };
        let node = Node::new(Arc::new(MemoryStore::new()), limits);
        let room = Arc::new(Room::new("a".parse().unwrap(), Arc::new(node)));
        room.load().await.unwrap();
        room
    }

    async fn draw(room: &Arc<Room>, n: u64) {
        append(room, n).await;
        // Readers are told right after the answer.
        while room.is_beat_due() {
            tokio::task::yield_now().await;
        }
    }

    async fn append(room: &Arc<Room>, n: u64) {
        let author = ClientId::new(7).unwrap();
        let mut record = Vec::new();
        Record { identity: Identity { author, n, at: 1 }, draw: &[0x91, 4] }.encode(&mut record);
        let batch = Batch { author, first_n: n, records: vec![record.into()] };
        room.append_and_wait(batch, inkrelay_protocol::Role::Drawer).await.unwrap();
    }

    async fn sit(room: &Arc<Room>, after: After, listener: &Arc<Listener>) -> Option<Seat> {
        let mut feed = Feed::open(room, after).await.unwrap();
        room.seat(&mut feed, Arc::clone(listener) as Arc<dyn Subscriber>)
    }

    #[tokio::test]
    async fn whoever_sits_is_told_of_all_that_comes_and_of_nothing_twice() {
        let room = room().await;
        let early = Listener::new(99, Delivery::Refused);
        let seat = sit(&room, After::Start, &early).await.unwrap();
        draw(&room, 1).await;
        // Comes with nothing, and is told what the others have already.
        let late = Listener::new(99, Delivery::Refused);
        let late_seat = sit(&room, After::Start, &late).await.unwrap();
        draw(&room, 2).await;
        assert_eq!((early.seqs(), late.seqs()), (vec![1, 2], vec![1, 2]));
        drop(seat);
        draw(&room, 3).await;
        assert_eq!((early.seqs(), late.seqs()), (vec![1, 2], vec![1, 2, 3]));
        assert_eq!((late_seat.left_at(), late.lefts.load(Ordering::Relaxed)), (None, 0));
    }

    #[tokio::test]
    async fn whoever_can_take_no_more_leaves_behind_what_it_has() {
        let room = room().await;
        let full = Listener::new(1, Delivery::TakenAsLast);
        let busy = Listener::new(1, Delivery::Refused);
        let seats =
            [sit(&room, After::Start, &full).await.unwrap(), sit(&room, After::Start, &busy).await.unwrap()];
        for n in 1..=3 {
            draw(&room, n).await;
        }
        assert_eq!((full.seqs(), busy.seqs()), (vec![1, 2], vec![1]));
        assert_eq!(seats.map(|seat| seat.left_at().map(|place| place.seq.get())), [Some(2), Some(1)]);
        assert_eq!([&full, &busy].map(|one| one.lefts.load(Ordering::Relaxed)), [1, 1]);
    }

    #[tokio::test]
    async fn many_rows_are_told_the_same() {
        let room = room().await;
        let listeners: Vec<_> = (0..3 * ROW + 5).map(|_| Listener::new(99, Delivery::Refused)).collect();
        let mut seats = Vec::new();
        for listener in &listeners {
            seats.push(sit(&room, After::Start, listener).await.unwrap());
        }
        for n in 1..=3 {
            draw(&room, n).await;
        }
        for listener in listeners {
            while listener.seqs().len() < 3 {
                tokio::task::yield_now().await;
            }
            assert_eq!(listener.seqs(), [1, 2, 3]);
        }
    }

    #[tokio::test]
    async fn another_log_sends_everyone_away_to_look_for_themselves() {
        let room = room().await;
        draw(&room, 1).await;
        let listener = Listener::new(99, Delivery::Refused);
        let seat = sit(&room, After::Start, &listener).await.unwrap();
        let head = room.head();
        let other = Position { epoch: inkrelay_protocol::Epoch::new(99).unwrap(), ..head };
        room.change_tail(|tail| tail.reset(other));
        room.show_records();
        assert_eq!((seat.left_at(), listener.seqs()), (Some(head), vec![1]));
    }

    ///
    #[tokio::test]
    async fn the_first_after_a_quiet_time_is_told_at_once_and_the_next_waits() {
        let room = room_with(Duration::from_secs(3600)).await;
        let listener = Listener::new(99, Delivery::Refused);
        let _seat = sit(&room, After::Start, &listener).await.unwrap();
        draw(&room, 1).await;
        append(&room, 2).await;
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((listener.seqs(), room.is_beat_due()), (vec![1], true));
    }
}
