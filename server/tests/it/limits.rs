//! Limits: each is told where a client must know it, has its stated answer, and can be lifted.

mod addresses;
mod subjects;

use std::time::Duration;

use http::Method;
use inkrelay_protocol::ServerFrame;
use inkrelay_protocol::frame::Hello;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::bad_input::{close_code, masked, raw_websocket};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::requests::{MESSAGE_PACK, answer, try_answer, until_closed};
use crate::support::socket::{Got, Socket, batch, mark};

const PATH: &str = "/v1/rooms/a/draws";

/// L-1.
#[tokio::test]
async fn the_limits_of_a_welcome_are_those_that_are_set() {
    let relay = Relay::start(|config| {
        let limits = &mut config.limits;
        (limits.max_draw, limits.max_batch, limits.max_message, limits.max_rate) = (100, 3, 5000, 7);
    })
    .await;
    let drawer = Socket::join(relay.address, "a").await;
    assert_eq!(drawer.welcome.unwrap().limits.to_array(), [100, 3, 5000, 7, 0]);
    let session = answer(relay.request(Method::POST, "/v1/rooms/a/sessions")).await.json();
    assert_eq!(session["limits"], serde_json::json!([100, 3, 5000, 7, 0]));
    let lifted = Relay::start(|config| {
        let limits = &mut config.limits;
        (limits.max_draw, limits.max_batch, limits.max_message, limits.max_rate) = (0, 0, 0, 0);
    })
    .await;
    let drawer = Socket::join(lifted.address, "a").await;
    assert_eq!(drawer.welcome.unwrap().limits.to_array(), [0; 5]);
    let unlimited = Relay::start(|config| config.unlimited = true).await;
    let limits = Socket::join(unlimited.address, "a").await.welcome.unwrap().limits;
    assert_eq!((limits.draws_per_batch, limits.batches_per_second), (0, 0));
}

/// D-14, D-15, L-3: told with the draw at fault, and the connection stays.
#[tokio::test]
async fn large_draws_and_large_batches_are_refused_until_it_is_lifted() {
    let large = inkrelay_protocol::Draw::Opaque(vec![0; 200]);
    let many: Vec<_> = (1..=4).map(mark).collect();
    let relay = Relay::start(|config| (config.limits.max_draw, config.limits.max_batch) = (100, 3)).await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.draw(1, &[mark(1), large.clone()]).await;
    assert_eq!(socket.refused().await, ("too_large".to_owned(), Some(2)));
    socket.draw(1, &many).await;
    assert_eq!(socket.refused().await, ("too_large".to_owned(), Some(1)));
    socket.draw(1, &many[..3]).await;
    socket.acked(3).await;
    for draws in [&[large.clone()][..], &many] {
        let got = relay.post(PATH, MESSAGE_PACK, batch(draws)).await;
        assert_eq!(got.problem(), (413, "too_large".to_owned()));
        assert_eq!(got.json()["index"], 0);
    }
    let lifted = Relay::start(|config| (config.limits.max_draw, config.limits.max_batch) = (0, 0)).await;
    let huge = inkrelay_protocol::Draw::Opaque(vec![0; 200_000]);
    let thousand: Vec<_> = (1..=1000).map(mark).collect();
    for draws in [&[huge][..], &thousand] {
        assert_eq!(lifted.post(PATH, MESSAGE_PACK, batch(draws)).await.status, 200);
    }
}

/// L-4: one bucket per client, whichever way its batches come.
#[tokio::test]
async fn the_rate_of_a_client_is_shared_by_its_transports() {
    let relay = Relay::start(|config| config.limits.max_rate = 2).await;
    let mut socket = Socket::join(relay.address, "a").await;
    let (ticket, mut n) = (socket.ticket.clone(), 0);
    // Twice the rate at once.
    for _ in 0..2 {
        n += 1;
        socket.draw(n, &[mark(n)]).await;
        socket.acked(n).await;
        n += 1;
        assert_eq!(relay.post_as("a", &ticket, n, &[mark(n)]).await.status, 200);
    }
    let refused = relay.post_as("a", &ticket, n + 1, &[mark(n)]).await;
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    let retry_ms = refused.json()["retry_ms"].as_u64().unwrap();
    assert!((1..=500).contains(&retry_ms), "{retry_ms}");
    assert_eq!(refused.header("retry-after"), Some("1"));
    socket.draw(n + 1, &[mark(n)]).await;
    assert_eq!(socket.refused().await, ("rate_limited".to_owned(), Some(n + 1)));
    // Another client is not concerned, and neither is who has no ticket.
    let (_, other) = relay.session("a").await;
    assert_eq!(relay.post_as("a", &other, 1, &[mark(1)]).await.status, 200);
    assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
    // After the time that was told it works.
    tokio::time::sleep(Duration::from_millis(retry_ms + 50)).await;
    assert_eq!(relay.post_as("a", &ticket, n + 1, &[mark(n)]).await.status, 200);
}

