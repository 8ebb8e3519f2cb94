//! What keeps strangers out of other people's browsers: headers on every answer, origins that are compared exactly, and
//! addresses that no client can forge.

use http::Method;
use inkrelay_server::transport::has_board;

use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, MESSAGE_PACK, answer, raw};
use crate::support::socket::{batch, mark};

/// On everything, whatever is answered: pages, files, data, problems and preflights.
#[tokio::test]
async fn every_answer_has_the_security_headers() {
    let relay = Relay::start(|config| config.allow_origin = vec!["https://good.example".to_owned()]).await;
    relay.post_marks("a", 1..=1).await;
    let mut asked = vec![
        (Method::GET, "/", 200),
        (Method::GET, "/b/a", 200),
        (Method::GET, "/healthz", 200),
        (Method::GET, "/readyz", 200),
        (Method::GET, "/v1/rooms/a", 200),
        (Method::GET, "/v1/rooms/a/draws?wait=0", 200),
        (Method::GET, "/v1/rooms/a/snapshot", 200),
        (Method::POST, "/v1/rooms/a/sessions", 200),
        (Method::OPTIONS, "/v1/rooms/a/draws", 200),
        (Method::GET, "/v1/rooms/a/draws?after=x", 400),
        (Method::POST, "/v1/rooms/a/draws", 415),
        (Method::GET, "/v1/rooms/a/ws", 400),
        (Method::GET, "/nothing", 404),
        (Method::DELETE, "/healthz", 405),
    ];
    if has_board() {
        asked.extend([(Method::GET, "/service-worker.js", 200), (Method::GET, "/manifest.webmanifest", 200)]);
    }
    for (method, path, status) in asked {
        let got = answer(relay.request(method.clone(), path)).await;
        assert_eq!(got.status, status, "{method} {path}");
        let header = |name| got.header(name).unwrap_or_default();
        assert_eq!(header("x-content-type-options"), "nosniff", "{method} {path}");
        assert_eq!(header("referrer-policy"), "no-referrer", "{method} {path}");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin", "{method} {path}");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; "), "{method} {path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{method} {path}: {policy}");
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{method} {path}: {policy}");
        assert_eq!(got.header("strict-transport-security"), None, "plain http stays usable");
    }
    let events = relay.request(Method::GET, "/v1/rooms/a/events").send().await.unwrap();
    assert_eq!(events.headers()["x-content-type-options"], "nosniff");
}

/// S-15. Exactly the listed origins, and the relay's own.
#[tokio::test]
async fn an_origin_is_let_in_exactly_as_it_is_listed() {
    let listed = ["https://good.example", "https://port.example:8443"];
    let relay = Relay::start(|config| config.allow_origin = listed.map(str::to_owned).to_vec()).await;
    let (own, port) = (format!("http://{}", relay.address), relay.address.port());
    let ask = async |origin: &str| {
        let origin = format!("origin: {origin}");
        raw(relay.address, "GET /v1/rooms/a", &[&origin], b"").await
    };
    for good in [listed[0], listed[1], &own] {
        assert_eq!(ask(good).await.status, 200, "{good}");
    }
    for (name, origin) in [
        ("of a sandboxed frame or a file", "null".to_owned()),
        ("empty", String::new()),
        ("with the listed one as a prefix", "https://good.example.evil.example".to_owned()),
        ("with the listed one as a prefix of its name", "https://good.example-evil.example".to_owned()),
        ("with the listed one as a suffix", "https://evilgood.example".to_owned()),
        ("of a subdomain", "https://a.good.example".to_owned()),
        ("of the domain above", "https://example".to_owned()),
        ("of another scheme", "http://good.example".to_owned()),
        ("of a scheme that is none", "good.example".to_owned()),
        ("of an extension", "chrome-extension://good.example".to_owned()),
        ("of a file", "file://".to_owned()),
        ("with another port", "https://good.example:8443".to_owned()),
        ("without the port that is listed", "https://port.example".to_owned()),
        ("with the usual port, as no browser sends it", "https://good.example:443".to_owned()),
        ("in capitals, as no browser sends it", "https://GOOD.example".to_owned()),
        ("with a user before it", "https://good.example@evil.example".to_owned()),
        ("with a user that looks like it", "https://evil@good.example".to_owned()),
        ("with a dot at its end", "https://good.example.".to_owned()),
        ("with a path", "https://good.example/".to_owned()),
        ("with a query", "https://good.example?".to_owned()),
        ("with a space behind a list", "https://good.example https://evil.example".to_owned()),
        ("as a list", "https://good.example, https://evil.example".to_owned()),
        ("as everyone", "*".to_owned()),
        ("in another alphabet", "https://gооd.example".to_owned()),
        ("of this address under another name", format!("http://localhost:{port}")),
        ("of this address with another port", "http://127.0.0.1:1".to_owned()),
        ("of this address without a port", "http://127.0.0.1".to_owned()),
        ("of this address with a user", format!("http://evil@127.0.0.1:{port}")),
        ("of this address with a dot", format!("http://127.0.0.1.:{port}")),
        ("of this address by another scheme", format!("ftp://127.0.0.1:{port}")),
    ] {
        let got = ask(&origin).await;
        assert_eq!(got.problem(), (403, "origin_refused".to_owned()), "{name}: {origin}");
        assert_eq!(got.header("access-control-allow-origin"), None, "{name}: {origin}");
    }
    let (own, foreign) = (format!("origin: {own}"), "origin: https://evil.example");
    for two in [[&*own, foreign], [foreign, &*own]] {
        assert_eq!(
            raw(relay.address, "GET /v1/rooms/a", &two, b"").await.status,
            403,
            "two at once: {two:?}"
        );
    }
}

