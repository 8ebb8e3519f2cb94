//! What every store promises. Each test names the rules of the contract in `src/store.rs` that it holds a store to.
//!
//! A store joins with one line, `store_contract_tests!(open)`, in a module of its own. `open` is an async
//! function that returns a store and whatever has to live as long as it does (a folder, a server process). Tests
//! use rooms with random names, so the store that `open` returns may be one that other tests use too.
//!
//! Longer than most files, because the rules are one list, to be read from top to bottom.

mod model;
mod rooms;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Identity, Position, Record, RoomId, Seq};
use inkrelay_server::random;
use inkrelay_server::store::rules::{Ban, RuleChange};
use inkrelay_server::store::{
    Appended, Batch, Chunk, Gap, Head, MemoryStore, ReadLimit, Rules, Store, Stored,
};

pub use model::Dice;
use model::Model;
pub use rooms::*;

/// Makes each rule a test of its own, named after it.
macro_rules! store_contract_tests {
    ($open:path) => {
        $crate::store_contract::store_contract_tests! { @each $open:
            a_room_that_nobody_drew_in_is_told_as_empty
            a_refused_first_batch_leaves_no_trace
            records_are_numbered_from_one_without_gaps
            concurrent_appends_never_interleave
            concurrent_retries_are_stored_once
            a_batch_after_a_gap_is_refused_whole
            batches_of_one_append_stand_each_for_itself
            a_retry_of_the_latest_batch_is_told_where_it_stands
            a_retry_of_an_older_batch_is_stored_already
            an_overlap_is_stored_from_the_first_new_number_on
            an_overlap_becomes_the_latest_batch_by_its_new_records
            one_author_may_have_several_batches_in_one_append
            authors_are_numbered_each_for_itself
            the_anonymous_author_is_always_new
            before_is_the_head_with_its_identity
            an_epoch_stays_while_nothing_is_lost
            records_come_back_byte_for_byte
            large_records_and_appends_come_back_whole
            a_read_starts_at_any_number
            a_read_keeps_its_limits_but_returns_one
            a_read_beyond_the_head_is_empty
            what_is_acknowledged_is_read_at_once
            a_read_is_of_one_moment
            heads_come_in_the_order_asked
            bytes_are_the_sum_of_the_records
            rooms_are_independent
            rooms_are_listed_page_by_page_in_the_order_of_their_names
            a_deleted_room_is_as_one_that_nobody_drew_in
            rules_go_with_their_room
            a_room_that_is_only_ruled_is_listed_and_goes_as_any
            after_a_deletion_a_retry_is_a_gap
            a_deletion_is_one_step_against_appends
            only_what_is_idle_is_deleted_for_it
            a_log_is_restored_in_one_step
            a_restored_log_goes_on
            rules_are_kept_apart_from_the_log
            rules_are_set_only_where_they_are_as_expected
            of_many_who_change_rules_at_once_nobody_is_lost
            the_secret_stays_the_same
            a_working_store_says_so
            any_sequence_of_calls_agrees_with_the_model
        }
    };
    (@each $open:path: $($rule:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $rule() {
                let (store, _alive) = $open().await;
                $crate::store_contract::$rule(store).await;
            }
        )*
    };
}
pub(crate) use store_contract_tests;

mod memory {
    use super::*;

    async fn open() -> (Arc<dyn Store>, ()) {
        (Arc::new(MemoryStore::new()), ())
    }

    store_contract_tests!(open);
}

/// Everything in one read.
pub const ALL: ReadLimit = ReadLimit { records: usize::MAX, bytes: usize::MAX };

/// A room that no other test knows.
pub fn room() -> RoomId {
    named(&format!("room-{:016x}", random::u64()))
}

/// The author of that number.
pub fn author(id: u64) -> ClientId {
    ClientId::new(id).unwrap()
}

/// A record of that author and number, with some bytes that tell it from others.
pub fn record(author: ClientId, n: u64) -> Bytes {
    record_with(author, n, 1_700_000_000_000 + n, &[0x92, 0x05, 0xc4, 0x03, 1, 2, 3])
}

/// Consecutive draws of one author.
pub fn batch(author: ClientId, first_n: u64, records: u64) -> Batch {
    Batch { author, first_n, records: (first_n..first_n + records).map(|n| record(author, n)).collect() }
}

/// Appends one batch, which the store must not refuse.
pub async fn store_one(store: &dyn Store, room: &RoomId, batch: Batch) -> Stored {
    append(store, room, &[batch]).await.outcomes[0].expect("the batch has no gap before it")
}

/// The whole log.
pub async fn read_all(store: &dyn Store, room: &RoomId) -> Chunk {
    read(store, room, 1, ALL).await
}

