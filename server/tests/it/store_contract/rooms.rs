//! Rooms as a whole: listing and deleting them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use inkrelay_protocol::{Epoch, Position, RoomId, Seq};
use inkrelay_server::random;
use inkrelay_server::store::rules::RuleChange;
use inkrelay_server::store::{Batch, Head, LatestBatch, Restore, RoomSummary, Rules, Store};

use super::{
    ALL, append, author, batch, gap, head, identity, named, read, read_all, record_with, room, seq,
    store_one, stored,
};

/// All rooms whose names begin so, by pages of that size.
async fn walk(store: &dyn Store, prefix: &str, limit: usize) -> Vec<RoomSummary> {
    let (mut found, mut after) = (Vec::new(), named(prefix));
    loop {
        let page = store.rooms(Some(&after), limit).await.unwrap();
        assert!(page.len() <= limit);
        let Some(last) = page.last() else { return found };
        after = last.room.clone();
        let before = found.len();
        found.extend(page.into_iter().filter(|one| one.room.as_str().starts_with(prefix)));
        if found.len() == before {
            return found;
        }
    }
}

async fn summary(store: &dyn Store, room: &RoomId) -> RoomSummary {
    let Head { position, bytes } = head(store, room).await;
    RoomSummary { room: room.clone(), position, bytes, last_at: position.identity.at }
}

async fn is_listed(store: &dyn Store, room: &RoomId) -> bool {
    !walk(store, room.as_str().strip_suffix(|_: char| true).unwrap(), 100).await.is_empty()
}

/// Rule 9.
pub async fn rooms_are_listed_page_by_page_in_the_order_of_their_names(store: Arc<dyn Store>) {
    let prefix = format!("list-{:016x}", random::u64());
    let mut rooms: Vec<_> = ["-z", "", ".", "0", "00", "A", "Z", "_", "a", "a.log", "b", "ba"]
        .map(|end| named(&format!("{prefix}x{end}")))
        .into();
    assert_eq!(walk(&*store, &prefix, 5).await, []);
    for (turn, room) in rooms.iter().enumerate() {
        store_one(&*store, room, batch(author(1), 1, turn as u64 % 3 + 1)).await;
    }
    // Asked for, and refused in: no rooms.
    head(&*store, &named(&format!("{prefix}xc"))).await;
    append(&*store, &named(&format!("{prefix}xd")), &[batch(author(1), 2, 1)]).await;
    rooms.sort_by(|one, other| one.as_str().as_bytes().cmp(other.as_str().as_bytes()));
    let mut expected = Vec::new();
    for room in &rooms {
        expected.push(summary(&*store, room).await);
    }
    for limit in [1, 5, 11, 12, 100] {
        assert_eq!(walk(&*store, &prefix, limit).await, expected, "{limit} in a page");
    }
    let first = store.rooms(None, 1).await.unwrap();
    assert!(first.len() == 1 && first[0].room <= rooms[0], "without a name it begins with the first");
    assert_eq!(store.rooms(Some(&rooms[0]), 0).await.unwrap().len(), 1, "a page moves on");
    // What was drawn and deleted meanwhile is told by the next walk.
    store_one(&*store, &rooms[3], batch(author(2), 1, 4)).await;
    store.delete(&rooms[5]).await.unwrap();
    expected[3] = summary(&*store, &rooms[3]).await;
    expected.remove(5);
    assert_eq!(walk(&*store, &prefix, 4).await, expected);
}

/// Rules 6, 9 and 10.
pub async fn a_deleted_room_is_as_one_that_nobody_drew_in(store: Arc<dyn Store>) {
    let (room, other, ada) = (room(), room(), author(1));
    assert!(!store.delete(&room).await.unwrap(), "there is nothing to delete");
    store_one(&*store, &other, batch(ada, 1, 2)).await;
    let mut epochs = HashSet::new();
    for turn in 1..=5 {
        let appended = append(&*store, &room, &[batch(ada, 1, turn), batch(author(2), 1, 1)]).await;
        assert_eq!(appended.before, Position::start(appended.epoch));
        assert_eq!(appended.outcomes[0], stored(turn as usize, Some(1), turn, turn));
        assert!(epochs.insert(appended.epoch), "an epoch came back");
        assert!(is_listed(&*store, &room).await);

        assert!(store.delete(&room).await.unwrap());
        assert!(!store.delete(&room).await.unwrap(), "it is gone");
        assert_eq!(head(&*store, &room).await, Head::EMPTY);
        assert_eq!(store.heads(std::slice::from_ref(&room)).await.unwrap(), [Head::EMPTY]);
        assert_eq!(read_all(&*store, &room).await.records.len(), 0);
        assert_eq!(store.last_n(&room, ada).await.unwrap(), 0);
        assert!(!is_listed(&*store, &room).await);
    }
    assert_eq!(read_all(&*store, &other).await.records, batch(ada, 1, 2).records);
}

