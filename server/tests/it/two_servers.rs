//! Two servers on one Redis serve one room as if they were one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use inkrelay_protocol::{ClientFrame, ClientId, Profile, ServerFrame};
use inkrelay_server::config::Config;
use inkrelay_server::store::{RedisConfig, RedisStore};

use crate::support::eventually;
use crate::support::process::Process;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::socket::{Got, Socket, mark};

/// A relay on that Redis.
async fn relay(redis: &RedisServer, set: impl FnOnce(&mut Config)) -> Relay {
    let store = RedisStore::connect(&redis.url(), RedisConfig::default()).await.unwrap();
    Relay::start_on(Arc::new(store), set).await
}

/// Waits until exactly these are in the list that the socket is sent.
async fn sees(socket: &mut Socket, expected: &[(ClientId, &str)]) {
    let expected: BTreeSet<_> = expected.iter().map(|(client, name)| (*client, (*name).to_owned())).collect();
    let is_expected = |frame: ServerFrame<'_>| match frame {
        ServerFrame::Participants(list) => {
            let list: BTreeSet<_> = list.into_iter().map(|here| (here.client, here.profile.name)).collect();
            (list == expected).then_some(())
        }
        _ => None,
    };
    socket.wait_for("the expected participants", is_expected).await;
}

#[tokio::test]
async fn draws_through_either_reach_everyone_in_one_order() {
    let redis = RedisServer::start();
    let (one, other) = (relay(&redis, |_| {}).await, relay(&redis, |_| {}).await);
    let mut sockets = [
        Socket::join(one.address, "a").await,
        Socket::join(other.address, "a").await,
        Socket::join(one.address, "a").await,
        Socket::join(other.address, "a").await,
    ];
    for n in 1..=25 {
        for (index, socket) in sockets.iter_mut().enumerate().take(2) {
            socket.draw(n, &[mark(n * 10 + index as u64)]).await;
        }
    }
    let mut logs = Vec::new();
    for socket in &mut sockets {
        logs.push(socket.records(1, 50).await);
    }
    assert!(logs.iter().all(|log| *log == logs[0]), "everyone has the same records in the same order");
}

#[tokio::test]
async fn everyone_sees_who_is_here_and_where_they_point_through_either() {
    let redis = RedisServer::start();
    let (one, other) = (relay(&redis, |_| {}).await, relay(&redis, |_| {}).await);
    let mut ada = Socket::join_as(one.address, "a", Socket::named("Ada")).await;
    let mut bob = Socket::join_as(other.address, "a", Socket::named("Bob")).await;
    let (ada_id, bob_id) = (ada.client, bob.client);
    sees(&mut ada, &[(ada_id, "Ada"), (bob_id, "Bob")]).await;
    sees(&mut bob, &[(ada_id, "Ada"), (bob_id, "Bob")]).await;

    bob.send(&ClientFrame::Profile(Profile { name: "Bea".to_owned(), rgba: 1 })).await;
    sees(&mut ada, &[(ada_id, "Ada"), (bob_id, "Bea")]).await;

    bob.send(&ClientFrame::Pointer { x: -7, y: 9 }).await;
    let pointed = ada
        .wait_for("a pointer", |frame| match frame {
            ServerFrame::Pointer { client, x, y } => Some((client, x, y)),
            _ => None,
        })
        .await;
    assert_eq!(pointed, (bob_id, -7, 9));

    drop(bob);
    sees(&mut ada, &[(ada_id, "Ada")]).await;
}

#[tokio::test]
async fn a_newer_connection_through_the_other_server_replaces_the_older() {
    let redis = RedisServer::start();
    let (one, other) = (relay(&redis, |_| {}).await, relay(&redis, |_| {}).await);
    let mut first = Socket::join_as(one.address, "a", Socket::named("Ada")).await;
    let client = first.client;
    first.draw(1, &[mark(1)]).await;
    first.acked(1).await;
    let hello =
        inkrelay_protocol::frame::Hello { profile: Socket::named("Ada").profile, ..first.resume(None) };
    let mut second = Socket::join_as(other.address, "a", hello).await;
    assert_eq!(second.client, client);
    assert_eq!(second.welcome.clone().unwrap().limits.last_n, 1);
    assert_eq!(first.closed().await, 4410);
    drop(first);
    second.draw(2, &[mark(2)]).await;
    second.acked(2).await;
    let mut third = Socket::join(one.address, "a").await;
    let third_id = third.client;
    sees(&mut third, &[(client, "Ada"), (third_id, "")]).await;
}

#[tokio::test]
async fn a_secret_that_redis_lost_is_put_back_for_the_next_server() {
    let redis = RedisServer::start();
    let one = relay(&redis, |_| {}).await;
    let first = Socket::join(one.address, "a").await;
    redis::cmd("FLUSHALL").exec(&mut redis.connection()).unwrap();
    eventually("the secret is back", async || {
        redis::cmd("EXISTS").arg("inkrelay:secret").query(&mut redis.connection()).unwrap()
    })
    .await;
    let other = relay(&redis, |_| {}).await;
    let second = Socket::join_as(other.address, "a", first.resume(None)).await;
    assert_eq!(second.client, first.client, "the ticket is good on both");
}

#[tokio::test]
async fn participants_of_a_server_that_died_are_gone_in_the_idle_time() {
    let redis = RedisServer::start();
    let idle = |config: &mut Config| config.times.idle_time = Duration::from_secs(3);
    let one = relay(&redis, idle).await;
    let mut other = Process::keeping(&["--redis", &redis.url(), "--idle-time", "3s"]);
    let mut ada = Socket::join_as(one.address, "a", Socket::named("Ada")).await;
    let mut bob = Socket::join_as(other.address, "a", Socket::named("Bob")).await;
    let (ada_id, bob_id) = (ada.client, bob.client);
    // He is to answer pings.
    tokio::spawn(async move { while !matches!(bob.next().await, Got::Closed(..)) {} });
    sees(&mut ada, &[(ada_id, "Ada"), (bob_id, "Bob")]).await;
    // While both are well, the list stays as it is for longer than the idle time.
    let quiet = ada.wait_for("a change of the list", |frame| match frame {
        ServerFrame::Participants(list) => Some(list),
        _ => None,
    });
    let changed = tokio::time::timeout(Duration::from_secs(5), quiet).await;
    assert!(changed.is_err(), "nobody left: {changed:?}");
    other.kill();
    sees(&mut ada, &[(ada_id, "Ada")]).await;
}