fn named(name: &str) -> RoomId {
    name.parse().unwrap()
}

pub fn seq(number: u64) -> Seq {
    Seq::new(number).unwrap()
}

fn record_with(author: ClientId, n: u64, at: u64, draw: &[u8]) -> Bytes {
    let mut bytes = Vec::new();
    Record { identity: Identity { author, n, at }, draw }.encode(&mut bytes);
    bytes.into()
}

fn identity(record: &[u8]) -> Identity {
    Record::parse(record).unwrap().identity
}

fn numbers(records: &[Bytes]) -> Vec<(u64, u64)> {
    records.iter().map(|record| identity(record)).map(|id| (id.author.get(), id.n)).collect()
}

pub async fn append(store: &dyn Store, room: &RoomId, batches: &[Batch]) -> Appended {
    let appended = store.append(room, batches).await.expect("a working store appends");
    assert_eq!(appended.outcomes.len(), batches.len(), "an outcome for each batch");
    assert_eq!(appended.before.epoch, appended.epoch, "before is of the epoch that the records are in");
    appended
}

pub async fn read(store: &dyn Store, room: &RoomId, from: u64, limit: ReadLimit) -> Chunk {
    store.read(room, seq(from), limit).await.expect("a working store reads")
}

pub async fn head(store: &dyn Store, room: &RoomId) -> Head {
    store.head(room).await.expect("a working store tells its head")
}

pub fn stored(new: usize, first_seq: Option<u64>, last_n: u64, last_seq: u64) -> Result<Stored, Gap> {
    Ok(Stored { new, first_seq: first_seq.map(seq), last_n, last_seq: seq(last_seq) })
}

fn gap(expected: u64) -> Result<Stored, Gap> {
    Err(Gap { expected })
}

/// Rules 6 and 8.
pub async fn a_room_that_nobody_drew_in_is_told_as_empty(store: Arc<dyn Store>) {
    let room = room();
    // Twice: the first round of questions must not make the room.
    for _ in 0..2 {
        assert_eq!(head(&*store, &room).await, Head::EMPTY);
        assert_eq!(store.heads(std::slice::from_ref(&room)).await.unwrap(), [Head::EMPTY]);
        for from in [0, 1, 7] {
            let chunk = read(&*store, &room, from, ALL).await;
            assert_eq!((chunk.head, chunk.records.len()), (Head::EMPTY, 0));
        }
        assert_eq!(store.last_n(&room, author(5)).await.unwrap(), 0);
    }
    let appended = append(&*store, &room, &[batch(author(5), 1, 1)]).await;
    assert_eq!(appended.before.seq, Seq::START);
    assert_eq!(appended.outcomes, [stored(1, Some(1), 1, 1)]);
}

/// Rules 2, 3, 6 and 8.
pub async fn a_refused_first_batch_leaves_no_trace(store: Arc<dyn Store>) {
    let room = room();
    let appended = append(&*store, &room, &[batch(author(5), 2, 3), batch(author(6), 9, 1)]).await;
    assert_eq!(appended.outcomes, [gap(1), gap(1)]);
    assert_eq!(
        appended.before,
        Position::start(Epoch::EMPTY),
        "a log without records has no epoch of its own"
    );
    assert_eq!(appended.bytes, 0);
    assert_eq!(head(&*store, &room).await, Head::EMPTY);
    assert_eq!(store.last_n(&room, author(5)).await.unwrap(), 0);
    assert_eq!(read_all(&*store, &room).await.records.len(), 0);
}

/// Rule 1.
pub async fn records_are_numbered_from_one_without_gaps(store: Arc<dyn Store>) {
    let (room, ada, bob) = (room(), author(1), author(2));
    assert_eq!(store_one(&*store, &room, batch(ada, 1, 3)).await, stored(3, Some(1), 3, 3).unwrap());
    assert_eq!(store_one(&*store, &room, batch(bob, 1, 1)).await, stored(1, Some(4), 1, 4).unwrap());
    assert_eq!(store_one(&*store, &room, batch(ada, 4, 2)).await, stored(2, Some(5), 5, 6).unwrap());
    let chunk = read_all(&*store, &room).await;
    assert_eq!(numbers(&chunk.records), [(1, 1), (1, 2), (1, 3), (2, 1), (1, 4), (1, 5)]);
    assert_eq!(chunk.head.position.seq, seq(6));
}

