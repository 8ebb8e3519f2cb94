//! Batches that go together in one append, by whoever came first.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use inkrelay_protocol::{ClientId, Identity, Record, Role, Seq};
use inkrelay_server::room::{Answer, Node, NotStored, Room, RoomLimits};
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
    room.append(batch, Role::Drawer, Box::new(|answer| sender.send(answer).expect("the test waits")));
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
