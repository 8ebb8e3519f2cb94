//! Draws that are malformed or break a rule, over every way in.

use std::collections::HashMap;

use inkrelay_protocol::msgpack;
use serde_json::{Value, json};

use super::{all_kinds, draws_frame, join_json, lies, lies_in_json, next_of};
use crate::support::relay::Relay;
use crate::support::requests::{JSON, MESSAGE_PACK};
use crate::support::socket::{Socket, mark};

const PATH: &str = "/v1/rooms/a/draws";
const INVALID: &str = include_str!("../../../../protocol/vectors/invalid-draws.json");

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// What the WebSocket answers to a batch: the error's code and `n`, or the code of the close.
async fn over_websocket(relay: &Relay, batch: &[u8]) -> Result<(String, u64), u16> {
    let mut socket = Socket::join(relay.address, "a").await;
    socket.send_bytes(draws_frame(1, batch)).await;
    answer(&mut socket).await
}

async fn answer(socket: &mut Socket) -> Result<(String, u64), u16> {
    use crate::support::socket::Got;
    use inkrelay_protocol::ServerFrame;
    loop {
        match socket.next().await {
            Got::Frame(bytes) => match ServerFrame::decode(&bytes).unwrap() {
                ServerFrame::Error { code, n, .. } => return Ok((code, n.unwrap())),
                ServerFrame::Ack { .. } => panic!("stored"),
                _ => {}
            },
            Got::Closed(code, _) => return Err(code),
            Got::Text(text) => panic!("{text}"),
        }
    }
}

async fn over_json_websocket(relay: &Relay, batch: &str) -> Result<(String, u64), u16> {
    let mut socket = join_json(relay.address, "a").await;
    socket.send_text(&format!("[2,1,{batch}]")).await;
    let error = next_of(&mut socket, 72).await?;
    Ok((error[1].as_str().unwrap().to_owned(), error[4].as_u64().unwrap()))
}

/// D-1 to D-18, by the vectors that every client's tests read.
#[tokio::test]
async fn every_batch_that_the_door_refuses_is_refused_alike_over_every_way_in() {
    let vectors: Value = serde_json::from_str(INVALID).unwrap();
    let mut relays: HashMap<String, Relay> = HashMap::new();
    let groups = [("batches", MESSAGE_PACK), ("json_batches", JSON)];
    for (case, content_type) in groups
        .iter()
        .flat_map(|(group, kind)| vectors[group].as_array().unwrap().iter().map(move |c| (c, *kind)))
    {
        let number = |key: &str| case[key].as_u64();
        let setting = json!([case["role"], case["bytes_per_draw"], case["draws_per_batch"]]).to_string();
        let relay = match relays.entry(setting) {
            std::collections::hash_map::Entry::Occupied(relay) => relay.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                let relay = Relay::start(|config| {
                    config.unlimited = true;
                    config.limits.max_draw = number("bytes_per_draw").unwrap_or(0);
                    config.role = inkrelay_protocol::Role::from_number(number("role").unwrap_or(1)).unwrap();
                });
                place.insert(relay.await)
            }
        };
        if case["draws_per_batch"].is_u64() {
            continue; // `limits` has that one: --unlimited would lift it here.
        }
        let (name, code) = (case["name"].as_str().unwrap(), case["code"].as_str().unwrap());
        let index = case["index"].as_u64();
        let body = match content_type {
            JSON => case["text"].as_str().unwrap().as_bytes().to_vec(),
            _ => unhex(case["hex"].as_str().unwrap()),
        };
        let is_anonymous = case["author"] == 0;
        let answer = if is_anonymous {
            relay.post(PATH, content_type, body.clone()).await
        } else {
            let (_, ticket) = relay.session("a").await;
            let request = relay.request(http::Method::POST, PATH).header("content-type", content_type);
            let request = request.header("inkrelay-ticket", ticket).header("inkrelay-n", 1);
            crate::support::requests::answer(request.body(body.clone())).await
        };
        assert_eq!(answer.problem().1, code, "{name}: {answer:?}");
        if index.is_some() {
            assert_eq!(answer.json()["index"].as_u64(), index, "{name}");
        }
        if is_anonymous {
            continue;
        }
        let expected = match code {
            "malformed" => Err(4400),
            _ => Ok((code.to_owned(), 1 + index.unwrap_or(0))),
        };
        let over_websocket = match content_type {
            JSON => over_json_websocket(relay, std::str::from_utf8(&body).unwrap()).await,
            _ => over_websocket(relay, &body).await,
        };
        assert_eq!(over_websocket, expected, "{name}");
    }
    for (_, relay) in relays.iter().filter(|(setting, _)| !setting.starts_with("[0")) {
        relay.still_works().await;
    }
}

/// F-6, F-7, D-3.
#[tokio::test]
async fn lengths_that_lie_and_endless_nesting_are_malformed() {
    let relay = Relay::start(|config| config.limits.max_rate = 0).await;
    for (name, bytes) in lies() {
        // Alone, in the place of a draw, and in an element that nobody reads.
        let in_draw = [&[0x91][..], &bytes].concat();
        let in_extra = [&[0x91, 0x92, 4][..], &bytes].concat();
        for body in [bytes, in_draw, in_extra] {
            let answer = relay.post(PATH, MESSAGE_PACK, body.clone()).await;
            assert_eq!(answer.problem(), (400, "malformed".to_owned()), "{name}");
            assert_eq!(over_websocket(&relay, &body).await, Err(4400), "{name}");
        }
    }
    for (name, text) in lies_in_json() {
        for body in [text.clone(), format!("[{text}]"), format!("[[4,{text}]]")] {
            // Some of the texts are right as a part of another.
            if serde_json::from_str::<Value>(&body).is_ok() && !body.contains("[[[[") {
                continue;
            }
            let answer = relay.post(PATH, JSON, body.clone()).await;
            assert_eq!(answer.problem(), (400, "malformed".to_owned()), "{name}");
            assert_eq!(over_json_websocket(&relay, &body).await, Err(4400), "{name}");
        }
    }
    relay.still_works().await;
}

