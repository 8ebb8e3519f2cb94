//! A locked room: moderators draw, and everyone reads.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use http::Method;
use inkrelay_protocol::{Role, ServerFrame};
use inkrelay_server::config::OperatorsListen;
use inkrelay_server::store::Rules;
use inkrelay_server::store::rules::RuleChange;
use serde_json::json;

use super::{Kept, act, done, relay_on};
use crate::support::eventually;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::requests::{JSON, MESSAGE_PACK, answer, client, try_answer};
use crate::support::slow_store::SlowStore;
use crate::support::socket::{Socket, batch, mark};

/// M-3, M-12.
#[tokio::test]
async fn a_locked_room_takes_moderators_draws_only() {
    for (name, kept) in Kept::all() {
        let relay = kept.relay(Role::Moderator).await;
        let mut drawer = Socket::join(relay.address, "a").await;
        drawer.draw(1, &[mark(1), mark(2)]).await;
        drawer.acked(2).await;
        let hello = drawer.resume(None);
        assert_eq!(done(&relay, json!({"action": "lock"})).await["locked"], true);
        drawer.draw(3, &[mark(3)]).await;
        drawer.acked(3).await;
        assert_eq!(relay.post_marks("a", 4..=4).await.status, 200, "{name}: a moderator without a ticket");
        relay.stopped().await;

        // The same for those who only draw, on a server that finds the room locked.
        let relay = kept.relay(Role::Drawer).await;
        let mut drawer = Socket::join_as(relay.address, "a", hello).await;
        drawer.draw(2, &[mark(2), mark(3)]).await;
        assert_eq!(drawer.acked(3).await.0, 3, "{name}: what is stored is answered as stored");
        drawer.draw(4, &[mark(5), mark(6)]).await;
        // Was on its way when the other was refused.
        drawer.draw(6, &[mark(7)]).await;
        assert_eq!(drawer.refused().await, ("room_locked".to_owned(), Some(4)));
        drawer.draw(3, &[mark(3), mark(5)]).await;
        assert_eq!(drawer.refused().await, ("room_locked".to_owned(), Some(4)), "{name}: the first new one");
        let posted = relay.post_as("a", &drawer.ticket, 3, &[mark(3), mark(5)]).await;
        assert_eq!(posted.problem(), (403, "room_locked".to_owned()));
        assert_eq!(posted.json()["index"], 1);
        assert_eq!(relay.post_as("a", &drawer.ticket, 3, &[mark(3)]).await.json()["stored"], 0);
        let body = batch(&[mark(5)]);
        let anonymous = relay.post("/v1/rooms/a/draws", MESSAGE_PACK, body).await;
        assert_eq!(anonymous.problem(), (403, "room_locked".to_owned()));
        assert_eq!(anonymous.json()["index"], 0);
        let unlock = act(&relay, json!({"action": "unlock"})).await;
        assert_eq!(unlock.problem(), (403, "forbidden".to_owned()));

        // Reading goes on, and nothing of all that is there.
        let polled = relay.get("/v1/rooms/a/draws?wait=0").await.json();
        assert_eq!(polled[2].as_array().unwrap().len(), 4, "{name}");
        assert_eq!(relay.get("/v1/rooms/a").await.json()["records"], 4);
        assert_eq!(
            relay.post("/v1/rooms/b/draws", JSON, "[[4]]").await.status,
            200,
            "another room is not locked"
        );
    }
}