/// Rule 1.
pub async fn concurrent_appends_never_interleave(store: Arc<dyn Store>) {
    const AUTHORS: u64 = 16;
    const APPENDS: u64 = 20;
    let room = room();
    let tasks: Vec<_> = (1..=AUTHORS)
        .map(|id| {
            let (store, room) = (store.clone(), room.clone());
            tokio::spawn(async move {
                let mut told = Vec::new();
                for turn in 0..APPENDS {
                    // Two batches, so that an append has an inside that others could get into.
                    let batches = [batch(author(id), turn * 5 + 1, 2), batch(author(id), turn * 5 + 3, 3)];
                    let appended = append(&*store, &room, &batches).await;
                    told.push((appended, batches));
                }
                told
            })
        })
        .collect();
    let mut told = Vec::new();
    for task in tasks {
        told.extend(task.await.unwrap());
    }
    let log = read_all(&*store, &room).await.records;
    assert_eq!(log.len() as u64, AUTHORS * APPENDS * 5);
    told.sort_by_key(|(appended, _)| appended.before.seq);
    let mut at = 0;
    for (appended, batches) in told {
        assert_eq!(appended.before.seq, seq(at as u64), "appends stand behind each other");
        if at > 0 {
            assert_eq!(appended.before.identity, identity(&log[at - 1]));
        }
        for (batch, outcome) in batches.iter().zip(&appended.outcomes) {
            assert_eq!(outcome.unwrap().first_seq, Some(seq(at as u64 + 1)));
            assert_eq!(log[at..at + batch.records.len()], batch.records);
            at += batch.records.len();
        }
    }
}

/// Rules 3 and 5: an answer that did not come is asked for again, perhaps while the first try is on its way.
pub async fn concurrent_retries_are_stored_once(store: Arc<dyn Store>) {
    let room = room();
    for turn in 0..20 {
        let batch = batch(author(3), turn * 4 + 1, 4);
        let tries: Vec<_> = (0..8)
            .map(|_| {
                let (store, room, batch) = (store.clone(), room.clone(), batch.clone());
                tokio::spawn(async move { store_one(&*store, &room, batch).await })
            })
            .collect();
        let mut new = 0;
        for one in tries {
            let stored = one.await.unwrap();
            assert_eq!((stored.first_seq, stored.last_seq), (Some(seq(turn * 4 + 1)), seq(turn * 4 + 4)));
            new += stored.new;
        }
        assert_eq!(new, 4);
    }
    assert_eq!(head(&*store, &room).await.position.seq, seq(80));
}

/// Rules 2 and 3.
pub async fn a_batch_after_a_gap_is_refused_whole(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 3)).await;
    let before = head(&*store, &room).await;
    for (first_n, records) in [(5, 1), (5, 10), (6, 2), (1_000_000, 1)] {
        let appended = append(&*store, &room, &[batch(ada, first_n, records)]).await;
        assert_eq!(appended.outcomes, [gap(4)], "from {first_n}");
        assert_eq!(appended.before, before.position);
        assert_eq!(head(&*store, &room).await, before);
        assert_eq!(store.last_n(&room, ada).await.unwrap(), 3);
    }
    assert_eq!(store_one(&*store, &room, batch(ada, 4, 1)).await, stored(1, Some(4), 4, 4).unwrap());
}

/// Rules 1 and 2.
pub async fn batches_of_one_append_stand_each_for_itself(store: Arc<dyn Store>) {
    let (room, ada, bob, eve) = (room(), author(1), author(2), author(3));
    store_one(&*store, &room, batch(ada, 1, 2)).await;
    let batches = [
        batch(bob, 2, 2),
        batch(ada, 1, 2),
        batch(eve, 1, 1),
        batch(ada, 5, 1),
        batch(ada, 2, 3),
        batch(bob, 1, 2),
    ];
    let appended = append(&*store, &room, &batches).await;
    let expected = [
        gap(1),
        stored(0, Some(1), 2, 2),
        stored(1, Some(3), 1, 3),
        gap(3),
        stored(2, Some(2), 4, 5),
        stored(2, Some(6), 2, 7),
    ];
    assert_eq!(appended.outcomes, expected);
    let log = read_all(&*store, &room).await.records;
    assert_eq!(numbers(&log), [(1, 1), (1, 2), (3, 1), (1, 3), (1, 4), (2, 1), (2, 2)]);
}

/// Rule 3.
pub async fn a_retry_of_the_latest_batch_is_told_where_it_stands(store: Arc<dyn Store>) {
    let (room, ada, bob) = (room(), author(1), author(2));
    store_one(&*store, &room, batch(bob, 1, 7)).await;
    let first = append(&*store, &room, &[batch(ada, 1, 4)]).await;
    store_one(&*store, &room, batch(bob, 8, 3)).await;
    let before = head(&*store, &room).await;
    let again = append(&*store, &room, &[batch(ada, 1, 4)]).await;
    assert_eq!(first.outcomes, [stored(4, Some(8), 4, 11)]);
    assert_eq!(again.outcomes, [stored(0, Some(8), 4, 11)]);
    assert_eq!(again.before, before.position);
    // A part of the latest batch is of the latest batch.
    assert_eq!(store_one(&*store, &room, batch(ada, 2, 2)).await, stored(0, Some(9), 4, 11).unwrap());
    assert_eq!(store_one(&*store, &room, batch(ada, 4, 1)).await, stored(0, Some(11), 4, 11).unwrap());
    assert_eq!(head(&*store, &room).await, before);
}

