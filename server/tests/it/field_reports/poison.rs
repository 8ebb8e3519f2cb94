//! Bytes that break whoever reads them.

use inkrelay_protocol::{Board, ClientId, Draw, Identity, Record};

use super::{begin, node};
use crate::support::http::Http;
use crate::support::process::Process;
use crate::support::reader::{Reader, fresh_log};
use crate::support::redis::RedisServer;
use crate::support::socket::{Socket, batch, mark};

/// Address space that the process may have, in KiB: 1 GB.
const ADDRESS_SPACE_KIB: usize = 1024 * 1024;

/// What no decoder may trust: sizes that are not there, and depths.
fn poison() -> Vec<(&'static str, Vec<u8>)> {
    let deep_map = [&b"\x81\xa1a"[..]; 200].concat();
    vec![
        ("an array of 2^32 - 1", vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        ("a map of 2^32 - 1", vec![0xdf, 0xff, 0xff, 0xff, 0xff]),
        ("binary of 2^32 - 1 bytes", vec![0xc6, 0xff, 0xff, 0xff, 0xff]),
        ("a string of 2^32 - 1 bytes", vec![0xdb, 0xff, 0xff, 0xff, 0xff]),
        ("24,000 arrays of 2^16 - 1, each in the one before", [0xdc, 0xff, 0xff].repeat(24_000)),
        ("10,000 arrays, each in the one before", [vec![0x91; 10_000], vec![0]].concat()),
        ("200 maps, each in the one before", [deep_map, vec![0]].concat()),
    ]
}

/// `[0, 1, [0, 255, 32], 0, [0, 0], true, EXTRA]`
fn stroke_with(extra: &[u8]) -> Vec<u8> {
    [&b"\x97\x00\x01\x93\x00\xcc\xff\x20\x00\x92\x00\x00\xc3"[..], extra].concat()
}

fn in_batch(draw: &[u8]) -> Vec<u8> {
    [b"\x91", draw].concat()
}

fn in_draws_frame(draws: &[u8]) -> Vec<u8> {
    [b"\x93\x02\x01", draws].concat()
}

async fn closed_with(mut socket: Socket, bytes: Vec<u8>) -> u16 {
    socket.send_bytes(bytes).await;
    socket.closed().await
}

/// A few bytes that announce four billion elements make a server ask for the memory; ten thousand nested arrays
/// end its stack. Before a session and in one, by POST and over a socket, as a draw and inside one.
#[tokio::test(flavor = "multi_thread")]
async fn sizes_and_depths_that_lie_are_refused() {
    let mut relay = Process::start_within(ADDRESS_SPACE_KIB, &["--max-rate=0"]);
    let mut bystander = Socket::join(relay.address, "b").await;
    let http = Http::new(relay.address, "a");
    let session = http.session().await.unwrap();
    let ticket = session["ticket"].as_str().unwrap();
    let before = relay.resident_bytes();
    for (n, (what, bytes)) in poison().into_iter().enumerate() {
        for body in [bytes.clone(), in_batch(&bytes), in_batch(&stroke_with(&bytes))] {
            for as_whom in [None, Some((ticket, 1))] {
                let (status, problem) = http.post(body.clone(), as_whom).await.unwrap();
                assert_eq!((status, &problem["code"]), (400, &"malformed".into()), "{what}");
            }
            let (stranger, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
            assert_eq!(closed_with(stranger, body.clone()).await, 4400, "{what}, before a hello");
            for frame in [body.clone(), in_draws_frame(&body)] {
                let participant = Socket::join(relay.address, "a").await;
                assert_eq!(closed_with(participant, frame).await, 4400, "{what}, after a hello");
            }
        }
        // Others notice nothing.
        bystander.draw(n as u64 + 1, &[mark(1)]).await;
        bystander.acked(n as u64 + 1).await;
    }
    assert!(relay.is_alive());
    let grown = relay.resident_bytes().saturating_sub(before);
    assert!(grown < 8 * 1024 * 1024, "{grown} bytes more are in use");
    assert_eq!(http.info().await["records"], 0);
}

/// One number that is none makes the board impossible to open for everyone. It is refused at the door.
#[tokio::test(flavor = "multi_thread")]
async fn strokes_that_cannot_be_drawn_are_refused_at_the_door() {
    let relay = crate::support::relay::Relay::start(|_| {}).await;
    let http = Http::new(relay.address, "a");
    // `[0, 0, [0, 255, 32], 0, [0, VALUE], true]`
    let with = |value: &[u8]| {
        in_batch(&[&b"\x96\x00\x00\x93\x00\xcc\xff\x20\x00\x92\x00"[..], value, b"\xc3"].concat())
    };
    let float = |value: f64| [&[0xcb][..], &value.to_be_bytes()].concat();
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e308, 0.5] {
        let (status, problem) = http.post(with(&float(value)), None).await.unwrap();
        assert_eq!(
            (status, &problem["code"], &problem["index"]),
            (422, &"invalid_draw".into(), &0.into()),
            "{value}"
        );
    }
    let not_a_number_of_32_bits = [&[0xca][..], &f32::NAN.to_be_bytes()].concat();
    assert_eq!(http.post(with(&not_a_number_of_32_bits), None).await.unwrap().0, 422);
    assert_eq!(http.post(batch(&[begin(0, &[], true)]), None).await.unwrap().0, 422, "no point");
    let (status, problem) = http.post(batch(&[begin(0, &vec![0; 200_000], true)]), None).await.unwrap();
    assert_eq!((status, &problem["code"]), (413, &"too_large".into()), "100,000 points");
    assert_eq!(http.post(batch(&[begin(0, &vec![0; 2_000_000], true)]), None).await.unwrap().0, 413);

    // What is odd and can be drawn is taken: two equal points, no width, pressures of -1 and 999.
    let style = inkrelay_protocol::Style { tool: 9, rgba: 0, width: 0 };
    let channels = inkrelay_protocol::Channels::PRESSURE;
    let odd = Draw::Begin { stroke: 0, style, channels, points: vec![5, 5, -1, 0, 0, 999], end: true };
    assert_eq!(http.post(batch(&[odd]), None).await.unwrap().0, 200);
    let log = fresh_log("fresh", relay.address, "a").await;
    assert_eq!(log.len(), 1);
    let mut board = Board::new();
    log.all().iter().for_each(|record| board.apply(&Record::parse(record).unwrap()));
    let points: Vec<_> =
        board.strokes().flat_map(|stroke| stroke.points()).map(|point| point.pressure).collect();
    assert_eq!(points, [Some(0), Some(255)]);
}

/// Poison that is in the list already, put there by something else: whoever opens the room is broken by it.
#[tokio::test(flavor = "multi_thread")]
async fn poison_in_the_list_harms_nobody_and_hides_nothing() {
    let redis = RedisServer::start();
    let relay = node(&redis, |_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    drawer.draw(1, &[begin(1, &[0, 0, 9, 9], true)]).await;
    drawer.acked(1).await;
    let mut stayed = Reader::join("stayed", relay.address, "a").await;
    stayed.has(1).await;

    let mut elements: Vec<Vec<u8>> = poison().into_iter().map(|(_, bytes)| bytes).collect();
    elements.extend([b"hello".to_vec(), Vec::new(), vec![0xc1]]);
    let identity = Identity { author: ClientId::new(7).unwrap(), n: 1, at: 1 };
    let mut nan = Vec::new();
    Record {
        identity,
        draw: &[0x96, 0, 1, 0x93, 0, 0, 32, 0, 0x92, 0, 0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0, 0xc3],
    }
    .encode(&mut nan);
    elements.push(nan);
    for (_, bytes) in poison() {
        // Inside a record, and inside a field that a later version may have put there.
        elements.push([&b"\x94\x07\x02\x01"[..], &bytes].concat());
        elements.push([&b"\x94\x07\x02\x01"[..], &stroke_with(&bytes)].concat());
    }
    let mut push = redis::cmd("RPUSH");
    push.arg("inkrelay:{a}:log").arg(&elements);
    let count: usize = push.query(&mut redis.connection()).unwrap();
    assert_eq!(count, 1 + elements.len());

    drawer.draw(2, &[begin(2, &[5, 5, 9, 9], true)]).await;
    drawer.acked(2).await;
    let total = count + 1;
    // Who was there all the time, who comes now, and who comes to a server that starts now.
    let fresh = node(&redis, |_| {}).await;
    for address in [relay.address, fresh.address] {
        let log = fresh_log("fresh", address, "a").await;
        assert_eq!(log.len(), total);
        let mut board = Board::new();
        log.all().iter().for_each(|record| board.apply(&Record::parse(record).unwrap()));
        let strokes: Vec<_> = board.strokes().map(|stroke| (stroke.author, stroke.number)).collect();
        assert_eq!(strokes, [(drawer.client, 1), (drawer.client, 2)], "the rest is drawn");
        let picture = inkrelay_client::svg::render(&board);
        assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"), "{picture}");
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        let polled = Http::new(address, "a").poll("", 0).await.unwrap();
        assert_eq!(polled.records, log.all());
        // All of it can be told in JSON too.
        let url = format!("http://{address}/v1/rooms/a/draws?wait=0");
        let text = reqwest::get(url).await.unwrap().text().await.unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json[2].as_array().unwrap().len(), total);
    }
    // Nobody who was there all the time was left behind.
    stayed.has(total).await;
    assert_eq!(stayed.log.all(), fresh_log("fresh", relay.address, "a").await.all());
}
