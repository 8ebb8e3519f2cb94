//! Tokens and roles: nobody gets in where they do not belong, whichever way they come.

mod command;
mod expiry;
mod hosts;
mod logs;
mod origins;
mod paths;
mod revoked;
mod roles;
mod rust_client;
mod tickets;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::Method;
use inkrelay_protocol::frame::Hello;
use inkrelay_server::access::LEEWAY;
use inkrelay_server::config::Config;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};

use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, answer};

/// What signs the tokens of these tests.
pub const SECRET: &str = "a secret of more than thirty-two bytes";

/// Every call that reads or writes a room, with a body where it takes one.
pub const CALLS: [(Method, &str, Option<&str>); 6] = [
    (Method::POST, "/sessions", Some("{}")),
    (Method::POST, "/draws", Some("[[5,\"AAAA\"]]")),
    (Method::GET, "/draws?wait=0", None),
    (Method::GET, "/events", None),
    (Method::GET, "/snapshot", None),
    (Method::GET, "", None),
];

/// A folder with the key that a relay is given.
pub struct Keys {
    pub folder: tempfile::TempDir,
}

impl Keys {
    pub fn new() -> Self {
        let keys = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(keys.file(), format!("{SECRET}\n")).unwrap();
        keys
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("secret")
    }

    /// A relay that asks for tokens.
    pub async fn relay(&self, set: impl FnOnce(&mut Config)) -> Relay {
        Relay::start(|config| {
            config.token_keys = vec![self.file()];
            let limits = &mut config.limits;
            // One address is everyone here, and mostly without a valid token.
            (limits.max_address_sessions, limits.max_address_rooms, limits.max_address_strangers) = (0, 0, 0);
            set(config);
        })
        .await
    }
}

/// A token with these claims.
pub fn sign(claims: &Value) -> String {
    encode(&Header::default(), claims, &EncodingKey::from_secret(SECRET.as_bytes()).unwrap()).unwrap()
}

/// A token for a room that is good for long.
pub fn token(room: &str, role: &str) -> String {
    sign(&json!({"room": room, "role": role, "exp": in_seconds(3600)}))
}

/// The `exp` of a token that a relay takes for that long from now on.
pub fn over_in(time: Duration) -> f64 {
    (SystemTime::now() + time - LEEWAY).duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

pub fn in_seconds(seconds: u64) -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + seconds
}

pub fn hello(token: &str) -> Hello {
    Hello { token: Some(token.to_owned()), ..Hello::default() }
}

/// A call to a room.
pub fn call(
    relay: &Relay,
    room: &str,
    (method, path, body): &(Method, &str, Option<&str>),
) -> reqwest::RequestBuilder {
    let request = relay.request(method.clone(), &format!("/v1/rooms/{room}{path}"));
    match body {
        Some(body) => request.header("content-type", JSON).body(body.to_string()),
        None => request,
    }
}

/// The status of an answer, whose body may not end.
pub async fn status(request: reqwest::RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

pub async fn refused(request: reqwest::RequestBuilder) -> (u16, String) {
    let answer: Answer = answer(request).await;
    answer.problem()
}

pub fn invalid_token() -> (u16, String) {
    (401, "invalid_token".to_owned())
}
