//! The addresses over HTTP as clients see them.

use std::io::Read;
use std::time::Duration;

use http::Method;
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{Draw, Position, Record, json as wire_json};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, MESSAGE_PACK, answer};
use crate::support::socket::{Socket, batch, marked};

const DRAWS: &str = "/v1/rooms/a/draws";

async fn get_as(relay: &Relay, path: &str, accept: &str) -> Answer {
    answer(relay.request(Method::GET, path).header("accept", accept)).await
}

fn as_json(message_pack: &[u8]) -> Value {
    let mut text = Vec::new();
    wire_json::from_msgpack(message_pack, &mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

fn position(answer: &Answer) -> String {
    answer.header("inkrelay-position").unwrap().to_owned()
}

/// S-2, S-16.
#[tokio::test]
async fn a_session_is_told_who_it_is_and_resumed_by_its_ticket() {
    let relay = Relay::start(|_| {}).await;
    let first = relay.post("/v1/rooms/a/sessions", JSON, r#"{"profile":["Ada",255]}"#).await;
    assert_eq!(first.header("cache-control"), Some("no-store"));
    let first = first.json();
    let client = first["client"].as_u64().unwrap();
    assert!((1..1 << 48).contains(&client));
    assert_eq!((&first["role"], &first["position"]), (&json!(1), &json!([1, 0, 0, 0, 0])), "R-17");
    let resumed = relay
        .request(Method::POST, "/v1/rooms/a/sessions")
        .header("inkrelay-ticket", first["ticket"].as_str().unwrap());
    let resumed = answer(resumed).await.json();
    assert_eq!((&resumed["client"], &resumed["ticket"]), (&first["client"], &first["ticket"]));
    let room = relay.get("/v1/rooms/a").await.json();
    assert_eq!(room["participants"], json!([[client, "Ada", 255]]), "without a profile it keeps its own");
    assert_ne!(relay.session("a").await.0, client);
}

/// R-9, R-10.
#[tokio::test]
async fn a_poll_answers_as_soon_as_there_is_a_record() {
    let relay = Relay::start(|_| {}).await;
    let empty = relay.get(&format!("{DRAWS}?wait=0")).await;
    assert_eq!(empty.json(), json!([1, 1, []]));
    assert_eq!((position(&empty).as_str(), empty.header("inkrelay-head")), ("1.0.0.0.0", Some("0")));
    assert_eq!(empty.header("cache-control"), Some("no-store"));
    let waiting = async {
        let got = relay.get(&format!("{DRAWS}?wait=20&after={}", position(&empty))).await;
        (got, Instant::now())
    };
    let posting = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
        Instant::now()
    };
    let ((got, answered), posted) = tokio::join!(waiting, posting);
    assert!(answered.saturating_duration_since(posted) < Duration::from_secs(1));
    assert_eq!(got.json()[1], 1);
    assert_eq!(got.json()[2].as_array().unwrap().len(), 1);
    let begun = Instant::now();
    let nothing = relay.get(&format!("{DRAWS}?wait=1&after={}", position(&got))).await;
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert_eq!((&nothing.json()[1], &nothing.json()[2]), (&json!(2), &json!([])));
    assert_eq!(position(&nothing), position(&got));
}

/// R-2, R-11: page by page, by the positions given or by bare numbers, each record comes once.
#[tokio::test]
async fn polls_go_on_from_the_position_they_are_given() {
    let relay = Relay::start(|_| {}).await;
    relay.post_marks("a", 1..=10).await;
    let (mut after, mut all) = ("0".to_owned(), Vec::new());
    for (first, count) in [(1, 4), (5, 4), (9, 2), (11, 0)] {
        let page = relay.get(&format!("{DRAWS}?wait=0&limit=4&after={after}")).await;
        let body = page.json();
        let records = body[2].as_array().unwrap();
        assert_eq!((&body[1], records.len()), (&json!(first), count));
        assert_eq!(page.header("inkrelay-head"), Some("10"));
        all.extend(records.iter().cloned());
        after = position(&page);
    }
    let whole = relay.get(&format!("{DRAWS}?wait=0")).await.json();
    assert_eq!(whole[2], json!(all));
    for seq in 0..=10 {
        let bare = relay.get(&format!("{DRAWS}?wait=0&after={seq}")).await;
        assert_eq!(bare.json()[2].as_array().unwrap()[..], all[seq..]);
    }
    // R-2: the epoch may have another name, and the identity must be right.
    let Position { seq, identity, .. } = after.parse().unwrap();
    let same = format!("77.{seq}.{}.{}.{}", identity.author, identity.n, identity.at);
    assert_eq!(relay.get(&format!("{DRAWS}?wait=0&after={same}")).await.status, 200);
    let other = format!("{after}7");
    assert_eq!(relay.get(&format!("{DRAWS}?wait=0&after={other}")).await.problem().0, 410);
    // A WebSocket goes on from a poll's position, and the other way round.
    let hello = Hello { position: Some(after.parse().unwrap()), ..Hello::default() };
    let mut socket = Socket::join_as(relay.address, "a", hello).await;
    relay.post_marks("a", 11..=11).await;
    assert_eq!(marked(&socket.records(11, 1).await[0]), 11);
}

/// Reads events until there are that many; comments do not count.
async fn events(
    stream: &mut reqwest::Response,
    text: &mut String,
    count: usize,
) -> Vec<(String, String, Value)> {
    loop {
        let blocks: Vec<&str> = text.split("\n\n").filter(|block| block.contains("data: ")).collect();
        if blocks.len() >= count && text.ends_with("\n\n") {
            let field = |block: &str, name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_default().to_owned()
            };
            let parse = |block: &&str| {
                let data = serde_json::from_str(&field(block, "data: ")).unwrap();
                (field(block, "event: "), field(block, "id: "), data)
            };
            return blocks.iter().map(parse).collect();
        }
        let chunk = tokio::time::timeout(crate::support::PATIENCE, stream.chunk()).await.unwrap();
        text.push_str(std::str::from_utf8(&chunk.unwrap().expect("the stream goes on")).unwrap());
    }
}

async fn stream(relay: &Relay, query: &str, last_id: Option<&str>) -> reqwest::Response {
    let mut request = relay.request(Method::GET, &format!("/v1/rooms/a/events{query}"));
    if let Some(last_id) = last_id {
        request = request.header("last-event-id", last_id);
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    response
}

/// R-12.
#[tokio::test]
async fn events_are_records_and_their_ids_resume() {
    let relay = Relay::start(|_| {}).await;
    relay.post_marks("a", 1..=3).await;
    let log = relay.get(&format!("{DRAWS}?wait=0")).await.json()[2].clone();
    let (mut first, mut text) = (stream(&relay, "", None).await, String::new());
    let seen = events(&mut first, &mut text, 3).await;
    for (index, (name, id, record)) in seen.iter().enumerate() {
        assert_eq!((name.as_str(), record), ("", &log[index]));
        assert_eq!(id.parse::<Position>().unwrap().seq.get(), index as u64 + 1);
    }
    relay.post_marks("a", 4..=4).await;
    assert_eq!(events(&mut first, &mut text, 4).await.len(), 4, "live");
    // `Last-Event-ID` wins over `after`.
    let (mut second, mut text) = (stream(&relay, "?after=3", Some(&seen[0].1)).await, String::new());
    let resumed = events(&mut second, &mut text, 3).await;
    assert_eq!(resumed[0].1, seen[1].1);
    let (mut third, mut text) = (stream(&relay, "?after=3", Some("")).await, String::new());
    assert_eq!(events(&mut third, &mut text, 1).await[0].1.parse::<Position>().unwrap().seq.get(), 4);
    let garbage = relay.request(Method::GET, "/v1/rooms/a/events?after=3").header("last-event-id", "é?");
    assert_eq!(answer(garbage).await.problem().0, 400);
}

/// Browsers would all come back after the same time otherwise, when a server ends their streams.
#[tokio::test]
async fn each_stream_says_after_which_time_to_come_back() {
    let relay = Relay::start(|_| {}).await;
    let mut times = std::collections::HashSet::new();
    for _ in 0..5 {
        let first = stream(&relay, "", None).await.chunk().await.unwrap().expect("it begins at once");
        let first = std::str::from_utf8(&first).unwrap();
        let time = first.strip_prefix("retry: ").and_then(|rest| rest.strip_suffix("\n:\n\n")).expect(first);
        assert!((200..=3000).contains(&time.parse::<u64>().unwrap()), "{time}");
        times.insert(time.to_owned());
    }
    assert!(times.len() > 1, "{times:?}");
}

/// R-7, R-13: only a whole reset moves the reader on.
#[tokio::test]
async fn a_reset_that_breaks_off_between_its_parts_starts_over() {
    let relay = Relay::start(|config| config.limits.max_batch = 0).await;
    // More than one part holds.
    relay.post_marks("a", 1..=3000).await;
    let whole = relay.get("/v1/rooms/a/snapshot").await;
    let foreign = "7.99.1.1.1";
    let (mut cut, mut text) = (stream(&relay, "", Some(foreign)).await, String::new());
    let first = events(&mut cut, &mut text, 1).await.remove(0);
    assert_eq!((first.0.as_str(), first.1.as_str(), &first.2[3]), ("reset", "", &json!(true)));
    drop(cut);
    // No id came, so that the reader comes back with the one that it had.
    let (mut again, mut text) = (stream(&relay, "", Some(foreign)).await, String::new());
    let parts = events(&mut again, &mut text, 2).await;
    assert_eq!((parts[1].1.as_str(), &parts[1].2[3]), (position(&whole).as_str(), &json!(false)));
    let records: Vec<_> = parts.iter().flat_map(|part| part.2[2].as_array().unwrap().clone()).collect();
    assert_eq!(json!(records), whole.json()[2]);
}

/// R-3, R-8, R-13, R-15.
#[tokio::test]
async fn events_reset_a_reader_of_another_log_and_show_signs_of_life() {
    let relay = Relay::start(|config| config.times.heartbeat = Duration::from_millis(100)).await;
    relay.post_marks("a", 1..=2).await;
    let whole = relay.get("/v1/rooms/a/snapshot").await;
    let (mut reading, mut text) = (stream(&relay, "", Some("7.99.1.1.1")).await, String::new());
    let reset = events(&mut reading, &mut text, 1).await.remove(0);
    assert_eq!((reset.0.as_str(), &reset.1), ("reset", &position(&whole)));
    assert_eq!(reset.2, json!([whole.json()[0], 2, whole.json()[2], false]));
    relay.post_marks("a", 3..=3).await;
    let next = events(&mut reading, &mut text, 2).await.remove(1);
    assert_eq!((next.0.as_str(), next.1.parse::<Position>().unwrap().seq.get()), ("", 3));
    let comments = text.matches(":\n\n").count();
    while text.matches(":\n\n").count() < comments + 2 {
        let chunk = tokio::time::timeout(Duration::from_secs(2), reading.chunk()).await.unwrap();
        text.push_str(std::str::from_utf8(&chunk.unwrap().unwrap()).unwrap());
    }
}

/// R-14, H-8.
#[tokio::test]
async fn a_snapshot_has_a_tag_and_reading_goes_on_from_it() {
    let relay = Relay::start(|_| {}).await;
    assert_eq!(relay.get("/v1/rooms/a/snapshot").await.json(), json!([1, 0, [], 0, 0, 0]));
    relay.post_marks("a", 1..=3).await;
    let snapshot = relay.get("/v1/rooms/a/snapshot").await;
    let body = snapshot.json();
    let at: Position = position(&snapshot).parse().unwrap();
    assert_eq!((&body[0], &body[1]), (&json!(at.epoch.get()), &json!(3)));
    assert_eq!(json!([body[3], body[4], body[5]]), json!([0, at.identity.n, at.identity.at]));
    let tag = snapshot.header("etag").unwrap().to_owned();
    let again = async |tag: &str, accept: &str| {
        let request = relay.request(Method::GET, "/v1/rooms/a/snapshot").header("accept", accept);
        answer(request.header("if-none-match", tag)).await
    };
    let known = again(&tag, JSON).await;
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, Some(tag.as_str())));
    assert_eq!(again(&format!("\"x\", {tag}"), JSON).await.status, 304);
    assert_eq!(again(&tag, MESSAGE_PACK).await.status, 200, "another form");
    relay.post_marks("a", 4..=4).await;
    assert_eq!(again(&tag, JSON).await.status, 200);
    let poll = relay.get(&format!("{DRAWS}?wait=0&after={}", position(&snapshot))).await.json();
    assert_eq!((&poll[1], poll[2].as_array().unwrap().len()), (&json!(4), 1));
}

