//! `deploy/nginx` and `deploy/caddy`: Debian's nginx and Caddy in front of relays, with the files as they are but for ports
//! and paths.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use inkrelay_server::config::Config;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::caddy::Caddy;
use crate::support::nginx::Nginx;
use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, MESSAGE_PACK, answer};
use crate::support::slow_store::SlowStore;
use crate::support::socket::{Socket, batch, mark};
use crate::support::{PATIENCE, eventually};

/// What a relay could have said.
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";

/// Nobody listens there.
fn nobody() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 1).into()
}

fn request(proxy: SocketAddr, method: Method, path: &str) -> reqwest::RequestBuilder {
    crate::support::requests::client().request(method, format!("http://{proxy}{path}"))
}

/// Posts one draw, as the client of that ticket or as nobody.
async fn post(proxy: SocketAddr, room: &str, ticket: Option<(&str, u64)>) -> Answer {
    let mut request = request(proxy, Method::POST, &format!("/v1/rooms/{room}/draws"));
    if let Some((ticket, n)) = ticket {
        request = request.header("inkrelay-ticket", ticket).header("inkrelay-n", n);
    }
    answer(request.header("content-type", MESSAGE_PACK).body(batch(&[mark(1)]))).await
}

async fn ticket(proxy: SocketAddr, room: &str) -> String {
    let session = answer(request(proxy, Method::POST, &format!("/v1/rooms/{room}/sessions"))).await;
    assert_eq!(session.status, 200, "{session:?}");
    session.json()["ticket"].as_str().unwrap().to_owned()
}

/// Both relays take each other's tickets.
fn secret(config: &mut Config) {
    config.secret = Some("of both of these relays".to_owned());
}

