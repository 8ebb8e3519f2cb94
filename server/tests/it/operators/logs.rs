//! The log: what a request's lines have in common, and what is never written.

use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use http::Method;
use inkrelay_protocol::frame::Hello;
use serde_json::Value;

use crate::support::eventually;
use crate::support::requests::{JSON, answer};
use crate::support::socket::{Socket, mark};

/// A relay whose log goes to a file. Killed when dropped.
pub struct Logging(pub Child);

impl Drop for Logging {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

async fn start(folder: &Path, level: &str, arguments: &[&str]) -> (Logging, SocketAddr) {
    let said = folder.join("said");
    let child = Command::new(env!("CARGO_BIN_EXE_inkrelay"))
        .args(["serve", "--memory", "--listen", "127.0.0.1:0", "--operators-listen", "off"])
        .args(arguments)
        .env("INKRELAY_LOG", level)
        .stdout(File::create(&said).unwrap())
        .stderr(File::create(folder.join("log")).unwrap())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let logging = Logging(child);
    // JSON has the greeting in it.
    let said = if arguments.contains(&"json") { folder.join("log") } else { said };
    let address = listens_on(&said).await;
    (logging, address)
}

/// The address that a relay says on its first line.
pub async fn listens_on(said: &Path) -> SocketAddr {
    let mut address = None;
    eventually("it says where it listens", async || {
        let text = std::fs::read_to_string(said).unwrap();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let line = whole.lines().find(|line| line.contains("Inkrelay listens"));
        let rest = line.and_then(|line| line.split_once("http://")).map(|(_, rest)| rest);
        address = rest.and_then(|rest| rest.split('"').next()?.parse().ok());
        address.is_some()
    })
    .await;
    address.unwrap()
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_an_id_in_its_answer_and_in_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let (_relay, address) = start(folder.path(), "debug", &["--log-format", "json"]).await;
    let url = format!("http://{address}/v1/rooms/a");
    let ids = async |given: Option<&str>| {
        let mut request = crate::support::requests::client().request(Method::GET, &url);
        if let Some(given) = given {
            request = request.header("x-request-id", given);
        }
        answer(request).await.header("x-request-id").unwrap().to_owned()
    };
    let (first, second) = (ids(None).await, ids(None).await);
    assert_ne!(first, second);
    assert_ne!(ids(Some("forged")).await, "forged", "nobody is trusted unless it is said");

    let (mut socket, response) = Socket::handshake(address, "a", None).await.unwrap();
    let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    // No hello: it is closed, and the line that says so names the request.
    socket.send_bytes(vec![0xc1]).await;
    eventually("the log tells of it", async || {
        log(folder.path()).lines().any(|line| {
            let line: Value = serde_json::from_str(line).expect("one JSON object a line");
            line["message"] == "closing a WebSocket"
                && line["request"] == id.as_str()
                && line["level"] == "DEBUG"
        })
    })
    .await;
}

/// At the finest level, whatever goes over the sockets: secrets, tickets, tokens and ink are in no line.
#[tokio::test(flavor = "multi_thread")]
async fn neither_secrets_nor_ink_are_ever_logged() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "correct-horse-battery-staple";
    let (_relay, address) = start(folder.path(), "trace", &["--secret", secret]).await;
    let mut socket = Socket::join_as(
        address,
        "room-of-trace",
        Hello { token: Some("eyJhbGciOiJIUzI1NiJ9.of-a-token.c2ln".to_owned()), ..Hello::default() },
    )
    .await;
    socket.draw(1, &[mark(424_242)]).await;
    socket.acked(1).await;
    let draws = "[[0,0,[9,87,65],0,[131071,131070,77777,66666],true]]";
    let post = crate::support::requests::client()
        .post(format!("http://{address}/v1/rooms/room-of-trace/draws"))
        .header("content-type", JSON)
        .header("authorization", "Bearer eyJhbGciOiJIUzI1NiJ9.of-a-token.c2ln")
        .header("inkrelay-ticket", &socket.ticket)
        .header("inkrelay-n", "2");
    assert_eq!(answer(post.body(draws)).await.status, 200);
    socket.send_bytes(vec![0xc1]).await;
    eventually("the log tells that it was closed", async || {
        log(folder.path()).contains("closing a WebSocket")
    })
    .await;
    let log = log(folder.path());
    for never in [secret, &socket.ticket, "of-a-token", "131071", "77777", "424242", "66666"] {
        assert!(!log.contains(never), "{never} is in the log:\n{log}");
    }
}

