//! The end of a token, and a fresh one before it (S-6, T-12).

use std::time::{Duration, Instant};

use http::Method;
use inkrelay_protocol::{ClientFrame, ServerFrame};
use serde_json::json;

use super::{Keys, hello, invalid_token, over_in, sign, token};
use crate::support::relay::Relay;
use crate::support::requests::answer;
use crate::support::slow_store::SlowStore;
use crate::support::socket::{Got, Socket, mark};

/// A token that is over after that time.
fn short(role: &str, time: Duration) -> String {
    sign(&json!({"room": "a", "role": role, "exp": over_in(time)}))
}

const SOON: Duration = Duration::from_secs(2);

#[tokio::test]
async fn sockets_polls_and_streams_end_with_their_token() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let begun = Instant::now();
    let soon = short("drawer", SOON);
    let mut socket = Socket::join_as(relay.address, "a", hello(&soon)).await;
    let poll = relay.request(Method::GET, "/v1/rooms/a/draws?wait=50").bearer_auth(&soon);
    let events = relay.request(Method::GET, "/v1/rooms/a/events").bearer_auth(&soon);
    let (close, poll, events) = tokio::join!(socket.closed(), answer(poll), answer(events));
    assert_eq!(close, 4401);
    assert_eq!(poll.problem(), invalid_token());
    assert_eq!(events.status, 200, "it ends");
    assert!(begun.elapsed() < SOON + Duration::from_secs(4), "{:?}", begun.elapsed());
    let late = relay.request(Method::GET, "/v1/rooms/a/draws?wait=0").bearer_auth(&soon);
    assert_eq!(answer(late).await.problem(), invalid_token());
}

#[tokio::test]
async fn a_fresh_token_keeps_the_session_and_every_draw() {
    let keys = Keys::new();
    let relay = keys.relay(|config| config.limits.max_rate = 0).await;
    let mut socket = Socket::join_as(relay.address, "a", hello(&short("drawer", SOON))).await;
    let begun = Instant::now();
    let mut n = 0;
    let mut is_fresh = false;
    while begun.elapsed() < SOON * 2 {
        n += 1;
        socket.draw(n, &[mark(n)]).await;
        if !is_fresh && begun.elapsed() > SOON / 2 {
            is_fresh = true;
            socket.send(&ClientFrame::Token(token("a", "drawer"))).await;
        }
        socket.acked(n).await;
    }
    assert!(is_fresh && n > 2);
    let mut reader = Socket::join_as(relay.address, "a", hello(&token("a", "viewer"))).await;
    assert_eq!(reader.records(1, usize::try_from(n).unwrap()).await.len() as u64, n);
}

#[tokio::test]
async fn a_role_changes_with_a_fresh_token_at_once() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let mut socket = Socket::join_as(relay.address, "a", hello(&token("a", "viewer"))).await;
    socket.send(&ClientFrame::Token(token("a", "drawer"))).await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    socket.send(&ClientFrame::Token(token("a", "viewer"))).await;
    socket.draw(2, &[mark(2)]).await;
    assert_eq!(socket.refused().await, ("forbidden".to_owned(), Some(2)));
}

#[tokio::test]
async fn a_bad_fresh_token_leaves_the_old_one_until_its_end() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let old = sign(&json!({"room": "a", "role": "drawer", "sub": "ann", "exp": over_in(SOON * 2)}));
    let mut socket = Socket::join_as(relay.address, "a", hello(&old)).await;
    for bad in [
        token("b", "drawer"),
        token("a", "drawer"),
        sign(&json!({"room": "a", "role": "drawer", "sub": "bob", "exp": over_in(SOON * 9)})),
        sign(&json!({"room": "a", "role": "drawer", "sub": "ann", "exp": over_in(Duration::ZERO)})),
        sign(&json!({"room": "a", "role": "drawer", "sub": "ann"})),
        String::new(),
        format!("{old}x"),
    ] {
        socket.send(&ClientFrame::Token(bad)).await;
        assert_eq!(socket.refused().await, ("invalid_token".to_owned(), None));
    }
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    assert_eq!(socket.closed().await, 4401);
}

#[tokio::test]
async fn fresh_tokens_come_no_faster_than_batches() {
    let keys = Keys::new();
    let relay = keys.relay(|config| config.limits.max_rate = 1).await;
    let mut socket = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
    for _ in 0..4 {
        socket.send(&ClientFrame::Token("no token".to_owned())).await;
    }
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(socket.refused().await.0);
    }
    assert!(codes.contains(&"rate_limited".to_owned()), "{codes:?}");
}

/// What was begun is answered before the close.
#[tokio::test]
async fn batches_in_flight_are_answered_before_the_close() {
    let keys = Keys::new();
    let store = SlowStore::new();
    let relay = Relay::start_on(store.clone(), |config| config.token_keys = vec![keys.file()]).await;
    let mut socket = Socket::join_as(relay.address, "a", hello(&short("drawer", SOON))).await;
    store.hold_appends(true);
    socket.draw(1, &[mark(1)]).await;
    store.has_appends(1).await;
    tokio::time::sleep(SOON).await;
    store.hold_appends(false);
    let mut is_acked = false;
    loop {
        match socket.next().await {
            Got::Frame(frame) => {
                is_acked |= matches!(ServerFrame::decode(&frame).unwrap(), ServerFrame::Ack { n: 1, .. });
            }
            Got::Closed(code, _) => {
                assert_eq!((code, is_acked), (4401, true));
                break;
            }
            Got::Text(_) => panic!("no text was agreed on"),
        }
    }
}
