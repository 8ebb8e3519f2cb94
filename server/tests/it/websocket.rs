//! The WebSocket: sessions, draws, acks, resume, presence.

use inkrelay_protocol::{ClientFrame, ServerFrame};

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
