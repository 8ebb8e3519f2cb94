//! What the client does when things go wrong on the way, at the server, or in the store.

use std::time::Duration;

use inkrelay_client::client::{Client, Event, Stopped, Transport};
use inkrelay_client::replica::Replica;

use crate::relay::Relay;
use crate::support::{config, connect, connected, dot, flush, read, strokes, wait};

#[tokio::test]
async fn a_draw_whose_ack_is_lost_is_stored_once() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let relay = Relay::start().await;
        relay.state().faults.lost_acks = 3;
        let (client, mut events) = connect(&relay, transport);
        for stroke in 0..60 {
            client.draw(&dot(stroke)).unwrap();
        }
        flush(&client).await;
        assert_eq!(strokes(&relay.state().log), (0..60).collect::<Vec<_>>(), "{transport:?}");
        assert_eq!(strokes(&read(&mut events, 60).await), (0..60).collect::<Vec<_>>(), "{transport:?}");
    }
}

#[tokio::test]
async fn a_silent_socket_is_taken_for_dead() {
    let relay = Relay::start().await;
    relay.state().faults.mute = true;
    let mut quick = config(&relay, Transport::WebSocket);
    quick.timing.silence = Duration::from_millis(50);
    let (_client, mut events) = Client::connect(quick).unwrap();
    let why = wait(&mut events, |event| match event {
        Event::Disconnected { why, .. } => Some(why),
        _ => None,
    })
    .await;
    assert!(why.contains("nothing came"), "{why}");
    connected(&mut events, Transport::WebSocket).await;
}

#[tokio::test]
async fn a_client_that_was_replaced_stops() {
    let relay = Relay::start().await;
    let (client, mut events) = connect(&relay, Transport::Auto);
    connected(&mut events, Transport::WebSocket).await;
    relay.cut(4410);
    let stopped = wait(&mut events, |event| match event {
        Event::Stopped(stopped) => Some(stopped),
        _ => None,
    });
    assert_eq!(stopped.await, Stopped::Replaced);
    assert!(client.draw(&dot(0)).is_err());
    assert_eq!(client.flush().await, Ok(()), "nothing waits");
    assert_eq!(events.recv().await, None);
}

#[tokio::test]
async fn a_ticket_that_is_not_known_is_exchanged_and_what_waits_goes_with_new_numbers() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let relay = Relay::start().await;
        let mut stale = config(&relay, transport);
        stale.ticket = Some("t77".to_owned());
        let (client, _events) = Client::connect(stale).unwrap();
        client.draw(&dot(0)).unwrap();
        flush(&client).await;
        assert_eq!(client.ticket().as_deref(), Some("t1"), "{transport:?}");
        assert_eq!(relay.state().last_n.get(&1), Some(&1), "{transport:?}");
    }
}

#[tokio::test]
async fn what_the_store_lost_comes_back_and_readers_are_reset() {
    for (transport, reads_by) in
        [(Transport::WebSocket, Transport::LongPoll), (Transport::LongPoll, Transport::WebSocket)]
    {
        let relay = Relay::start().await;
        relay.state().faults.small_parts = true;
        let (client, mut own_events) = connect(&relay, transport);
        let (_reader, mut events) = connect(&relay, reads_by);
        for stroke in 0..30 {
            client.draw(&dot(stroke)).unwrap();
        }
        flush(&client).await;
        // Readers have what is lost next, so nothing but a reset can help them.
        read(&mut own_events, 30).await;
        read(&mut events, 30).await;
        relay.lose(10);
        wait(&mut own_events, |event| matches!(event, Event::Reset { last: true, .. }).then_some(())).await;
        flush(&client).await;
        assert_eq!(strokes(&relay.state().log), (0..30).collect::<Vec<_>>(), "{transport:?}");
        client.draw(&dot(30)).unwrap();

        let mut replica = Replica::new(None, true);
        wait(&mut events, |event| {
            match event {
                Event::Records { first, records } => assert_eq!(replica.on_records(first, &records), Ok(0)),
                Event::Reset { position, records, last, .. } => {
                    assert_eq!(replica.on_reset(position, &records, !last).map(|part| part.last), Ok(last));
                }
                _ => {}
            }
            let drawn = replica.board().map_or(0, |board| board.strokes().count());
            (drawn == 31).then_some(())
        })
        .await;
        assert_eq!(strokes(&relay.state().log), (0..31).collect::<Vec<_>>(), "{transport:?}");
    }
}

#[tokio::test]
async fn a_later_run_goes_on_behind_what_the_store_still_has() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let relay = Relay::start().await;
        let (first, _events) = connect(&relay, transport);
        for stroke in 0..10 {
            first.draw(&dot(stroke)).unwrap();
        }
        flush(&first).await;
        let mut resumed = config(&relay, transport);
        resumed.ticket = first.ticket();
        first.close().await;
        relay.lose(4);

        // What the earlier run drew is no longer at hand; its numbers are free again.
        let (second, mut events) = Client::connect(resumed).unwrap();
        second.draw(&dot(10)).unwrap();
        flush(&second).await;
        let welcome = connected(&mut events, transport).await;
        assert_eq!((welcome.client.get(), welcome.limits.last_n), (1, 6), "{transport:?}");
        assert_eq!(strokes(&relay.state().log), [0, 1, 2, 3, 4, 5, 10], "{transport:?}");
        assert_eq!(relay.state().last_n.get(&1), Some(&7), "{transport:?}");
    }
}

#[tokio::test]
async fn a_program_that_takes_no_events_stops_nobody() {
    let relay = Relay::start().await;
    let (client, events) = connect(&relay, Transport::WebSocket);
    for stroke in 0..2000 {
        client.draw(&dot(stroke)).unwrap();
        if stroke % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop(events);
    flush(&client).await;
    assert_eq!(relay.state().log.len(), 2000);
    client.close().await;
}