/// M-3, M-7, M-13: through either server, at once where the message comes.
#[tokio::test]
async fn a_lock_holds_on_the_other_server_too() {
    let redis = RedisServer::start();
    let (moderators, drawers) =
        (relay_on(Role::Moderator, &redis).await, relay_on(Role::Drawer, &redis).await);
    let mut drawer = Socket::join(drawers.address, "a").await;
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    done(&moderators, json!({"action": "lock"})).await;
    drawer.wait_for("the lock", |frame| (frame == ServerFrame::Lock(true)).then_some(())).await;
    let mut late = Socket::join(drawers.address, "a").await;
    let first = |frame: ServerFrame<'_>| match frame {
        ServerFrame::Lock(is_locked) => Some(is_locked),
        ServerFrame::Participants(_) => Some(false),
        _ => None,
    };
    assert!(late.wait_for("the lock, before the list", first).await);
    assert_eq!(drawers.get("/v1/rooms/a").await.json()["locked"], true);
    eventually("the other server refuses", async || drawers.post_marks("a", 2..=2).await.status == 403).await;
    drawer.draw(2, &[mark(3)]).await;
    assert_eq!(drawer.refused().await, ("room_locked".to_owned(), Some(2)));
    done(&moderators, json!({"action": "unlock"})).await;
    drawer.wait_for("the end of the lock", |frame| (frame == ServerFrame::Lock(false)).then_some(())).await;
    eventually("the other server takes draws again", async || {
        drawers.post_marks("a", 2..=2).await.status == 200
    })
    .await;
    drawer.draw(2, &[mark(3)]).await;
    drawer.acked(2).await;
}

/// M-7: nobody tells the servers, as when a message is lost. One of them has readers, the other has only had a call.
#[tokio::test]
async fn a_lock_that_nobody_told_of_holds_within_five_seconds() {
    let redis = RedisServer::start();
    let (read, idle) = (relay_on(Role::Drawer, &redis).await, relay_on(Role::Drawer, &redis).await);
    let _reader = Socket::join(read.address, "a").await;
    for relay in [&read, &idle] {
        assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
    }
    let mut locked = Rules::default();
    locked.change(&RuleChange::Lock(true)).unwrap();
    assert!(read.store.set_rules(&"a".parse().unwrap(), &Rules::default(), &locked).await.unwrap());
    let begun = Instant::now();
    for relay in [&read, &idle] {
        eventually("the room is locked", async || relay.post_marks("a", 1..=1).await.status == 403).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

/// M-7: through a server on which the room is not live.
#[tokio::test]
async fn a_room_is_moderated_through_a_server_on_which_nobody_is_in_it() {
    let redis = RedisServer::start();
    let (read, empty) = (relay_on(Role::Drawer, &redis).await, relay_on(Role::Moderator, &redis).await);
    let mut drawer = Socket::join(read.address, "a").await;
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    assert_eq!(done(&empty, json!({"action": "clear"})).await["records"][0][0], 0);
    drawer.records(1, 2).await;
    done(&empty, json!({"action": "lock"})).await;
    let is_locked = |frame: ServerFrame<'_>| matches!(frame, ServerFrame::Lock(true)).then_some(());
    drawer.wait_for("the lock", is_locked).await;
    assert_eq!(empty.get(super::ROOM).await.json()["locked"], true);
}

/// M-12: a moderator who hangs up while the store is asked.
#[tokio::test]
async fn what_was_begun_is_done_also_when_whoever_asked_is_gone() {
    let store = SlowStore::new();
    let relay = Relay::start_on(store.clone(), |config| {
        config.role = Role::Moderator;
        config.operators_listen = OperatorsListen::At((Ipv4Addr::LOCALHOST, 0).into());
    })
    .await;
    let state = format!("http://{}/api/state", relay.operators.unwrap());
    let mut reader = Socket::join(relay.address, "a").await;
    store.hold_reads(true);
    let lock = relay.request(Method::POST, super::ROOM).header("content-type", JSON);
    let gone = tokio::spawn(try_answer(lock.body(r#"{"action":"lock"}"#)));
    store.has_waiting_reads().await;
    gone.abort();
    assert!(gone.await.unwrap_err().is_cancelled());
    eventually("the connection is gone", async || {
        answer(client().get(&state)).await.json()["connections"] == 1
    })
    .await;
    store.hold_reads(false);
    let is_locked = |frame: ServerFrame<'_>| matches!(frame, ServerFrame::Lock(true)).then_some(());
    reader.wait_for("the lock", is_locked).await;
}