/// A long log comes whole, in every form.
#[tokio::test]
async fn a_snapshot_of_20_000_records_is_whole() {
    let relay = Relay::start(|config| config.unlimited = true).await;
    for start in (0..20_000).step_by(2_000) {
        assert_eq!(relay.post_marks("a", start + 1..=start + 2_000).await.status, 200);
    }
    let path = "/v1/rooms/a/snapshot";
    let plain = get_as(&relay, path, MESSAGE_PACK).await;
    assert_eq!(plain.header("content-type"), Some(MESSAGE_PACK));
    let told = as_json(&plain.body);
    assert_eq!((&told[1], told[2].as_array().unwrap().len()), (&json!(20_000), 20_000));
    assert_eq!(told, relay.get(path).await.json());
    let gzip =
        relay.request(Method::GET, path).header("accept", MESSAGE_PACK).header("accept-encoding", "gzip");
    let gzip = answer(gzip).await;
    assert_eq!(gzip.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == plain.body && gzip.body.len() < plain.body.len());
    // A reader that is reset gets the same log in parts, with the last marked.
    let position: Position = "7.99.1.1.1".parse().unwrap();
    let hello = Hello { position: Some(position), ..Hello::default() };
    let (seq, records) = Socket::join_as(relay.address, "a", hello).await.reset().await;
    assert_eq!((seq, records.len()), (20_000, 20_000));
    assert!(records.iter().zip(1..).all(|(record, n)| marked(record) == n));
}