/// L-4: author 0 is counted per address.
#[tokio::test]
async fn the_rate_without_a_ticket_is_that_of_the_address() {
    let relay = Relay::start(|config| config.limits.max_rate = 1).await;
    assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
    assert_eq!(relay.post_marks("b", 1..=1).await.status, 200);
    assert_eq!(relay.post_marks("c", 1..=1).await.problem(), (429, "rate_limited".to_owned()));
    let lifted = Relay::start(|config| config.limits.max_rate = 0).await;
    for n in 1..=50 {
        assert_eq!(lifted.post_marks("a", n..=n).await.status, 200);
    }
}

/// P-6, P-7: what follows a refused batch is dropped until its number comes again; then all is stored.
#[tokio::test]
async fn after_a_rate_limit_everything_is_stored_once_it_is_sent_again() {
    let relay = Relay::start(|config| config.limits.max_rate = 10).await;
    let mut socket = Socket::join(relay.address, "a").await;
    for n in 1..=40 {
        socket.draw(n, &[mark(n)]).await;
    }
    let mut next = 1;
    while next <= 40 {
        let (refused, retry_ms) = socket
            .wait_for("an answer", |frame| match frame {
                ServerFrame::Ack { n, .. } => Some((n + 1, None)),
                ServerFrame::Error { code, n, retry_ms, .. } => {
                    assert_eq!(code, "rate_limited");
                    Some((n.unwrap(), Some(retry_ms.expect("a time (L-9)"))))
                }
                _ => None,
            })
            .await;
        next = next.max(refused);
        if let Some(retry_ms) = retry_ms {
            assert!(retry_ms <= 200, "{retry_ms}");
            tokio::time::sleep(Duration::from_millis(retry_ms)).await;
            for n in refused..=40 {
                socket.draw(n, &[mark(n)]).await;
            }
        }
    }
    let log = Socket::join(relay.address, "a").await.records(1, 40).await;
    let marks: Vec<_> = log.iter().map(|record| crate::support::socket::marked(record)).collect();
    assert_eq!(marks, (1..=40).collect::<Vec<_>>());
}

/// L-5.
#[tokio::test]
async fn a_full_room_refuses_draws_answers_retries_and_can_be_read() {
    let relay = Relay::start(|config| config.limits.max_room = 100).await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.draw(1, &[mark(1), mark(2)]).await;
    socket.acked(2).await;
    socket.draw(3, &[mark(3), mark(4)]).await;
    assert_eq!(socket.refused().await, ("room_full".to_owned(), Some(3)));
    socket.draw(1, &[mark(1), mark(2)]).await;
    assert_eq!(socket.acked(2).await.1.get(), 2);
    let got = relay.post_as("a", &socket.ticket, 3, &[mark(3), mark(4)]).await;
    assert_eq!(got.problem(), (413, "room_full".to_owned()));
    let retried = relay.post_as("a", &socket.ticket, 1, &[mark(1), mark(2)]).await.json();
    assert_eq!((retried["seq"].as_u64(), retried["stored"].as_u64()), (Some(1), Some(0)));
    assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 2);
    Socket::join(relay.address, "a").await.records(1, 2).await;
    assert_eq!(relay.post_marks("b", 1..=1).await.status, 200, "another room");
    let lifted = Relay::start(|config| config.limits.max_room = 0).await;
    assert_eq!(lifted.post_marks("a", 1..=100).await.status, 200);
}

