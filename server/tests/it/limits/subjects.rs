//! What whoever tokens are made out to may do over all sessions, however many they open (L-12).

use http::Method;
use inkrelay_protocol::frame::Hello;
use serde_json::json;

use crate::access::{Keys, hello, in_seconds, sign};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, answer};
use crate::support::socket::{Socket, mark};

fn token_of(subject: Option<&str>) -> String {
    sign(&json!({"room": "*", "role": "drawer", "sub": subject, "exp": in_seconds(3600)}))
}

async fn session(relay: &Relay, token: &str) -> Answer {
    answer(relay.request(Method::POST, "/v1/rooms/a/sessions").bearer_auth(token)).await
}

async fn post(relay: &Relay, token: &str, ticket: Option<&str>) -> Answer {
    let mut request = relay.request(Method::POST, "/v1/rooms/a/draws").header("content-type", JSON);
    if let Some(ticket) = ticket {
        request = request.header("inkrelay-ticket", ticket).header("inkrelay-n", "1");
    }
    answer(request.bearer_auth(token).body("[[4]]")).await
}

fn rate_limited() -> (u16, String) {
    (429, "rate_limited".to_owned())
}

#[tokio::test]
async fn one_subject_has_one_rate_over_all_its_sessions_and_transports() {
    let keys = Keys::new();
    let relay = keys.relay(|config| config.limits.max_subject_rate = 2).await;
    let [ann, ben] = ["ann", "ben"].map(|subject| token_of(Some(subject)));
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(Socket::join_as(relay.address, "a", hello(&ann)).await);
    }
    let ticket = session(&relay, &ann).await.json()["ticket"].as_str().unwrap().to_owned();
    for socket in &mut sockets[..2] {
        socket.draw(1, &[mark(1)]).await;
        socket.acked(1).await;
    }
    assert_eq!(post(&relay, &ann, Some(&ticket)).await.status, 200);
    assert_eq!(post(&relay, &ann, None).await.status, 200);
    // The bucket may have gained one again meanwhile, and no more in so short a time than a few.
    let mut told = None;
    for _ in 0..20 {
        let posted = post(&relay, &ann, None).await;
        if posted.status == 429 {
            told = Some(posted);
            break;
        }
    }
    let told = told.expect("it comes too fast");
    assert_eq!(told.problem(), rate_limited());
    assert!(told.header("retry-after").is_some());
    assert_eq!(post(&relay, &ben, None).await.status, 200, "another subject has a rate of its own");
    for _ in 0..10 {
        assert_eq!(
            post(&relay, &token_of(None), None).await.status,
            200,
            "without one there is nobody to count"
        );
    }
}

#[tokio::test]
async fn one_subject_opens_so_many_sessions_in_a_minute() {
    let keys = Keys::new();
    let relay = keys.relay(|config| config.limits.max_subject_sessions = 2).await;
    let [ann, ben] = ["ann", "ben"].map(|subject| token_of(Some(subject)));
    assert_eq!(session(&relay, &ann).await.status, 200);
    let _open = Socket::join_as(relay.address, "b", hello(&ann)).await;
    assert_eq!(session(&relay, &ann).await.problem(), rate_limited());
    let why = Socket::try_join(relay.address, "a", &hello(&ann)).await.err().unwrap();
    assert!(why.contains("1013") && why.contains("subject opens sessions faster"), "{why}");
    for token in [&ben, &token_of(None), &token_of(None), &token_of(None)] {
        assert_eq!(session(&relay, token).await.status, 200);
    }
}

#[tokio::test]
async fn one_subject_has_so_much_open_at_once_over_whichever_transport() {
    let keys = Keys::new();
    let relay = keys.relay(|config| config.limits.max_subject_sockets = 2).await;
    let [ann, ben] = ["ann", "ben"].map(|subject| token_of(Some(subject)));
    let get = |path: &str, token: &str| {
        relay.request(Method::GET, &format!("/v1/rooms/a/{path}")).bearer_auth(token)
    };
    let socket = Socket::join_as(relay.address, "a", hello(&ann)).await;
    let events = get("events", &ann).send().await.unwrap();
    assert_eq!(events.status(), 200);
    for path in ["events", "draws?wait=0"] {
        let told = answer(get(path, &ann)).await;
        assert_eq!(told.problem(), (503, "too_many_connections".to_owned()), "{path}");
        assert!(told.header("retry-after").is_some(), "{path}");
    }
    let why = Socket::try_join(relay.address, "b", &hello(&ann)).await.err().unwrap();
    assert!(why.contains("1013") && why.contains("as many connections open"), "{why}");
    assert_eq!(post(&relay, &ann, None).await.status, 200, "what is over at once is not counted");
    Socket::join_as(relay.address, "a", hello(&ben)).await;
    for _ in 0..4 {
        Socket::join_as(relay.address, "a", Hello { token: Some(token_of(None)), ..Hello::default() }).await;
    }
    drop(socket);
    eventually("the place is free again", async || answer(get("draws?wait=0", &ann)).await.status == 200)
        .await;
    drop(events);
}