/// Rules 10 and 12.
pub async fn rules_go_with_their_room(store: Arc<dyn Store>) {
    let (ruled, drawn) = (room(), room());
    let mut locked = Rules::default();
    locked.change(&RuleChange::Lock(true)).unwrap();
    for room in [&ruled, &drawn] {
        assert!(store.set_rules(room, &Rules::default(), &locked).await.unwrap());
    }
    store_one(&*store, &drawn, batch(author(1), 1, 1)).await;
    for room in [&ruled, &drawn] {
        assert!(store.delete(room).await.unwrap());
        assert_eq!(store.rules(room).await.unwrap(), Rules::default());
        assert!(!store.delete(room).await.unwrap());
    }
    store_one(&*store, &drawn, batch(author(1), 1, 1)).await;
    assert!(store.set_rules(&drawn, &Rules::default(), &locked).await.unwrap());
    assert!(!store.delete_idle(&drawn, 1000).await.unwrap());
    assert_eq!(store.rules(&drawn).await.unwrap(), locked);
    assert!(store.delete_idle(&drawn, u64::MAX >> 11).await.unwrap());
    assert_eq!(store.rules(&drawn).await.unwrap(), Rules::default());
}

/// Rules 9, 10 and 12.
pub async fn a_room_that_is_only_ruled_is_listed_and_goes_as_any(store: Arc<dyn Store>) {
    let prefix = format!("ruled-{:016x}", random::u64());
    let rooms: Vec<_> = ["a", "b", "c", "d"].map(|end| named(&format!("{prefix}x{end}"))).into();
    let (none, mut locked) = (Rules::default(), Rules::default());
    locked.change(&RuleChange::Lock(true)).unwrap();
    let mut dated = locked.clone();
    dated.date(7000);
    // One is drawn in, too, one does not say when it was ruled.
    for (room, rules) in rooms.iter().zip([&dated, &dated, &locked, &none]) {
        assert!(store.set_rules(room, &none, rules).await.unwrap());
    }
    store_one(&*store, &rooms[1], batch(author(1), 1, 2)).await;
    store_one(&*store, &rooms[3], batch(author(1), 1, 1)).await;
    let ruled = |room: &RoomId, last_at| {
        let Head { position, bytes } = Head::EMPTY;
        RoomSummary { room: room.clone(), position, bytes, last_at }
    };
    let expected = [
        ruled(&rooms[0], 7000),
        summary(&*store, &rooms[1]).await,
        ruled(&rooms[2], 0),
        summary(&*store, &rooms[3]).await,
    ];
    for limit in [1, 2, 100] {
        assert_eq!(walk(&*store, &prefix, limit).await, expected, "{limit} in a page");
    }

    for before in [0, 7000] {
        assert!(!store.delete_idle(&rooms[0], before).await.unwrap(), "before {before}");
    }
    assert_eq!(store.rules(&rooms[0]).await.unwrap(), dated);
    assert!(store.delete_idle(&rooms[0], 7001).await.unwrap());
    assert!(!store.delete_idle(&rooms[0], 7001).await.unwrap(), "it is gone");
    assert_eq!(store.rules(&rooms[0]).await.unwrap(), none);
    assert!(!store.delete_idle(&rooms[2], u64::MAX >> 11).await.unwrap(), "it does not say when");
    assert!(store.delete(&rooms[2]).await.unwrap());
    assert_eq!(walk(&*store, &prefix, 100).await, [expected[1].clone(), expected[3].clone()]);
}