/// H-2, D-20, F-15, R-19: whatever form it came in, and whatever form is asked for.
#[tokio::test]
async fn both_encodings_say_the_same() {
    let relay = Relay::start(|_| {}).await;
    let drawn = json!([
        [0, 0, [0, 255, 32], 1, [160, -160, 200, 16, 8, 255], true],
        [5, "AAEC/w=="],
        [4],
        [77, {"a": [1.5, null, true, "é", -70000]}],
    ]);
    assert_eq!(relay.post(DRAWS, JSON, drawn.to_string()).await.status, 200);
    let poll = get_as(&relay, &format!("{DRAWS}?wait=0"), MESSAGE_PACK).await;
    assert_eq!(poll.header("content-type"), Some(MESSAGE_PACK));
    let told = as_json(&poll.body);
    let read: Vec<_> = told[2].as_array().unwrap().iter().map(|record| record[3].clone()).collect();
    assert_eq!(json!(read), drawn);
    for accept in [JSON, "*/*", "text/html", "application/json, application/msgpack"] {
        let got = get_as(&relay, &format!("{DRAWS}?wait=0"), accept).await;
        assert_eq!((got.json(), got.header("content-type")), (told.clone(), Some(JSON)), "{accept}");
    }
    let snapshot = get_as(&relay, "/v1/rooms/a/snapshot", MESSAGE_PACK).await;
    assert_eq!(as_json(&snapshot.body), relay.get("/v1/rooms/a/snapshot").await.json());
    // The bytes of a draw in MessagePack, in whatever form of it, come back as they came.
    let long_form = [0x92, 0xcc, 99, 0xd2, 0, 0, 0, 1];
    assert_eq!(relay.post(DRAWS, MESSAGE_PACK, [&[0xdc, 0, 1][..], &long_form].concat()).await.status, 200);
    let record = Socket::join(relay.address, "a").await.records(1, 5).await.pop().unwrap();
    assert_eq!(Record::parse(&record).unwrap().draw, long_form);
    // These are JSON whatever is asked for.
    for path in ["/v1/rooms/a", "/healthz", "/readyz", "/nowhere"] {
        let got = get_as(&relay, path, MESSAGE_PACK).await;
        assert!(got.json().is_object(), "{path}");
    }
    let posted = relay.request(Method::POST, DRAWS).header("content-type", MESSAGE_PACK);
    let posted = answer(posted.header("accept", MESSAGE_PACK).body(batch(&[Draw::Clear]))).await;
    assert_eq!((&posted.json()["seq"], &posted.json()["stored"]), (&json!(6), &json!(1)));
}