/// Rule 3.
pub async fn a_retry_of_an_older_batch_is_stored_already(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 4)).await;
    store_one(&*store, &room, batch(ada, 5, 2)).await;
    let before = head(&*store, &room).await;
    assert_eq!(store_one(&*store, &room, batch(ada, 1, 4)).await, stored(0, None, 6, 6).unwrap());
    assert_eq!(store_one(&*store, &room, batch(ada, 3, 4)).await, stored(0, None, 6, 6).unwrap());
    assert_eq!(head(&*store, &room).await, before);
}

/// Rule 3.
pub async fn an_overlap_is_stored_from_the_first_new_number_on(store: Arc<dyn Store>) {
    let (room, ada, bob) = (room(), author(1), author(2));
    store_one(&*store, &room, batch(ada, 1, 2)).await;
    store_one(&*store, &room, batch(ada, 3, 3)).await;
    store_one(&*store, &room, batch(bob, 1, 1)).await;
    // From inside the latest batch: its first record stands there.
    assert_eq!(store_one(&*store, &room, batch(ada, 4, 4)).await, stored(2, Some(4), 7, 8).unwrap());
    // From before the latest batch.
    assert_eq!(store_one(&*store, &room, batch(ada, 1, 8)).await, stored(1, None, 8, 9).unwrap());
    let log = read_all(&*store, &room).await.records;
    let expected = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1), (1, 6), (1, 7), (1, 8)];
    assert_eq!(numbers(&log), expected);
}

/// Rule 3: what was dropped from an overlap stands elsewhere, so a retry cannot be told one place for all of it.
pub async fn an_overlap_becomes_the_latest_batch_by_its_new_records(store: Arc<dyn Store>) {
    let (room, ada, bob) = (room(), author(1), author(2));
    store_one(&*store, &room, batch(ada, 1, 3)).await;
    store_one(&*store, &room, batch(bob, 1, 5)).await;
    assert_eq!(store_one(&*store, &room, batch(ada, 2, 4)).await, stored(2, Some(2), 5, 10).unwrap());
    assert_eq!(store_one(&*store, &room, batch(ada, 2, 4)).await, stored(0, None, 5, 10).unwrap());
    assert_eq!(store_one(&*store, &room, batch(ada, 4, 2)).await, stored(0, Some(9), 5, 10).unwrap());
}

/// Rules 2 and 3.
pub async fn one_author_may_have_several_batches_in_one_append(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let batches = [
        batch(ada, 1, 2),
        batch(ada, 3, 1),
        batch(ada, 3, 1),
        batch(ada, 5, 4),
        batch(ada, 4, 1),
        batch(ada, 5, 4),
        batch(ada, 1, 2),
    ];
    let appended = append(&*store, &room, &batches).await;
    let expected = [
        stored(2, Some(1), 2, 2),
        stored(1, Some(3), 3, 3),
        stored(0, Some(3), 3, 3),
        gap(4),
        stored(1, Some(4), 4, 4),
        stored(4, Some(5), 8, 8),
        stored(0, None, 8, 8),
    ];
    assert_eq!(appended.outcomes, expected);
    assert_eq!(store.last_n(&room, ada).await.unwrap(), 8);
    let log = read_all(&*store, &room).await.records;
    assert_eq!(numbers(&log), (1..=8).map(|n| (1, n)).collect::<Vec<_>>());
}

/// Rule 3.
pub async fn authors_are_numbered_each_for_itself(store: Arc<dyn Store>) {
    let room = room();
    let ids = [1, 2, 255, 256, 65_536, (1 << 32) - 1, 1 << 32, (1 << 48) - 1];
    for (turn, id) in ids.into_iter().enumerate() {
        let last_n = turn as u64 + 1;
        store_one(&*store, &room, batch(author(id), 1, last_n)).await;
        assert_eq!(store.last_n(&room, author(id)).await.unwrap(), last_n);
    }
    for (turn, id) in ids.into_iter().enumerate() {
        assert_eq!(store.last_n(&room, author(id)).await.unwrap(), turn as u64 + 1, "author {id}");
    }
    assert_eq!(store.last_n(&room, author(3)).await.unwrap(), 0);
}

