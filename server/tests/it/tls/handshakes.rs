//! Those who do not shake hands: they are told what is wrong where they can understand it, and their time is bounded.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::{relay, url};
use crate::support::certificates::Authority;
use crate::support::requests::{answer, raw, until_closed};

/// The head of a record that is to hold a client's hello of 512 bytes, and the first of them.
const HALF_A_HELLO: &[u8] = &[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];

#[tokio::test]
async fn plain_http_is_told_to_speak_tls() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    for line in ["GET /healthz", "POST /v1/rooms/a/draws", "OPTIONS /"] {
        let got = raw(relay.address, line, &["content-type: application/json"], b"").await;
        assert_eq!(got.problem(), (400, "malformed".to_owned()), "{line}");
        assert!(got.json()["detail"].as_str().unwrap().contains("https://"), "{got:?}");
        assert_eq!(got.header("connection"), Some("close"));
    }
}

#[tokio::test]
async fn whoever_does_not_finish_its_handshake_is_closed_in_time_and_counted_until_then() {
    let authority = Authority::new();
    let time = Duration::from_millis(1500);
    let relay = relay(&authority, |config| {
        (config.times.header_time, config.limits.max_connections) = (time, 3);
    });
    let begun = Instant::now();
    let mut stuck = Vec::new();
    for sent in [&b""[..], HALF_A_HELLO, b"G"] {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        stream.write_all(sent).await.unwrap();
        stuck.push(stream);
    }
    let health = async || answer(authority.http().get(url(&relay, "/healthz"))).await;
    assert_eq!(health().await.problem(), (503, "too_many_connections".to_owned()));
    for mut stream in stuck {
        // One that begins like plain HTTP is told what it is told at once, and not heard to the end.
        until_closed(&mut stream).await;
        assert!(begun.elapsed() < 3 * time, "{:?}", begun.elapsed());
    }
    assert_eq!(health().await.status, 200);
}

/// The time for a handshake is that for the first request: whoever shakes hands and says nothing has no more of it.
#[tokio::test]
async fn a_handshake_does_not_win_time_for_the_header() {
    let authority = Authority::new();
    let time = Duration::from_millis(1000);
    let relay = relay(&authority, |config| config.times.header_time = time);
    let begun = Instant::now();
    let (mut stream, _session) = authority.connect(relay.address, |_| {}).await.unwrap().into_inner();
    until_closed(&mut stream).await;
    let took = begun.elapsed();
    assert!(took >= time - Duration::from_millis(50) && took < 3 * time, "{took:?}");
}

#[tokio::test]
async fn what_is_no_handshake_is_closed() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    let long = [22, 3, 1, 0xff, 0xff].repeat(20_000);
    for junk in [&[0; 64][..], &[0x16; 2000], &[0xff; 2000], &[0x80, 0x2e, 1, 3, 1], &long, b"\n\n\n"] {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        // It may be closed before it has sent all.
        drop(stream.write_all(junk).await);
        drop(stream.shutdown().await);
        until_closed(&mut stream).await;
    }
    assert_eq!(answer(authority.http().get(url(&relay, "/healthz"))).await.status, 200);
}

/// A server that stops does not wait for those who shake hands.
#[tokio::test]
async fn a_handshake_that_is_not_finished_does_not_hold_up_the_end() {
    let authority = Authority::new();
    let relay = relay(&authority, |config| config.times.drain_time = Duration::from_millis(300));
    let mut stuck = TcpStream::connect(relay.address).await.unwrap();
    stuck.write_all(HALF_A_HELLO).await.unwrap();
    // Shaking hands when the server has gone on to the next shows that the first was accepted.
    assert_eq!(answer(authority.http().get(url(&relay, "/healthz"))).await.status, 200);
    let begun = Instant::now();
    relay.stopped().await;
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    until_closed(&mut stuck).await;
}
