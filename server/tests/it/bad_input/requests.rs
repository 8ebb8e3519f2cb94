//! HTTP requests that are wrong: names, headers, queries, bodies, and clients that never finish.

use std::time::Duration;

use http::{HeaderValue, Method};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, MESSAGE_PACK, answer, raw, raw_bytes, until_closed};

const PATH: &str = "/v1/rooms/a/draws";
const CLEAR: &[u8] = &[0x91, 0x91, 4];

/// S-14.
#[tokio::test]
async fn names_that_are_no_rooms_are_refused_on_every_address() {
    let relay = Relay::start(|_| {}).await;
    let long = "x".repeat(65);
    let names = [
        "a%2Fb",
        "..",
        "%2e%2e",
        ".",
        ".hidden",
        "a%7Db",
        "a}b",
        "%7Ba%7D",
        "a%20b",
        "a+b",
        "%F0%9F%96%8A",
        "%ff",
        "%00",
        "a%0d%0ab",
        "a:b",
        "a%252Fb",
        &long,
    ];
    for name in names {
        for (method, rest, headers, body) in [
            ("GET", "", &[][..], &[][..]),
            ("GET", "/draws?wait=0", &[], &[]),
            ("GET", "/events", &[], &[]),
            ("GET", "/snapshot", &[], &[]),
            ("GET", "/ws", &[], &[]),
            ("POST", "/sessions", &["content-length: 0"], &[]),
            ("POST", "/draws", &["content-type: application/msgpack", "content-length: 3"], CLEAR),
        ] {
            let got = raw(relay.address, &format!("{method} /v1/rooms/{name}{rest}"), headers, body).await;
            assert_eq!(got.problem(), (400, "malformed".to_owned()), "{method} {name}{rest}");
        }
    }
    for nowhere in ["/v1/rooms/", "/v1/rooms/a/b/draws", "/v1/rooms/a/../b", "/v1", "/x"] {
        let got = raw(relay.address, &format!("GET {nowhere}"), &[], &[]).await;
        assert_eq!(got.problem(), (404, "not_found".to_owned()), "{nowhere}");
    }
    assert_eq!(raw(relay.address, "GET /v1/rooms//draws", &[], &[]).await.problem().0, 400);
    let good = "x".repeat(64);
    assert_eq!(relay.get(&format!("/v1/rooms/{good}")).await.status, 200);
    relay.still_works().await;
}

/// P-12.
#[tokio::test]
async fn the_number_of_a_batch_is_a_whole_number_and_comes_with_a_ticket() {
    let relay = Relay::start(|_| {}).await;
    let (_, ticket) = relay.session("a").await;
    let post = async |ticket: Option<&str>, n: Option<&str>| -> Answer {
        let mut request = relay.request(Method::POST, PATH).header("content-type", MESSAGE_PACK);
        if let Some(ticket) = ticket {
            request = request.header("inkrelay-ticket", ticket);
        }
        if let Some(n) = n {
            request = request.header("inkrelay-n", HeaderValue::from_bytes(n.as_bytes()).unwrap());
        }
        answer(request.body(CLEAR)).await
    };
    let huge = "9".repeat(400);
    for n in ["0", "-1", "9007199254740992", "1.5", "", "1x", "+1", "0x1", "1e3", "1 1", "NaN", "١", &huge] {
        let got = post(Some(&ticket), Some(n)).await;
        assert_eq!(got.problem(), (400, "malformed".to_owned()), "{n:?}");
    }
    for (ticket, n) in [(Some(ticket.as_str()), None), (None, Some("1"))] {
        assert_eq!(post(ticket, n).await.problem(), (400, "malformed".to_owned()));
    }
    // In range, but not next.
    assert_eq!(post(Some(&ticket), Some("9007199254740991")).await.problem(), (409, "gap".to_owned()));
    // RFC 9110, section 5.5: space around a value is not part of it.
    assert_eq!(post(Some(&ticket), Some("1 ")).await.status, 200);
    relay.still_works().await;
}

