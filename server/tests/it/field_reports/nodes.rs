//! Several relays over one store, and the network between them and their clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::node;
use crate::support::eventually;
use crate::support::http::Http;
use crate::support::ledger::{Ledger, Outcome};
use crate::support::process::Process;
use crate::support::proxy::{Direction, Fate, Proxy};
use crate::support::reader::{Reader, fresh_log};
use crate::support::redis::RedisServer;
use crate::support::socket::Socket;
use crate::support::writer::Writer;

/// Two servers order the same draws differently. Eight draw at each of them, as fast as they are answered.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_tell_one_order() {
    let redis = RedisServer::start();
    let nodes = [node(&redis, |_| {}).await, node(&redis, |_| {}).await];
    let addresses = nodes.each_ref().map(|node| node.address);
    let ledger = Arc::new(Ledger::default());
    let mut readers = Vec::new();
    for address in addresses {
        readers.push(Reader::join(format!("live at {address}"), address, "a").await);
    }
    let until = Instant::now() + Duration::from_secs(3);
    let writers: Vec<_> = (0..16)
        .map(|index| {
            let mut writer = Writer::new(&addresses[index % 2..=index % 2], "a", &ledger);
            tokio::spawn(async move {
                while Instant::now() < until {
                    writer.draw(1 + index % 3).await;
                    // Rates are limited: a hundred batches a second.
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            })
        })
        .collect();
    let mut drawn = 0;
    for writer in writers {
        writer.await.unwrap();
        drawn = ledger.count(Outcome::Acked);
    }
    assert!(drawn > 1000, "{drawn} drawn");
    for reader in &mut readers {
        reader.has(drawn).await;
        assert!(reader.closes.is_empty() && reader.log.resets() == 0);
    }
    let fresh =
        [fresh_log("fresh 0", addresses[0], "a").await, fresh_log("fresh 1", addresses[1], "a").await];
    ledger.assert_agrees(&[&readers[0].log, &readers[1].log, &fresh[0], &fresh[1]]);
    assert_eq!(fresh[0].all(), fresh[1].all());
}

/// A network that swallows everything from some moment on, and tells neither side.
fn silence() -> (Arc<AtomicBool>, impl Fn(usize, Direction, &[u8]) -> Fate + Send + Sync) {
    let is_silent = Arc::new(AtomicBool::new(false));
    let rule = {
        let is_silent = Arc::clone(&is_silent);
        move |_: usize, _: Direction, _: &[u8]| match is_silent.load(Ordering::Acquire) {
            true => Fate::Swallow,
            false => Fate::Forward,
        }
    };
    (is_silent, rule)
}

/// Clients vanish without a word, and the network keeps their connections open: they are shown as present for ever,
/// and polls hold their places.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_behind_a_dead_network_is_given_up_in_time() {
    let relay = Process::start(&["--idle-time=1s", "--keep-alive=1s", "--heartbeat=500ms"]);
    let http = Http::new(relay.address, "a");
    assert_eq!(http.participants().await, 0);
    let (is_silent, rule) = silence();
    let proxy = Proxy::start(relay.address.port(), Arc::new(rule)).await;
    eventually("this test's own connection is closed", async || relay.descriptors() <= 12).await;
    let baseline = relay.descriptors();
    let mut reader = Reader::join("reader", proxy.address(), "a").await;
    let mut polls = Vec::new();
    for _ in 0..10 {
        let mut poll = TcpStream::connect(proxy.address()).await.unwrap();
        poll.write_all(b"GET /v1/rooms/b/draws?wait=2 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        polls.push(poll);
    }
    // A client that lives stays, also when nothing happens for longer than the idle time.
    let steps = async {
        loop {
            reader.step().await;
        }
    };
    drop(tokio::time::timeout(Duration::from_millis(2500), steps).await);
    assert_eq!(reader.closes.len(), 0);
    assert_eq!(http.participants().await, 1);
    for _ in 0..10 {
        let mut poll = TcpStream::connect(proxy.address()).await.unwrap();
        poll.write_all(b"GET /v1/rooms/b/draws?wait=2 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        polls.push(poll);
    }
    tokio::time::sleep(Duration::from_millis(100)).await;

    is_silent.store(true, Ordering::Release);
    let silent = Instant::now();
    eventually("it is no longer shown", async || http.participants().await == 0).await;
    assert!(silent.elapsed() < Duration::from_secs(2), "{:?}", silent.elapsed());
    drop(http);
    eventually("all descriptors are closed", async || relay.descriptors() <= baseline).await;
    // The close frame's time, since nobody answers it.
    assert!(silent.elapsed() < Duration::from_secs(8), "{:?}", silent.elapsed());
    drop(polls);
    Socket::join(relay.address, "a").await;
}
