//! Pages that lead here by a name of their own (DNS rebinding): to their browsers this is their own server (S-21).

use std::net::SocketAddr;

use http::Method;

use super::{CALLS, Keys, status, token};
use crate::support::relay::Relay;
use crate::support::requests::{answer, raw_bytes};

const HANDSHAKE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// The status and the code of what is answered to a request with these `Host` headers, as such a page would send it.
async fn ask(address: SocketAddr, line: &str, hosts: &[&str]) -> (u16, String) {
    let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
    let close = if line.ends_with("/ws") { HANDSHAKE } else { "connection: close\r\n" };
    let request = format!("{line} HTTP/1.1\r\n{hosts}{close}\r\n");
    let got = if line.ends_with("/ws") {
        raw_head(address, &request).await
    } else {
        raw_bytes(address, request.as_bytes()).await
    };
    let got = String::from_utf8_lossy(&got).into_owned();
    let code = got.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    (got.split(' ').nth(1).unwrap().parse().unwrap(), code.to_owned())
}

/// What comes first: an open socket stays open.
async fn raw_head(address: SocketAddr, request: &str) -> Vec<u8> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = vec![0; 4096];
    let len = tokio::time::timeout(crate::support::PATIENCE, stream.read(&mut head)).await.unwrap().unwrap();
    head.truncate(len);
    head
}

fn refused() -> (u16, String) {
    (403, "origin_refused".to_owned())
}

#[tokio::test]
async fn a_page_that_leads_here_by_its_own_name_gets_nothing() {
    let relay = Relay::start(|config| config.allow_origin = vec!["https://draw.example".to_owned()]).await;
    let port = relay.address.port();
    let lines = [
        "GET /",
        "GET /b/a",
        "GET /v1/rooms/a",
        "GET /v1/rooms/a/draws?wait=0",
        "POST /v1/rooms/a/sessions",
        "GET /v1/rooms/a/ws",
        "GET /nothing",
    ];
    for line in lines {
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "draw.example.evil.example"]
        {
            assert_eq!(
                ask(relay.address, line, &[&format!("{host}:{port}")]).await,
                refused(),
                "{line} {host}"
            );
        }
        for known in
            ["127.0.0.1", "[::1]", "localhost", "a.localhost", "studio.local", "relay-1", "DRAW.example"]
        {
            let (status, _) = ask(relay.address, line, &[&format!("{known}:{port}")]).await;
            assert!(status != 403 && status != 400, "{line} {known}: {status}");
        }
        for unreadable in
            [&["[::1].evil.example"][..], &[""], &["localhost", "evil.example"], &["localhost", "localhost"]]
        {
            let got = ask(relay.address, line, unreadable).await;
            assert_eq!(got, (400, "malformed".to_owned()), "{line} {unreadable:?}");
        }
        let (status, _) = ask(relay.address, line, &[]).await;
        assert!(status != 403 && status != 400, "{line} without a host, as old tools do: {status}");
    }
    // A target that names a host itself: that one counts too.
    for (line, host) in [
        ("GET http://evil.example/v1/rooms/a", "localhost"),
        ("GET http://localhost/v1/rooms/a", "evil.example"),
    ] {
        assert_eq!(ask(relay.address, line, &[host]).await, refused(), "{line}");
    }
    assert_eq!(ask(relay.address, "GET http://127.0.0.1/v1/rooms/a", &["localhost"]).await.0, 200);
    for line in ["GET /healthz", "GET /readyz"] {
        assert_eq!(ask(relay.address, line, &["evil.example"]).await.0, 200, "{line}: for load balancers");
    }
    for each in &CALLS {
        let page = super::call(&relay, "a", each).header("host", "evil.example");
        let told = answer(page.header("origin", "http://evil.example")).await;
        assert_eq!(told.problem(), refused());
        let detail = told.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("--allow-origin https://evil.example"), "{detail}");
    }
}

#[tokio::test]
async fn any_name_will_do_where_any_origin_may_connect_or_nobody_comes_in_without_a_token() {
    let relay = Relay::start(|config| config.allow_origin = vec!["*".to_owned()]).await;
    assert_eq!(ask(relay.address, "GET /v1/rooms/a", &["draw.example"]).await.0, 200);
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    assert_eq!(ask(relay.address, "GET /v1/rooms/a", &["draw.example"]).await, super::invalid_token());
    let good = relay.request(Method::GET, "/v1/rooms/a").header("host", "draw.example");
    assert_eq!(status(good.bearer_auth(token("a", "viewer"))).await, 200);
}

/// Over plain http no page of https is this server's own, unless a trusted proxy may have unpacked it.
#[tokio::test]
async fn a_page_of_https_is_not_the_own_one_over_plain_http() {
    for (is_proxied, status) in [(false, 403), (true, 200)] {
        let relay = Relay::start(|config| {
            if is_proxied {
                config.trust_forwarded = vec!["127.0.0.0/8".parse().unwrap()];
            }
        })
        .await;
        let own = format!("https://{}", relay.address);
        let asked = relay.request(Method::GET, "/v1/rooms/a").header("origin", own);
        assert_eq!(super::status(asked).await, status, "behind a proxy: {is_proxied}");
    }
}
