//! Messages and rooms that are too large for somebody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::SinkExt;
use inkrelay_client::client::{Client, ClientConfig, Event};
use inkrelay_protocol::{Draw, ServerFrame};
use tokio_tungstenite::tungstenite::Message;

use super::begin;
use crate::support::PATIENCE;
use crate::support::http::Http;
use crate::support::ledger::{Fault, Ledger, ReaderLog, draw};
use crate::support::reader::fresh_log;
use crate::support::relay::Relay;
use crate::support::socket::{Socket, batch, mark};

const MB: usize = 1_000_000;

/// An opaque draw of exactly that many bytes.
fn draw_of(bytes: usize) -> Draw {
    let head = Draw::Opaque(vec![0; bytes - 10]).to_bytes().len() - (bytes - 10);
    let draw = Draw::Opaque(vec![7; bytes - head]);
    assert_eq!(draw.to_bytes().len(), bytes);
    draw
}

/// A message that is too large closes the connection without a word; the client sends it again, and again.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_with_a_reason_and_the_rest_arrives_whole() {
    let relay = Relay::start(|config| {
        config.limits.max_draw = MB as u64;
        config.limits.max_message = 2 * MB as u64;
    })
    .await;
    let http = Http::new(relay.address, "a");
    let mut socket = Socket::join(relay.address, "a").await;
    let limits = socket.welcome.clone().unwrap().limits;
    assert_eq!(
        (limits.bytes_per_draw, limits.bytes_per_message),
        (MB as u64, 2 * MB as u64),
        "it is told first"
    );

    // Over a socket: what fits arrives, what does not is refused, and the connection lives on.
    for (n, bytes) in [(1, 64 * 1024), (2, 999_000)] {
        socket.draw(n, &[draw_of(bytes)]).await;
        socket.acked(n).await;
    }
    socket.draw(3, &[draw_of(MB + 1)]).await;
    let message = socket
        .wait_for("an error", |frame| match frame {
            ServerFrame::Error { code, message, n: Some(3), .. } if code == "too_large" => Some(message),
            _ => None,
        })
        .await;
    assert!(message.contains("1000000"), "the limit is named: {message}");
    socket.draw(3, &[mark(3)]).await;
    socket.acked(3).await;

    // By POST.
    for (seq, bytes) in [(4, 64 * 1024), (5, 999_000)] {
        let (status, answer) = http.post(batch(&[draw_of(bytes)]), None).await.unwrap();
        assert_eq!((status, answer["seq"].as_u64()), (200, Some(seq)));
    }
    let (status, problem) = http.post(batch(&[draw_of(MB + 1)]), None).await.unwrap();
    assert_eq!((status, &problem["code"], &problem["index"]), (413, &"too_large".into(), &0.into()));
    let (status, problem) = http.post(batch(&[draw_of(20 * MB)]), None).await.unwrap();
    assert_eq!((status, &problem["code"]), (413, &"too_large".into()));

    // A message that is too large as a whole ends its connection, with a reason, and no other.
    let mut large = Socket::join(relay.address, "b").await;
    large.draw(1, &[draw_of(20 * MB)]).await;
    assert_eq!(large.closed().await, 1009);
    socket.draw(4, &[mark(4)]).await;
    socket.acked(4).await;

    let log = fresh_log("fresh", relay.address, "a").await;
    let sizes: Vec<usize> = log.all().iter().map(Vec::len).collect();
    assert_eq!(sizes.len(), 6);
    assert!(
        sizes[0] > 64 * 1024 && sizes[1] > 999_000 && sizes[3] > 64 * 1024 && sizes[4] > 999_000,
        "{sizes:?}"
    );
}

/// The client is told that a draw is too large, and goes on with the next one. On one thread, so that it draws before
/// it knows the limit.
#[tokio::test]
async fn a_client_does_not_try_again_what_is_too_large() {
    let relay = Relay::start(|config| config.limits.max_draw = 10_000).await;
    let config = ClientConfig::new(format!("http://{}", relay.address), "a".parse().unwrap());
    let (client, mut events) = Client::connect(config).unwrap();
    let large = client.draw(&draw_of(10_001)).unwrap();
    client.draw(&mark(1)).unwrap();
    tokio::time::timeout(PATIENCE, client.flush()).await.unwrap().unwrap();
    let mut refused = Vec::new();
    let mut connected = 0;
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(500), events.recv()).await {
        match event {
            Event::Refused { draw, code, .. } => refused.push((draw, code)),
            Event::Connected { .. } => connected += 1,
            Event::Disconnected { why, .. } => panic!("{why}"),
            _ => {}
        }
    }
    assert_eq!((refused, connected), (vec![(large, "too_large".to_owned())], 1));
    assert_eq!(fresh_log("fresh", relay.address, "a").await.len(), 1);
    client.close().await;
}

