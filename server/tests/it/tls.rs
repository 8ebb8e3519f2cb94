//! TLS on the public port: everything goes over it, and nobody gets more out of it than over plain connections.

mod files;
mod handshakes;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use inkrelay_client::client::{Client, ClientConfig, Event, Transport};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientFrame, Draw, ServerFrame};
use inkrelay_server::config::Config;
use inkrelay_server::transport::Certificates;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::MaybeTlsStream;

use crate::bad_input::{close_code, masked};
use crate::rust_client::wait;
use crate::support::certificates::Authority;
use crate::support::ledger::{number_of, padded};
use crate::support::relay::Relay;
use crate::support::requests::{JSON, answer};
use crate::support::socket::{Got, mark, marked};
use crate::support::{PATIENCE, eventually};

const UPGRADE: &[u8] =
    b"GET /v1/rooms/a/ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A relay with a certificate of that authority.
fn relay(authority: &Authority, set: impl FnOnce(&mut Config)) -> Relay {
    let [chain, key] = authority.issue();
    Relay::encrypted(Arc::new(Certificates::load(&chain, &key).unwrap()), set)
}

fn url(relay: &Relay, path: &str) -> String {
    format!("https://{}{path}", relay.address)
}

#[tokio::test]
async fn every_transport_goes_over_tls() {
    let authority = Authority::new();
    let mut relay = relay(&authority, |_| {});
    let http = authority.http();
    let get = |path: &str| http.request(Method::GET, url(&relay, path));
    let mut drawer = authority.join(relay.address, "a").await;
    let mut reader = authority.join(relay.address, "a").await;
    let mut events = get("/v1/rooms/a/events").send().await.unwrap();
    let waiting = tokio::spawn(answer(get("/v1/rooms/a/draws?wait=50&after=1")));

    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    let post = http.post(url(&relay, "/v1/rooms/a/draws")).header("content-type", JSON).body("[[4]]");
    assert_eq!(answer(post).await.status, 200);

    let records = reader.records(1, 2).await;
    assert_eq!(marked(&records[0]), 1);
    let polled = waiting.await.unwrap();
    assert_eq!((polled.status, polled.header("inkrelay-head")), (200, Some("2")));
    let mut told = String::new();
    while told.matches("id: ").count() < 2 {
        told += &String::from_utf8_lossy(&events.chunk().await.unwrap().unwrap());
    }
    let snapshot = answer(get("/v1/rooms/a/snapshot")).await;
    assert_eq!(snapshot.status, 200);
    assert!(snapshot.header("strict-transport-security").is_some());

    relay.stop();
    reader.wait_for("a go away", |frame| matches!(frame, ServerFrame::GoAway { .. }).then_some(())).await;
    assert_eq!((reader.closed().await, drawer.closed().await), (1001, 1001));
    drop((reader, drawer, events));
    relay.stopped().await;
}