///
#[tokio::test]
async fn queries_of_a_poll_are_brought_into_range_or_refused() {
    let relay = Relay::start(|_| {}).await;
    relay.post_marks("a", 1..=5).await;
    let poll = async |query: &str| relay.get(&format!("{PATH}?{query}")).await;
    for garbage in
        ["x", "-1", "+1", "1.5", "1.2.3.4", "1.2.3.4.x", "0.1.1.1.1", "9007199254740992", "%20", "%ff", "1e3"]
    {
        assert_eq!(poll(&format!("wait=0&after={garbage}")).await.problem(), (400, "malformed".to_owned()));
        let events = relay.get(&format!("/v1/rooms/a/events?after={garbage}")).await;
        assert_eq!(events.problem(), (400, "malformed".to_owned()), "{garbage}");
    }
    for gone in ["6", "9007199254740991", "1.5.0.1.1", "7.99.1.1.1"] {
        let got = poll(&format!("wait=0&after={gone}")).await;
        assert_eq!(got.problem(), (410, "position_gone".to_owned()), "{gone}");
        assert_eq!(got.json()["snapshot"], "/v1/rooms/a/snapshot");
    }
    for start in ["", "0", "1.0.0.0.0", "99.0.7.7.7"] {
        assert_eq!(poll(&format!("wait=0&after={start}")).await.json()[2].as_array().unwrap().len(), 5);
    }
    for (limit, count) in [("0", 1), ("-1", 1), ("2", 2), ("1000000000", 5), ("99999999999999999999999", 5)] {
        let records = poll(&format!("wait=0&limit={limit}")).await.json()[2].clone();
        assert_eq!(records.as_array().unwrap().len(), count, "{limit}");
    }
    for query in ["wait=abc", "wait=", "wait=1.5", "wait=1s", "wait=NaN", "limit=abc", "limit=", "limit=1.5"]
    {
        assert_eq!(poll(query).await.problem(), (400, "malformed".to_owned()), "{query}");
    }
    // There is something to answer with, so that no wait is waited for.
    for wait in ["-1", "1000000000", "99999999999999999999999"] {
        assert_eq!(poll(&format!("wait={wait}")).await.status, 200);
    }
    assert_eq!(poll("wait=-1&after=5").await.json()[2], json!([]));
    relay.still_works().await;
}

/// H-1, H-3.
#[tokio::test]
async fn methods_addresses_and_content_types_are_told_apart() {
    let relay = Relay::start(|_| {}).await;
    for (method, path) in [
        (Method::DELETE, PATH),
        (Method::PUT, PATH),
        (Method::POST, "/v1/rooms/a/events"),
        (Method::POST, "/v1/rooms/a/snapshot"),
        (Method::POST, "/v1/rooms/a"),
        (Method::GET, "/v1/rooms/a/sessions"),
        (Method::POST, "/v1/rooms/a/ws"),
        (Method::POST, "/healthz"),
        (Method::from_bytes(b"BREW").unwrap(), PATH),
    ] {
        let got = answer(relay.request(method.clone(), path)).await;
        assert_eq!(got.problem(), (405, "method_not_allowed".to_owned()), "{method} {path}");
        assert!(got.header("allow").is_some(), "{method} {path}");
    }
    let untyped = answer(relay.request(Method::POST, PATH).body(CLEAR)).await;
    assert_eq!(untyped.problem(), (415, "unsupported_media_type".to_owned()));
    for other in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonx",
        "",
        "é",
        "*/*",
        "application/json;x",
    ] {
        let got = relay.post(PATH, other, CLEAR).await;
        assert_eq!(got.problem(), (415, "unsupported_media_type".to_owned()), "{other}");
    }
    let packed =
        relay.request(Method::POST, PATH).header("content-type", JSON).header("content-encoding", "gzip");
    let packed = answer(packed.body("[[4]]")).await;
    assert_eq!(packed.problem(), (415, "unsupported_media_type".to_owned()), "no body is unpacked here");
    for same in ["application/json; charset=utf-8", "Application/JSON", " application/json ; v=1"] {
        assert_eq!(relay.post(PATH, same, "[[4]]").await.status, 200, "{same}");
    }
    for path in ["/v1/rooms/a/draws?wait=0", "/v1/rooms/a/snapshot", "/v1/rooms/a", "/healthz"] {
        let head = answer(relay.request(Method::HEAD, path)).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
    }
    // One that is not asked to become a WebSocket.
    assert_eq!(relay.get("/v1/rooms/a/ws").await.problem(), (400, "malformed".to_owned()));
    relay.still_works().await;
}

#[tokio::test]
async fn a_session_is_asked_for_in_its_own_shape() {
    let relay = Relay::start(|_| {}).await;
    let long = json!({"profile": ["x".repeat(65), 0]}).to_string();
    for body in [
        "[]",
        "1",
        "null",
        "{",
        "{\"profile\":[]}",
        "{\"profile\":[\"a\"]}",
        "{\"profile\":[1,2]}",
        "{\"profile\":[\"a\",-1]}",
        "{\"profile\":[\"a\",4294967296]}",
        "{\"profile\":\"a\"}",
        "{\"token\":1}",
        "{\"profile\":[\"a\",1.5]}",
        &long,
        &"[".repeat(100_000),
    ] {
        let got = relay.post("/v1/rooms/a/sessions", JSON, body.to_owned()).await;
        assert_eq!(got.problem(), (400, "malformed".to_owned()), "{body:.80}");
    }
    assert_eq!(relay.post("/v1/rooms/a/sessions", "text/plain", "{}").await.problem().0, 415);
    let most = json!({"profile": ["é".repeat(64), u32::MAX, "later"], "token": null, "later": 1}).to_string();
    assert_eq!(relay.post("/v1/rooms/a/sessions", JSON, most).await.status, 200);
}

