//! What is left behind by those who go without a word, and by those who do not keep up.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inkrelay_protocol::ServerFrame;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{interval, sleep};

use super::p99;
use crate::support::http::Http;
use crate::support::ledger::{Ledger, number_of, padded};
use crate::support::process::Process;
use crate::support::proxy::Proxy;
use crate::support::reader::{Reader, fresh_log};
use crate::support::relay::Relay;
use crate::support::socket::Socket;
use crate::support::writer::Writer;
use crate::support::{PATIENCE, eventually};

/// Connections that a round of abandonment opens, one every 25 ms.
const ABANDONED: usize = 80;

/// Someone who goes without a word. What is to be held open is returned.
async fn abandon(address: SocketAddr, how: usize) -> Option<TcpStream> {
    const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
        sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = match how {
        0 => "GET /v1/rooms/a/draws?wait=55 HTTP/1.1\r\nhost: x\r\n\r\n".to_owned(),
        1 => format!("GET /v1/rooms/a/ws HTTP/1.1\r\nhost: x\r\n{UPGRADE}"),
        2 => format!("GET /v1/rooms/a/ws HTTP/1.1\r\nhost: x\r\n{UPGRADE}\r\n"),
        _ => {
            let mut socket = Socket::join(address, "a").await;
            let tokio_tungstenite::MaybeTlsStream::Plain(stream) = socket.stream.get_mut() else {
                return None;
            };
            // The session stays behind with nobody who would read or answer.
            let kept = socket2::SockRef::from(&*stream).try_clone().unwrap();
            kept.set_nonblocking(true).unwrap();
            return Some(TcpStream::from_std(kept.into()).unwrap());
        }
    };
    stream.write_all(request.as_bytes()).await.unwrap();
    if how > 0 {
        return Some(stream);
    }
    sleep(Duration::from_millis(200)).await;
    // Closed with that option a socket is reset, as when a device loses its network.
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    None
}

/// Long polls that are reset, half a handshake, a handshake without a hello, a session without a sign of life: a
/// server that waits for a close that never comes keeps each of them for ever.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_without_a_word_is_forgotten() {
    let relay = Process::start(&[
        "--header-time=500ms",
        "--first-frame-time=500ms",
        "--idle-time=1s",
        "--stall-time=1s",
        "--room-idle=100ms",
    ]);
    let http = Http::new(relay.address, "a");
    assert_eq!(http.participants().await, 0);
    let baseline = relay.descriptors();
    let mut resident = Vec::new();
    for round in 0..3 {
        let mut beat = interval(Duration::from_millis(25));
        let mut gone = Vec::new();
        for index in 0..ABANDONED {
            beat.tick().await;
            gone.push(tokio::spawn(abandon(relay.address, index % 4)));
        }
        let mut held = Vec::new();
        for one in gone {
            held.extend(one.await.unwrap());
        }
        assert!(relay.descriptors() > baseline, "there was something to forget");
        let stopped = Instant::now();
        if round > 0 {
            // The first round's are held to the end, so that it is the server which ends them.
            held.clear();
        }
        eventually("all descriptors are closed", async || relay.descriptors() <= baseline).await;
        eventually("nobody is present", async || http.participants().await == 0).await;
        assert!(stopped.elapsed() < Duration::from_secs(1 + 5 + 1), "{:?}", stopped.elapsed());
        resident.push(relay.resident_bytes());
    }
    assert!(resident[2] <= resident[0] + resident[0] / 10, "memory in use after each round: {resident:?}");
}

/// Whoever closes its sending side is taken for gone, since that is all that the server sees of a client that closed both: a
/// poll that waited on would hold its place for up to 55 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_whose_client_closed_its_side_is_over() {
    let relay = Relay::start(|config| config.limits.max_sessions = 1).await;
    let mut gone = TcpStream::connect(relay.address).await.unwrap();
    gone.write_all(b"GET /v1/rooms/a/draws?wait=55 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let poll = "/v1/rooms/a/draws?wait=0";
    eventually("its poll waits", async || relay.get(poll).await.status == 503).await;
    gone.shutdown().await.unwrap();
    eventually("its place is free", async || relay.get(poll).await.status == 200).await;
}

