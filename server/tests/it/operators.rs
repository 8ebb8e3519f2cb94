//! The operators' port: what it counts, what it tells, what it lets in; and the log.

mod api;
mod logs;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
mod prometheus;
mod refusals;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::Method;
use inkrelay_server::config::{Config, OperatorsListen};
use inkrelay_server::store::{EmbeddedStore, SyncPolicy};
use inkrelay_server::transport::{Certificates, Listener};

use crate::support::certificates::Authority;
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::requests::{Answer, answer};

/// An operators' port of one's own.
const ANY: OperatorsListen = OperatorsListen::At(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

/// A relay with an operators' port of its own.
async fn relay() -> (Relay, SocketAddr) {
    relay_with(|_| {}).await
}

/// The same with other settings.
async fn relay_with(change: impl FnOnce(&mut Config)) -> (Relay, SocketAddr) {
    let relay = Relay::start(|config| {
        config.operators_listen = ANY;
        change(config);
    })
    .await;
    let operators = relay.operators.unwrap();
    (relay, operators)
}

fn request(operators: SocketAddr, method: Method, path: &str) -> reqwest::RequestBuilder {
    crate::support::requests::client().request(method, format!("http://{operators}{path}"))
}

async fn get(operators: SocketAddr, path: &str) -> Answer {
    answer(request(operators, Method::GET, path)).await
}

/// The text that Prometheus reads, of a relay that has all that there is to tell of: TLS, and a store with a limit.
pub async fn all_that_is_told() -> String {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap();
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let certificates = Arc::new(Certificates::load(&chain, &key).unwrap());
    let encrypted = |socket| Listener::encrypted(socket, certificates);
    let relay = Relay::start_with(Arc::new(store), encrypted, |config| config.operators_listen = ANY);
    let mut told = String::new();
    // What the sampler tells comes with its second look at the latest.
    eventually("the sampler has looked", async || {
        told = exposition(relay.operators.unwrap()).await;
        told.contains("worker=\"0\"") && told.contains("inkrelay_store_limit_bytes")
    })
    .await;
    told
}

/// The text that Prometheus reads.
async fn exposition(operators: SocketAddr) -> String {
    let answer = get(operators, "/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    String::from_utf8(answer.body).unwrap()
}

/// Each line's value, by its name and labels.
async fn values(operators: SocketAddr) -> HashMap<String, f64> {
    let text = exposition(operators).await;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}
