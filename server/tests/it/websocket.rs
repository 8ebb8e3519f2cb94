//! The WebSocket: sessions, draws, acks, resume, presence.

use std::time::Duration;

use futures_util::SinkExt;
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientFrame, Draw, ServerFrame};
use tokio_tungstenite::tungstenite::Message;

use crate::support::relay::Relay;
use crate::support::socket::{Socket, mark, marked};

#[tokio::test]
async fn what_one_draws_reaches_everyone_in_the_logs_order() {
    let relay = Relay::start(|_| {}).await;
    let mut drawer = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    let mut reader = Socket::join(relay.address, "a").await;
    for n in 1..=20 {
        drawer.draw(n, &[mark(n)]).await;
    }
    let (_, seq) = drawer.acked(20).await;
    assert_eq!(seq.get(), 20);
    let read = reader.records(1, 20).await;
    assert_eq!(read.iter().map(|record| marked(record)).collect::<Vec<_>>(), (1..=20).collect::<Vec<_>>());
    let mut late = Socket::join(relay.address, "a").await;
    assert_eq!(late.records(1, 20).await, read);
    relay.stopped().await;
}

#[tokio::test]
async fn a_second_connection_with_the_ticket_replaces_the_first() {
    let relay = Relay::start(|_| {}).await;
    let mut first = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    first.draw(1, &[mark(1)]).await;
    first.acked(1).await;
    let mut second = Socket::join_as(relay.address, "a", first.resume(None)).await;
    assert_eq!(second.client, first.client);
    assert_eq!(second.welcome.clone().unwrap().limits.last_n, 1);
    assert_eq!(first.closed().await, 4410);
    drop(first);
    let here = second
        .wait_for("oneself", |frame| match frame {
            ServerFrame::Participants(list) => Some(list),
            _ => None,
        })
        .await;
    assert_eq!(here.len(), 1);
    second.draw(2, &[mark(2)]).await;
    second.acked(2).await;
}

#[tokio::test]
async fn a_gap_is_refused_with_the_number_expected() {
    let relay = Relay::start(|_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    drawer.draw(3, &[mark(3)]).await;
    assert_eq!(drawer.refused().await, ("gap".to_owned(), Some(1)));
    assert_eq!(drawer.closed().await, 4409);
}

#[tokio::test]
async fn pointers_reach_the_others_only() {
    let relay = Relay::start(|_| {}).await;
    let mut one = Socket::join(relay.address, "a").await;
    let mut other = Socket::join(relay.address, "a").await;
    one.send(&ClientFrame::Pointer { x: 5, y: -6 }).await;
    let seen = other
        .wait_for("a pointer", |frame| match frame {
            ServerFrame::Pointer { client, x, y } => Some((client, x, y)),
            _ => None,
        })
        .await;
    assert_eq!(seen, (one.client, 5, -6));
}

/// a ping, which pages in a browser cannot see, is not what a quiet room's readers wait for.
#[tokio::test]
async fn a_reader_that_is_pinged_gets_heartbeats_all_the_same() {
    let relay = Relay::start(|config| {
        // In the proportion that holds when nothing is set.
        (config.times.idle_time, config.times.heartbeat) =
            (Duration::from_millis(400), Duration::from_millis(200));
    })
    .await;
    let mut reader = Socket::join(relay.address, "a").await;
    let beats = async {
        for _ in 0..3 {
            let beat = |frame: ServerFrame<'_>| matches!(frame, ServerFrame::Heartbeat(_)).then_some(());
            reader.wait_for("a heartbeat", beat).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(4), beats).await.expect("a heartbeat every 200 ms");
}

/// A client that takes nothing, and what it is sent waits already.
async fn stuck(relay: &Relay, drawer: &mut Socket) -> Socket {
    let mut stuck = Socket::handshake_slowly(relay.address, "a", 4096).await;
    stuck.hello(&Hello::default()).await.unwrap();
    for n in 0..64 {
        drawer.draw(n + 1, &[Draw::Opaque(vec![7; 60_000])]).await;
        drawer.acked(n + 1).await;
    }
    stuck
}

/// C-1: pongs that wait for a client which takes nothing leave room for the close.
#[tokio::test]
async fn a_close_is_told_also_when_pongs_wait() {
    let relay = Relay::start(|_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    let mut stuck = stuck(&relay, &mut drawer).await;
    for _ in 0..60 {
        stuck.stream.send(Message::Ping(vec![7; 125].into())).await.unwrap();
    }
    stuck.send_text("no frame of this subprotocol").await;
    let alone = |frame: ServerFrame<'_>| match frame {
        ServerFrame::Participants(list) if list.len() == 1 => Some(()),
        _ => None,
    };
    drawer.wait_for("the other's end", alone).await;
    // Now it takes what there is.
    assert_eq!(stuck.closed().await, 4400);
}

/// The records and acks that come in each frame, until the record `last` has come.
async fn frames(socket: &mut Socket, last: u64) -> Vec<usize> {
    let (mut frames, mut seen) = (Vec::new(), 0);
    while seen < last {
        let count = socket.wait_for("records", |frame| match frame {
            ServerFrame::Records { records, .. } => Some(records.len()),
            _ => None,
        });
        frames.push(count.await);
        seen += *frames.last().unwrap() as u64;
    }
    frames
}

/// what comes when it was quiet is told at once; what follows soon is told together.
#[tokio::test]
async fn a_busy_room_is_told_of_many_records_in_one_frame() {
    let relay = Relay::start(|config| config.times.flush_ms = 1000).await;
    let (mut drawer, mut reader) =
        (Socket::join(relay.address, "a").await, Socket::join(relay.address, "a").await);
    for n in 1..=20 {
        drawer.draw(n, &[mark(n)]).await;
    }
    let frames = frames(&mut reader, 20).await;
    assert!(frames.len() < 10, "{frames:?}");
    // The answers came along, and none was left behind.
    drawer.acked(20).await;
}
