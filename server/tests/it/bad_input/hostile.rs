//! The program under everything hostile at once, round after round: what it took for that, it gives back.

use std::net::SocketAddr;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{all_kinds, draws_frame, lies, lies_in_json, masked, raw_websocket};
use crate::support::eventually;
use crate::support::process::Process;
use crate::support::requests::{JSON, MESSAGE_PACK, still_works, until_closed};

/// What is tried at the same time.
const AT_ONCE: usize = 96;
const ROUNDS: usize = 5;
/// Short, so that what is left hanging is soon over; the rate is lifted, so that everything gets past it.
const FLAGS: &[&str] = &[
    "--max-rate=0",
    "--header-time=1500ms",
    "--body-time=1500ms",
    "--first-frame-time=1500ms",
    "--idle-time=4s",
    "--keep-alive=1s",
    "--room-idle=100ms",
];

type Attempt = BoxFuture<'static, ()>;

fn post(address: SocketAddr, content_type: &'static str, body: Vec<u8>) -> Attempt {
    Box::pin(async move {
        let url = format!("http://{address}/v1/rooms/hostile/draws");
        let request =
            crate::support::requests::client().post(url).header("content-type", content_type).body(body);
        let status = request.send().await.expect("an answer").status().as_u16();
        assert!((400..500).contains(&status), "{status}");
    })
}

/// Sends bytes over a bare connection, and either reads to the end or just leaves.
fn bytes(address: SocketAddr, bytes: Vec<u8>, leave: bool) -> Attempt {
    Box::pin(async move {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let _ = stream.write_all(&bytes).await;
        if !leave {
            until_closed(&mut stream).await;
        }
    })
}

fn frames(address: SocketAddr, after_hello: bool, frames: Vec<u8>) -> Attempt {
    Box::pin(async move {
        let mut stream = raw_websocket(address, "hostile").await;
        if after_hello {
            stream.write_all(&masked(0x82, &[0x91, 1])).await.unwrap();
        }
        let _ = stream.write_all(&frames).await;
        let _ = stream.shutdown().await;
        until_closed(&mut stream).await;
    })
}

fn attempts(address: SocketAddr) -> Vec<Attempt> {
    let mut all: Vec<Attempt> = Vec::new();
    let whole = all_kinds();
    let cut = (0..whole.len()).map(|end| ("cut", whole[..end].to_vec()));
    for (_, body) in lies().into_iter().chain(cut) {
        all.push(post(address, MESSAGE_PACK, body.clone()));
        for after_hello in [false, true] {
            all.push(frames(address, after_hello, masked(0x82, &draws_frame(1, &body))));
        }
    }
    for (_, text) in lies_in_json() {
        all.push(post(address, JSON, text.into_bytes()));
    }
    all.push(post(address, MESSAGE_PACK, vec![0x91; 2 << 20]));
    let tebibyte = [&[0x82, 0x80 | 127][..], &(1_u64 << 40).to_be_bytes(), &[0; 4]].concat();
    // Just under the limit: promised, and never sent.
    let quarter_mebibyte = [&[0x82, 0x80 | 127][..], &(1_u64 << 18).to_be_bytes(), &[0; 4]].concat();
    let fragments = [masked(0x02, b"x"), masked(0x00, b"x").repeat(20_000)].concat();
    for after_hello in [false, true] {
        for bytes in [&tebibyte, &quarter_mebibyte, &fragments, &masked(0x89, b"ping").repeat(5000)] {
            all.push(frames(address, after_hello, bytes.clone()));
        }
    }
    let head = "POST /v1/rooms/hostile/draws HTTP/1.1\r\nhost: x\r\ncontent-type: application/msgpack\r\n";
    for leave in [true, false] {
        for _ in 0..20 {
            all.push(bytes(address, vec![], leave));
            all.push(bytes(address, head.into(), leave));
            all.push(bytes(address, format!("{head}content-length: 200000\r\n\r\nx").into(), leave));
            all.push(bytes(address, format!("{head}transfer-encoding: chunked\r\n\r\n1\r\n").into(), leave));
        }
    }
    for _ in 0..20 {
        // A poll and a stream whose reader goes away.
        for path in ["draws?wait=50", "events"] {
            let request = format!("GET /v1/rooms/hostile/{path} HTTP/1.1\r\nhost: x\r\n\r\n");
            all.push(bytes(address, request.into(), true));
        }
    }
    all
}

/// Round after round, until everything is closed again; returns the memory after each, in bytes.
async fn hammered(program: &Process) -> Vec<u64> {
    still_works(program.address).await;
    let mut open = 0;
    eventually("it is quiet", async || {
        let before = std::mem::replace(&mut open, program.descriptors());
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        before == open
    })
    .await;
    let mut resident = Vec::new();
    for _ in 0..ROUNDS {
        let all = futures_util::stream::iter(attempts(program.address));
        all.for_each_concurrent(AT_ONCE, |attempt| attempt).await;
        still_works(program.address).await;
        eventually("all connections are closed", async || program.descriptors() <= open).await;
        resident.push(program.resident_bytes());
    }
    resident
}

#[tokio::test]
async fn the_servers_memory_is_back_to_its_baseline_afterwards() {
    let program = Process::start(FLAGS);
    let resident = hammered(&program).await;
    let (early, last) = (resident[1], resident[ROUNDS - 1]);
    assert!(last <= early + early / 10 + (4 << 20), "bytes after each round: {resident:?}");
}

/// A length that is believed would end the program here.
#[tokio::test]
async fn the_server_lives_with_a_gibibyte_of_address_space() {
    let mut program = Process::start_within(1024 * 1024, FLAGS);
    let resident = hammered(&program).await;
    assert!(resident.iter().all(|bytes| *bytes < 200 << 20), "bytes after each round: {resident:?}");
    program.terminate();
    assert_eq!(program.ended().await, Some(0));
}
