//! Kicks and bans: what is open ends, and who is banned stays out.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use http::Method;
use inkrelay_protocol::{ClientId, Role};
use inkrelay_server::store::Rules;
use inkrelay_server::store::rules::RuleChange;
use serde_json::json;

use super::{Kept, call, done, relay_on};
use crate::support::eventually;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::requests::answer;
use crate::support::socket::{Got, Socket, mark};

const DRAWS: &str = "/v1/rooms/a/draws";

/// Waits for the error and the close that a moderator brings about.
pub async fn dismissed(socket: &mut Socket, code: &str) {
    assert_eq!(socket.refused().await, (code.to_owned(), None));
    match socket.next().await {
        Got::Closed(1008, reason) => assert!(reason.contains("moderator"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Waits until the room lists so many.
async fn participants(relay: &Relay, count: usize) {
    eventually("the list is as long as expected", async || {
        relay.get("/v1/rooms/a").await.json()["participants"].as_array().unwrap().len() == count
    })
    .await;
}

/// M-4.
#[tokio::test]
async fn a_kick_ends_what_is_open_and_its_client_comes_back() {
    for (_, kept) in Kept::all() {
        let relay = kept.relay(Role::Moderator).await;
        let mut kicked = Socket::join(relay.address, "a").await;
        let mut other = Socket::join(relay.address, "a").await;
        kicked.draw(1, &[mark(1)]).await;
        kicked.acked(1).await;
        done(&relay, json!({"action": "kick", "client": kicked.client.get()})).await;
        dismissed(&mut kicked, "kicked").await;
        participants(&relay, 1).await;
        let mut kicked = Socket::join_as(relay.address, "a", kicked.resume(None)).await;
        kicked.draw(2, &[mark(2)]).await;
        kicked.acked(2).await;
        other.records(1, 2).await;
        participants(&relay, 2).await;
    }
}

/// M-4.
#[tokio::test]
async fn a_kick_ends_waiting_polls_and_event_streams() {
    for (name, kept) in Kept::all() {
        let relay = kept.relay(Role::Moderator).await;
        let (client, ticket) = relay.session("a").await;
        let (_, others) = relay.session("a").await;
        let kick = json!({"action": "kick", "client": client});
        let poll = |path: &str, ticket: &str| {
            tokio::spawn(answer(relay.request(Method::GET, path).header("inkrelay-ticket", ticket)))
        };
        let waits = format!("{DRAWS}?wait=20");
        let (waiting, other) = (poll(&waits, &ticket), poll(&waits, &others));
        let events = relay.request(Method::GET, "/v1/rooms/a/events").header("inkrelay-ticket", &ticket);
        let mut events = events.send().await.unwrap().bytes_stream();
        assert_eq!(&events.next().await.unwrap().unwrap()[..], b":\n\n");
        done(&relay, kick.clone()).await;
        assert_eq!(waiting.await.unwrap().problem(), (403, "kicked".to_owned()), "{name}");
        assert!(events.next().await.is_none(), "{name}: the stream ends");
        assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
        assert_eq!(other.await.unwrap().status, 200, "{name}: nobody else is kicked");

        // Who polls just then finds out with the next call, once; a new session comes back at once.
        let now = format!("{DRAWS}?wait=0");
        let status = async || call(&relay, Method::GET, &now, &ticket).await.status;
        while status().await != 200 {}
        done(&relay, kick.clone()).await;
        participants(&relay, 1).await;
        assert_eq!(call(&relay, Method::GET, &now, &ticket).await.problem(), (403, "kicked".to_owned()));
        assert_eq!(status().await, 200);
        done(&relay, kick).await;
        assert_eq!(call(&relay, Method::POST, "/v1/rooms/a/sessions", &ticket).await.status, 200);
        assert_eq!(status().await, 200);
    }
}

/// M-5, M-6, M-12.
#[tokio::test]
async fn whoever_is_banned_stays_out_on_every_way_in() {
    for (name, kept) in Kept::all() {
        let relay = kept.relay(Role::Moderator).await;
        let mut banned = Socket::join(relay.address, "a").await;
        let (client, ticket) = (banned.client.get(), banned.ticket.clone());
        banned.draw(1, &[mark(1)]).await;
        banned.acked(1).await;
        let waits = relay.request(Method::GET, "/v1/rooms/a/draws?after=1&wait=20");
        let waiting = tokio::spawn(answer(waits.header("inkrelay-ticket", &ticket)));
        let ruled = done(&relay, json!({"action": "ban", "client": client})).await;
        assert_eq!(ruled["banned_clients"], json!([client]));
        dismissed(&mut banned, "banned").await;
        assert_eq!(waiting.await.unwrap().problem(), (403, "banned".to_owned()), "{name}");

        // Also on a server that starts later.
        relay.stopped().await;
        let relay = kept.relay(Role::Moderator).await;
        for (method, path) in [
            (Method::GET, "/v1/rooms/a/draws?wait=0"),
            (Method::GET, "/v1/rooms/a/events"),
            (Method::POST, "/v1/rooms/a/sessions"),
        ] {
            let refused = call(&relay, method, path, &ticket).await;
            assert_eq!(refused.problem(), (403, "banned".to_owned()), "{name} {path}");
        }
        let posted = relay.post_as("a", &ticket, 2, &[mark(2)]).await;
        assert_eq!(posted.problem(), (403, "banned".to_owned()));
        let refused = Socket::try_join(relay.address, "a", &banned.resume(None)).await.err().unwrap();
        assert!(refused.contains("banned"), "{refused}");
        assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 1, "{name}");
        // A client is a ticket: without one anybody is somebody else.
        assert_eq!(relay.post_marks("a", 9..=9).await.status, 200);

        let ruled = done(&relay, json!({"action": "unban", "client": client})).await;
        assert_eq!(ruled["banned_clients"], json!([]));
        let mut back = Socket::join_as(relay.address, "a", banned.resume(None)).await;
        back.draw(2, &[mark(2)]).await;
        back.acked(2).await;
    }
}

/// M-4, M-5, M-7.
#[tokio::test]
async fn kicks_and_bans_reach_the_other_server() {
    let redis = RedisServer::start();
    let (one, two) = (relay_on(Role::Moderator, &redis).await, relay_on(Role::Drawer, &redis).await);
    let mut sockets = [
        Socket::join(two.address, "a").await,
        Socket::join(two.address, "a").await,
        Socket::join(one.address, "a").await,
    ];
    let [kicked, banned, stays] = &mut sockets;
    done(&one, json!({"action": "kick", "client": kicked.client.get()})).await;
    dismissed(kicked, "kicked").await;
    let mut back = Socket::join_as(two.address, "a", kicked.resume(None)).await;
    done(&one, json!({"action": "ban", "client": banned.client.get()})).await;
    dismissed(banned, "banned").await;
    for relay in [&one, &two] {
        let refused = call(relay, Method::GET, "/v1/rooms/a/draws?wait=0", &banned.ticket).await;
        assert_eq!(refused.problem(), (403, "banned".to_owned()));
    }
    // Who came back was kicked once, and who has nothing to do with it notices nothing.
    for socket in [&mut back, stays] {
        socket.draw(1, &[mark(1)]).await;
        socket.acked(1).await;
    }
    done(&one, json!({"action": "unban", "client": banned.client.get()})).await;
    eventually("the ban is lifted", async || {
        Socket::try_join(two.address, "a", &banned.resume(None)).await.is_ok()
    })
    .await;
}

/// M-7: the message that tells of a kick is lost.
#[tokio::test]
async fn a_kick_that_nobody_told_of_is_carried_out_within_five_seconds() {
    let redis = RedisServer::start();
    let relay = relay_on(Role::Drawer, &redis).await;
    let mut kicked = Socket::join(relay.address, "a").await;
    let room = "a".parse().unwrap();
    let kick = |rules: &Rules, client: ClientId| {
        let mut kicked = rules.clone();
        kicked.change(&RuleChange::Kick(client)).unwrap();
        kicked
    };
    let first = kick(&Rules::default(), kicked.client);
    let begun = Instant::now();
    assert!(relay.store.set_rules(&room, &Rules::default(), &first).await.unwrap());
    dismissed(&mut kicked, "kicked").await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