/// Many clients talk at once and leave, again and again: memory climbs with each wave and stays.
#[tokio::test(flavor = "multi_thread")]
async fn memory_comes_back_after_many_talked() {
    const CLIENTS: usize = 40;
    const DRAWS: u64 = 40;
    let relay = Process::start(&["--room-idle=100ms"]);
    let mut resident = Vec::new();
    for round in 0..3 {
        let talk = |client: usize| {
            let (address, room) = (relay.address, format!("r{round}-{}", client / 10));
            tokio::spawn(async move {
                let mut socket = Socket::join(address, &room).await;
                let mut beat = interval(Duration::from_millis(50));
                for n in 1..=DRAWS {
                    beat.tick().await;
                    socket.draw(n, &[padded(n, 0)]).await;
                }
                socket.acked(DRAWS).await;
            })
        };
        for client in (0..CLIENTS).map(talk).collect::<Vec<_>>() {
            client.await.unwrap();
        }
        for room in 0..CLIENTS / 10 {
            let http = Http::new(relay.address, &format!("r{round}-{room}"));
            eventually("everyone has left", async || http.participants().await == 0).await;
            assert_eq!(http.info().await["records"], 10 * DRAWS, "and all was stored");
        }
        // Rooms are dropped meanwhile.
        sleep(Duration::from_millis(700)).await;
        resident.push(relay.resident_bytes());
    }
    assert!(resident[2] <= resident[1] + resident[1] / 10, "memory in use after each round: {resident:?}");
}

/// A tab in the background stops reading while others draw: what waits for it grows without bound, or it holds up
/// everyone else. Here it is closed as too slow, costs nothing, and has everything when it comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_is_closed_and_costs_nobody_anything() {
    const STROKE_BYTES: usize = 2048;
    let relay = Process::start(&["--stall-time=1s", "--max-rate=0"]);
    let mut stuck = Socket::handshake_slowly(relay.address, "a", 4096).await;
    stuck.hello(&inkrelay_protocol::frame::Hello::default()).await.unwrap();
    let mut healthy = Socket::join(relay.address, "a").await;
    let mut drawer = Socket::join(relay.address, "a").await;
    let ledger = Arc::new(Ledger::default());
    let before = relay.resident_bytes();

    // Enough at once to fill what the kernel takes, then 200 strokes a second.
    let mut n = 1;
    for _ in 0..40 {
        let draws: Vec<_> = (0..50).map(|_| padded(ledger.issue(), STROKE_BYTES)).collect();
        drawer.draw(n, &draws).await;
        n += draws.len() as u64;
    }
    drawer.acked(n - 1).await;
    let burst = usize::try_from(n - 1).unwrap();
    healthy.records(1, burst).await;
    let mut delays = Vec::new();
    let mut beat = interval(Duration::from_millis(10));
    for _ in 0..300 {
        beat.tick().await;
        let numbers = [ledger.issue(), ledger.issue()];
        let sent = Instant::now();
        drawer.draw(n, &numbers.map(|number| padded(number, STROKE_BYTES))).await;
        healthy.records(n, 2).await;
        delays.push(sent.elapsed());
        // Whoever draws reads, too: what it drew comes back to it.
        drawer.acked(n + 1).await;
        n += 2;
    }
    (1..n).for_each(|number| ledger.acked(number));
    let stored = n * STROKE_BYTES as u64;
    let grown = relay.resident_bytes().saturating_sub(before);
    assert!(
        grown < stored + 16 * 1024 * 1024,
        "{grown} bytes more, of which {stored} are the draws in memory"
    );
    assert!(p99(delays.clone()) < Duration::from_millis(250), "{:?}", p99(delays));

    // It was told why, and has what it was sent until then without a hole.
    let mut reader = Reader::of("stuck", relay.address, stuck, "a");
    reader.until("it is closed, comes back and has all", |log| log.len() as u64 == n - 1).await;
    assert_eq!(reader.closes, [4408]);
    ledger.assert_agrees(&[&reader.log, &fresh_log("fresh", relay.address, "a").await]);
}

