//! Without a token of this room there is no way in, whatever the call (S-5, T-10).

use http::Method;
use inkrelay_protocol::frame::Hello;
use serde_json::json;

use super::{CALLS, Keys, call, hello, invalid_token, refused, status, token};
use crate::support::relay::Relay;
use crate::support::requests::{JSON, answer};
use crate::support::socket::Socket;

/// How a WebSocket with that hello and those subprotocols ends, or `None` when it is welcome.
async fn knock(relay: &Relay, room: &str, protocols: Option<&str>, first: &Hello) -> Option<u16> {
    let (mut socket, _) = Socket::handshake(relay.address, room, protocols).await.unwrap();
    match socket.hello(first).await {
        Ok(()) => None,
        Err(why) => Some(if why.contains("4401") { 4401 } else { panic!("{why}") }),
    }
}

#[tokio::test]
async fn without_a_token_no_call_gets_in() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    for each in &CALLS {
        assert_eq!(refused(call(&relay, "a", each)).await, invalid_token(), "{each:?}");
        assert_eq!(
            status(call(&relay, "a", each).bearer_auth(token("a", "moderator"))).await,
            200,
            "{each:?}"
        );
    }
    assert_eq!(knock(&relay, "a", None, &Hello::default()).await, Some(4401));
    assert_eq!(knock(&relay, "a", None, &hello(&token("a", "viewer"))).await, None);
    assert_eq!(answer(relay.request(Method::GET, "/healthz")).await.status, 200, "which is no room");
}

#[tokio::test]
async fn a_token_for_one_room_does_nothing_in_another() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    for foreign in ["b", "A", "a2", "aa", "b*", "a.*"] {
        let foreign = token(foreign, "moderator");
        for each in &CALLS {
            let got = refused(call(&relay, "a", each).bearer_auth(&foreign)).await;
            assert_eq!(got, invalid_token(), "{each:?}");
        }
        assert_eq!(knock(&relay, "a", None, &hello(&foreign)).await, Some(4401));
    }
    for own in ["a", "a*", "*"] {
        let own = token(own, "viewer");
        assert_eq!(status(call(&relay, "a", &CALLS[2]).bearer_auth(&own)).await, 200);
        assert_eq!(knock(&relay, "a", None, &hello(&own)).await, None);
    }
    let room = call(&relay, "a", &CALLS[5]).bearer_auth(token("a", "viewer"));
    assert_eq!(answer(room).await.json()["records"], 0, "nothing was drawn");
}

#[tokio::test]
async fn forged_forms_of_authorization_are_refused() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let good = token("a", "moderator");
    for forged in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        good.clone(),
        format!("Token {good}"),
        format!("Basic {good}"),
        format!("Bearer{good}"),
        format!("Bearer\t{good}"),
        format!("Bearer: {good}"),
        format!("Bearer \"{good}\""),
        format!("Bearer token={good}"),
        format!("Bearer {good}, Bearer {good}"),
        format!("Bearer {good} {good}"),
        format!("Bearer {good};"),
        format!("bearer bearer {good}"),
        format!("Negotiate, Bearer {good}"),
    ] {
        for each in &CALLS {
            let got = refused(call(&relay, "a", each).header("authorization", &forged)).await;
            assert_eq!(got, invalid_token(), "{forged:?} {each:?}");
        }
    }
    for each in &CALLS {
        let twice = call(&relay, "a", each).bearer_auth(&good).bearer_auth(&good);
        assert_eq!(refused(twice).await, invalid_token());
    }
    for taken in [format!("bearer {good}"), format!("BEARER   {good}")] {
        assert_eq!(status(call(&relay, "a", &CALLS[2]).header("authorization", taken)).await, 200);
    }
}

/// A log would keep it there.
#[tokio::test]
async fn a_token_in_the_address_is_not_looked_at() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let good = token("a", "moderator");
    for name in ["token", "access_token", "authorization", "jwt"] {
        for (method, path, body) in &CALLS {
            let join = if path.contains('?') { '&' } else { '?' };
            let path = format!("{path}{join}{name}={good}");
            assert_eq!(refused(call(&relay, "a", &(method.clone(), &path, *body))).await, invalid_token());
        }
    }
    let cookie = call(&relay, "a", &CALLS[2]).header("cookie", format!("token={good}"));
    assert_eq!(refused(cookie).await, invalid_token());
    let (mut socket, _) =
        Socket::handshake(relay.address, &format!("a/ws?token={good}&more="), None).await.unwrap();
    assert!(socket.hello(&Hello::default()).await.unwrap_err().contains("4401"));
}

