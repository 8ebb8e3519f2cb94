//! A ticket is of its room and its token's subject (S-19).

use http::Method;
use serde_json::json;

use super::{Keys, hello, in_seconds, invalid_token, sign};
use crate::support::requests::{MESSAGE_PACK, answer};
use crate::support::socket::{Socket, batch, mark};

fn made_out_to(subject: Option<&str>) -> String {
    let mut claims = json!({"room": "*", "role": "drawer", "exp": in_seconds(60)});
    if let Some(subject) = subject {
        claims["sub"] = subject.into();
    }
    sign(&claims)
}

#[tokio::test]
async fn a_stolen_ticket_is_of_no_use_to_another_subject() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let mut ann = Socket::join_as(relay.address, "a", hello(&made_out_to(Some("ann")))).await;
    ann.draw(1, &[mark(1)]).await;
    ann.acked(1).await;
    for thief in [made_out_to(Some("bob")), made_out_to(None)] {
        let mut first = ann.resume(None);
        first.token = Some(thief.clone());
        let (mut socket, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        assert!(socket.hello(&first).await.unwrap_err().contains("4401"));
        for (method, path) in [
            (Method::POST, "sessions"),
            (Method::POST, "draws"),
            (Method::GET, "draws?wait=0"),
            (Method::GET, "events"),
        ] {
            let request = relay.request(method, &format!("/v1/rooms/a/{path}")).bearer_auth(&thief);
            let request = request.header("inkrelay-ticket", &ann.ticket).header("inkrelay-n", 2);
            let request = if path == "draws" {
                request.header("content-type", MESSAGE_PACK).body(batch(&[mark(2)]))
            } else {
                request
            };
            assert_eq!(answer(request).await.problem(), (401, "invalid_ticket".to_owned()), "{path}");
        }
    }
    // A fresh token of the same subject, of another role even, goes on with it.
    let mut first = ann.resume(None);
    first.token = Some(sign(&json!({"room": "a", "role": "moderator", "sub": "ann", "exp": in_seconds(60)})));
    let again = Socket::join_as(relay.address, "a", first).await;
    assert_eq!(again.client, ann.client);
    assert_eq!(ann.closed().await, 4410);
}

#[tokio::test]
async fn a_ticket_alone_lets_nobody_in() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let ann = Socket::join_as(relay.address, "a", hello(&made_out_to(Some("ann")))).await;
    let (mut socket, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
    assert!(socket.hello(&ann.resume(None)).await.unwrap_err().contains("4401"));
    let request =
        relay.request(Method::GET, "/v1/rooms/a/draws?wait=0").header("inkrelay-ticket", &ann.ticket);
    assert_eq!(answer(request).await.problem(), invalid_token());
}