/// Frames that are larger than what is encrypted at once, to more readers than one row has, while two of them are slow.
#[tokio::test(flavor = "multi_thread")]
async fn many_readers_get_large_frames_whole_and_in_order() {
    const READERS: usize = 70;
    const BATCHES: u64 = 24;
    const DRAWS: u64 = 4;
    let authority = Arc::new(Authority::new());
    let relay = relay(&authority, |_| {});
    let mut readers = Vec::new();
    for index in 0..READERS {
        let is_slow = index % 32 == 5;
        let mut socket = authority.socket(relay.address, "a", is_slow.then_some(4096)).await;
        socket.hello(&Hello::default()).await.unwrap();
        readers.push(tokio::spawn(async move {
            let mut numbers = Vec::new();
            while numbers.len() < (BATCHES * DRAWS) as usize {
                let records = socket.records(numbers.len() as u64 + 1, 1).await;
                numbers.extend(records.iter().map(|record| number_of(record).unwrap()));
                if is_slow {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            numbers
        }));
    }
    let mut drawer = authority.join(relay.address, "a").await;
    for batch in 0..BATCHES {
        let first = batch * DRAWS + 1;
        let draws: Vec<_> = (first..first + DRAWS).map(|number| padded(number, 60_000)).collect();
        drawer.draw(first, &draws).await;
        drawer.acked(first + DRAWS - 1).await;
    }
    for reader in readers {
        let numbers = tokio::time::timeout(PATIENCE, reader).await.expect("it has all in time").unwrap();
        assert_eq!(numbers, (1..=BATCHES * DRAWS).collect::<Vec<_>>());
    }
}

/// A reader that stops reading is closed as too slow, and is told so; the others have everything.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_is_closed_with_4408() {
    let authority = Authority::new();
    let relay = relay(&authority, |config| {
        (config.times.stall_time, config.limits.max_rate) = (Duration::from_secs(1), 0);
    });
    let mut stuck = authority.socket(relay.address, "a", Some(4096)).await;
    stuck.hello(&Hello::default()).await.unwrap();
    let mut healthy = authority.join(relay.address, "a").await;
    let mut drawer = authority.join(relay.address, "a").await;
    for n in 1..=64 {
        drawer.draw(n, &[padded(n, 60_000)]).await;
        drawer.acked(n).await;
        healthy.records(n, 1).await;
    }
    // Longer than it may take nothing, and shorter than it is waited for to take the close.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let mut next = 1;
    let code = loop {
        match stuck.next().await {
            Got::Frame(frame) => {
                if let ServerFrame::Records { seq, records } = ServerFrame::decode(&frame).unwrap() {
                    assert_eq!(seq.get(), next, "without a hole until then");
                    next += records.len() as u64;
                }
            }
            Got::Closed(code, _) => break code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(code, 4408);
    assert!(next < 64, "it cannot have been sent all");
    let mut back = authority.join(relay.address, "a").await;
    assert_eq!(back.records(1, 64).await.len(), 64);
}

/// Both versions; an old client is let in, an older one would not be.
#[tokio::test]
async fn tls_1_2_and_1_3_are_spoken_and_http_1_1_over_both() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    for version in rustls::ALL_VERSIONS {
        let offers: [&[&[u8]]; 3] = [&[], &[b"http/1.1"], &[b"h2", b"http/1.1"]];
        for offer in offers {
            let mut stream = authority
                .connect(relay.address, |config| {
                    *config = authority.trusting(&[version]);
                    config.alpn_protocols = offer.iter().map(|name| name.to_vec()).collect();
                })
                .await
                .unwrap();
            let agreed = stream.get_ref().1.alpn_protocol();
            assert_eq!(agreed, (!offer.is_empty()).then_some(&b"http/1.1"[..]));
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = Vec::new();
            // An end without a close_notify would be an error.
            stream.read_to_end(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        }
    }
    let only_h2 =
        authority.connect(relay.address, |config| config.alpn_protocols = vec![b"h2".to_vec()]).await;
    assert!(only_h2.unwrap_err().to_string().contains("NoApplicationProtocol"));
}

/// RFC 8446, section 6.1: without a close_notify nobody could tell an end from a cut.
#[tokio::test]
async fn a_websocket_ends_with_a_close_notify() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    let frames = [masked(0x88, &[0x03, 0xe8]), masked(0x82, &[0xc1])];
    let cases =
        frames.iter().flat_map(|frame| rustls::ALL_VERSIONS.iter().map(move |version| (*version, frame)));
    for (version, frame) in cases {
        let set = |config: &mut _| *config = authority.trusting(&[version]);
        let mut stream = authority.connect(relay.address, set).await.unwrap();
        // The first frames may come along with the request.
        stream.write_all(&[UPGRADE, &masked(0x82, &[0x91, 1]), frame].concat()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let mut sent = Vec::new();
        if frame[0] == 0x82 {
            while close_code(&sent).is_none() {
                assert!(stream.read_buf(&mut sent).await.unwrap() > 0, "closed without a code");
            }
            stream.write_all(&masked(0x88, &[0x03, 0xe8])).await.unwrap();
        }
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut sent))
            .await
            .expect("an end")
            .expect("a clean one");
    }
}

/// What is no record ends that connection, and nothing else.
#[tokio::test]
async fn bytes_that_cannot_be_decrypted_end_the_connection() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    let mut other = authority.join(relay.address, "a").await;
    let mut stream = authority.connect(relay.address, |_| {}).await.unwrap();
    stream.write_all(UPGRADE).await.unwrap();
    stream.read_u8().await.unwrap();
    let (mut bare, _) = stream.into_inner();
    bare.write_all(&[&[23, 3, 3, 0, 40][..], &[7; 40]].concat()).await.unwrap();
    let mut rest = Vec::new();
    drop(tokio::time::timeout(PATIENCE, bare.read_to_end(&mut rest)).await.expect("it ends"));
    other.draw(1, &[mark(1)]).await;
    other.acked(1).await;
}