/// What stands in for a relay: keeps each request, and answers as it is told, or closes without an answer.
struct Upstream {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    async fn start(answer: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let kept = Arc::clone(&kept);
                tokio::spawn(async move {
                    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
                    while !bytes.windows(4).any(|four| four == b"\r\n\r\n") {
                        match stream.read(&mut chunk).await {
                            Ok(len @ 1..) => bytes.extend_from_slice(&chunk[..len]),
                            _ => return,
                        }
                    }
                    kept.lock().unwrap().push(String::from_utf8_lossy(&bytes).to_ascii_lowercase());
                    if let Some(answer) = answer {
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        Self { address, requests }
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

#[test]
fn nginx_finds_its_configuration_sound() {
    let check = |tls| {
        let checked = Nginx::check(tls);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.success() && !said.contains("[warn]"), "{said}");
    };
    check(None);
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| folder.path().join(name));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=localhost",
            "-out",
        ])
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("openssl can be run");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    check(Some((&certificate, &key)));
}

/// A WebSocket, polls, streams and posts, through any proxy.
async fn every_transport_goes_through(proxy: SocketAddr) {
    // A WebSocket, there and back.
    let mut drawer = Socket::join(proxy, "a").await;
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    drawer.records(1, 1).await;
    // A poll waits, and is answered when there is something.
    let poll = request(proxy, Method::GET, "/v1/rooms/a/draws?after=1&wait=50").timeout(PATIENCE);
    let poll = tokio::spawn(answer(poll));
    // A stream of events, which no buffer holds back.
    let mut events = request(proxy, Method::GET, "/v1/rooms/a/events").send().await.unwrap();
    assert_eq!(events.status(), 200);
    let mut told = String::new();
    for seq in 1..=4 {
        if seq > 1 {
            drawer.draw(seq, &[mark(seq)]).await;
        }
        while told.matches("\ndata: ").count() < seq as usize {
            let chunk = tokio::time::timeout(Duration::from_secs(5), events.chunk()).await;
            told.push_str(std::str::from_utf8(&chunk.expect("it comes at once").unwrap().unwrap()).unwrap());
        }
    }
    let polled = poll.await.unwrap();
    assert_eq!((polled.status, polled.json()[1].as_u64()), (200, Some(2)));
    // A snapshot, and a draw of nobody.
    assert_eq!(answer(request(proxy, Method::GET, "/v1/rooms/a/snapshot")).await.status, 200);
    assert_eq!(post(proxy, "a", None).await.status, 200);
}

#[tokio::test]
async fn every_transport_goes_through_nginx() {
    let relay = Relay::start(|_| {}).await;
    every_transport_goes_through(Nginx::start([relay.address, nobody()]).address).await;
}

#[tokio::test]
async fn every_transport_goes_through_caddy() {
    let relay = Relay::start(|_| {}).await;
    every_transport_goes_through(Caddy::start([relay.address, nobody()]).address).await;
}

#[tokio::test]
async fn a_page_from_the_proxy_may_connect_and_others_may_not() {
    let relay = Relay::start(|_| {}).await;
    let nginx = Nginx::start([relay.address, nobody()]);
    let from = async |origin: String| {
        let request = request(nginx.address, Method::POST, "/v1/rooms/a/sessions").header("origin", origin);
        answer(request).await.status
    };
    assert_eq!(from(format!("http://{}", nginx.address)).await, 200);
    assert_eq!(from(format!("http://{}", relay.address)).await, 403);
    assert_eq!(from("https://elsewhere.example".to_owned()).await, 403);
}

/// A header that a relay would believe its proxy is never a client's own.
async fn what_a_client_says_of_its_address_does_not_pass(proxy: SocketAddr, upstream: &Upstream) {
    for path in ["/v1/rooms/a", "/v1/rooms/a/events", "/v1/rooms/a/draws", "/v1/rooms/a/ws"] {
        for method in [Method::GET, Method::POST] {
            let mut forged = request(proxy, method, path).header("x-request-id", "forged");
            for name in ["x-forwarded-for", "x-real-ip", "x-forwarded-host", "x-forwarded-proto", "proxy"] {
                forged = forged.header(name, "forged").header(name, "forged too");
            }
            forged =
                forged.header("forwarded", "for=forged;host=forged").header("x-forwarded-port", "forged");
            assert_eq!(answer(forged).await.status, 200);
        }
    }
    // Caddy asks for health besides.
    let mut requests = upstream.requests();
    requests.retain(|request| !request.starts_with("get /readyz "));
    assert_eq!(requests.len(), 8);
    let mut ids = std::collections::HashSet::new();
    for request in requests {
        assert!(!request.contains("forged"), "{request}");
        let header = |name: &str| {
            let lines: Vec<_> = request.lines().filter_map(|line| line.strip_prefix(name)).collect();
            assert_eq!(lines.len(), 1, "{name}: {request}");
            lines[0].to_owned()
        };
        assert_eq!(header("x-forwarded-for: "), "127.0.0.1");
        assert_eq!(header("x-forwarded-proto: "), "http");
        assert_eq!(header("host: "), proxy.to_string());
        assert!(ids.insert(header("x-request-id: ")), "each request has an id of its own");
    }
}

#[tokio::test]
async fn what_a_client_says_of_its_address_does_not_pass_nginx() {
    let upstream = Upstream::start(Some(OK)).await;
    let nginx = Nginx::start([upstream.address, nobody()]);
    what_a_client_says_of_its_address_does_not_pass(nginx.address, &upstream).await;
}

#[tokio::test]
async fn what_a_client_says_of_its_address_does_not_pass_caddy() {
    let upstream = Upstream::start(Some(OK)).await;
    let caddy = Caddy::start([upstream.address, nobody()]);
    what_a_client_says_of_its_address_does_not_pass(caddy.address, &upstream).await;
}

/// A relay that drains answers 503 for a while; people behind nginx do not see it.
#[tokio::test]
async fn a_relay_that_drains_is_passed_over() {
    let store = SlowStore::new();
    let mut draining = Relay::start_on(store.clone(), |config| {
        secret(config);
        config.times.drain_time = Duration::from_secs(60);
    })
    .await;
    let relay = Relay::start(secret).await;
    let nginx = Nginx::start([draining.address, relay.address]);
    // An append that is held up holds up the end.
    let mut stuck = Socket::join(draining.address, "held").await;
    store.hold_appends(true);
    stuck.draw(1, &[mark(1)]).await;
    store.has_appends(1).await;
    draining.stop();
    eventually("it drains", async || draining.get("/readyz").await.status == 503).await;
    for round in 1..=6 {
        let room = format!("room-{round}");
        let ticket = ticket(nginx.address, &room).await;
        for n in 1..=3 {
            assert_eq!(post(nginx.address, &room, Some((&ticket, n))).await.status, 200);
        }
        let mut socket = Socket::join(nginx.address, &room).await;
        socket.records(1, 3).await;
        let poll =
            answer(request(nginx.address, Method::GET, &format!("/v1/rooms/{room}/draws?wait=0"))).await;
        assert_eq!(poll.status, 200);
    }
    assert!(nginx.access_log().contains("upstream_status=503"), "some came to it first");
    store.hold_appends(false);
    draining.stopped().await;
}

/// Caddy asks whether relays are ready, and hears of one that is about to go before it refuses anyone.
#[tokio::test]
async fn caddy_leaves_a_relay_before_it_goes() {
    let mut draining = Relay::start(|config| {
        secret(config);
        config.times.drain_delay = Duration::from_secs(60);
    })
    .await;
    let relay = Relay::start(secret).await;
    let caddy = Caddy::start([draining.address, relay.address]);
    draining.stop();
    let room = async |server: SocketAddr| answer(request(server, Method::GET, "/v1/rooms/a")).await;
    eventually("it drains", async || draining.get("/readyz").await.status == 503).await;
    // Where they stand on different stores, an answer tells whose it is.
    let stored = post(relay.address, "a", None).await;
    assert_eq!(stored.status, 200, "{stored:?}");
    let is_left = async || {
        let mut records = Vec::new();
        for _ in 0..4 {
            records.push(room(caddy.address).await.json()["records"].as_u64());
        }
        records.iter().all(|count| *count == Some(1))
    };
    eventually("all go to the other one", is_left).await;
    drop(draining);
}

#[tokio::test]
async fn a_relay_that_is_gone_is_passed_over_and_without_any_the_problem_is_told() {
    let relay = Relay::start(|_| {}).await;
    let nginx = Nginx::start([nobody(), relay.address]);
    for _ in 0..8 {
        let ticket = ticket(nginx.address, "a").await;
        assert_eq!(post(nginx.address, "a", Some((&ticket, 1))).await.status, 200);
        assert_eq!(
            post(nginx.address, "a", None).await.status,
            200,
            "nothing was sent, so it may go elsewhere"
        );
    }
    relay.stopped().await;
    for path in ["/v1/rooms/a", "/v1/rooms/a/draws", "/v1/rooms/a/ws", "/v1/rooms/a/events"] {
        let got = answer(request(nginx.address, Method::GET, path)).await;
        assert_eq!(got.problem(), (503, "store_unavailable".to_owned()), "{path}");
        assert!((500..=2600).contains(&got.json()["retry_ms"].as_u64().unwrap()));
        assert_eq!(got.header("retry-after"), Some("1"));
    }
    assert_eq!(post(nginx.address, "a", Some(("t", 1))).await.problem().0, 503);
}

/// A draw of nobody may have been stored when its relay goes away, and is not sent again; one with a number is.
#[tokio::test]
async fn only_numbered_draws_are_sent_twice() {
    let (first, second) = (Upstream::start(None).await, Upstream::start(None).await);
    let nginx = Nginx::start([first.address, second.address]);
    let sent = || first.requests().len() + second.requests().len();
    let got = post(nginx.address, "a", None).await;
    assert_eq!((sent(), got.problem()), (1, (503, "store_unavailable".to_owned())));
    let got = post(nginx.address, "a", Some(("t", 1))).await;
    assert_eq!((sent(), got.problem()), (3, (503, "store_unavailable".to_owned())));
    let get = answer(request(nginx.address, Method::GET, "/v1/rooms/b")).await;
    assert_eq!((sent(), get.status), (5, 503));
}

/// What is refused for a reason of its own comes as the relay said it.
#[tokio::test]
async fn a_relays_own_refusals_pass_unchanged() {
    let set = |config: &mut Config| config.limits.max_sessions = 1;
    let (one, other) = (Relay::start(set).await, Relay::start(set).await);
    let nginx = Nginx::start([one.address, other.address]);
    let big = |bytes| {
        request(nginx.address, Method::POST, "/v1/rooms/a/draws")
            .header("content-type", JSON)
            .body(vec![b' '; bytes])
    };
    assert_eq!(answer(big(300 * 1024)).await.problem(), (413, "too_large".to_owned()));
    let too_big = answer(big(2 * 1024 * 1024)).await;
    assert_eq!(too_big.status, 413, "nginx takes no more than that");
    let no_ticket = post(nginx.address, "a", Some(("no ticket", 1))).await;
    assert_eq!(no_ticket.problem().0, 401);
    // Both are crowded, so that it does not help to ask elsewhere; and neither is left out for it.
    let crowd = [Socket::join(one.address, "a").await, Socket::join(other.address, "a").await];
    for _ in 0..10 {
        let crowded = answer(request(nginx.address, Method::GET, "/v1/rooms/a/draws?wait=0")).await;
        assert_eq!(crowded.problem(), (503, "room_crowded".to_owned()));
    }
    drop(crowd);
    assert_eq!(answer(request(nginx.address, Method::GET, "/v1/rooms/b/draws?wait=0")).await.status, 200);
    let info: Value = answer(request(nginx.address, Method::GET, "/v1/rooms/a")).await.json();
    assert!(info["records"].is_u64(), "{info}");
}
