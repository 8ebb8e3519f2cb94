//! Bans of those whom tokens are made out to, and roles that come from tokens.

use http::Method;
use inkrelay_protocol::frame::Hello;
use serde_json::{Value, json};

use super::ROOM;
use super::keeping_out::dismissed;
use crate::access::{CALLS, Keys, in_seconds, sign};
use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, answer};
use crate::support::socket::{Socket, mark};

fn token(subject: &str, role: &str) -> String {
    sign(&json!({"room": "a", "sub": subject, "role": role, "exp": in_seconds(3600)}))
}

fn hello(token: &str) -> Hello {
    Hello { token: Some(token.to_owned()), ..Hello::default() }
}

async fn call(relay: &Relay, method: Method, path: &str, body: Option<&str>, token: &str) -> Answer {
    let request = relay.request(method, &format!("/v1/rooms/a{path}")).bearer_auth(token);
    let request = match body {
        Some(body) => request.header("content-type", JSON).body(body.to_owned()),
        None => request,
    };
    answer(request).await
}

async fn act(relay: &Relay, token: &str, action: Value) -> Answer {
    let request = relay.request(Method::POST, ROOM).bearer_auth(token);
    answer(request.header("content-type", JSON).body(action.to_string())).await
}

/// M-1, M-5, M-6.
#[tokio::test]
async fn a_banned_subject_stays_out_with_any_ticket_and_any_token_of_its_own() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let (ann, bob, mo) = (token("ann", "drawer"), token("bob", "drawer"), token("mo", "moderator"));
    let mut anns = Socket::join_as(relay.address, "a", hello(&ann)).await;
    let mut bobs = Socket::join_as(relay.address, "a", hello(&bob)).await;
    // Without a ticket, but not without a name.
    let polls = relay.request(Method::GET, "/v1/rooms/a/draws?wait=20").bearer_auth(&ann);
    let waiting = tokio::spawn(answer(polls));
    let ban = json!({"action": "ban", "subject": "ann"});
    assert_eq!(act(&relay, &bob, ban.clone()).await.problem(), (403, "forbidden".to_owned()));
    let ruled = act(&relay, &mo, ban).await.json();
    assert_eq!(ruled["banned_subjects"], json!(["ann"]));
    dismissed(&mut anns, "banned").await;
    assert_eq!(waiting.await.unwrap().problem(), (403, "banned".to_owned()));
    for again in [ann.clone(), token("ann", "moderator")] {
        for (method, path, body) in CALLS {
            let refused = call(&relay, method, path, body, &again).await;
            assert_eq!(refused.problem(), (403, "banned".to_owned()), "{path}");
        }
        let lift = act(&relay, &again, json!({"action": "unban", "subject": "ann"})).await;
        assert_eq!(lift.status, 403, "nobody lifts their own ban");
        let refused = Socket::try_join(relay.address, "a", &hello(&again)).await.err().unwrap();
        assert!(refused.contains("banned"), "{refused}");
    }
    bobs.draw(1, &[mark(1)]).await;
    bobs.acked(1).await;
    assert_eq!(act(&relay, &mo, json!({"action": "unban", "subject": "ann"})).await.status, 200);
    let mut anns = Socket::join_as(relay.address, "a", hello(&ann)).await;
    anns.draw(1, &[mark(2)]).await;
    anns.acked(1).await;
}

/// M-3, M-13: on one server, while people draw.
#[tokio::test]
async fn a_lock_leaves_moderators_their_pens() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let mut ann = Socket::join_as(relay.address, "a", hello(&token("ann", "drawer"))).await;
    let mut mo = Socket::join_as(relay.address, "a", hello(&token("mo", "moderator"))).await;
    ann.draw(1, &[mark(1)]).await;
    ann.acked(1).await;
    let moderator = token("mo", "moderator");
    assert_eq!(act(&relay, &moderator, json!({"action": "lock"})).await.status, 200);
    ann.draw(2, &[mark(2)]).await;
    assert_eq!(ann.refused().await, ("room_locked".to_owned(), Some(2)));
    mo.draw(1, &[mark(3)]).await;
    mo.acked(1).await;
    assert_eq!(act(&relay, &moderator, json!({"action": "unlock"})).await.status, 200);
    // The number that was refused is free.
    ann.draw(2, &[mark(4)]).await;
    ann.acked(2).await;
    assert_eq!(call(&relay, Method::GET, "", None, &moderator).await.json()["records"], 3);
}
