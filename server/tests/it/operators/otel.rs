//! Traces: a collector that is named gets the spans of requests. In programs that are built with `--features otel`.

use std::process::{Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::logs::{Logging, listens_on};
use crate::support::PATIENCE;
use crate::support::requests::answer;

/// One whole request, its body included.
async fn request(collector: &TcpListener) -> Vec<u8> {
    let (mut stream, _) = collector.accept().await.unwrap();
    let mut got = Vec::new();
    loop {
        let mut part = [0; 4096];
        let bytes = stream.read(&mut part).await.unwrap();
        got.extend_from_slice(&part[..bytes]);
        let text = String::from_utf8_lossy(&got).to_lowercase();
        let head = got.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4);
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if bytes == 0 || head.zip(length).is_some_and(|(head, length)| got.len() >= head + length) {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
            return got;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_gets_the_spans_of_requests() {
    let collector = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let said = folder.path().join("said");
    let child = Command::new(env!("CARGO_BIN_EXE_inkrelay"))
        .args(["serve", "--memory", "--listen", "127.0.0.1:0", "--operators-listen", "off"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.local_addr().unwrap()))
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
        .stdout(std::fs::File::create(&said).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _relay = Logging(child);
    let address = listens_on(&said).await;
    let asked = answer(reqwest::Client::new().get(format!("http://{address}/healthz"))).await;
    let id = asked.header("x-request-id").unwrap().to_owned();
    let told = tokio::time::timeout(PATIENCE, request(&collector)).await.expect("a trace in time");
    let told = String::from_utf8_lossy(&told);
    assert!(told.starts_with("POST /v1/traces"), "{told}");
    assert!(told.contains("inkrelay") && told.contains("request") && told.contains(&id), "{told}");
}