/// F-6: whichever byte is the last to arrive.
#[tokio::test]
async fn a_batch_cut_at_any_byte_is_malformed() {
    let relay = Relay::start(|config| config.limits.max_rate = 0).await;
    let whole = all_kinds();
    for end in 0..whole.len() {
        let answer = relay.post("/v1/rooms/cut/draws", MESSAGE_PACK, whole[..end].to_vec()).await;
        assert_eq!(answer.problem(), (400, "malformed".to_owned()), "cut at {end}");
        assert_eq!(over_websocket(&relay, &whole[..end]).await, Err(4400), "cut at {end}");
    }
    assert_eq!(relay.get("/v1/rooms/cut").await.json()["records"], 0);
    let mut socket = Socket::join(relay.address, "cut").await;
    socket.send_bytes(draws_frame(1, &whole)).await;
    socket.acked(5).await;
    relay.still_works().await;
}

/// D-5, F-13: one number that no one can draw would make the board unreadable for all.
#[tokio::test]
async fn numbers_that_are_not_finite_never_reach_the_log() {
    let relay = Relay::start(|config| config.limits.max_rate = 0).await;
    let f64s = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(|value| {
        let mut out = Vec::new();
        msgpack::write_f64(&mut out, value);
        out
    });
    let f32s = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]
        .map(|value| [&[0xca][..], &value.to_be_bytes()].concat());
    for float in f64s.into_iter().chain(f32s) {
        let in_points = [&[0x91, 0x96, 0, 0, 0x93, 0, 0, 8, 0, 0x92, 5][..], &float, &[0xc3]].concat();
        let in_extra = [&[0x91, 0x92, 4][..], &float].concat();
        let in_unknown = [&[0x91, 0x92, 99, 0x91][..], &float].concat();
        for body in [in_points, in_extra, in_unknown] {
            let answer = relay.post(PATH, MESSAGE_PACK, body.clone()).await;
            assert_eq!(answer.problem(), (422, "invalid_draw".to_owned()), "{body:x?}");
            assert_eq!(answer.json()["index"], 0);
            assert_eq!(over_websocket(&relay, &body).await, Ok(("invalid_draw".to_owned(), 1)));
        }
    }
    assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 0);
    relay.still_works().await;
}

/// What people report of other boards: the strokes that a tablet really sends at its edges.
#[tokio::test]
async fn odd_strokes_are_taken_or_refused_as_a_whole() {
    let relay =
        Relay::start(|config| (config.limits.max_rate, config.limits.max_message) = (0, 8 << 20)).await;
    let stroke = |width: &str, channels: u8, points: &str| {
        format!("[[0,0,[0,255,{width}],{channels},[{points}],true]]")
    };
    let million = format!("1,1{}", ",0,0".repeat(999_999));
    let cases = [
        ("width 0", stroke("0", 0, "1,1"), None),
        ("width 65,536", stroke("65536", 0, "1,1"), Some("invalid_draw")),
        ("width -1", stroke("-1", 0, "1,1"), Some("invalid_draw")),
        ("pressure -1 and 99, which readers bring into range", stroke("8", 1, "1,1,-1,1,1,99"), None),
        ("no points", stroke("8", 0, ""), Some("invalid_draw")),
        ("half a point", stroke("8", 0, "1"), Some("invalid_draw")),
        ("two equal points", stroke("8", 0, "5,5,0,0"), None),
        ("1e308", stroke("8", 0, "1e308,1"), Some("invalid_draw")),
        ("a fraction", stroke("8", 0, "1.5,1"), Some("invalid_draw")),
        ("beyond 32 bits", stroke("8", 0, "1,1,2147483648,0"), Some("invalid_draw")),
        ("beyond the board", stroke("8", 0, "1073741825,0"), Some("invalid_draw")),
        ("the edge of the board", stroke("8", 0, "1073741824,-1073741824"), None),
        ("1,000,000 points", stroke("8", 0, &million), Some("too_large")),
    ];
    let mut taken = 0;
    for (name, body, code) in cases {
        let answer = relay.post(PATH, JSON, body).await;
        match code {
            Some(code) => assert_eq!(answer.problem().1, code, "{name}"),
            None => {
                taken += 1;
                assert_eq!(answer.status, 200, "{name}: {answer:?}");
            }
        }
    }
    let board = relay.get("/v1/rooms/a/snapshot").await.json();
    assert_eq!(board[2].as_array().unwrap().len(), taken);
}

/// D-2: nothing of a refused batch is kept, also of what came before its fault.
#[tokio::test]
async fn a_batch_with_one_bad_draw_leaves_nothing() {
    let relay = Relay::start(|_| {}).await;
    let mut good = Vec::new();
    mark(1).encode(&mut good);
    let body = [&[0x93][..], &good, &good, &[0x91, 0xa1, b'x']].concat();
    let answer = relay.post(PATH, MESSAGE_PACK, body.clone()).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (422, &json!(2)));
    let mut socket = Socket::join(relay.address, "a").await;
    socket.send_bytes(draws_frame(1, &body)).await;
    assert_eq!(socket.refused().await, ("invalid_draw".to_owned(), Some(3)));
    // P-6: its numbers are free.
    socket.draw(1, &[mark(7)]).await;
    socket.acked(1).await;
    assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 1);
}
