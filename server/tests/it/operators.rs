//! The operators' port: what it counts, what it tells, what it lets in; and the log.

mod api;
mod logs;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
mod prometheus;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};

use http::Method;
use inkrelay_server::config::{Config, OperatorsListen};

use crate::support::relay::Relay;
use crate::support::requests::{Answer, answer};

/// A relay with an operators' port of its own.
async fn relay() -> (Relay, SocketAddr) {
    relay_with(|_| {}).await
}

/// The same with other settings.
async fn relay_with(change: impl FnOnce(&mut Config)) -> (Relay, SocketAddr) {
    let any = OperatorsListen::At((Ipv4Addr::LOCALHOST, 0).into());
    let relay = Relay::start(|config| {
        config.operators_listen = any;
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
