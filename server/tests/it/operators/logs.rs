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
