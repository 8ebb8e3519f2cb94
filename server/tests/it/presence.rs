//! Presence: who is here, as what, and where their pens hover; none of it in the log (S-8 to S-13).

use std::time::Duration;

use http::Method;
use inkrelay_protocol::{ClientFrame, ClientId, Profile, ServerFrame};
use tokio::io::AsyncWriteExt;

use super::bad_input::{masked, raw_websocket};
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::requests::{JSON, answer};
use crate::support::socket::Socket;

/// Waits until the list that a participant is shown holds those names, in order.
async fn shown(socket: &mut Socket, names: &[&str]) -> Vec<(ClientId, u32)> {
    socket
        .wait_for("the list", |frame| match frame {
            ServerFrame::Participants(mut list) => {
                list.sort_by(|a, b| a.profile.name.cmp(&b.profile.name));
                let shown: Vec<_> = list.iter().map(|one| one.profile.name.as_str()).collect();
                (shown == names).then(|| list.iter().map(|one| (one.client, one.profile.rgba)).collect())
            }
            _ => None,
        })
        .await
}

async fn names(relay: &Relay) -> Vec<String> {
    let room = relay.get("/v1/rooms/a").await.json();
    let list = room["participants"].as_array().unwrap().clone();
    let mut names: Vec<_> = list.iter().map(|one| one[1].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// S-20, by each way in which a name comes.
#[tokio::test]
async fn nobody_has_a_name_that_spoils_what_stands_around_it() {
    let relay = Relay::start(|_| {}).await;
    let mut ada = Socket::join_as(relay.address, "a", Socket::named("A\u{202E}da\r\n")).await;
    shown(&mut ada, &["Ada"]).await;
    let body = "{\"profile\": [\"B\\u0000e\\u2066n\", 7]}";
    assert_eq!(relay.post("/v1/rooms/a/sessions", JSON, body).await.status, 200);
    shown(&mut ada, &["Ada", "Ben"]).await;
    let renamed = Profile { name: "\u{1b}Zoe\u{2028}".to_owned(), rgba: 1 };
    ada.send(&ClientFrame::Profile(renamed)).await;
    shown(&mut ada, &["Ben", "Zoe"]).await;
    assert_eq!(names(&relay).await, ["Ben", "Zoe"]);
}

/// S-7, S-8, S-9.
#[tokio::test]
async fn everyone_sees_who_joins_leaves_and_is_renamed() {
    let relay = Relay::start(|_| {}).await;
    let mut ada = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    shown(&mut ada, &["Ada"]).await;
    let mut bob = Socket::join_as(relay.address, "a", Socket::named("Bob")).await;
    shown(&mut bob, &["Ada", "Bob"]).await;
    let list = shown(&mut ada, &["Ada", "Bob"]).await;
    assert_eq!(list.iter().map(|(client, _)| *client).collect::<Vec<_>>(), [ada.client, bob.client]);
    bob.send(&ClientFrame::Profile(Profile { name: "Zoe".to_owned(), rgba: 7 })).await;
    assert_eq!(shown(&mut ada, &["Ada", "Zoe"]).await[1], (bob.client, 7));
    let nameless = Socket::join(relay.address, "a").await;
    assert_eq!(shown(&mut ada, &["", "Ada", "Zoe"]).await[0], (nameless.client, 0));
    drop((bob, nameless));
    shown(&mut ada, &["Ada"]).await;
    assert_eq!(names(&relay).await, ["Ada"]);
}

/// S-12: a session over HTTP is present, also when it has not polled yet; a poll and a stream keep it so.
#[tokio::test]
async fn whoever_polls_is_here() {
    let relay = Relay::start(|_| {}).await;
    let mut ada = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    let session = relay.post("/v1/rooms/a/sessions", JSON, r#"{"profile":["Poll",5]}"#).await.json();
    assert_eq!(shown(&mut ada, &["Ada", "Poll"]).await[1].1, 5);
    let ticket = session["ticket"].as_str().unwrap();
    for path in ["/v1/rooms/a/draws?wait=0", "/v1/rooms/b/draws?wait=0"] {
        let polled = answer(relay.request(Method::GET, path).header("inkrelay-ticket", ticket)).await;
        assert_eq!(polled.status, if path.contains("/a/") { 200 } else { 401 });
    }
    assert_eq!(names(&relay).await, ["Ada", "Poll"]);
    // Without a ticket, nobody comes.
    relay.get("/v1/rooms/a/draws?wait=0").await;
    assert_eq!(names(&relay).await.len(), 2);
    // A ticket of before is enough.
    let gone = Socket::join(relay.address, "c").await;
    let ticket = gone.ticket.clone();
    drop(gone);
    let here = async || relay.get("/v1/rooms/c").await.json()["participants"].as_array().unwrap().len();
    eventually("the room is empty", async || here().await == 0).await;
    let stream = relay.request(Method::GET, "/v1/rooms/c/events").header("inkrelay-ticket", ticket);
    let stream = stream.send().await.unwrap();
    assert_eq!((stream.status().as_u16(), here().await), (200, 1));
}

/// S-10, S-13: of a burst only the newest counts.
#[tokio::test]
async fn a_burst_of_pointers_arrives_as_its_end() {
    let relay = Relay::start(|_| {}).await;
    let mut one = Socket::join(relay.address, "a").await;
    let mut other = Socket::join(relay.address, "a").await;
    for x in 1..=1000 {
        one.send(&ClientFrame::Pointer { x, y: -x }).await;
    }
    let mut arrived = 0;
    other
        .wait_for("the last pointer", |frame| match frame {
            ServerFrame::Pointer { client, x, y } => {
                arrived += 1;
                assert_eq!((client, y), (one.client, -x));
                (x == 1000).then_some(())
            }
            _ => None,
        })
        .await;
    assert!(arrived < 100, "{arrived} of 1000");
    assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 0);
    // Nobody who comes later is told, and nobody is told of their own.
    let mut late = Socket::join(relay.address, "a").await;
    relay.post_marks("a", 1..=1).await;
    for socket in [&mut late, &mut one] {
        socket
            .wait_for("the record", |frame| match frame {
                ServerFrame::Pointer { .. } => panic!("a pointer of before, or one's own"),
                ServerFrame::Records { .. } => Some(()),
                _ => None,
            })
            .await;
    }
}

/// L-8: a client whose network is gone says no goodbye.
#[tokio::test]
async fn a_half_open_client_leaves_the_list_within_the_idle_time() {
    let relay = Relay::start(|config| config.times.idle_time = Duration::from_millis(1500)).await;
    let mut ghost = raw_websocket(relay.address, "a").await;
    // A hello by name: no ticket, no position.
    ghost.write_all(&masked(0x82, b"\x94\x01\xc0\xc0\x92\xa5ghost\x00")).await.unwrap();
    let mut ada = Socket::join_as(relay.address, "a", Socket::named("Ada")).await;
    let begun = tokio::time::Instant::now();
    shown(&mut ada, &["Ada", "ghost"]).await;
    shown(&mut ada, &["Ada"]).await;
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    drop(ghost);
}