/// Posts a mark as whoever the headers say, and says whether the rate let it through.
async fn posted(relay: &Relay, headers: &[&str]) -> Answer {
    let body = batch(&[mark(1)]);
    let (length, kind) = (format!("content-length: {}", body.len()), format!("content-type: {MESSAGE_PACK}"));
    let headers = [&[&*length, &*kind], headers].concat();
    raw(relay.address, "POST /v1/rooms/a/draws", &headers, &body).await
}

#[tokio::test]
async fn whoever_no_trusted_proxy_speaks_for_counts_as_one_address() {
    let relay = Relay::start(|config| config.limits.max_rate = 1).await;
    for client in ["1", "2"] {
        let forged = format!("x-forwarded-for: 203.0.113.{client}");
        assert_eq!(posted(&relay, &[&forged]).await.status, 200);
    }
    let headers = ["x-forwarded-for: 203.0.113.3", "forwarded: for=203.0.113.3"];
    assert_eq!(posted(&relay, &headers[..1]).await.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(posted(&relay, &headers[1..]).await.problem(), (429, "rate_limited".to_owned()));
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_is_its_own_address_and_cannot_be_another() {
    let relay = Relay::start(|config| {
        config.limits.max_rate = 1;
        config.trust_forwarded = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    for client in ["203.0.113.1", "203.0.113.2"] {
        let forwarded = format!("x-forwarded-for: {client}");
        for _ in 0..2 {
            assert_eq!(posted(&relay, &[&forwarded]).await.status, 200, "{client}");
        }
        // What the client itself wrote stands to the left of what the proxy adds.
        for forged in ["192.0.2.1, ", "127.0.0.1, ", "unknown, ", "203.0.113.9, 127.0.0.1,, "] {
            let forged = format!("x-forwarded-for: {forged}{client}");
            assert_eq!(posted(&relay, &[&forged]).await.problem().0, 429, "{forged}");
        }
        let other = posted(&relay, &[&forwarded, "forwarded: for=192.0.2.1"]).await;
        assert_eq!(
            other.problem(),
            (400, "malformed".to_owned()),
            "the header that the proxy does not write"
        );
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_the_clients_host_and_scheme_count() {
    let relay = Relay::start(|config| {
        config.trust_forwarded = vec!["127.0.0.1".parse::<std::net::IpAddr>().unwrap().into()];
        // By another port, so that it lists the name alone.
        config.allow_origin = vec!["https://draw.example:1".to_owned()];
    })
    .await;
    let ask = async |origin: &str, headers: &[&str]| {
        let origin = format!("origin: {origin}");
        let headers = [&["x-forwarded-for: 203.0.113.1", &*origin], headers].concat();
        raw(relay.address, "GET /v1/rooms/a", &headers, b"").await.status
    };
    let forwarded = ["x-forwarded-host: draw.example", "x-forwarded-proto: https"];
    assert_eq!(ask("https://draw.example", &forwarded).await, 200);
    assert_eq!(ask("https://draw.example", &forwarded[..1]).await, 200, "a proxy need not tell the scheme");
    assert_eq!(ask("http://draw.example", &forwarded).await, 403, "another scheme");
    assert_eq!(ask("https://evil.example", &forwarded).await, 403);
    assert_eq!(
        ask(&format!("http://{}", relay.address), &forwarded).await,
        403,
        "the proxy's own name for it"
    );
    let other =
        ["x-forwarded-for: 203.0.113.1", "x-forwarded-host: evil.example", "origin: http://evil.example"];
    let other = raw(relay.address, "GET /v1/rooms/a", &other, b"").await;
    assert_eq!(other.problem(), (403, "origin_refused".to_owned()), "a name that is not this server's");
    let page =
        raw(relay.address, "GET /", &[&["x-forwarded-for: 203.0.113.1"], &forwarded[..]].concat(), b"").await;
    if has_board() {
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains("wss://draw.example"), "{policy}");
    }
}

#[tokio::test]
async fn behind_a_trusted_proxy_sockets_are_counted_by_client() {
    let relay = Relay::start(|config| {
        config.limits.max_connections = 2;
        config.trust_forwarded = vec!["127.0.0.0/8".parse().unwrap()];
    })
    .await;
    let mut open = Vec::new();
    for client in ["203.0.113.1", "203.0.113.2"] {
        for expected in [101, 101, 503] {
            let request = relay
                .request(Method::GET, "/v1/rooms/a/ws")
                .header("x-forwarded-for", client)
                .header("connection", "upgrade")
                .header("upgrade", "websocket")
                .header("sec-websocket-version", "13")
                .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), expected, "{client}");
            open.push(response);
        }
    }
    let posted = relay.post("/v1/rooms/a/draws", JSON, "[[4]]").await;
    assert_eq!(posted.status, 200, "the proxy itself is not shut out");
}
