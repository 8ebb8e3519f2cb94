//! Coming just when the room is dropped from memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::{After, ClientId, Identity, Record, Role, RoomId};
use inkrelay_server::hub::{Hub, HubLimits};
use inkrelay_server::room::feed::{Fed, Feed};
use inkrelay_server::room::{Node, Reply, Room, RoomLimits};
use inkrelay_server::store::{Batch, MemoryStore, ReadLimit};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::support::PATIENCE;
use crate::support::ledger::{Ledger, draw};
use crate::support::reader::{Reader, fresh_log};
use crate::support::relay::Relay;
use crate::support::writer::Writer;

const READ: ReadLimit = ReadLimit { records: 100, bytes: 1 << 20 };

fn batch(author: ClientId, n: u64) -> Batch {
    let mut record = Vec::new();
    Record { identity: Identity { author, n, at: n }, draw: &draw(n).to_bytes() }.encode(&mut record);
    Batch { author, first_n: n, records: vec![Bytes::from(record)] }
}

/// Reads on until it has that many, woken by the room alone.
async fn read_until(room: &Arc<Room>, feed: &mut Feed, has: &mut usize, wanted: usize) {
    let mut changes = room.changes();
    while *has < wanted {
        changes.borrow_and_update();
        match feed.next(room, READ).await.unwrap() {
            Fed::Records { records, first, .. } => {
                assert_eq!(first.get(), *has as u64 + 1, "the next one");
                *has += records.len();
            }
            Fed::UpToDate => {
                let changed = tokio::time::timeout(PATIENCE, changes.changed()).await;
                changed.expect("a change wakes the reader").expect("the room lives");
            }
            Fed::Reset { .. } => panic!("it is the same log"),
        }
    }
}

/// Somebody comes while the room that the last one left is being dropped: the draws go to a room that nobody
/// reads, or the reader waits in one that nobody draws in. A thousand times and more, with a sweep that never rests.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_is_dropped_while_somebody_comes_loses_nothing() {
    const LOOPS: usize = 1000;
    const DROPS: usize = 100;
    let idle_time = Duration::from_secs(40);
    let limits =
        RoomLimits { tail_bytes: 1 << 16, room_bytes: 0, sessions: 0, flush_time: Duration::ZERO, idle_time };
    let node = Node::new(Arc::new(MemoryStore::new()), limits);
    let hub = Hub::new(Arc::new(node), HubLimits { rooms: 0, room_idle: Duration::ZERO, tail_bytes: 0 });
    let (is_over, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let sweeping = tokio::task::spawn_blocking({
        let (hub, is_over, dropped) = (Arc::clone(&hub), Arc::clone(&is_over), Arc::clone(&dropped));
        move || {
            while !is_over.load(Ordering::Acquire) {
                let before = hub.live_rooms();
                hub.sweep(Instant::now());
                dropped.fetch_add(usize::from(before > hub.live_rooms()), Ordering::AcqRel);
            }
        }
    });
    let until = Instant::now() + PATIENCE;
    let mut done = 0;
    let (id, author): (RoomId, _) = ("a".parse().unwrap(), ClientId::new(7).unwrap());
    // On a busy machine the sweep comes late: as often as it takes for the room to be dropped many times.
    while done < LOOPS || dropped.load(Ordering::Acquire) < DROPS {
        assert!(Instant::now() < until, "dropped {dropped:?} times in {done} loops");
        let first = 3 * done as u64 + 1;
        // The reader and the author come at the same time, each on its own.
        let reads = async {
            let room = hub.enter(&id).await.ok().unwrap().read().unwrap();
            let mut feed = Feed::open(&room, After::Start).await.unwrap();
            let mut has = 0;
            read_until(&room, &mut feed, &mut has, 3 * done + 3).await;
        };
        let draws = async {
            for n in first..first + 3 {
                let room = hub.enter(&id).await.ok().unwrap();
                let (sender, answer) = oneshot::channel();
                let reply = Reply::new(|answer| sender.send(answer).unwrap());
                room.append(batch(author, n), Role::Drawer, reply);
                // As a client that goes before it is answered.
                drop(room);
                let (stored, head) = answer.await.unwrap().unwrap();
                assert_eq!((stored.new, head.seq.get()), (1, n));
            }
        };
        tokio::time::timeout(PATIENCE, async { tokio::join!(reads, draws) })
            .await
            .expect("nobody waits in vain");
        if done % 8 == 0 {
            // Now and then everybody is gone for long enough.
            tokio::task::yield_now().await;
            sleep(Duration::from_micros(100)).await;
        }
        done += 1;
    }
    is_over.store(true, Ordering::Release);
    sweeping.await.unwrap();
}

/// The same through sockets: in many rooms the last one leaves, and comes back around the time at which the room is
/// dropped. Others draw, and somebody who was told nothing looks at the end.
#[tokio::test(flavor = "multi_thread")]
async fn coming_back_around_the_time_of_the_drop_loses_nothing() {
    const ROOMS: u64 = 40;
    const LOOPS: u64 = 6;
    let relay = Relay::start(|config| config.times.room_idle = Duration::from_millis(5)).await;
    let address = relay.address;
    let one = |room: u64| async move {
        let (name, ledger) = (format!("room-{room}"), Arc::new(Ledger::default()));
        let mut reader = Reader::join("back", address, &name).await;
        let mut writer = Writer::new(&[address], &name, &ledger);
        for done in 0..LOOPS {
            reader.leave().await;
            writer.disconnect();
            // Rooms are looked through twice a second: over all rooms and loops, these come at all times between.
            sleep(Duration::from_millis(430 + (room * 37 + done * 61) % 200)).await;
            reader.come_back().await;
            writer.draw(3).await;
            reader.has(usize::try_from(3 * (done + 1)).unwrap()).await;
        }
        ledger.assert_agrees(&[&reader.log, &fresh_log("fresh", address, &name).await]);
        reader.log.resets()
    };
    let all: Vec<_> = (0..ROOMS).map(|room| tokio::spawn(one(room))).collect();
    for room in all {
        assert_eq!(room.await.unwrap(), 0);
    }
}