/// L-6.
#[tokio::test]
async fn a_crowded_room_takes_the_next_one_when_someone_leaves() {
    let relay = Relay::start(|config| config.limits.max_sessions = 3).await;
    let first = Socket::join(relay.address, "a").await;
    let second = Socket::join(relay.address, "a").await;
    let third = Socket::join(relay.address, "a").await;
    let (mut fourth, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
    fourth.send(&inkrelay_protocol::ClientFrame::Hello(Hello::default())).await;
    assert_eq!(fourth.closed().await, 1013);
    for (method, path) in [
        (Method::POST, "/v1/rooms/a/sessions"),
        (Method::GET, "/v1/rooms/a/draws?wait=0"),
        (Method::GET, "/v1/rooms/a/events"),
    ] {
        let got = answer(relay.request(method, path)).await;
        assert_eq!(got.problem(), (503, "room_crowded".to_owned()), "{path}");
        assert!(got.header("retry-after").is_some() && got.json()["retry_ms"].is_u64(), "L-9: {path}");
    }
    // What needs no place goes on: drawing, looking, and another room.
    assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
    assert_eq!(relay.get("/v1/rooms/a").await.status, 200);
    relay.still_works().await;
    // Whoever is here already may come back.
    let again = Socket::join_as(relay.address, "a", first.resume(None)).await;
    drop((again, first));
    eventually("there is room", async || relay.get("/v1/rooms/a/draws?wait=0").await.status == 200).await;
    drop((second, third));
    let lifted = Relay::start(|config| config.limits.max_sessions = 0).await;
    Socket::join(lifted.address, "a").await;
}

/// L-6: a room that nobody needs makes way.
#[tokio::test]
async fn as_many_rooms_are_live_as_may_be() {
    let relay = Relay::start(|config| {
        (config.limits.max_rooms, config.times.room_idle) = (1, Duration::from_millis(10));
    })
    .await;
    let here = Socket::join(relay.address, "a").await;
    for path in ["/v1/rooms/b", "/v1/rooms/b/draws?wait=0", "/v1/rooms/b/snapshot", "/v1/rooms/b/events"] {
        let got = relay.get(path).await;
        assert_eq!(got.problem(), (503, "too_many_rooms".to_owned()), "{path}");
        assert!(got.header("retry-after").is_some(), "L-9");
    }
    assert_eq!(relay.post_marks("b", 1..=1).await.problem().0, 503);
    let (mut socket, _) = Socket::handshake(relay.address, "b", None).await.unwrap();
    socket.send(&inkrelay_protocol::ClientFrame::Hello(Hello::default())).await;
    assert_eq!(socket.closed().await, 1013);
    assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
    drop(here);
    eventually("the idle room is gone", async || relay.post_marks("b", 1..=1).await.status == 200).await;
}

/// L-6: polls, WebSockets and silent connections all count, and those that are in go on.
#[tokio::test]
async fn connections_of_one_address_are_counted() {
    let relay = Relay::start(|config| config.limits.max_connections = 3).await;
    let mut socket = Socket::join(relay.address, "a").await;
    let _silent = TcpStream::connect(relay.address).await.unwrap();
    let waiting = TcpStream::connect(relay.address).await.unwrap();
    for _ in 0..3 {
        let got = relay.get("/healthz").await;
        assert_eq!(got.problem(), (503, "too_many_connections".to_owned()));
        assert!(got.header("retry-after").is_some() && got.json()["retry_ms"].is_u64());
        assert!(Socket::handshake(relay.address, "a", None).await.is_err());
    }
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    drop(waiting);
    eventually("a place is free", async || relay.get("/healthz").await.status == 200).await;
    drop(socket);
    let second = async || Socket::handshake(relay.address, "a", None).await.is_ok();
    eventually("the WebSocket's place is free", second).await;
    let lifted = Relay::start(|config| config.limits.max_connections = 0).await;
    let _many = futures_util::future::join_all((0..20).map(|_| TcpStream::connect(lifted.address))).await;
    assert_eq!(lifted.get("/healthz").await.status, 200);
}

/// L-8.
#[tokio::test]
async fn a_websocket_that_says_nothing_is_closed_with_4408() {
    let relay = Relay::start(|config| config.times.first_frame_time = Duration::from_millis(200)).await;
    let (mut silent, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
    assert_eq!(silent.closed().await, 4408);
    // Pings are no hello.
    let (mut pinging, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
    let pings = async {
        use futures_util::SinkExt;
        use tokio_tungstenite::tungstenite::Message;
        loop {
            let _ = pinging.stream.send(Message::Ping(vec![].into())).await;
            if let Ok(Got::Closed(code, _)) =
                tokio::time::timeout(Duration::from_millis(20), pinging.next()).await
            {
                return code;
            }
        }
    };
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), pings).await.unwrap(), 4408);
}