/// Rule 3.
pub async fn the_anonymous_author_is_always_new(store: Arc<dyn Store>) {
    let room = room();
    let far_apart = |first_n| Batch {
        author: ClientId::ANONYMOUS,
        first_n,
        records: [first_n, 9_000_000_000, 3].map(|n| record(ClientId::ANONYMOUS, n)).to_vec(),
    };
    let batches = [far_apart(77), far_apart(77), far_apart(4_000_000_000_000)];
    let appended = append(&*store, &room, &batches).await;
    let appended_again = append(&*store, &room, &batches[..1]).await;
    let outcomes: Vec<_> = appended.outcomes.iter().chain(&appended_again.outcomes).collect();
    for (turn, outcome) in outcomes.into_iter().enumerate() {
        let (stored, turn) = (outcome.unwrap(), turn as u64);
        assert_eq!((stored.new, stored.first_seq), (3, Some(seq(turn * 3 + 1))));
        assert_eq!(stored.last_seq, seq(turn * 3 + 3));
    }
    assert_eq!(head(&*store, &room).await.position.seq, seq(12));
}

/// Rule 1; what a room compares with its tail.
pub async fn before_is_the_head_with_its_identity(store: Arc<dyn Store>) {
    let (room, ada, bob) = (room(), author(1), author(2));
    let first = append(&*store, &room, &[batch(ada, 1, 2), batch(bob, 1, 1)]).await;
    assert_eq!(first.before, Position::start(first.epoch));
    let last = record_with(ada, 3, 1_800_000_000_123, &[0x91, 0x04]);
    let batches = [Batch { author: ada, first_n: 3, records: vec![last.clone()] }];
    let second = append(&*store, &room, &batches).await;
    let of_bob = Position { epoch: first.epoch, seq: seq(3), identity: identity(&record(bob, 1)) };
    assert_eq!(second.before, of_bob);
    let of_ada = Position { epoch: first.epoch, seq: seq(4), identity: identity(&last) };
    assert_eq!(head(&*store, &room).await.position, of_ada);
    assert_eq!(read_all(&*store, &room).await.head.position, of_ada);
    let refused = append(&*store, &room, &[batch(bob, 9, 1)]).await;
    assert_eq!(refused.before, of_ada);
}

/// Rule 6.
pub async fn an_epoch_stays_while_nothing_is_lost(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let epoch = append(&*store, &room, &[batch(ada, 1, 1)]).await.epoch;
    assert_ne!(epoch, Epoch::EMPTY, "a log with records has an epoch of its own");
    for n in 2..20 {
        assert_eq!(append(&*store, &room, &[batch(ada, n, 1)]).await.epoch, epoch);
        assert_eq!(head(&*store, &room).await.position.epoch, epoch);
        assert_eq!(read(&*store, &room, n + 5, ALL).await.head.position.epoch, epoch);
    }
    assert_eq!(append(&*store, &room, &[batch(ada, 99, 1)]).await.epoch, epoch, "also when refused");
    assert_eq!(append(&*store, &room, &[batch(ada, 3, 1)]).await.epoch, epoch, "also when it was known");
}

/// Rule 7.
pub async fn records_come_back_byte_for_byte(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let every_byte: Vec<u8> = [0xc5, 0x01, 0x00].into_iter().chain(0..=255).collect();
    let draws: [&[u8]; 9] = [
        &[0x91, 0x04],
        // Integers, a string and an array in longer forms than they need.
        &[0x91, 0xcc, 0x04],
        &[0x91, 0xcf, 0, 0, 0, 0, 0, 0, 0, 4],
        &[0x91, 0xd3, 0, 0, 0, 0, 0, 0, 0, 4],
        &[0xdc, 0, 1, 4],
        &[0xdd, 0, 0, 0, 1, 4],
        // A kind that a later version may have, with text that is not UTF-8 and trailing elements.
        &[0x94, 0xcd, 0x03, 0xe8, 0xdb, 0, 0, 0, 2, 0xff, 0x00, 0xc0, 0x80],
        &[0x92, 5, 0xc4, 0],
        &every_byte,
    ];
    let mut records: Vec<_> =
        (1..).zip(draws).map(|(n, draw)| record_with(ada, n, (1 << 53) - 1, draw)).collect();
    // The record itself in long forms, and with an element that a later version may have put behind.
    let mut long_form = vec![0xdd, 0, 0, 0, 5];
    for value in [1u64, records.len() as u64 + 1, 0] {
        long_form.push(0xcf);
        long_form.extend(value.to_be_bytes());
    }
    long_form.extend([0x91, 0x04, 0xc0]);
    records.push(long_form.into());
    store_one(&*store, &room, Batch { author: ada, first_n: 1, records: records.clone() }).await;
    let chunk = read_all(&*store, &room).await;
    assert_eq!(chunk.records, records);
    assert_eq!(chunk.head.position.identity, Identity { author: ada, n: records.len() as u64, at: 0 });
}

