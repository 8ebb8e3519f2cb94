//! The Rust client with tokens: fresh ones in time, and what it does when one is over.

use std::time::Duration;

use inkrelay_client::client::{Client, ClientConfig, Event, Events, Stopped, Timing, Transport};
use inkrelay_protocol::Role;
use serde_json::json;

use super::{Keys, over_in, sign, token};
use crate::support::PATIENCE;
use crate::support::relay::Relay;
use crate::support::socket::mark;

const SOON: Duration = Duration::from_secs(2);
const TRANSPORTS: [Transport; 2] = [Transport::WebSocket, Transport::LongPoll];

fn connect(relay: &Relay, transport: Transport, token: Option<String>) -> (Client, Events) {
    let mut config = ClientConfig::new(relay.url(""), "a".parse().unwrap());
    (config.transport, config.token) = (transport, token);
    config.timing = Timing {
        backoff_first: Duration::from_millis(20),
        backoff_max: Duration::from_millis(50),
        ..Timing::default()
    };
    Client::connect(config).unwrap()
}

async fn wait<T>(events: &mut Events, mut looked_for: impl FnMut(Event) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = looked_for(events.recv().await.expect("the client goes on")) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("the event comes in time")
}

async fn stopped(events: &mut Events) -> Stopped {
    wait(events, |event| if let Event::Stopped(why) = event { Some(why) } else { None }).await
}

fn is_about_the_token(why: &Stopped) -> bool {
    matches!(why, Stopped::Refused { code, .. } if code == "invalid_token")
}

async fn flush(client: &Client) {
    tokio::time::timeout(PATIENCE, client.flush()).await.expect("all is stored in time").unwrap();
}

#[tokio::test]
async fn a_wrong_token_or_none_stops_it_with_the_reason() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    for transport in TRANSPORTS {
        for wrong in [None, Some("no token".to_owned()), Some(token("b", "drawer"))] {
            let (_client, mut events) = connect(&relay, transport, wrong.clone());
            let why = stopped(&mut events).await;
            assert!(is_about_the_token(&why), "{transport:?} {wrong:?}: {why:?}");
        }
    }
}

#[tokio::test]
async fn a_fresh_token_in_time_loses_nothing() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    for (index, transport) in TRANSPORTS.into_iter().enumerate() {
        let soon = sign(&json!({"room": "a", "role": "drawer", "exp": over_in(SOON)}));
        let (client, mut events) = connect(&relay, transport, Some(soon));
        let welcome = wait(&mut events, |event| match event {
            Event::Connected { welcome, .. } => Some(welcome),
            _ => None,
        });
        assert_eq!(welcome.await.role, Role::Drawer);
        client.draw(&mark(1)).unwrap();
        flush(&client).await;
        client.set_token(token("a", "drawer"));
        tokio::time::sleep(SOON * 2).await;
        client.draw(&mark(2)).unwrap();
        flush(&client).await;
        client.close().await;
        let room = relay.request(http::Method::GET, "/v1/rooms/a").bearer_auth(token("a", "viewer"));
        let records = crate::support::requests::answer(room).await.json()["records"].as_u64();
        assert_eq!(records, Some(2 * (index as u64 + 1)), "{transport:?}");
    }
}

#[tokio::test]
async fn at_the_end_of_its_token_it_stops_and_keeps_what_was_not_sent_apart_from_refused() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    for transport in TRANSPORTS {
        let soon = sign(&json!({"room": "a", "role": "drawer", "exp": over_in(SOON)}));
        let (client, mut events) = connect(&relay, transport, Some(soon));
        client.draw(&mark(1)).unwrap();
        flush(&client).await;
        let mut was_refused = false;
        let why = wait(&mut events, |event| {
            was_refused |= matches!(event, Event::Refused { .. });
            if let Event::Stopped(why) = event { Some(why) } else { None }
        })
        .await;
        assert!(is_about_the_token(&why) && !was_refused, "{transport:?}: {why:?}");
        assert!(client.ticket().is_some());
    }
}

#[tokio::test]
async fn a_fresh_token_that_is_refused_is_told_and_the_old_one_goes_on() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let (client, mut events) = connect(&relay, Transport::WebSocket, Some(token("a", "drawer")));
    wait(&mut events, |event| matches!(event, Event::Connected { .. }).then_some(())).await;
    client.set_token(token("b", "drawer"));
    wait(&mut events, |event| matches!(event, Event::TokenRefused { .. }).then_some(())).await;
    client.draw(&mark(1)).unwrap();
    flush(&client).await;
}