/// L-8: whoever answers pings stays, and whoever does not is closed after the idle time.
#[tokio::test]
async fn a_websocket_without_a_pong_is_closed_with_4408() {
    let idle = Duration::from_millis(1200);
    let relay = Relay::start(|config| config.times.idle_time = idle).await;
    let mut alive = Socket::join(relay.address, "a").await;
    let mut mute = raw_websocket(relay.address, "a").await;
    mute.write_all(&masked(0x82, &[0x91, 1])).await.unwrap();
    let begun = Instant::now();
    // Reading answers the pings.
    let answers = async { tokio::time::timeout(4 * idle, alive.closed()).await.expect_err("it answers") };
    let closed = async {
        let mut sent = Vec::new();
        while close_code(&sent).is_none() {
            assert!(mute.read_buf(&mut sent).await.unwrap() > 0, "closed without a code");
        }
        (close_code(&sent), begun.elapsed())
    };
    let (_, (code, after)) = tokio::join!(answers, closed);
    assert_eq!(code, Some(4408));
    assert!(after >= idle && after < 3 * idle, "{after:?}");
}

/// The next request on a connection has its own time.
#[tokio::test]
async fn a_kept_connection_is_closed_when_nothing_more_is_asked() {
    let relay = Relay::start(|config| {
        (config.times.keep_alive, config.times.header_time) =
            (Duration::from_millis(1600), Duration::from_millis(400));
    })
    .await;
    let mut stream = TcpStream::connect(relay.address).await.unwrap();
    let begun = Instant::now();
    for _ in 0..2 {
        stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"}") {
            assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
        }
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        // Longer than a first header may take.
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    until_closed(&mut stream).await;
    assert!(begun.elapsed() >= Duration::from_millis(2000), "{:?}", begun.elapsed());
}

/// A poll and an event stream outlive the time for a header, also on a fresh connection.
#[tokio::test]
async fn waiting_for_an_answer_is_not_waiting_for_a_header() {
    let relay = Relay::start(|config| config.times.header_time = Duration::from_millis(500)).await;
    let poll = try_answer(relay.request(Method::GET, &format!("{PATH}?wait=1"))).await.unwrap();
    assert_eq!(poll.status, 200);
    let mut events = relay.request(Method::GET, "/v1/rooms/a/events").send().await.unwrap();
    assert!(events.chunk().await.unwrap().unwrap().ends_with(b":\n\n"));
    tokio::time::sleep(Duration::from_millis(800)).await;
    relay.post_marks("a", 1..=1).await;
    assert!(String::from_utf8_lossy(&events.chunk().await.unwrap().unwrap()).starts_with("id: "));
}

/// L-7: a store that keeps silent is told as such, and nobody waits without end.
#[tokio::test]
async fn a_silent_store_is_told_within_five_seconds() {
    let store = crate::support::slow_store::SlowStore::new();
    let relay = Relay::start_on(store.clone(), |_| {}).await;
    let (_, ticket) = relay.session("a").await;
    let mut socket = Socket::join(relay.address, "a").await;
    store.hold_appends(true);
    store.hold_reads(true);
    let begun = Instant::now();
    let get = async |path: &str| (path.to_owned(), relay.get(path).await.problem());
    let posted = async { ("POST".to_owned(), relay.post_as("a", &ticket, 1, &[mark(1)]).await.problem()) };
    let drawn = async {
        socket.draw(1, &[mark(1)]).await;
        socket.refused().await
    };
    let (a, b, c, d, e, f) = tokio::join!(
        get("/v1/rooms/b"),
        get("/v1/rooms/a/snapshot"),
        get("/v1/rooms/a/draws?wait=0&after=99"),
        get("/readyz"),
        posted,
        drawn
    );
    assert!(begun.elapsed() < Duration::from_millis(5500), "{:?}", begun.elapsed());
    for (path, problem) in [a, b, c, d, e] {
        assert_eq!(problem, (503, "store_unavailable".to_owned()), "{path}");
    }
    assert_eq!(f, ("store_unavailable".to_owned(), Some(1)));
    // P-8: unknown means to send the same again.
    store.hold_reads(false);
    store.hold_appends(false);
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    assert_eq!(relay.post_as("a", &ticket, 1, &[mark(1)]).await.status, 200);
}
