//! What the page asks: the state, rooms, one room; and what foreign pages may not.

use http::Method;
use inkrelay_protocol::ServerFrame;

use super::{get, relay, request};
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