/// Rules 2 and 7.
pub async fn large_records_and_appends_come_back_whole(store: Arc<dyn Store>) {
    const DRAW_BYTES: usize = 64 * 1024;
    const DRAWS: u64 = 512;
    let (room, ada, bob) = (room(), author(1), author(2));
    let mut draw = vec![0x92, 0x05, 0xc6];
    draw.extend(u32::try_from(DRAW_BYTES).unwrap().to_be_bytes());
    draw.extend((0..DRAW_BYTES).map(|at| (at * 31 % 251) as u8));
    let large = Batch { author: ada, first_n: 1, records: vec![record_with(ada, 1, 5, &draw); 16] };
    let many = batch(bob, 1, DRAWS);
    append(&*store, &room, &[many.clone(), large.clone()]).await;
    let log = read_all(&*store, &room).await.records;
    assert!(log == [many.records, large.records].concat(), "all of both batches, in order");
}

/// Rule 1.
pub async fn a_read_starts_at_any_number(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 30)).await;
    let log = batch(ada, 1, 30).records;
    assert_eq!(read(&*store, &room, 0, ALL).await.records, log, "the start is before the first record");
    for from in 1..=30 {
        let chunk = read(&*store, &room, from, ALL).await;
        assert_eq!(chunk.records, log[from as usize - 1..]);
        assert_eq!(chunk.head.position.seq, seq(30));
    }
}

/// [`ReadLimit`].
pub async fn a_read_keeps_its_limits_but_returns_one(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let sizes = [10, 2_000, 10, 10, 70_000, 10, 10, 300, 10];
    let records: Vec<Bytes> = (1..)
        .zip(sizes)
        .map(|(n, size)| {
            let mut draw = vec![0x92, 0x05, 0xc6];
            draw.extend(u32::try_from(size).unwrap().to_be_bytes());
            draw.resize(draw.len() + size, 7);
            record_with(ada, n, 5, &draw)
        })
        .collect();
    store_one(&*store, &room, Batch { author: ada, first_n: 1, records: records.clone() }).await;
    for limit_bytes in [0, 1, 50, 100, 2_100, 70_050, 1_000_000] {
        for limit_records in [1, 2, 3, 9, 1_000] {
            let limit = ReadLimit { records: limit_records, bytes: limit_bytes };
            let mut log = Vec::new();
            while log.len() < records.len() {
                let part = read(&*store, &room, log.len() as u64 + 1, limit).await.records;
                let bytes: usize = part.iter().map(Bytes::len).sum();
                assert!(!part.is_empty(), "{limit:?}: a read moves on");
                assert!(part.len() <= limit_records, "{limit:?}");
                assert!(bytes <= limit_bytes || part.len() == 1, "{limit:?}");
                log.extend(part);
            }
            assert_eq!(log, records);
        }
    }
}

/// [`Chunk`].
pub async fn a_read_beyond_the_head_is_empty(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 3)).await;
    let at_head = head(&*store, &room).await;
    for from in [4, 5, 1_000, (1 << 53) - 1] {
        let chunk = read(&*store, &room, from, ALL).await;
        assert_eq!((chunk.head, chunk.records.len()), (at_head, 0));
    }
}

/// Rule 4.
pub async fn what_is_acknowledged_is_read_at_once(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    for n in 1..=50 {
        let stored = store_one(&*store, &room, batch(ada, n, 1)).await;
        assert_eq!(head(&*store, &room).await.position.seq, stored.last_seq);
        assert_eq!(read(&*store, &room, n, ALL).await.records, [record(ada, n)]);
        assert_eq!(store.last_n(&room, ada).await.unwrap(), n);
    }
}

/// Rules 1 and 4: a head never runs ahead of its records, nor backwards.
pub async fn a_read_is_of_one_moment(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let done = Arc::new(AtomicBool::new(false));
    let reader = tokio::spawn({
        let (store, room, done) = (store.clone(), room.clone(), done.clone());
        async move {
            let mut have = 0;
            loop {
                let last_turn = done.load(Ordering::Acquire);
                let chunk = read(&*store, &room, have + 1, ALL).await;
                have += chunk.records.len() as u64;
                assert_eq!(chunk.head.position.seq, seq(have));
                assert_eq!(have % 3, 0, "a batch is seen whole");
                if let Some(last) = chunk.records.last() {
                    assert_eq!(chunk.head.position.identity, identity(last));
                }
                if last_turn {
                    return have;
                }
            }
        }
    });
    for turn in 0..100 {
        store_one(&*store, &room, batch(ada, turn * 3 + 1, 3)).await;
    }
    done.store(true, Ordering::Release);
    assert_eq!(reader.await.unwrap(), 300);
}

