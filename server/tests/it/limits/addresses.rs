//! What one address may do in a minute: open sessions, and bring rooms to life.

use http::Method;
use inkrelay_protocol::frame::Hello;

use crate::access::{CALLS, Keys, call, hello, invalid_token, refused, status, token};
use crate::support::relay::Relay;
use crate::support::requests::answer;
use crate::support::socket::{Socket, mark};

#[tokio::test]
async fn an_address_opens_so_many_sessions_in_a_minute_over_whichever_transport() {
    let relay = Relay::start(|config| config.limits.max_address_sessions = 3).await;
    relay.session("a").await;
    let mut first = Socket::join(relay.address, "a").await;
    first.draw(1, &[mark(1)]).await;
    first.acked(1).await;
    relay.session("b").await;
    let refused = answer(relay.request(Method::POST, "/v1/rooms/a/sessions")).await;
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    let retry: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=20).contains(&retry), "{retry}");
    let why = Socket::try_join(relay.address, "a", &Hello::default()).await.err().unwrap();
    assert!(why.contains("this address opens sessions faster than allowed"), "{why}");
    first.draw(2, &[mark(2)]).await;
    first.acked(2).await;
    assert_eq!(relay.get("/v1/rooms/a/draws?wait=0").await.status, 200, "reading goes on");
}

#[tokio::test]
async fn an_address_brings_so_many_rooms_to_life_in_a_minute() {
    let relay = Relay::start(|config| config.limits.max_address_rooms = 2).await;
    for room in ["a", "b", "a", "b"] {
        assert_eq!(relay.get(&format!("/v1/rooms/{room}")).await.status, 200, "{room}");
    }
    let refused = relay.get("/v1/rooms/c").await;
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(relay.post_marks("a", 1..=1).await.status, 200, "a live room goes on");
}

/// Whoever has no token, or one that is not taken, is soon told to wait; whoever has one is let in meanwhile.
#[tokio::test]
async fn without_a_valid_token_an_address_calls_so_often_in_a_minute() {
    let keys = Keys::new();
    let relay = keys.relay(|config| config.limits.max_address_strangers = 6).await;
    for told in &CALLS {
        assert_eq!(refused(call(&relay, "a", told)).await, invalid_token(), "{}", told.1);
    }
    for told in &CALLS {
        let limited = answer(call(&relay, "a", told).bearer_auth("wrong")).await;
        assert_eq!(limited.problem(), (429, "rate_limited".to_owned()), "{}", told.1);
        assert!(limited.header("retry-after").is_some());
    }
    let why = Socket::try_join(relay.address, "a", &Hello::default()).await.err().unwrap();
    assert!(why.contains("without a valid token too often"), "{why}");
    let good = token("a", "drawer");
    for told in &CALLS {
        assert_eq!(status(call(&relay, "a", told).bearer_auth(&good)).await, 200, "{}", told.1);
    }
    Socket::join_as(relay.address, "a", hello(&good)).await;
}
