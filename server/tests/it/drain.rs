//! A server that is told to stop: what was begun is finished, everyone is told, and all of it in time (H-6, C-5).

use std::collections::HashSet;
use std::time::Duration;

use http::Method;
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientFrame, Draw, ServerFrame};
use inkrelay_server::config::OperatorsListen;
use tokio::time::Instant;

use crate::support::process::Process;
use crate::support::relay::Relay;
use crate::support::requests::{JSON, answer};
use crate::support::slow_store::SlowStore;
use crate::support::socket::{Socket, mark};
use crate::support::{PATIENCE, eventually};

/// The go away that a socket is sent, with its time, and then the code.
async fn sent_away(socket: &mut Socket) -> (u64, u16) {
    let retry_ms = socket
        .wait_for("a go away", |frame| match frame {
            ServerFrame::GoAway { retry_ms, .. } => Some(retry_ms),
            _ => None,
        })
        .await;
    (retry_ms, socket.closed().await)
}

#[tokio::test]
async fn every_socket_is_sent_away_with_a_time_of_its_own() {
    let mut relay = Relay::start(|_| {}).await;
    let mut sockets = Vec::new();
    for index in 0..20 {
        sockets.push(Socket::join(relay.address, ["a", "b"][index % 2]).await);
    }
    let (mut silent, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
    relay.stop();
    let mut times = HashSet::new();
    for mut socket in sockets {
        let (retry_ms, code) = sent_away(&mut socket).await;
        assert_eq!(code, 1001);
        assert!((1..=10_000).contains(&retry_ms), "{retry_ms}");
        times.insert(retry_ms);
    }
    assert!(times.len() > 10, "spread, so that not all come back at once: {times:?}");
    assert_eq!(silent.closed().await, 1001);
    drop(silent);
    relay.stopped().await;
}

#[tokio::test]
async fn open_polls_are_answered_and_streams_end() {
    let any = OperatorsListen::At((std::net::Ipv4Addr::LOCALHOST, 0).into());
    let mut relay = Relay::start(|config| config.operators_listen = any).await;
    relay.post_marks("a", 1..=2).await;
    let (address, operators) = (relay.address, relay.operators.unwrap());
    let poll = tokio::spawn(async move {
        let url = format!("http://{address}/v1/rooms/a/draws?wait=50&after=2");
        let response = crate::support::requests::client().get(url).send().await.unwrap();
        (response.status(), response.headers()["inkrelay-head"].clone(), response.text().await.unwrap())
    });
    let events = relay.request(Method::GET, "/v1/rooms/a/events").send().await.unwrap();
    eventually("the poll waits", async || {
        let metrics = crate::support::requests::client().get(format!("http://{operators}/metrics"));
        String::from_utf8(answer(metrics).await.body).unwrap().contains("{transport=\"long_poll\"} 1\n")
    })
    .await;
    let begun = Instant::now();
    relay.stop();
    let (status, head, body) = tokio::time::timeout(PATIENCE, poll).await.unwrap().unwrap();
    assert_eq!((status.as_u16(), head.to_str().unwrap()), (200, "2"));
    assert!(body.ends_with(",3,[]]"), "{body}");
    let events = tokio::time::timeout(PATIENCE, events.text()).await.unwrap().unwrap();
    assert_eq!(events.matches("data: ").count(), 2, "whole, with its end: {events}");
    relay.stopped().await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_was_begun_is_acked_and_what_is_new_is_refused() {
    let store = SlowStore::new();
    let mut relay = Relay::start_on(store.clone(), |_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    let mut other = Socket::join(relay.address, "a").await;
    let (_, ticket) = relay.session("b").await;
    store.hold_appends(true);
    for n in 1..=3 {
        socket.draw(n, &[mark(n)]).await;
    }
    // Once this is seen, all before it was read.
    socket.send(&ClientFrame::Pointer { x: 1, y: 1 }).await;
    let pointer = |frame: ServerFrame<'_>| matches!(frame, ServerFrame::Pointer { .. }).then_some(());
    other.wait_for("the pointer", pointer).await;
    drop(other);
    let post = relay.request(Method::POST, "/v1/rooms/b/draws").header("content-type", JSON);
    let post = post.header("inkrelay-ticket", ticket).header("inkrelay-n", 1).body("[[4]]");
    let post = tokio::spawn(answer(post));
    store.has_appends(2).await;
    relay.stop();
    // The load balancer sees it, and so does whoever comes meanwhile.
    eventually("it is not ready", async || relay.get("/readyz").await.status == 503).await;
    assert_eq!(relay.get("/readyz").await.problem().1, "draining");
    assert_eq!(relay.get("/healthz").await.status, 200);
    for (method, path) in [
        (Method::POST, "/v1/rooms/a/draws"),
        (Method::POST, "/v1/rooms/a/sessions"),
        (Method::GET, "/v1/rooms/a/ws"),
        (Method::GET, "/v1/rooms/new"),
        (Method::GET, "/v1/rooms/new/draws"),
    ] {
        let request = relay.request(method, path).header("content-type", JSON);
        let got = answer(request.body("[[4]]")).await;
        assert_eq!(got.problem(), (503, "draining".to_owned()), "{path}");
        assert!(got.json()["retry_ms"].is_u64() && got.header("retry-after").is_some(), "L-9: {path}");
        assert_eq!(got.header("connection"), Some("close"));
    }
    assert!(Socket::handshake(relay.address, "a", None).await.is_err());
    store.hold_appends(false);
    socket.acked(3).await;
    assert_eq!(sent_away(&mut socket).await.1, 1001);
    drop(socket);
    assert_eq!(post.await.unwrap().status, 200);
    let address = relay.address;
    relay.stopped().await;
    let nobody = async || tokio::net::TcpStream::connect(address).await.is_err();
    eventually("nobody listens any more", nobody).await;
}

/// H-5: load balancers are told first, and given the time to hear it.
#[tokio::test]
async fn a_server_that_goes_says_so_before_it_refuses() {
    let mut relay = Relay::start(|config| config.times.drain_delay = Duration::from_secs(2)).await;
    assert_eq!(relay.get("/readyz").await.status, 200);
    relay.stop();
    eventually("it is not ready", async || relay.get("/readyz").await.status == 503).await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    assert_eq!(relay.post_marks("b", 1..=1).await.status, 200);
    assert_eq!(sent_away(&mut socket).await.1, 1001);
    drop(socket);
    relay.stopped().await;
}

/// C-5: whoever takes nothing has the close's time for the rest, and not the whole stall time.
#[tokio::test]
async fn a_client_that_takes_nothing_does_not_hold_up_the_end() {
    let mut relay = Relay::start(|config| config.times.drain_time = Duration::from_secs(15)).await;
    let mut stuck = Socket::handshake_slowly(relay.address, "a", 4096).await;
    stuck.hello(&Hello::default()).await.unwrap();
    let mut drawer = Socket::join(relay.address, "a").await;
    for n in 1..=64 {
        drawer.draw(n, &[Draw::Opaque(vec![7; 60_000])]).await;
        drawer.acked(n).await;
    }
    let begun = Instant::now();
    relay.stop();
    assert_eq!(sent_away(&mut drawer).await.1, 1001);
    drop(drawer);
    relay.stopped().await;
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn whoever_does_not_end_is_cut_at_the_drain_time() {
    let store = SlowStore::new();
    let mut relay =
        Relay::start_on(store.clone(), |config| config.times.drain_time = Duration::from_millis(500)).await;
    let mut socket = Socket::join(relay.address, "a").await;
    store.hold_appends(true);
    socket.draw(1, &[mark(1)]).await;
    store.has_appends(1).await;
    let post = relay.request(Method::POST, "/v1/rooms/b/draws").header("content-type", JSON).body("[[4]]");
    let post = tokio::spawn(crate::support::requests::try_answer(post));
    store.has_appends(2).await;
    let begun = Instant::now();
    relay.stop();
    relay.stopped().await;
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(450) && took < Duration::from_secs(2), "{took:?}");
    assert!(post.await.unwrap().is_err(), "cut");
    // P-8: no answer is unknown, and never refused.
    assert!(matches!(socket.closed().await, 1001 | 1006));
}

#[tokio::test]
async fn the_program_ends_in_good_order_on_sigterm() {
    let mut program = Process::start(&[]);
    let mut socket = Socket::join(program.address, "a").await;
    program.terminate();
    assert_eq!(sent_away(&mut socket).await.1, 1001);
    drop(socket);
    assert_eq!(program.ended().await, Some(0));
}

/// H-5: who asks again, as somebody at a terminal does, is in a hurry.
#[tokio::test]
async fn asked_again_it_waits_no_longer_for_load_balancers() {
    let mut program = Process::start(&["--drain-delay", "1h"]);
    let mut socket = Socket::join(program.address, "a").await;
    let url = format!("http://{}/readyz", program.address);
    let ready = async || answer(crate::support::requests::client().get(&url)).await.status;
    program.terminate();
    eventually("it is not ready", async || ready().await == 503).await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    program.terminate();
    assert_eq!(sent_away(&mut socket).await.1, 1001);
    drop(socket);
    assert_eq!(program.ended().await, Some(0));
}