/// Those that are counted too many are told so, and whoever leaves makes room, WebSockets included.
#[tokio::test]
async fn encrypted_connections_of_one_address_are_counted() {
    let authority = Authority::new();
    let relay = relay(&authority, |config| config.limits.max_connections = 2);
    let mut socket = authority.join(relay.address, "a").await;
    let silent = tokio::net::TcpStream::connect(relay.address).await.unwrap();
    let health = async || answer(authority.http().get(url(&relay, "/healthz"))).await;
    let mut refused = health().await;
    assert_eq!(refused.problem(), (503, "too_many_connections".to_owned()));
    drop(silent);
    eventually("a place is free", async || {
        refused = health().await;
        refused.status == 200
    })
    .await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
}

#[tokio::test]
async fn an_idle_socket_lives_on_by_its_pongs() {
    let authority = Authority::new();
    let relay = relay(&authority, |config| {
        (config.times.idle_time, config.times.heartbeat) =
            (Duration::from_secs(1), Duration::from_millis(200));
    });
    let mut alive = authority.join(relay.address, "a").await;
    let heartbeat = |frame: ServerFrame<'_>| matches!(frame, ServerFrame::Heartbeat(_)).then_some(());
    // Longer than anybody may give no sign of life: reading answers pings.
    for _ in 0..10 {
        alive.wait_for("a heartbeat", heartbeat).await;
    }
    alive.send(&ClientFrame::Pointer { x: 1, y: 2 }).await;
    alive.draw(1, &[Draw::Opaque(vec![1; 50_000])]).await;
    alive.acked(1).await;
}

/// RFC 8446, section 4.6.3: the server answers with new keys of its own, which go out with what it sends next.
#[tokio::test]
async fn new_keys_are_taken_in_the_middle_of_a_session() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    let mut socket = authority.join(relay.address, "a").await;
    for n in 1..=20 {
        let MaybeTlsStream::Rustls(stream) = socket.stream.get_mut() else { panic!("it is encrypted") };
        stream.get_mut().1.refresh_traffic_keys().unwrap();
        socket.draw(n, &[padded(n, 20_000)]).await;
        socket.acked(n).await;
    }
    assert_eq!(authority.join(relay.address, "a").await.records(1, 20).await.len(), 20);
}

#[tokio::test]
async fn the_rust_client_goes_over_tls() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    for (scheme, transport) in
        [("https", Transport::WebSocket), ("wss", Transport::WebSocket), ("https", Transport::LongPoll)]
    {
        let room = format!("{scheme}-{transport:?}").to_lowercase();
        let mut config = ClientConfig::new(format!("{scheme}://{}", relay.address), room.parse().unwrap());
        (config.transport, config.authorities) = (transport, Some(authority.ca()));
        let (client, mut events) = Client::connect(config.clone()).unwrap();
        client.draw(&mark(7)).unwrap();
        tokio::time::timeout(PATIENCE, client.flush()).await.expect("it is stored in time").unwrap();
        let records = wait(&mut events, |event| match event {
            Event::Records { records, .. } => Some(records),
            _ => None,
        });
        let records = records.await;
        assert_eq!(marked(&records[0]), 7, "{scheme} {transport:?}");
        client.close().await;

        // Somebody whom the server's authority is not known to.
        let stranger = Authority::new();
        config.authorities = Some(stranger.ca());
        let (client, mut events) = Client::connect(config).unwrap();
        let why = wait(&mut events, |event| match event {
            Event::Disconnected { why, .. } => Some(why),
            _ => None,
        });
        let why = why.await;
        assert!(why.contains("certificate"), "{why}");
        client.close().await;
    }
}
