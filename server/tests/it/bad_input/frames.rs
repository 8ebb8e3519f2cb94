//! Frames that are wrong in themselves or in their place.

use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientFrame, Position, Profile};
use serde_json::Value;

use super::{JSON_PROTOCOL, join_json, lies, lies_in_json, next_of};
use crate::support::relay::Relay;
use crate::support::socket::{Socket, mark};

const INVALID: &str = include_str!("../../../../protocol/vectors/invalid-frames.json");

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// C-2, F-5 to F-9, F-16, F-17: before and after hello, in both subprotocols.
#[tokio::test]
async fn every_malformed_frame_closes_its_connection_and_no_other() {
    let relay = Relay::start(|_| {}).await;
    let mut other = Socket::join(relay.address, "a").await;
    let vectors: Value = serde_json::from_str(INVALID).unwrap();
    let group = |name: &str| vectors[name].as_array().unwrap().clone();
    let bytes = group("client")
        .into_iter()
        .map(|case| (case["name"].as_str().unwrap().to_owned(), unhex(case["hex"].as_str().unwrap())));
    for (name, bytes) in bytes.chain(lies().into_iter().map(|(name, bytes)| (name.to_owned(), bytes))) {
        let (mut fresh, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        fresh.send_bytes(bytes.clone()).await;
        assert_eq!(fresh.closed().await, 4400, "before hello: {name}");
        let mut joined = Socket::join(relay.address, "a").await;
        joined.send_bytes(bytes).await;
        assert_eq!(joined.closed().await, 4400, "after hello: {name}");
    }
    let texts = group("client_json")
        .into_iter()
        .map(|case| (case["name"].as_str().unwrap().to_owned(), case["text"].as_str().unwrap().to_owned()));
    for (name, text) in texts.chain(lies_in_json().into_iter().map(|(name, text)| (name.to_owned(), text))) {
        let (mut fresh, _) = Socket::handshake(relay.address, "a", JSON_PROTOCOL).await.unwrap();
        fresh.send_text(&text).await;
        assert_eq!(fresh.closed().await, 4400, "before hello: {name}");
        let mut joined = join_json(relay.address, "a").await;
        joined.send_text(&text).await;
        assert_eq!(next_of(&mut joined, 72).await, Err(4400), "after hello: {name}");
    }
    other.draw(1, &[mark(1)]).await;
    other.acked(1).await;
    relay.still_works().await;
}

/// F-6: whichever byte of a hello is the last.
#[tokio::test]
async fn a_hello_cut_at_any_byte_is_malformed() {
    let relay = Relay::start(|_| {}).await;
    let profile = Profile { name: "Ada".to_owned(), rgba: 0xff00_00ff };
    let hello = Hello { profile: Some(profile), token: Some("t".to_owned()), ..Hello::default() };
    let whole = ClientFrame::Hello(hello).to_bytes();
    for end in 0..whole.len() {
        let (mut socket, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        socket.send_bytes(whole[..end].to_vec()).await;
        assert_eq!(socket.closed().await, 4400, "cut at {end}");
    }
    relay.still_works().await;
}

/// S-1: whatever frame it is, also one of an unknown tag.
#[tokio::test]
async fn what_comes_before_hello_and_a_second_hello_close() {
    let relay = Relay::start(|_| {}).await;
    let before: [ClientFrame<'_>; 5] = [
        ClientFrame::Draws { n: 1, draws: &[0x91, 0x91, 4] },
        ClientFrame::Pointer { x: 1, y: 1 },
        ClientFrame::Profile(Profile::default()),
        ClientFrame::Token("token".to_owned()),
        ClientFrame::Unknown(60),
    ];
    for frame in before {
        let (mut socket, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        socket.send(&frame).await;
        assert_eq!(socket.closed().await, 4400, "{frame:?}");
    }
    let mut socket = Socket::join(relay.address, "a").await;
    socket.send(&ClientFrame::Hello(socket.resume(None))).await;
    assert_eq!(socket.closed().await, 4400);
    assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 0);
    relay.still_works().await;
}

/// F-8.
#[tokio::test]
async fn an_unknown_tag_after_hello_is_ignored() {
    let relay = Relay::start(|_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    for tag in [0, 6, 64, 65, 127, u64::MAX] {
        socket.send(&ClientFrame::Unknown(tag)).await;
    }
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    let mut json = join_json(relay.address, "a").await;
    json.send_text("[77,{\"later\":[1.5,null]}]").await;
    json.send_text("[2,1,[[4]]]").await;
    assert_eq!(next_of(&mut json, 67).await.unwrap()[1], 1);
}

/// F-11.
#[tokio::test]
async fn a_message_of_the_other_type_closes() {
    let relay = Relay::start(|_| {}).await;
    for protocol in [None, Some("v1.msgpack.inkrelay"), JSON_PROTOCOL] {
        let is_json = protocol == JSON_PROTOCOL;
        let (mut fresh, _) = Socket::handshake(relay.address, "a", protocol).await.unwrap();
        let mut joined = if is_json {
            join_json(relay.address, "a").await
        } else {
            Socket::join(relay.address, "a").await
        };
        for socket in [&mut fresh, &mut joined] {
            if is_json {
                socket.send_bytes(ClientFrame::Hello(Hello::default()).to_bytes()).await;
            } else {
                socket.send_text("[1]").await;
            }
            assert_eq!(socket.closed().await, 4400, "{protocol:?}");
        }
    }
    relay.still_works().await;
}

/// F-10.
#[tokio::test]
async fn the_first_subprotocol_that_is_known_is_taken() {
    let relay = Relay::start(|_| {}).await;
    for (offered, taken) in [
        (None, None),
        (Some("v1.json.inkrelay, v1.msgpack.inkrelay"), Some("v1.json.inkrelay")),
        (Some("v1.msgpack.inkrelay,v1.json.inkrelay"), Some("v1.msgpack.inkrelay")),
        (Some("v9.cbor.inkrelay, v1.json.inkrelay"), Some("v1.json.inkrelay")),
    ] {
        let (_, response) = Socket::handshake(relay.address, "a", offered).await.unwrap();
        let named = response.headers().get("sec-websocket-protocol").map(|name| name.to_str().unwrap());
        assert_eq!(named, taken, "{offered:?}");
    }
}

/// a position of another log, or beyond the head, is no fault of the client's: it is reset.
#[tokio::test]
async fn a_position_that_is_not_of_this_log_is_reset() {
    let relay = Relay::start(|_| {}).await;
    relay.post_marks("a", 1..=3).await;
    for text in ["7.2.9.9.9", "7.99.1.1.1", "9007199254740991.9007199254740991.281474976710655.1.1"] {
        let position: Position = text.parse().unwrap();
        let hello = Hello { position: Some(position), ..Hello::default() };
        let mut socket = Socket::join_as(relay.address, "a", hello).await;
        let (seq, records) = socket.reset().await;
        assert_eq!((seq, records.len()), (3, 3), "{text}");
    }
    let start: Position = "7.0.0.0.0".parse().unwrap();
    let hello = Hello { position: Some(start), ..Hello::default() };
    Socket::join_as(relay.address, "a", hello).await.records(1, 3).await;
}
