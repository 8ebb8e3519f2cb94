//! Long polls that do not wake, and what falls between two of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inkrelay_client::client::{Client, ClientConfig, Event, Timing, Transport};
use inkrelay_protocol::{Board, Record};
use tokio::time::{interval, sleep};

use super::{begin, node};
use crate::support::http::Http;
use crate::support::ledger::{Ledger, ReaderLog, draw};
use crate::support::proxy::{Direction, Fate, Proxy};
use crate::support::reader::{Reader, fresh_log};
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::socket::batch;
use crate::support::{PATIENCE, eventually};

/// Draws reach rooms in which a poll waits, and now and then a poll sleeps on until its own timeout.
async fn every_poll_wakes(draw_at: &Relay, poll_at: &Relay) {
    const ROOMS: usize = 100;
    let (draws, polls) = (Http::new(draw_at.address, ""), Http::new(poll_at.address, ""));
    let name = |room: usize| format!("room-{room}");
    let waiting: Vec<_> = (0..ROOMS)
        .map(|room| {
            let http = polls.room(&name(room));
            tokio::spawn(async move { (http.poll("", 50).await.unwrap().records.len(), Instant::now()) })
        })
        .collect();
    eventually("every poll waits", async || {
        let last = polls.room(&name(ROOMS - 1));
        last.info().await["records"] == 0
    })
    .await;
    sleep(Duration::from_millis(300)).await;
    // Each once, in an order that has nothing to do with that of the rooms.
    let mut drawn = vec![Instant::now(); ROOMS];
    let mut beat = interval(Duration::from_millis(20));
    for step in 0..ROOMS {
        beat.tick().await;
        let room = step * 37 % ROOMS;
        drawn[room] = Instant::now();
        let (status, _) = draws.room(&name(room)).post(batch(&[draw(1)]), None).await.unwrap();
        assert_eq!(status, 200);
    }
    let mut delays = Vec::new();
    for (poll, drawn) in waiting.into_iter().zip(drawn) {
        let (records, woken) = tokio::time::timeout(PATIENCE, poll).await.expect("every poll wakes").unwrap();
        assert_eq!(records, 1);
        delays.push(woken.duration_since(drawn));
    }
    delays.sort_unstable();
    let (half, most) = (delays[ROOMS / 2], delays[ROOMS - 1]);
    assert!(half < Duration::from_millis(300) && most < Duration::from_secs(3), "{half:?}, at most {most:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_poll_wakes_on_one_node() {
    let relay = Relay::start(|_| {}).await;
    every_poll_wakes(&relay, &relay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_poll_wakes_on_another_node() {
    let redis = RedisServer::start();
    let (one, other) = (node(&redis, |_| {}).await, node(&redis, |_| {}).await);
    every_poll_wakes(&one, &other).await;
}

/// Two draws within one millisecond, some while nobody polls: the second of a pair is taken for the first, or what
/// came between two polls is gone.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_falls_between_two_polls() {
    let relay = Relay::start(|_| {}).await;
    let http = Http::new(relay.address, "a");
    let ledger = Arc::new(Ledger::default());
    let is_over = Arc::new(AtomicBool::new(false));
    let drawing = tokio::spawn({
        let (http, ledger, is_over) = (http.clone(), Arc::clone(&ledger), Arc::clone(&is_over));
        async move {
            // From shorter to longer than a poll waits.
            for pause_ms in [10, 50, 200, 700, 1200] {
                for _ in 0..3 {
                    let pair = [ledger.issue(), ledger.issue()];
                    let post = |number| http.post(batch(&[draw(number)]), None);
                    let (one, other) = tokio::join!(post(pair[0]), post(pair[1]));
                    assert_eq!((one.unwrap().0, other.unwrap().0), (200, 200));
                    pair.iter().for_each(|number| ledger.acked(*number));
                    sleep(Duration::from_millis(pause_ms)).await;
                }
            }
            is_over.store(true, Ordering::Release);
        }
    });
    let mut log = ReaderLog::new("polls");
    let mut position = String::new();
    loop {
        let was_over = is_over.load(Ordering::Acquire);
        let polled = http.poll(&position, 1).await.unwrap();
        log.records(polled.first, &polled.records);
        position = polled.position;
        if was_over && polled.records.is_empty() {
            break;
        }
        sleep(Duration::from_millis(30)).await;
    }
    drawing.await.unwrap();
    assert_eq!(log.len(), 30);
    ledger.assert_agrees(&[&log, &fresh_log("fresh", relay.address, "a").await]);
}

/// The socket breaks in the middle of a stroke and does not come back; the rest goes by POST. Points arrive twice,
/// in another order, or not at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_stroke_survives_the_change_of_its_transport() {
    let relay = Relay::start(|_| {}).await;
    // No socket gets through while this is set, and those that are open break.
    let blocked = Arc::new(AtomicBool::new(false));
    let rule = {
        let (blocked, sockets) =
            (Arc::clone(&blocked), std::sync::Mutex::new(std::collections::HashSet::new()));
        move |number: usize, direction: Direction, bytes: &[u8]| {
            let is_handshake = bytes.windows(9).any(|window| window.eq_ignore_ascii_case(b"websocket"));
            let is_socket = {
                let mut sockets = sockets.lock().unwrap();
                if direction == Direction::ToServer && is_handshake {
                    sockets.insert(number);
                }
                sockets.contains(&number)
            };
            if is_socket && blocked.load(Ordering::Acquire) { Fate::Cut } else { Fate::Forward }
        }
    };
    let proxy = Proxy::start(relay.address.port(), Arc::new(rule)).await;
    let mut config = ClientConfig::new(format!("http://{}", proxy.address()), "a".parse().unwrap());
    config.timing = Timing {
        socket_again: Duration::from_secs(1),
        backoff_first: Duration::from_millis(20),
        backoff_max: Duration::from_millis(100),
        poll: Duration::from_secs(1),
        ..Timing::default()
    };
    let (client, mut events) = Client::connect(config).unwrap();
    let transports = tokio::spawn(async move {
        let mut transports = Vec::new();
        while let Some(event) = events.recv().await {
            if let Event::Connected { transport, .. } = event {
                transports.push(transport);
            }
        }
        transports
    });
    let point = |index: i32| {
        [if index == 0 { 5000 } else { 1 + index % 7 }, if index == 0 { -5000 } else { index % 5 - 2 }]
    };
    let mut expected = Vec::new();
    let mut beat = interval(Duration::from_millis(6));
    for index in 0..500 {
        beat.tick().await;
        let [x, y] = point(index);
        expected.push(expected.last().map_or((x, y), |(before_x, before_y)| (before_x + x, before_y + y)));
        let draw = match index {
            0 => begin(1, &[x, y], false),
            _ => inkrelay_protocol::Draw::Extend { stroke: 1, points: vec![x, y], end: index == 499 },
        };
        client.draw_when_room(&draw).await.unwrap();
        match index {
            150 => blocked.store(true, Ordering::Release),
            400 => blocked.store(false, Ordering::Release),
            _ => {}
        }
    }
    tokio::time::timeout(PATIENCE, client.flush()).await.expect("all is stored").unwrap();
    assert_eq!(client.pending(), 0);

    let mut reader = Reader::join("other", relay.address, "a").await;
    reader.has(500).await;
    let mut board = Board::new();
    for record in reader.log.all() {
        board.apply(&Record::parse(record).unwrap());
    }
    let strokes: Vec<_> = board.strokes().collect();
    assert_eq!(strokes.len(), 1);
    let points: Vec<_> = strokes[0].points().map(|point| (point.x, point.y)).collect();
    assert_eq!(points, expected);
    assert!(strokes[0].closed);
    client.close().await;
    let transports = transports.await.unwrap();
    assert!(
        transports.contains(&Transport::WebSocket) && transports.contains(&Transport::LongPoll),
        "{transports:?}"
    );
}