/// H-5.
#[tokio::test]
async fn a_room_and_the_server_tell_how_they_are() {
    let relay = Relay::start(|_| {}).await;
    relay.post_marks("a", 1..=3).await;
    let ada = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    let log = ada.welcome.as_ref().unwrap().position;
    let room = relay.get("/v1/rooms/a").await.json();
    let bytes: usize = Socket::join(relay.address, "a").await.records(1, 3).await.iter().map(Vec::len).sum();
    assert_eq!(room["participants"], json!([[ada.client.get(), "Ada", 255]]));
    assert_eq!((&room["records"], &room["bytes"]), (&json!(3), &json!(bytes)));
    assert_eq!(room["position"].as_array().unwrap().len(), 5);
    let stored = relay.store.head(&"a".parse().unwrap()).await.unwrap();
    assert_eq!(stored.bytes, bytes as u64);
    assert_eq!(room["position"][0], json!(log.epoch.get()));
    assert_eq!(relay.get("/healthz").await.json(), json!({"status": "ok"}));
    assert_eq!(relay.get("/readyz").await.json(), json!({"status": "ready"}));
    assert_eq!(relay.get("/").await.status, 200);
}

/// S-15.
#[tokio::test]
async fn pages_of_foreign_origins_do_nothing_here() {
    let relay = Relay::start(|config| config.allow_origin = vec!["https://good.example".to_owned()]).await;
    let own = format!("http://{}", relay.address);
    let ask = async |method: Method, path: &str, origin: &str| {
        let request = relay.request(method, path).header("origin", origin).header("content-type", JSON);
        answer(request.body("[[4]]")).await
    };
    let foreign = ["https://evil.example", "null", "https://good.example.evil", "http://good.example", "é"];
    for origin in foreign {
        for (method, path) in [
            (Method::POST, DRAWS),
            (Method::POST, "/v1/rooms/a/sessions"),
            (Method::GET, "/v1/rooms/a/draws?wait=0"),
            (Method::GET, "/v1/rooms/a/events"),
            (Method::GET, "/v1/rooms/a/snapshot"),
            (Method::GET, "/v1/rooms/a"),
            (Method::GET, "/v1/rooms/a/ws"),
        ] {
            let got = ask(method, path, origin).await;
            assert_eq!(got.problem(), (403, "origin_refused".to_owned()), "{origin} {path}");
            assert_eq!(got.header("access-control-allow-origin"), None);
        }
    }
    assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 0);
    for (origin, allowed) in [("https://good.example", Some("https://good.example")), (&own, None)] {
        let got = ask(Method::POST, DRAWS, origin).await;
        assert_eq!((got.status, got.header("access-control-allow-origin")), (200, allowed), "{origin}");
    }
    let preflight = relay
        .request(Method::OPTIONS, DRAWS)
        .header("origin", "https://good.example")
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,inkrelay-ticket,inkrelay-n");
    let preflight = answer(preflight).await;
    assert_eq!(preflight.header("access-control-allow-origin"), Some("https://good.example"));
    assert!(preflight.header("access-control-allow-headers").unwrap().contains("inkrelay-n"));
    let exposed = ask(Method::GET, "/v1/rooms/a/draws?wait=0", "https://good.example").await;
    assert!(exposed.header("access-control-expose-headers").unwrap().contains("inkrelay-position"));
    let anyone = Relay::start(|config| config.allow_origin = vec!["*".to_owned()]).await;
    let got =
        answer(anyone.request(Method::POST, "/v1/rooms/a/sessions").header("origin", "https://x.y")).await;
    assert_eq!((got.status, got.header("access-control-allow-origin")), (200, Some("https://x.y")));
}