/// Rules 3 and 10.
pub async fn after_a_deletion_a_retry_is_a_gap(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    store_one(&*store, &room, batch(ada, 1, 3)).await;
    store_one(&*store, &room, batch(ada, 4, 2)).await;
    store.delete(&room).await.unwrap();
    for retry in [batch(ada, 4, 2), batch(ada, 2, 2), batch(ada, 6, 1)] {
        let appended = append(&*store, &room, &[retry]).await;
        assert_eq!(appended.outcomes, [gap(1)]);
        assert_eq!(appended.before, Position::start(Epoch::EMPTY));
    }
    assert_eq!(head(&*store, &room).await, Head::EMPTY);
    // Also where others have begun another log.
    store_one(&*store, &room, batch(author(2), 1, 9)).await;
    assert_eq!(append(&*store, &room, &[batch(ada, 4, 2)]).await.outcomes, [gap(1)]);
    assert_eq!(store_one(&*store, &room, batch(ada, 1, 1)).await, stored(1, Some(10), 1, 10).unwrap());
}

/// Rules 1, 4, 6 and 10: while some draw and read, the room is deleted again and again.
pub async fn a_deletion_is_one_step_against_appends(store: Arc<dyn Store>) {
    const AUTHORS: u64 = 4;
    let (room, done) = (room(), Arc::new(AtomicBool::new(false)));
    let reader = tokio::spawn({
        let (store, room, done) = (store.clone(), room.clone(), done.clone());
        async move {
            while !done.load(Ordering::Acquire) {
                let chunk = read(&*store, &room, 1, ALL).await;
                assert_eq!(chunk.head.position.seq, seq(chunk.records.len() as u64));
            }
        }
    });
    let drawers: Vec<_> = (1..=AUTHORS)
        .map(|id| {
            let (store, room, done) = (store.clone(), room.clone(), done.clone());
            tokio::spawn(async move {
                let (mut next, mut told) = (1, Vec::new());
                loop {
                    let last_turn = done.load(Ordering::Acquire);
                    let appended = append(&*store, &room, &[batch(author(id), next, 2)]).await;
                    match appended.outcomes[0] {
                        Ok(stored) => {
                            next = stored.last_n + 1;
                            told.push((
                                appended.epoch,
                                stored.first_seq.unwrap(),
                                batch(author(id), next - 2, 2),
                            ));
                            if last_turn {
                                return told;
                            }
                        }
                        Err(gap) => {
                            assert_eq!(gap.expected, 1, "the numbers begin anew");
                            next = 1;
                        }
                    }
                }
            })
        })
        .collect();
    let mut epochs = HashSet::new();
    for turn in 0..30 {
        // Somebody new each time, so that there is always something to delete.
        let appended = append(&*store, &room, &[batch(author(100 + turn), 1, 1)]).await;
        assert!(epochs.insert(appended.epoch), "an epoch came back after a deletion");
        assert!(store.delete(&room).await.unwrap());
    }
    done.store(true, Ordering::Release);
    reader.await.unwrap();
    let mut told: HashMap<Epoch, Vec<(Seq, Batch)>> = HashMap::new();
    for drawer in drawers {
        for (epoch, at, batch) in drawer.await.unwrap() {
            told.entry(epoch).or_default().push((at, batch));
        }
    }
    let chunk = read_all(&*store, &room).await;
    let last = told.remove(&chunk.head.position.epoch).unwrap_or_default();
    assert!(last.len() >= AUTHORS as usize, "everyone drew after the last deletion");
    let records: usize = last.iter().map(|(_, batch)| batch.records.len()).sum();
    assert_eq!(
        chunk.records.len(),
        records,
        "nothing of an earlier log, and all that was acknowledged since"
    );
    for (at, batch) in last {
        let at = at.get() as usize - 1;
        assert_eq!(chunk.records[at..at + 2], batch.records);
    }
}

/// [`Store::delete_idle`].
pub async fn only_what_is_idle_is_deleted_for_it(store: Arc<dyn Store>) {
    let (room, ada) = (room(), author(1));
    let drawn = |n, at| Batch { author: ada, first_n: n, records: vec![record_with(ada, n, at, &[0x91, 4])] };
    assert!(!store.delete_idle(&room, u64::MAX >> 11).await.unwrap(), "there is nothing");
    store_one(&*store, &room, drawn(1, 5000)).await;
    store_one(&*store, &room, drawn(2, 7000)).await;
    for before in [0, 5001, 7000] {
        assert!(!store.delete_idle(&room, before).await.unwrap(), "before {before}");
    }
    let last: Bytes = read_all(&*store, &room).await.records.pop().unwrap();
    assert_eq!(identity(&last).at, 7000);
    assert!(store.delete_idle(&room, 7001).await.unwrap());
    assert_eq!(head(&*store, &room).await, Head::EMPTY);
    // What does not say when is not known to be old.
    store_one(&*store, &room, drawn(1, 0)).await;
    assert!(!store.delete_idle(&room, u64::MAX >> 11).await.unwrap());
    assert_eq!(head(&*store, &room).await.position.seq, seq(1));
}

