//! What the page asks: the state, rooms, one room; and what foreign pages may not.

use std::time::Duration;

use http::Method;
use inkrelay_protocol::ServerFrame;
use serde_json::{Value, json};

use super::{get, relay, relay_with, request};
use crate::support::eventually;
use crate::support::requests::{MESSAGE_PACK, answer};
use crate::support::socket::{Socket, mark};

#[tokio::test(flavor = "multi_thread")]
async fn the_state_is_told() {
    let (relay, operators) = relay().await;
    assert_eq!(relay.post_marks("a", 1..=3).await.status, 200);
    eventually("the store was asked", async || {
        get(operators, "/api/state").await.json()["store"]["is_up"] == true
    })
    .await;
    let answer = get(operators, "/api/state").await;
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let state = answer.json();
    assert_eq!((&state["draws"], &state["rooms"]), (&3.into(), &1.into()));
    assert!(state["store"]["description"].as_str().unwrap().contains("memory"), "{state}");
    let appends: u64 =
        state["append"].as_array().unwrap().iter().map(|bucket| bucket[1].as_u64().unwrap()).sum();
    assert_eq!(appends, 1);
    assert!(!state["process"]["cores"].as_array().unwrap().is_empty());
    assert!(!state["workers"].as_array().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn rooms_are_told_the_busiest_first_and_one_with_its_people_and_board() {
    let (relay, operators) = relay().await;
    let mut drawer = Socket::join_as(relay.address, "busy", Socket::named("Ada")).await;
    let _reader = Socket::join(relay.address, "quiet").await;
    let mut n = 0;
    eventually("one room is busier", async || {
        n += 1;
        drawer.draw(n, &[mark(n)]).await;
        drawer.acked(n).await;
        let rooms = get(operators, "/api/rooms?sort=draws&limit=1").await.json();
        assert_eq!((&rooms["live"], rooms["rooms"].as_array().unwrap().len()), (&2.into(), 1));
        let first = &rooms["rooms"][0];
        first["room"] == "busy"
            && first["draws_per_s"].as_f64().unwrap() > 0.0
            && first["lag_ms"].as_f64().unwrap() > 0.0
    })
    .await;
    let by_name = get(operators, "/api/rooms?sort=name").await.json();
    assert_eq!(
        (&by_name["rooms"][0]["room"], &by_name["rooms"][1]["room"]),
        (&"busy".into(), &"quiet".into())
    );
    assert_eq!(get(operators, "/api/rooms?sort=colour").await.status, 400);

    let room = get(operators, "/api/rooms/busy").await.json();
    assert_eq!((&room["participants"], &room["readers"]), (&1.into(), &1.into()));
    assert_eq!(
        (&room["people"][0]["name"], &room["people"][0]["client"]),
        (&"Ada".into(), &drawer.client.get().into())
    );
    let ask = |path: &str| request(operators, Method::GET, path).header("accept", MESSAGE_PACK);
    let snapshot = answer(ask("/api/rooms/busy/snapshot")).await;
    let public =
        answer(relay.request(Method::GET, "/v1/rooms/busy/snapshot").header("accept", MESSAGE_PACK)).await;
    assert_eq!((snapshot.status, &snapshot.body), (200, &public.body));
    assert_eq!(get(operators, "/api/rooms/a%20b").await.problem(), (400, "malformed".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_pages_learn_nothing_and_change_nothing() {
    let (_relay, operators) = relay().await;
    for (name, value) in [
        ("host", "evil.example:9090"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        for path in ["/api/state", "/api/rooms", "/api/rooms/a/snapshot", "/"] {
            let refused = answer(request(operators, Method::GET, path).header(name, value)).await;
            assert_eq!(refused.problem(), (403, "origin_refused".to_owned()), "{name}: {value}, {path}");
            assert_eq!(refused.header("access-control-allow-origin"), None);
        }
    }
    let page = get(operators, "/").await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    for path in ["/assets/none.js", "/etc/passwd", "/v1/rooms/a/draws"] {
        assert_eq!(get(operators, path).await.problem(), (404, "not_found".to_owned()), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_do_what_moderators_do() {
    let (relay, operators) = relay().await;
    let mut ada = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    ada.draw(1, &[mark(1)]).await;
    ada.acked(1).await;
    let act = async |path: &str, body: &str| {
        let request = request(operators, Method::POST, path).header("content-type", "application/json");
        answer(request.body(body.to_owned())).await
    };
    let locked = act("/api/rooms/a/moderation", r#"{"action":"lock"}"#).await;
    assert_eq!((locked.status, &locked.json()["locked"]), (200, &true.into()));
    assert_eq!(get(operators, "/api/rooms/a").await.json()["is_locked"], true);
    assert_eq!(relay.post_marks("a", 2..=2).await.problem().1, "room_locked");
    assert_eq!(act("/api/rooms/a/moderation", r#"{"action":"unlock"}"#).await.status, 200);
    assert_eq!(act("/api/rooms/a/moderation", r#"{"action":"dance"}"#).await.problem().0, 400);
    let large = act("/api/rooms/a/moderation", &"x".repeat(3 << 20)).await;
    assert_eq!(large.problem(), (413, "too_large".to_owned()));
    assert_eq!(get(operators, "/api/rooms?limit=many").await.problem(), (400, "malformed".to_owned()));
    assert_eq!(get(operators, "/api/rooms/%FF").await.problem(), (400, "malformed".to_owned()));
    let sent = async || get(operators, "/api/state").await.json()["records_sent"].clone();
    let before = sent().await;
    assert_eq!(get(operators, "/api/rooms/a/snapshot").await.status, 200);
    assert_eq!(sent().await, before, "an operator who looks is no reader");
    assert_eq!(relay.get("/v1/rooms/a/snapshot").await.status, 200);
    assert_eq!(sent().await, before.as_u64().unwrap() + 1);
    let form = request(operators, Method::POST, "/api/rooms/a/moderation").body(r#"{"action":"clear"}"#);
    assert_eq!(answer(form).await.problem(), (415, "unsupported_media_type".to_owned()));

    let closed = act("/api/rooms/a/close", "{}").await;
    assert_eq!((closed.status, &closed.json()["readers"]), (200, &1.into()));
    assert_eq!(ada.closed().await, 1001);
    let mut back = Socket::join_as(relay.address, "a", ada.resume(None)).await;
    back.records(1, 1).await;
    let kick = format!(r#"{{"action":"kick","client":{}}}"#, back.client.get());
    assert_eq!(act("/api/rooms/a/moderation", &kick).await.status, 200);
    assert_eq!(back.closed().await, 1008);

    let delete = async |room: &str| {
        let request = request(operators, Method::DELETE, room).header("content-type", "application/json");
        answer(request.body("{}")).await
    };
    let mut reader = Socket::join(relay.address, "a").await;
    reader.records(1, 1).await;
    let deleted = delete("/api/rooms/a").await;
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &true.into()));
    let empty = |frame: ServerFrame<'_>| {
        matches!(frame, ServerFrame::Reset { records, .. } if records.is_empty()).then_some(())
    };
    reader.wait_for("an empty board", empty).await;
    assert_eq!(delete("/api/rooms/a").await.json()["deleted"], false);
    let form = answer(request(operators, Method::DELETE, "/api/rooms/a")).await;
    assert_eq!(form.problem(), (415, "unsupported_media_type".to_owned()));
}

/// What operators do counts as no live room: also where the server has as many as it may.
#[tokio::test(flavor = "multi_thread")]
async fn operators_look_into_rooms_that_are_not_live_and_bring_none_to_life() {
    for max_rooms in [1, 0] {
        let (relay, operators) = relay_with(|config| {
            config.limits.max_rooms = max_rooms;
            config.times.room_idle = Duration::ZERO;
        })
        .await;
        let act = async |path: &str, action: Value| {
            let request = request(operators, Method::POST, path).header("content-type", "application/json");
            answer(request.body(action.to_string())).await
        };
        assert_eq!(relay.post_marks("drawn", 1..=3).await.status, 200);
        eventually("it is evicted", async || get(operators, "/api/state").await.json()["rooms"] == 0).await;
        let mut reader = Socket::join(relay.address, "live").await;
        reader.draw(1, &[mark(1)]).await;
        reader.acked(1).await;

        let room = get(operators, "/api/rooms/drawn").await;
        assert_eq!(
            (room.status, &room.json()["records"], &room.json()["is_live"]),
            (200, &3.into(), &false.into())
        );
        let board = get(operators, "/api/rooms/drawn/snapshot").await;
        assert_eq!(
            (board.status, board.header("inkrelay-position").unwrap().split('.').nth(1)),
            (200, Some("3"))
        );
        let locked = act("/api/rooms/drawn/moderation", json!({"action": "lock"})).await;
        assert_eq!((locked.status, &locked.json()["locked"]), (200, &true.into()));
        let rules = get(operators, "/api/rooms/drawn/moderation").await.json();
        assert_eq!(
            rules,
            json!({"locked": true, "banned_clients": [], "banned_subjects": [], "erasing": null})
        );
        let erased = act("/api/rooms/drawn/moderation", json!({"action": "erase", "client": 0})).await;
        assert_eq!((erased.status, &erased.json()["done"]), (200, &true.into()));
        assert_eq!(act("/api/rooms/drawn/moderation", json!({"action": "clear"})).await.status, 200);
        assert_eq!(get(operators, "/api/rooms/drawn").await.json()["is_locked"], true);
        let closed = act("/api/rooms/drawn/close", json!({})).await;
        assert_eq!((closed.status, &closed.json()["readers"]), (200, &0.into()));

        // Nobody has been in these.
        for path in ["/api/rooms/none", "/api/rooms/none/snapshot", "/api/rooms/none/moderation"] {
            let none = get(operators, path).await;
            assert_eq!(none.problem(), (404, "not_found".to_owned()), "{path}");
            assert!(none.json()["detail"].as_str().unwrap().contains("no such room"), "{none:?}");
        }
        assert_eq!(act("/api/rooms/none/close", json!({})).await.problem().0, 404);
        for action in ["kick", "erase", "clear"] {
            let action = json!({"action": action, "client": 7});
            assert_eq!(act("/api/rooms/none/moderation", action).await.problem().0, 404);
        }
        // Who is to stay out may be known before anybody comes.
        let ban = json!({"action": "ban", "subject": "ann"});
        assert_eq!(act("/api/rooms/planned/moderation", ban).await.status, 200);
        let rules = get(operators, "/api/rooms/planned/moderation").await.json();
        assert_eq!(rules["banned_subjects"], json!(["ann"]));

        let rooms = get(operators, "/api/rooms").await.json();
        assert_eq!((&rooms["live"], &rooms["rooms"][0]["room"]), (&1.into(), &"live".into()));
        assert_eq!(get(operators, "/api/state").await.json()["refused"], json!({}));
    }
}

/// On a store that one server has to itself, nobody else tells of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_that_is_deleted_while_it_is_locked_is_locked_no_more() {
    let (relay, operators) = relay().await;
    let mut reader = Socket::join(relay.address, "a").await;
    let json = |method, path| request(operators, method, path).header("content-type", "application/json");
    let lock = json(Method::POST, "/api/rooms/a/moderation").body(r#"{"action":"lock"}"#);
    assert_eq!(answer(lock).await.status, 200);
    let deleted = answer(json(Method::DELETE, "/api/rooms/a").body("{}")).await;
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &true.into()));
    reader.draw(1, &[mark(1)]).await;
    reader.acked(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_room_is_deleted_for_good() {
    let (relay, operators) = relay().await;
    assert_eq!(relay.post_marks("a", 1..=3).await.status, 200);
    let mut reader = Socket::join(relay.address, "a").await;
    reader.records(1, 3).await;
    let delete = || request(operators, Method::DELETE, "/api/rooms/a");
    assert_eq!(answer(delete()).await.problem().0, 415, "no form can ask for it");
    let json = |request: reqwest::RequestBuilder| request.header("content-type", "application/json");
    let deleted = answer(json(delete()).body("{}")).await;
    assert_eq!((deleted.status, &deleted.json()["deleted"]), (200, &true.into()));
    assert_eq!(get(operators, "/api/rooms/a").await.json()["records"], 0);
    assert_eq!(answer(json(delete()).body("{}")).await.json()["deleted"], false);
}
