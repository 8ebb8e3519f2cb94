//! WebSocket messages (RFC 6455) that are too large, in too many pieces, or no messages at all.

use tokio::io::AsyncWriteExt;

use super::{close_code, masked, raw_websocket};
use crate::support::process::Process;
use crate::support::relay::Relay;
use crate::support::requests::until_closed;
use crate::support::socket::Socket;

/// A hello in MessagePack.
const HELLO: &[u8] = &[0x91, 1];
/// Final frame, binary.
const BINARY: u8 = 0x82;

/// What the server closes with when it is sent those bytes, before or after a hello.
async fn closes_with(relay: &Relay, after_hello: bool, bytes: &[u8]) -> Option<u16> {
    let mut stream = raw_websocket(relay.address, "a").await;
    if after_hello {
        stream.write_all(&masked(BINARY, HELLO)).await.unwrap();
    }
    // The server may close before it has taken all.
    let _ = stream.write_all(bytes).await;
    // Nothing more comes, so that the server does not wait for the answer to its close.
    let _ = stream.shutdown().await;
    close_code(&until_closed(&mut stream).await)
}

/// L-2.
#[tokio::test]
async fn a_message_over_the_limit_is_closed_with_1009() {
    let relay = Relay::start(|config| config.limits.max_message = 64 * 1024).await;
    let too_large = vec![0x91; 64 * 1024 + 1];
    let fragments = |size: usize, count: usize| {
        let piece = vec![0x91; size];
        let mut out = masked(0x02, &piece);
        (1..count).for_each(|_| out.extend(masked(0x00, &piece)));
        out
    };
    let tebibyte = [&[BINARY, 0x80 | 127][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    for after_hello in [false, true] {
        for (name, bytes) in [
            ("in one frame", masked(BINARY, &too_large)),
            ("in one-byte fragments", fragments(1, 64 * 1024 + 2)),
            ("in fragments that fit", fragments(60_000, 2)),
            ("1 TiB promised", tebibyte.clone()),
        ] {
            let code = closes_with(&relay, after_hello, &bytes).await;
            assert_eq!(code, Some(1009), "{name}, after hello: {after_hello}");
        }
    }
    relay.still_works().await;
}

/// L-2: a client that reads only after it has written all of a large message still learns why it is closed.
#[tokio::test]
async fn whoever_is_still_writing_learns_that_it_was_too_much() {
    let relay = Relay::start(|_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.send_bytes(vec![0x91; 4 << 20]).await;
    assert_eq!(socket.closed().await, 1009);
}

/// The largest message that is allowed passes: it is the protocol that finds it wanting.
#[tokio::test]
async fn a_message_of_the_limit_passes() {
    let relay = Relay::start(|config| config.limits.max_message = 64 * 1024).await;
    for bytes in [masked(BINARY, &vec![0x91; 64 * 1024]), masked(BINARY, &[])] {
        assert_eq!(closes_with(&relay, true, &bytes).await, Some(4400));
    }
}

/// C-2: what cannot be decoded, down to the frames of the WebSocket itself.
#[tokio::test]
async fn what_is_no_frame_is_malformed() {
    let relay = Relay::start(|_| {}).await;
    let unmasked = [&[BINARY, 2][..], HELLO].concat();
    for (name, bytes) in [
        ("unmasked", unmasked),
        ("a reserved bit", masked(0xc2, HELLO)),
        ("a reserved opcode", masked(0x83, HELLO)),
        ("a continuation of nothing", masked(0x80, HELLO)),
        ("a long ping", masked(0x89, &[0; 126])),
        ("a ping in fragments", masked(0x09, b"x")),
        ("text that is not UTF-8", masked(0x81, &[0xff, 0xfe])),
        ("a message inside another", [masked(0x02, HELLO), masked(BINARY, HELLO)].concat()),
    ] {
        for after_hello in [false, true] {
            assert_eq!(closes_with(&relay, after_hello, &bytes).await, Some(4400), "{name}, {after_hello}");
        }
    }
    relay.still_works().await;
}

/// Pings are answered, and cost nothing more: at most one answer waits at a time.
#[tokio::test]
async fn a_flood_of_pings_keeps_nobody_from_drawing() {
    let relay = Relay::start(|_| {}).await;
    let mut flood = raw_websocket(relay.address, "a").await;
    flood.write_all(&masked(BINARY, HELLO)).await.unwrap();
    let pings = masked(0x89, &[7; 100]).repeat(1000);
    let flooding = tokio::spawn(async move {
        for _ in 0..20 {
            if flood.write_all(&pings).await.is_err() {
                return;
            }
        }
        flood.write_all(&masked(0x88, &[0x03, 0xe8])).await.unwrap();
        until_closed(&mut flood).await;
    });
    relay.still_works().await;
    flooding.await.unwrap();
    relay.still_works().await;
}

/// Whoever sends pings and takes no answer is not kept answers for.
#[tokio::test]
async fn answers_to_pings_that_nobody_takes_are_not_kept() {
    let relay = Process::start(&[]);
    let mut flood = raw_websocket(relay.address, "a").await;
    flood.write_all(&masked(BINARY, HELLO)).await.unwrap();
    let pings = masked(0x89, &[7; 125]).repeat(1000);
    let before = relay.resident_bytes();
    for _ in 0..300 {
        // It may be closed as too slow, which is as good.
        if flood.write_all(&pings).await.is_err() {
            break;
        }
    }
    let grown = relay.resident_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes more for 38 MB of pings");
}

/// C-1: a client that is done is answered in kind, so that a browser calls it a clean close.
#[tokio::test]
async fn a_close_is_answered() {
    let relay = Relay::start(|_| {}).await;
    for after_hello in [false, true] {
        let close = masked(0x88, &[0x03, 0xe8]);
        assert_eq!(closes_with(&relay, after_hello, &close).await, Some(1000), "{after_hello}");
    }
}
