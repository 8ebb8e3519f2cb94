//! Batches that go together in one append, by whoever came first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use inkrelay_protocol::{ClientId, Identity, Record, Role, Seq};
use inkrelay_server::room::{Answer, Node, NotStored, Reply, Room, RoomLimits};
use inkrelay_server::store::Batch;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::support::relay::Relay;
use crate::support::requests::{JSON, answer, try_answer};
use crate::support::slow_store::SlowStore;
use crate::support::socket::{Socket, mark};
use crate::support::{PATIENCE, eventually};

async fn room_on(store: Arc<SlowStore>) -> Arc<Room> {
    let limits = RoomLimits {
        tail_bytes: 1 << 16,
        room_bytes: 0,
        sessions: 0,
        flush_time: Duration::ZERO,
        idle_time: Duration::from_secs(40),
    };
    let node = Node::new(store, limits);
    let room = Arc::new(Room::new("a".parse().unwrap(), Arc::new(node)));
    room.load().await.unwrap();
    room
}

fn batch(author: u64, n: u64) -> Batch {
    let author = ClientId::new(author).unwrap();
    let mut record = Vec::new();
    Record { identity: Identity { author, n, at: 1 }, draw: &[0x91, 4] }.encode(&mut record);
    Batch { author, first_n: n, records: vec![Bytes::from(record)] }
}

/// Gives a batch to the room now, and returns where its answer comes.
fn give(room: &Arc<Room>, batch: Batch) -> oneshot::Receiver<Answer> {
    let (sender, answer) = oneshot::channel();
    room.append(batch, Role::Drawer, Reply::new(|answer| sender.send(answer).expect("the test waits")));
    answer
}

#[tokio::test]
async fn whoever_waits_does_the_work_for_all() {
    let store = SlowStore::new();
    let room = room_on(store.clone()).await;
    store.hold_appends(true);
    let first = tokio::spawn({
        let room = Arc::clone(&room);
        async move { room.append_and_wait(batch(1, 1), Role::Drawer).await }
    });
    store.has_appends(1).await;
    // Both wait behind it, and go together.
    let others = [give(&room, batch(2, 1)), give(&room, batch(3, 5))];
    store.hold_appends(false);
    let (stored, head) = first.await.unwrap().unwrap();
    assert_eq!((stored.last_seq, head.seq), (Seq::new(1).unwrap(), Seq::new(1).unwrap()));
    let [second, gap] = others;
    let (stored, head) = second.await.unwrap().unwrap();
    assert_eq!((stored.last_seq, head.seq), (Seq::new(2).unwrap(), Seq::new(2).unwrap()));
    assert!(matches!(gap.await.unwrap(), Err(NotStored::Gap(gap)) if gap.expected == 1));
    store.has_appends(2).await;
    eventually("nothing is in flight any more", async || room.idle_since().is_some()).await;
}

#[tokio::test]
async fn the_work_goes_on_when_whoever_did_it_goes() {
    let store = SlowStore::new();
    let room = room_on(store.clone()).await;
    store.hold_appends(true);
    let first = tokio::spawn({
        let room = Arc::clone(&room);
        async move { room.append_and_wait(batch(1, 1), Role::Drawer).await }
    });
    store.has_appends(1).await;
    let second = give(&room, batch(2, 1));
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    store.hold_appends(false);
    let (stored, head) = timeout(PATIENCE, second).await.expect("an answer comes").unwrap().unwrap();
    assert_eq!((stored.last_seq, head.seq), (Seq::new(2).unwrap(), Seq::new(2).unwrap()));
    eventually("nothing is in flight any more", async || room.idle_since().is_some()).await;
}

/// A post whose client goes is stored all the same, and those who wait behind it are answered.
#[tokio::test]
async fn a_client_that_goes_leaves_nobody_waiting() {
    let store = SlowStore::new();
    let relay = Relay::start_on(store.clone(), |_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    store.hold_appends(true);
    let post = || relay.request(Method::POST, "/v1/rooms/a/draws").header("content-type", JSON).body("[[4]]");
    let gone = tokio::spawn(try_answer(post()));
    store.has_appends(1).await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    let other = tokio::spawn(answer(post()));
    drawer.draw(1, &[mark(1)]).await;
    store.hold_appends(false);
    drawer.acked(1).await;
    assert_eq!(other.await.unwrap().status, 200);
    assert_eq!(Socket::join(relay.address, "a").await.records(1, 3).await.len(), 3);
}

/// Whoever does the work, what is in flight and what waits behind it: nobody knows what became of these, and the room goes on.
#[tokio::test]
async fn a_store_that_panics_leaves_nobody_waiting() {
    let store = SlowStore::new();
    let room = room_on(store.clone()).await;
    for (turn, is_waited_for) in [true, false].into_iter().enumerate() {
        store.panic_in_append();
        store.hold_appends(true);
        let n = turn as u64 + 1;
        let first = if is_waited_for {
            let room = Arc::clone(&room);
            tokio::spawn(async move { room.append_and_wait(batch(1, n), Role::Drawer).await })
        } else {
            let answer = give(&room, batch(1, n));
            tokio::spawn(async move { answer.await.unwrap() })
        };
        store.has_appends(turn * 4 + 1).await;
        let others = [give(&room, batch(2, n)), give(&room, batch(3, n))];
        store.hold_appends(false);
        let unknown = |answer: Answer| matches!(answer, Err(NotStored::Unknown));
        assert!(unknown(timeout(PATIENCE, first).await.expect("an answer comes").unwrap()));
        for other in others {
            assert!(unknown(timeout(PATIENCE, other).await.expect("an answer comes").unwrap()));
        }
        assert!(room.idle_since().is_some(), "nobody is at work any more");
        // The same again, as clients do.
        for author in 1..=2 {
            let (stored, _) =
                timeout(PATIENCE, give(&room, batch(author, n))).await.unwrap().unwrap().unwrap();
            assert_eq!(stored.new, 1);
        }
        give(&room, batch(3, n)).await.unwrap().unwrap();
    }
}

/// Over HTTP and a WebSocket alike.
#[tokio::test]
async fn a_store_that_panics_is_told_as_one_that_gives_no_answer() {
    let store = SlowStore::new();
    let relay = Relay::start_on(store.clone(), |_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    store.panic_in_append();
    let post = || relay.request(Method::POST, "/v1/rooms/a/draws").header("content-type", JSON).body("[[4]]");
    assert_eq!(answer(post()).await.problem(), (503, "store_unavailable".to_owned()));
    store.panic_in_append();
    drawer.draw(1, &[mark(1)]).await;
    assert_eq!(drawer.refused().await.0, "store_unavailable");
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    assert_eq!(answer(post()).await.status, 200);
}