/// L-2.
#[tokio::test]
async fn a_body_over_the_limit_is_413_however_it_is_sent() {
    let relay = Relay::start(|config| config.limits.max_message = 10_000).await;
    let most = format!("[{}[4]]", "[4],".repeat(400));
    assert!(most.len() < 10_000 && relay.post(PATH, JSON, most).await.status == 200);
    let line = format!("POST {PATH}");
    let typed = "content-type: application/msgpack";
    for path in [PATH, "/v1/rooms/a/sessions"] {
        // Announced, and never sent.
        let got = raw(relay.address, &format!("POST {path}"), &[typed, "content-length: 10001"], &[]).await;
        assert_eq!(got.problem(), (413, "too_large".to_owned()), "{path}");
    }
    let chunks = b"7d0\r\n".iter().chain(&[0x91; 2000]).chain(b"\r\n").copied().collect::<Vec<_>>().repeat(6);
    let got = raw(relay.address, &line, &[typed, "transfer-encoding: chunked"], &chunks).await;
    assert_eq!(got.problem(), (413, "too_large".to_owned()));
    // A length that is no number is no request.
    for length in ["x", "-1", "18446744073709551616", "1, 2"] {
        let got = raw(relay.address, &line, &[typed, &format!("content-length: {length}")], CLEAR).await;
        assert_eq!(got.status, 400, "{length}");
    }
    relay.still_works().await;
}

/// L-2: a client that reads only when it has written all learns it too.
#[tokio::test]
async fn whoever_is_still_sending_a_large_body_learns_that_it_is_too_large() {
    let relay = Relay::start(|_| {}).await;
    for bytes in [300 << 10, 1 << 20, 8 << 20] {
        let got = relay.post(PATH, MESSAGE_PACK, vec![0x91; bytes]).await;
        assert_eq!(got.problem(), (413, "too_large".to_owned()), "{bytes}");
    }
}

/// L-8.
#[tokio::test]
async fn a_body_that_does_not_end_is_408() {
    let relay = Relay::start(|config| config.times.body_time = Duration::from_secs(1)).await;
    let line = format!("POST {PATH}");
    let typed = "content-type: application/msgpack";
    let headers = [typed, "content-length: 3"];
    let silent = raw(relay.address, &line, &headers, &[0x91]);
    let dripping = async {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        let head = format!("{line} HTTP/1.1\r\nhost: x\r\n{typed}\r\ntransfer-encoding: chunked\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let (mut reading, mut writing) = stream.into_split();
        let drip = tokio::spawn(async move {
            while writing.write_all(b"1\r\n\x91\r\n").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let mut answer = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut reading, &mut answer);
        let _ = tokio::time::timeout(crate::support::PATIENCE, read).await.expect("an answer in time");
        drip.await.unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    };
    let (silent, dripping) = tokio::join!(silent, dripping);
    assert_eq!(silent.problem(), (408, "too_slow".to_owned()));
    assert!(dripping.starts_with("HTTP/1.1 408"), "{dripping}");
    relay.still_works().await;
}

/// L-8: nothing at all, half a header, and one that comes byte by byte.
#[tokio::test]
async fn a_header_that_does_not_end_is_cut_off() {
    let relay = Relay::start(|config| config.times.header_time = Duration::from_secs(1)).await;
    let silent = async {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        until_closed(&mut stream).await
    };
    let half = raw_bytes(relay.address, b"GET /healthz HTTP/1.1\r\nhost: x\r\n");
    let dripping = async {
        let mut stream = TcpStream::connect(relay.address).await.unwrap();
        let mut header = b"GET /healthz HTTP/1.1\r\nx: ".to_vec();
        header.extend([b'y'; 4096]);
        for byte in header {
            if stream.write_all(&[byte]).await.is_err() {
                return Vec::<u8>::new();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("4096 bytes at leisure");
    };
    let all = async { tokio::join!(silent, half, dripping) };
    let (silent, half, dripping) = tokio::time::timeout(crate::support::PATIENCE, all).await.unwrap();
    assert!(silent.is_empty() && half.is_empty() && dripping.is_empty());
    relay.still_works().await;
}

#[tokio::test]
async fn what_is_no_http_is_no_request() {
    let relay = Relay::start(|_| {}).await;
    let long = [&b"GET /"[..], &vec![b'a'; 64 << 10], b" HTTP/1.1\r\nhost: x\r\n\r\n"].concat();
    let wide = [&b"GET / HTTP/1.1\r\nhost: x\r\nx: "[..], &vec![b'a'; 64 << 10], b"\r\n\r\n"].concat();
    let many = [&b"GET / HTTP/1.1\r\nhost: x\r\n"[..], &b"x: y\r\n".repeat(1000), b"\r\n"].concat();
    for bytes in [
        &b"\0\0\0\0\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\xff\xff: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        &long,
        &wide,
        &many,
    ] {
        let got = raw_bytes(relay.address, bytes).await;
        let got = String::from_utf8_lossy(&got);
        assert!(got.is_empty() || got.starts_with("HTTP/1.1 4"), "{got}");
    }
    relay.still_works().await;
}