/// Whoever is refused can be found: by address, room and request. A flood leaves few lines, and what it carries leaves none.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_told_with_whom_they_are_for_and_a_flood_fills_no_disk() {
    let folder = tempfile::tempdir().unwrap();
    let keys = crate::access::Keys::new();
    let file = keys.file();
    let arguments =
        ["--log-format", "json", "--max-address-strangers", "0", "--trust-forwarded", "127.0.0.0/8"];
    let arguments = [&arguments[..], &["--token-keys", file.to_str().unwrap()]].concat();
    let (_relay, address) = start(folder.path(), "info", &arguments).await;
    let http = crate::support::requests::client();
    let post = |room: &str| {
        http.post(format!("http://{address}/v1/rooms/{room}/draws?secret=in-the-query"))
            .header("content-type", JSON)
            .header("x-forwarded-for", "203.0.113.9")
            .body("[[0,0,[9,87,65],0,[131071,131070],true]]")
    };
    let forged = "eyJhbGciOiJIUzI1NiJ9.of-a-token.c2ln";
    let refused = answer(post("studio").header("authorization", format!("Bearer {forged}"))).await;
    assert_eq!(refused.problem().1, "invalid_token");
    let id = refused.header("x-request-id").unwrap();
    let foreign = answer(post("studio").header("origin", "https://evil.example")).await;
    assert_eq!(foreign.problem().1, "origin_refused");
    for _ in 0..200 {
        assert_eq!(answer(post("flood")).await.problem().1, "invalid_token");
    }
    let (mut socket, response) = Socket::handshake(address, "cellar", None).await.unwrap();
    let socket_id = response.headers()["x-request-id"].to_str().unwrap();
    let good = crate::access::token("cellar", "drawer");
    let said = Hello { token: Some(good.clone()), ticket: Some("of-nobody".to_owned()), ..Hello::default() };
    socket.hello(&said).await.unwrap_err();
    let lines = || {
        let log = log(folder.path());
        let lines =
            log.lines().map(|line| serde_json::from_str::<Value>(line).expect("one JSON object a line"));
        lines.filter(|line| line["message"] == "refused").collect::<Vec<_>>()
    };
    eventually("all are told", async || lines().iter().any(|line| line["code"] == "invalid_ticket")).await;
    let lines = lines();
    let of = |code: &str| lines.iter().filter(|line| line["code"] == code).collect::<Vec<_>>();
    let tokens = of("invalid_token");
    assert!((5..=10).contains(&tokens.len()), "{} lines of 201", tokens.len());
    let first = tokens[0];
    assert_eq!([&first["level"], &first["address"], &first["room"]], ["INFO", "203.0.113.9", "studio"]);
    assert_eq!(first["span"]["id"], id);
    assert_eq!(
        [&of("origin_refused")[0]["address"], &of("origin_refused")[0]["room"]],
        ["203.0.113.9", "studio"]
    );
    let ticket = of("invalid_ticket")[0];
    assert_eq!([&ticket["address"], &ticket["room"], &ticket["request"]], ["127.0.0.1", "cellar", socket_id]);
    let log = log(folder.path());
    for never in [forged, "of-a-token", &good, "of-nobody", "131071", "in-the-query"] {
        assert!(!log.contains(never), "{never} is in the log:\n{log}");
    }
}