/// [`Store::heads`].
pub async fn heads_come_in_the_order_asked(store: Arc<dyn Store>) {
    let rooms: Vec<_> = (0..12).map(|_| room()).collect();
    for (turn, room) in rooms.iter().enumerate().filter(|(turn, _)| turn % 3 != 0) {
        store_one(&*store, room, batch(author(1), 1, turn as u64)).await;
    }
    let asked: Vec<_> = rooms.iter().rev().chain(&rooms[..5]).cloned().collect();
    let heads = store.heads(&asked).await.unwrap();
    assert_eq!(heads.len(), asked.len());
    for (asked, told) in asked.iter().zip(heads) {
        let turn = rooms.iter().position(|room| room == asked).unwrap();
        let expected = if turn % 3 == 0 { 0 } else { turn as u64 };
        assert_eq!(told.position.seq, seq(expected));
        assert_eq!(told, head(&*store, asked).await);
    }
    assert_eq!(store.heads(&[]).await.unwrap(), []);
}

/// [`Head::bytes`] and [`Appended::bytes`].
pub async fn bytes_are_the_sum_of_the_records(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let size = |first_n, records| -> u64 {
        batch(ada, first_n, records).records.iter().map(|record| record.len() as u64).sum()
    };
    assert_eq!(append(&*store, &room, &[batch(ada, 1, 3)]).await.bytes, size(1, 3));
    // Neither a retry nor what overlaps nor what is refused counts.
    let batches = [batch(ada, 1, 3), batch(ada, 2, 5), batch(ada, 100, 9)];
    assert_eq!(append(&*store, &room, &batches).await.bytes, size(1, 6));
    assert_eq!(head(&*store, &room).await.bytes, size(1, 6));
    assert_eq!(read(&*store, &room, 6, ALL).await.head.bytes, size(1, 6));
}

/// Rules 1 and 3.
pub async fn rooms_are_independent(store: Arc<dyn Store>) {
    let (ada, base) = (author(1), format!("R{:016x}", random::u64()));
    let names = [
        base.clone(),
        base.to_lowercase(),
        format!("{base}-"),
        format!("{base}.log"),
        format!("{base}..x"),
        format!("{base:_<64}"),
        format!("{base:_<63}"),
    ];
    let rooms = names.map(|name| named(&name));
    for (turn, room) in rooms.iter().enumerate() {
        let records = turn as u64 + 1;
        let told = store_one(&*store, room, batch(ada, 1, records)).await;
        assert_eq!(told, stored(records as usize, Some(1), records, records).unwrap());
    }
    for (turn, room) in rooms.iter().enumerate() {
        assert_eq!(read_all(&*store, room).await.records, batch(ada, 1, turn as u64 + 1).records, "{room}");
        assert_eq!(store.last_n(room, ada).await.unwrap(), turn as u64 + 1);
    }
}

/// Rules 8 and 12.
pub async fn rules_are_kept_apart_from_the_log(store: Arc<dyn Store>) {
    let (ruled, drawn) = (room(), room());
    for _ in 0..2 {
        assert_eq!(store.rules(&ruled).await.unwrap(), Rules::default());
    }
    let rules = ruled_by(&[RuleChange::Lock(true), RuleChange::Kick(author(3))]);
    assert!(store.set_rules(&ruled, &Rules::default(), &rules).await.unwrap());
    assert_eq!(store.rules(&ruled).await.unwrap(), rules);
    assert_eq!(head(&*store, &ruled).await, Head::EMPTY, "a room that is ruled is not drawn in");
    store_one(&*store, &ruled, batch(author(1), 1, 2)).await;
    assert_eq!(store.rules(&ruled).await.unwrap(), rules);
    store_one(&*store, &drawn, batch(author(1), 1, 1)).await;
    assert_eq!(store.rules(&drawn).await.unwrap(), Rules::default(), "each room has its own");
    let epoch = head(&*store, &ruled).await.position.epoch;
    assert!(store.set_rules(&ruled, &rules, &Rules::default()).await.unwrap());
    assert_eq!(store.rules(&ruled).await.unwrap(), Rules::default());
    let after = head(&*store, &ruled).await.position;
    assert_eq!((after.epoch, after.seq), (epoch, seq(2)), "rules are no part of the log");
}