#[tokio::test]
async fn a_session_takes_its_token_in_the_body_too() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let (good, foreign) = (token("a", "moderator"), token("b", "moderator"));
    let open = |body: String| {
        relay.request(Method::POST, "/v1/rooms/a/sessions").header("content-type", JSON).body(body)
    };
    let opened = answer(open(json!({"token": good}).to_string())).await;
    assert_eq!(opened.json()["role"], 2);
    for wrong in [json!({"token": foreign}), json!({"token": ""}), json!({"token": null}), json!({})] {
        assert_eq!(refused(open(wrong.to_string())).await, invalid_token(), "{wrong}");
    }
    let body_wins = open(json!({"token": foreign}).to_string()).bearer_auth(&good);
    assert_eq!(refused(body_wins).await, invalid_token());
}

/// T-11.
#[tokio::test]
async fn a_websocket_takes_its_token_from_hello_a_header_or_a_subprotocol() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let (good, foreign) = (token("a", "drawer"), token("b", "drawer"));
    let offered = format!("v1.msgpack.inkrelay, token.{good}");
    let (mut socket, response) = Socket::handshake(relay.address, "a", Some(&offered)).await.unwrap();
    let chosen: Vec<_> = response.headers().get_all("sec-websocket-protocol").iter().collect();
    assert_eq!(chosen, ["v1.msgpack.inkrelay"], "the token is not said again");
    socket.hello(&Hello::default()).await.unwrap();
    let knock_as = async |protocols: String, first: Hello| knock(&relay, "a", Some(&protocols), &first).await;
    assert_eq!(knock_as(format!("token.{foreign}, v1.msgpack.inkrelay"), Hello::default()).await, Some(4401));
    assert_eq!(knock_as(format!("Token.{good}, v1.msgpack.inkrelay"), Hello::default()).await, Some(4401));
    assert_eq!(knock_as(format!("{good}, v1.msgpack.inkrelay"), Hello::default()).await, Some(4401));
    assert_eq!(knock_as("token., v1.msgpack.inkrelay".to_owned(), Hello::default()).await, Some(4401));
    // What the hello says counts, if it says anything.
    assert_eq!(knock_as(format!("token.{foreign}, v1.msgpack.inkrelay"), hello(&good)).await, None);
    assert_eq!(knock_as(format!("token.{good}, v1.msgpack.inkrelay"), hello(&foreign)).await, Some(4401));
    assert_eq!(knock_as(format!("token.{good}, v1.msgpack.inkrelay"), hello("")).await, Some(4401));
}

/// Where no tokens are asked for, none is looked at, and other things may stand where one would.
#[tokio::test]
async fn without_keys_everyone_comes_in() {
    let relay = Relay::start(|_| {}).await;
    for each in &CALLS {
        assert_eq!(status(call(&relay, "a", each).basic_auth("ann", Some("secret"))).await, 200, "{each:?}");
    }
    assert_eq!(knock(&relay, "a", None, &hello("anything")).await, None);
}

#[tokio::test]
async fn moderation_asks_for_a_moderator_of_this_room() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let calls = [
        (Method::GET, "/moderation", None),
        (Method::POST, "/moderation", Some("{\"action\":\"lock\"}")),
        (Method::POST, "/moderation", Some("{\"action\":\"clear\"}")),
    ];
    for each in &calls {
        assert_eq!(refused(call(&relay, "a", each)).await, invalid_token(), "{each:?}");
        let foreign = call(&relay, "a", each).bearer_auth(token("b", "moderator"));
        assert_eq!(refused(foreign).await, invalid_token(), "{each:?}");
        for role in ["viewer", "drawer"] {
            let got = refused(call(&relay, "a", each).bearer_auth(token("a", role))).await;
            assert_eq!(got, (403, "forbidden".to_owned()), "{role}: {each:?}");
        }
    }
    for each in &calls {
        assert_eq!(
            status(call(&relay, "a", each).bearer_auth(token("a", "moderator"))).await,
            200,
            "{each:?}"
        );
    }
}