/// A reader on a slow line falls behind: what it missed is skipped in silence, or it never hears anything again.
/// Through 200 KB a second comes 1.2 MB that were drawn at once, past a tail that holds a few of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_misses_nothing_without_being_told() {
    let relay = Relay::start(|config| {
        config.limits.room_memory = 64 * 1024;
        // It takes longer than both to hear all of it, and is not given up: it takes what it is sent.
        config.times.stall_time = Duration::from_secs(2);
        config.times.idle_time = Duration::from_millis(1500);
    })
    .await;
    let line = Proxy::slow(relay.address.port(), 200 * 1024).await;
    let mut reader = Reader::join("slow", line.address(), "a").await;
    let ledger = Arc::new(Ledger::default());
    let mut writer = Writer::new(&[relay.address], "a", &ledger);
    writer.padding_bytes = 1000;
    for _ in 0..12 {
        writer.draw(100).await;
    }
    // Others go on meanwhile.
    let drawing = tokio::spawn(async move {
        for _ in 0..5 {
            writer.draw(1).await;
            sleep(Duration::from_millis(300)).await;
        }
    });
    reader.has(1205).await;
    drawing.await.unwrap();
    assert!(reader.closes.is_empty(), "{:?}", reader.closes);
    ledger.assert_agrees(&[&reader.log, &fresh_log("fresh", relay.address, "a").await]);
}

/// Twenty that read a byte a second among twenty that read: those who read wait for those who do not.
#[tokio::test(flavor = "multi_thread")]
async fn those_who_hardly_read_do_not_delay_those_who_do() {
    const DRAWS: u64 = 120;
    let relay = Relay::start(|config| {
        config.times.stall_time = Duration::from_secs(1);
        config.limits.max_rate = 0;
    })
    .await;
    let address = relay.address;
    let mut hardly = Vec::new();
    for _ in 0..20 {
        let mut socket = Socket::handshake_slowly(address, "a", 4096).await;
        socket.hello(&inkrelay_protocol::frame::Hello::default()).await.unwrap();
        hardly.push(tokio::spawn(async move {
            let tokio_tungstenite::MaybeTlsStream::Plain(mut stream) = socket.stream.into_inner() else {
                return;
            };
            let mut byte = [0; 1];
            let mut beat = interval(Duration::from_secs(1));
            while let Ok(1) = tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await {
                beat.tick().await;
            }
        }));
    }
    let mut drawer = Socket::join(address, "a").await;
    let (told, mut tell) = tokio::sync::mpsc::unbounded_channel();
    let healthy: Vec<_> = (0..20)
        .map(|_| {
            let told = told.clone();
            tokio::spawn(async move {
                let mut reader = Socket::join(address, "a").await;
                loop {
                    let numbers = reader
                        .wait_for("records", |frame| match frame {
                            ServerFrame::Records { records, .. } => Some(
                                records.iter().filter_map(|record| number_of(record)).collect::<Vec<_>>(),
                            ),
                            _ => None,
                        })
                        .await;
                    numbers
                        .into_iter()
                        .for_each(|number| told.send((number, Instant::now())).expect("it is heard"));
                }
            })
        })
        .collect();
    let mut sent = HashMap::new();
    let mut beat = interval(Duration::from_millis(25));
    for n in 1..=DRAWS {
        beat.tick().await;
        sent.insert(n, Instant::now());
        drawer.draw(n, &[padded(n, 40 * 1024)]).await;
        drawer.acked(n).await;
    }
    let mut delays = Vec::new();
    while delays.len() < healthy.len() * usize::try_from(DRAWS).unwrap() {
        let (number, at) = tokio::time::timeout(PATIENCE, tell.recv()).await.unwrap().unwrap();
        delays.push(at.duration_since(sent[&number]));
    }
    healthy.iter().for_each(tokio::task::JoinHandle::abort);
    assert!(p99(delays.clone()) < Duration::from_millis(500), "{:?}", p99(delays));
    let http = Http::new(address, "a");
    eventually("the slow ones are closed", async || http.participants().await <= 1).await;
    hardly.iter().for_each(tokio::task::JoinHandle::abort);
}
