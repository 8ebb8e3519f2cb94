//! Revoked tokens end what is open, on every server (T-9).

use std::time::{Duration, Instant};

use http::Method;
use inkrelay_server::store::{RedisConfig, RedisStore};
use serde_json::json;

use super::{Keys, hello, in_seconds, invalid_token, sign};
use crate::support::process::Process;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::requests::answer;
use crate::support::socket::{Socket, mark};

const WITHIN: Duration = Duration::from_secs(5);

#[tokio::test]
async fn sockets_polls_and_streams_end_within_5_s_on_every_server() {
    let keys = Keys::new();
    let list = keys.folder.path().join("revoked");
    std::fs::write(&list, "# nobody yet\n").unwrap();
    let redis = RedisServer::start();
    let mut relays = Vec::new();
    for _ in 0..2 {
        let store = RedisStore::connect(&redis.url(), RedisConfig::default()).await.unwrap();
        let set = |config: &mut inkrelay_server::config::Config| {
            config.token_keys = vec![keys.file()];
            config.revoked = Some(list.clone());
        };
        relays.push(Relay::start_on(std::sync::Arc::new(store), set).await);
    }
    let token = |id: &str, sub: &str| {
        sign(&json!({"room": "a", "role": "drawer", "jti": id, "sub": sub, "exp": in_seconds(600)}))
    };
    let (by_id, by_subject, kept) = (token("one", "ann"), token("two", "bob"), token("three", "cleo"));
    let mut cleo = Socket::join_as(relays[0].address, "a", hello(&kept)).await;
    let mut ends = Vec::new();
    for relay in &relays {
        for token in [&by_id, &by_subject] {
            let mut socket = Socket::join_as(relay.address, "a", hello(token)).await;
            let get = |path: &str| relay.request(Method::GET, path).bearer_auth(token);
            let (poll, events) = (get("/v1/rooms/a/draws?wait=55"), get("/v1/rooms/a/events"));
            ends.push(async move {
                let (closed, poll, events) = tokio::join!(socket.closed(), answer(poll), answer(events));
                (closed, poll.problem(), events.status)
            });
        }
    }
    let begun = Instant::now();
    std::fs::write(&list, "one\nsub:bob\n").unwrap();
    for end in futures_util::future::join_all(ends).await {
        assert_eq!(end, (4401, invalid_token(), 200));
    }
    assert!(begun.elapsed() < WITHIN, "{:?}", begun.elapsed());
    for relay in &relays {
        for token in [&by_id, &by_subject] {
            let again = relay.request(Method::GET, "/v1/rooms/a/draws?wait=0").bearer_auth(token);
            assert_eq!(answer(again).await.problem(), invalid_token());
        }
    }
    cleo.draw(1, &[mark(1)]).await;
    cleo.acked(1).await;
}

/// T-3, T-9: a key that is gone takes its tokens along.
#[tokio::test]
async fn a_hangup_has_the_keys_read_again() {
    let keys = Keys::new();
    let file = keys.file();
    let process = Process::start(&["--token-keys", file.to_str().unwrap()]);
    let token = sign(&json!({"room": "a", "role": "drawer", "exp": in_seconds(600)}));
    let mut socket = Socket::join_as(process.address, "a", hello(&token)).await;
    std::fs::write(&file, "another secret that has thirty-two bytes").unwrap();
    process.hang_up();
    assert_eq!(socket.closed().await, 4401);
    assert!(Socket::try_join(process.address, "a", &hello(&token)).await.is_err());
}
