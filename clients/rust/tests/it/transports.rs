//! Both transports tell the same, and a client goes from one to the other.

use inkrelay_client::client::DrawError;
use inkrelay_client::client::{Client, Event, Transport};
use inkrelay_client::outbox::PushError;
use inkrelay_protocol::{ClientId, Draw};

use crate::relay::Relay;
use crate::support::{config, connect, connected, dot, flush, read, strokes, wait};

#[tokio::test]
async fn both_transports_draw_and_tell_the_same_bytes() {
    let relay = Relay::start().await;
    let (by_socket, mut socket_events) = connect(&relay, Transport::WebSocket);
    let (by_poll, mut poll_events) = connect(&relay, Transport::LongPoll);
    for stroke in 0..50 {
        by_socket.draw(&dot(stroke)).unwrap();
        by_poll.draw(&dot(stroke)).unwrap();
    }
    flush(&by_socket).await;
    flush(&by_poll).await;
    assert_eq!((by_socket.pending(), by_poll.pending()), (0, 0));
    let (from_socket, from_poll) = (read(&mut socket_events, 100).await, read(&mut poll_events, 100).await);
    assert_eq!(from_socket, from_poll);
    assert_eq!(from_socket, relay.state().log);
}

#[tokio::test]
async fn where_sockets_are_refused_polling_takes_over_until_they_work() {
    let relay = Relay::start().await;
    relay.state().faults.refuse_sockets = true;
    let (client, mut events) = connect(&relay, Transport::Auto);
    client.draw(&dot(0)).unwrap();
    connected(&mut events, Transport::LongPoll).await;
    flush(&client).await;
    // An answer that gets lost on the way up is the hard case: the draw goes again on the socket.
    {
        let mut state = relay.state();
        state.faults.refuse_sockets = false;
        state.faults.lost_acks = 1;
    }
    for stroke in 1..100 {
        client.draw(&dot(stroke)).unwrap();
        tokio::task::yield_now().await;
    }
    flush(&client).await;
    let ticket = client.ticket();
    connected(&mut events, Transport::WebSocket).await;
    assert_eq!(client.ticket(), ticket, "it is the same client");
    assert_eq!(strokes(&relay.state().log), (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn sockets_that_die_young_make_way_for_polling() {
    let relay = Relay::start().await;
    let (client, mut events) = connect(&relay, Transport::Auto);
    for _ in 0..2 {
        connected(&mut events, Transport::WebSocket).await;
        relay.cut(0);
    }
    connected(&mut events, Transport::LongPoll).await;
    client.draw(&dot(0)).unwrap();
    flush(&client).await;
    assert_eq!(relay.state().log.len(), 1);
}

#[tokio::test]
async fn a_ticket_goes_on_with_its_numbers_in_a_later_run() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let relay = Relay::start().await;
        let (first, _events) = connect(&relay, transport);
        first.draw(&dot(0)).unwrap();
        first.draw(&dot(1)).unwrap();
        flush(&first).await;
        let mut resumed = config(&relay, transport);
        resumed.ticket = first.ticket();
        first.close().await;

        let posts = relay.state().posts;
        let (second, mut events) = Client::connect(resumed).unwrap();
        second.draw(&dot(2)).unwrap();
        flush(&second).await;
        let welcome = connected(&mut events, transport).await;
        assert_eq!((welcome.client.get(), welcome.limits.last_n), (1, 2), "{transport:?}");
        assert_eq!(strokes(&relay.state().log), [0, 1, 2], "{transport:?}");
        assert_eq!(relay.state().last_n.get(&1), Some(&3), "{transport:?}");
        assert_eq!(relay.state().posts - posts, u32::from(transport == Transport::LongPoll), "no detours");
    }
}

#[tokio::test]
async fn a_refused_draw_is_told_and_the_others_are_stored() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let relay = Relay::start().await;
        let (client, mut events) = connect(&relay, transport);
        for stroke in 0..20 {
            client.draw(&dot(stroke)).unwrap();
        }
        let erase = client.draw(&Draw::Erase(vec![(ClientId::new(1).unwrap(), 0)])).unwrap();
        for stroke in 20..40 {
            client.draw(&dot(stroke)).unwrap();
        }
        flush(&client).await;
        let refused = wait(&mut events, |event| match event {
            Event::Refused { draw, code, .. } => Some((draw, code)),
            _ => None,
        });
        assert_eq!(refused.await, (erase, "invalid_draw".to_owned()));
        assert_eq!(strokes(&relay.state().log), (0..40).collect::<Vec<_>>(), "{transport:?}");
    }
}

#[tokio::test]
async fn a_draw_over_the_announced_limit_is_refused_here() {
    let relay = Relay::start().await;
    let (client, mut events) = connect(&relay, Transport::WebSocket);
    // Drawn before the limits are known, and after.
    let large = Draw::Opaque(vec![0; 2000]);
    client.draw(&large).unwrap();
    let refused = wait(&mut events, |event| match event {
        Event::Refused { code, message, .. } => Some((code, message)),
        _ => None,
    })
    .await;
    assert_eq!(refused.0, "too_large");
    assert!(refused.1.contains("bytes per draw allows 1000"), "{}", refused.1);
    assert!(matches!(client.draw(&large), Err(DrawError::Push(PushError::TooLarge(_)))));
    flush(&client).await;
}