/// Rule 12.
pub async fn rules_are_set_only_where_they_are_as_expected(store: Arc<dyn Store>) {
    let room = room();
    let set = async |expected: &Rules, rules: &Rules| store.set_rules(&room, expected, rules).await.unwrap();
    let (none, locked) = (Rules::default(), ruled_by(&[RuleChange::Lock(true)]));
    let subjects =
        ["ann", "", "\u{1f58a}", &"x".repeat(256)].map(|name| RuleChange::Subject(name.into(), Ban::Banned));
    let clients = (1..=1000).map(|id| RuleChange::Client(author(id), Ban::Banned));
    let largest = ruled_by(&subjects.into_iter().chain(clients).collect::<Vec<_>>());
    assert!(!set(&locked, &largest).await, "it is not locked");
    assert_eq!(store.rules(&room).await.unwrap(), none);
    assert!(set(&none, &locked).await);
    assert!(!set(&none, &largest).await);
    assert!(set(&locked, &locked).await);
    assert!(set(&locked, &largest).await);
    assert_eq!(store.rules(&room).await.unwrap(), largest);
    assert!(set(&largest, &none).await);
    assert!(set(&none, &none).await);
    assert!(!set(&largest, &locked).await);
}

/// Rule 12: each tries until its ban is among the rules, as rooms do.
pub async fn of_many_who_change_rules_at_once_nobody_is_lost(store: Arc<dyn Store>) {
    const WHO: u64 = 8;
    let room = room();
    let changers: Vec<_> = (1..=WHO)
        .map(|who| {
            let (store, room) = (store.clone(), room.clone());
            tokio::spawn(async move {
                for turn in 0..5 {
                    let ban = RuleChange::Client(author(100 * who + turn), Ban::Banned);
                    loop {
                        let expected = store.rules(&room).await.unwrap();
                        let mut rules = expected.clone();
                        rules.change(&ban).unwrap();
                        if store.set_rules(&room, &expected, &rules).await.unwrap() {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    for changer in changers {
        changer.await.unwrap();
    }
    let expected = (1..=WHO).flat_map(|who| (0..5).map(move |turn| author(100 * who + turn))).collect();
    assert_eq!(store.rules(&room).await.unwrap().banned_clients, expected);
}

fn ruled_by(changes: &[RuleChange]) -> Rules {
    let mut rules = Rules::default();
    changes.iter().for_each(|change| rules.change(change).unwrap());
    rules
}

/// [`Store::secret`].
pub async fn the_secret_stays_the_same(store: Arc<dyn Store>) {
    let askers: Vec<_> = (0..8)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.secret().await.unwrap() })
        })
        .collect();
    let secret = store.secret().await.unwrap();
    assert_ne!(secret, [0; 32]);
    for asker in askers {
        assert_eq!(asker.await.unwrap(), secret);
    }
}

/// [`Store::check`] and [`Store::describe`].
pub async fn a_working_store_says_so(store: Arc<dyn Store>) {
    store.check().await.unwrap();
    let sentence = store.describe();
    assert!(!sentence.is_empty() && !sentence.ends_with('.'), "{sentence}");
}

/// All rules: random calls, held against the simplest thing that could be right.
pub async fn any_sequence_of_calls_agrees_with_the_model(store: Arc<dyn Store>) {
    let seed =
        std::env::var("INKRELAY_TEST_SEED").ok().map_or_else(random::u64, |seed| seed.parse().unwrap());
    println!("run again with INKRELAY_TEST_SEED={seed}");
    let mut dice = Dice(seed);
    let rooms: Vec<_> = (0..3).map(|_| room()).collect();
    let mut models: Vec<_> = rooms.iter().map(|_| Model::default()).collect();
    for _ in 0..400 {
        let which = dice.below(rooms.len() as u64) as usize;
        let (room, model) = (&rooms[which], &mut models[which]);
        match dice.below(4) {
            0 => {
                let from = dice.below(model.log.len() as u64 + 3);
                let chunk = read(&*store, room, from, ALL).await;
                let start = (from.max(1) as usize - 1).min(model.log.len());
                assert_eq!(chunk.records, model.log[start..]);
                model.assert_head(chunk.head);
            }
            _ => {
                let batches: Vec<_> = (0..1 + dice.below(4)).map(|_| model.some_batch(&mut dice)).collect();
                let before = model.head();
                let appended = append(&*store, room, &batches).await;
                let expected: Vec<_> = batches.iter().map(|batch| model.append(batch)).collect();
                assert_eq!(appended.outcomes, expected, "{batches:?}");
                assert_eq!((appended.before.seq, appended.before.identity), before);
                assert_eq!(appended.bytes, model.bytes());
            }
        }
        let id = author(1 + dice.below(3));
        assert_eq!(store.last_n(room, id).await.unwrap(), model.last_n(id));
        model.assert_head(head(&*store, room).await);
    }
    for (room, model) in rooms.iter().zip(&models) {
        assert_eq!(read_all(&*store, room).await.records, model.log);
    }
}
