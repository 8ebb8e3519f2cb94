//! Drawing goes on while servers are killed, the Redis behind them, connections, and drawers who never come back.
//!
//! A kill is SIGKILL in the middle of drawing, and then a start on the same port over the same files. After each one,
//! everyone must go on: every drawer is answered, and every reader is told what is new. In the end, a ledger of what
//! was acked, refused and unknown is held against the log, as everyone was told of it and as the store keeps it.

use std::time::Duration;

use inkrelay_protocol::{RoomId, Seq};
use inkrelay_server::store::{EmbeddedStore, ReadLimit, Store, SyncPolicy};

use super::stage::{Stage, Strength};
use super::{ROOM, say};
use crate::support::process::Process;
use crate::support::redis::RedisServer;

/// Longer than a stall that goes unnoticed, and shorter than any answer may take.
const STOPPED: Duration = Duration::from_secs(3);

/// A moment between the faults, another each time, so that each falls somewhere else within an append.
fn moment(number: usize) -> Duration {
    Duration::from_millis(number as u64 * 37 % 150)
}

/// What happens each time: somebody comes to draw, a connection is cut, and `fault` strikes while that somebody's
/// draws are on their way, who then is gone.
async fn strike(stage: &mut Stage, round: usize, server: usize, fault: impl AsyncFnOnce()) -> Duration {
    stage.goes_on().await;
    let visitor = stage.visitor(round);
    stage.cut(server);
    while visitor.answered() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(moment(round)).await;
    fault().await;
    stage.leave(visitor).await;
    stage.goes_on().await
}

/// Runs what blocks without keeping the others from their work.
fn block(work: impl FnOnce()) {
    tokio::task::block_in_place(work);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_one_redis_are_killed() {
    let strength = Strength::from_environment();
    println!("\nTwo servers on one Redis; a server is killed {} times", strength.kills);
    let redis = RedisServer::durable();
    let url = redis.url();
    let mut servers = [Process::keeping(&["--redis", &url]), Process::keeping(&["--redis", &url])];
    let mut stage = Stage::start(&[servers[0].address, servers[1].address], strength).await;
    for round in 1..=strength.kills {
        let server = round % 2;
        let took = strike(&mut stage, round, 1 - server, async || {
            servers[server].kill();
            tokio::time::sleep(moment(round + 1)).await;
            block(|| servers[server].restart());
        })
        .await;
        say!("kill {round}: server {server}; everyone goes on within {} ms of its start", took.as_millis());
    }
    let took = strike(&mut stage, strength.kills + 1, 1, async || {
        servers[0].pause();
        tokio::time::sleep(STOPPED).await;
        servers[0].resume();
    })
    .await;
    say!("server 0 was stopped for {STOPPED:?}; everyone goes on within {} ms", took.as_millis());
    assert_eq!(stage.resets(), 0, "nothing was lost, so nobody is reset");
    stage.finish("killed-servers", async || stored_in_redis(&redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_is_killed() {
    let strength = Strength::from_environment();
    println!("\nTwo servers on one Redis; the Redis is killed {} times", strength.kills);
    kill_redis(RedisServer::durable(), strength, false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_keeps_nothing_is_killed() {
    let strength = Strength::from_environment();
    println!("\nTwo servers on one Redis that keeps nothing; the Redis is killed {} times", strength.kills);
    kill_redis(RedisServer::start(), strength, true).await;
}

async fn kill_redis(mut redis: RedisServer, strength: Strength, forgets: bool) {
    let url = redis.url();
    let servers = [Process::keeping(&["--redis", &url]), Process::keeping(&["--redis", &url])];
    let mut stage = Stage::start(&[servers[0].address, servers[1].address], strength).await;
    stage.store_forgets = forgets;
    for round in 1..=strength.kills {
        let took = strike(&mut stage, round, round % 2, async || {
            redis.kill();
            tokio::time::sleep(moment(round + 1)).await;
            block(|| redis.restart());
        })
        .await;
        say!("kill {round}: everyone goes on within {} ms of its start", took.as_millis());
    }
    let name = if forgets { "killed-forgetful-redis" } else { "killed-redis" };
    stage.finish(name, async || stored_in_redis(&redis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_its_own_store_is_killed() {
    let strength = Strength::from_environment();
    println!("\nOne server with its own store; it is killed {} times", strength.kills);
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::keeping(&["--data", &folder.path().display().to_string()]);
    let mut stage = Stage::start(&[server.address], strength).await;
    for round in 1..=strength.kills {
        let took = strike(&mut stage, round, 0, async || {
            server.kill();
            tokio::time::sleep(moment(round + 1)).await;
            block(|| server.restart());
        })
        .await;
        say!("kill {round}: everyone goes on within {} ms of its start", took.as_millis());
    }
    assert_eq!(stage.resets(), 0, "nothing was lost, so nobody is reset");
    let stored = async || {
        server.kill();
        let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
        stored_in(&store).await
    };
    stage.finish("killed-server", stored).await;
}

/// The room's list, as Redis has it.
pub fn stored_in_redis(redis: &RedisServer) -> Vec<Vec<u8>> {
    let key = format!("inkrelay:{{{ROOM}}}:log");
    redis::cmd("LRANGE").arg(key).arg(0).arg(-1).query(&mut redis.connection()).unwrap()
}

async fn stored_in(store: &EmbeddedStore) -> Vec<Vec<u8>> {
    let room: RoomId = ROOM.parse().unwrap();
    let mut records: Vec<Vec<u8>> = Vec::new();
    loop {
        let limit = ReadLimit { records: 1000, bytes: 1 << 20 };
        let from = Seq::START.plus(records.len()).next();
        let chunk = store.read(&room, from, limit).await.unwrap();
        if chunk.records.is_empty() {
            return records;
        }
        records.extend(chunk.records.iter().map(|record| record.to_vec()));
    }
}