/// Ada's five draws and Bob's two, as somebody else's store had them; Ada's last three were a batch.
async fn restoring(store: &dyn Store, room: &RoomId) -> (Box<dyn Restore>, Vec<Bytes>) {
    let (ada, bob) = (author(1), author(2));
    let log = [batch(ada, 1, 2), batch(bob, 1, 2), batch(ada, 3, 3)].map(|batch| batch.records).concat();
    let mut restoring = store.restore(room).await.unwrap();
    restoring.records(log[..3].to_vec()).await.unwrap();
    restoring.records(log[3..].to_vec()).await.unwrap();
    let latest = |first_n, last_n, last_seq| LatestBatch { first_n, last_n, last_seq: seq(last_seq) };
    restoring.authors(vec![(ada, latest(3, 5, 7))]).await.unwrap();
    restoring.authors(vec![(bob, latest(1, 2, 4))]).await.unwrap();
    (restoring, log)
}

/// Rules 7 and 11.
pub async fn a_log_is_restored_in_one_step(store: Arc<dyn Store>) {
    let room = room();
    let (first, log) = restoring(&*store, &room).await;
    assert_eq!(head(&*store, &room).await, Head::EMPTY, "nobody sees it yet");
    assert!(!is_listed(&*store, &room).await);
    let (second, _) = restoring(&*store, &room).await;
    assert!(first.finish(false).await.unwrap());
    let chunk = read_all(&*store, &room).await;
    assert_eq!(chunk.records, log);
    let bytes = log.iter().map(|record| record.len() as u64).sum::<u64>();
    assert_eq!((chunk.head.bytes, chunk.head.position.seq), (bytes, seq(7)));
    assert_eq!(chunk.head.position.identity, identity(&log[6]));
    assert!(is_listed(&*store, &room).await);

    // What is there stays, unless it is to be replaced.
    store_one(&*store, &room, batch(author(3), 1, 1)).await;
    assert!(!second.finish(false).await.unwrap());
    assert_eq!(head(&*store, &room).await.position.seq, seq(8));
    let (third, _) = restoring(&*store, &room).await;
    let (given_up, _) = restoring(&*store, &room).await;
    assert!(third.finish(true).await.unwrap());
    drop(given_up);
    let replaced = read_all(&*store, &room).await;
    assert_eq!(replaced.records, log);
    assert_ne!(replaced.head.position.epoch, chunk.head.position.epoch);
    assert_eq!(store.last_n(&room, author(3)).await.unwrap(), 0);

    let nothing = store.restore(&room).await.unwrap();
    nothing.finish(true).await.expect_err("a room has records");
    assert_eq!(head(&*store, &room).await, replaced.head);
}

/// Rules 1, 3, 10 and 11.
pub async fn a_restored_log_goes_on(store: Arc<dyn Store>) {
    let (room, ada, bob) = (room(), author(1), author(2));
    // In place of one that has not been there for long.
    store_one(&*store, &room, batch(ada, 1, 9)).await;
    let (log, records) = restoring(&*store, &room).await;
    assert!(log.finish(true).await.unwrap());
    assert_eq!(store.last_n(&room, ada).await.unwrap(), 5);
    let batches =
        [batch(ada, 4, 2), batch(ada, 7, 1), batch(ada, 5, 2), batch(bob, 1, 2), batch(author(3), 1, 1)];
    let appended = append(&*store, &room, &batches).await;
    let expected = [
        stored(0, Some(6), 5, 7),
        gap(6),
        stored(1, Some(7), 6, 8),
        stored(0, Some(3), 2, 4),
        stored(1, Some(9), 1, 9),
    ];
    assert_eq!(appended.outcomes, expected);
    assert_eq!(appended.before.identity, identity(&records[6]));
    let epoch = appended.epoch;
    assert_eq!(head(&*store, &room).await.position.epoch, epoch, "nothing was lost");
    let all = read_all(&*store, &room).await;
    assert_eq!(all.records[..7], records);
    assert_eq!((all.records.len(), all.head.position.seq), (9, seq(9)));
    assert!(store.delete(&room).await.unwrap());
    assert_eq!(head(&*store, &room).await, Head::EMPTY);
}