/// Four join a large room at once while others draw. What they are told keeps the server from seeing that they
/// live, or from answering their pings, and they are thrown out half-way.
#[tokio::test(flavor = "multi_thread")]
async fn joining_a_large_room_starves_nobody() {
    const STROKES: usize = 12_000;
    let relay = Relay::start(|config| {
        config.limits.max_rate = 0;
        config.times.idle_time = Duration::from_secs(2);
    })
    .await;
    let ledger = Arc::new(Ledger::default());
    let mut drawer = Socket::join(relay.address, "a").await;
    let points: Vec<i32> = (0..100).map(|index| index % 7).collect();
    for first in (1..=STROKES).step_by(500) {
        let strokes: Vec<_> =
            (first..first + 500).map(|stroke| begin(stroke as u64, &points, true)).collect();
        drawer.draw(first as u64, &strokes).await;
        drawer.acked(first as u64 + 499).await;
    }
    drop(drawer);
    let is_over = Arc::new(AtomicBool::new(false));
    let drawing = tokio::spawn({
        let (address, ledger, is_over) = (relay.address, Arc::clone(&ledger), Arc::clone(&is_over));
        async move {
            let http = Http::new(address, "a");
            let mut most = Duration::ZERO;
            let mut drawn = 0;
            while !is_over.load(Ordering::Acquire) {
                let asked = Instant::now();
                let number = ledger.issue();
                assert_eq!(http.post(batch(&[draw(number)]), None).await.unwrap().0, 200);
                ledger.acked(number);
                drawn += 1;
                most = most.max(asked.elapsed());
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            (drawn, most)
        }
    });
    let joins: Vec<_> = (0..4)
        .map(|index| {
            let address = relay.address;
            tokio::spawn(async move {
                let mut socket = Socket::join(address, "a").await;
                let mut log = ReaderLog::new(format!("{index}"));
                // One ping at a time, and how long its answer took.
                let (mut pinged, mut slowest, mut pongs) = (Instant::now(), Duration::ZERO, 0);
                socket.stream.send(Message::Ping("a".into())).await.unwrap();
                let until = Instant::now() + Duration::from_secs(3);
                while log.len() < STROKES || Instant::now() < until {
                    match tokio::time::timeout(PATIENCE, futures_util::StreamExt::next(&mut socket.stream))
                        .await
                    {
                        Ok(Some(Ok(Message::Binary(frame)))) => {
                            log.take(&ServerFrame::decode(&frame).unwrap())
                        }
                        Ok(Some(Ok(Message::Pong(_)))) => {
                            slowest = slowest.max(pinged.elapsed());
                            (pinged, pongs) = (Instant::now(), pongs + 1);
                            socket.stream.send(Message::Ping("a".into())).await.unwrap();
                        }
                        Ok(Some(Ok(Message::Ping(_)))) => {}
                        other => panic!("the join broke off: {other:?}"),
                    }
                }
                (log, pongs, slowest)
            })
        })
        .collect();
    let mut logs = Vec::new();
    for join in joins {
        let (log, pongs, slowest) = join.await.unwrap();
        assert!(
            pongs > 0 && slowest < Duration::from_secs(5),
            "{pongs} pongs, the slowest after {slowest:?}"
        );
        logs.push(log);
    }
    is_over.store(true, Ordering::Release);
    let (drawn, most) = drawing.await.unwrap();
    assert!(drawn > 50 && most < Duration::from_secs(2), "{drawn} drawn meanwhile, the slowest in {most:?}");
    let fresh = fresh_log("fresh", relay.address, "a").await;
    assert_eq!(fresh.len(), STROKES + drawn);
    // The strokes are none of the ledger's draws, and a reader may have stopped before the last of those came.
    let mut faults = ledger.faults(&[&logs[0], &logs[1], &logs[2], &logs[3], &fresh]);
    faults.retain(|fault| !matches!(fault, Fault::NeverIssued { .. } | Fault::Lost { .. }));
    assert_eq!(faults, []);
}
