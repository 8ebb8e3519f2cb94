//! Erasing what one author drew, and clearing: records like others, which everyone sees and a moderator takes back.

use std::sync::Arc;

use inkrelay_protocol::draw::{Channels, Style};
use inkrelay_protocol::{Board, ClientId, Draw, Record, Role};
use inkrelay_server::store::Store;
use serde_json::{Value, json};

use super::{Kept, act, done, relay_for, relay_on};
use crate::store_contract::read_all;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::requests::JSON;
use crate::support::slow_store::SlowStore;
use crate::support::socket::Socket;

fn stroke(number: u64) -> Draw {
    let style = Style { tool: 0, rgba: 0xff, width: 16 };
    let channels = Channels::new(0).unwrap();
    Draw::Begin { stroke: number, style, channels, points: vec![1, 2], end: true }
}

/// Author and number of each stroke that shows.
async fn shown(store: &Arc<dyn Store>) -> Vec<(u64, u64)> {
    let log = read_all(&**store, &"a".parse().unwrap()).await;
    let mut board = Board::new();
    log.records.iter().for_each(|record| board.apply(&Record::parse(record).unwrap()));
    board.strokes().map(|stroke| (stroke.author.get(), stroke.number)).collect()
}

fn names(answer: &Value) -> Vec<(ClientId, u64)> {
    let records = answer["records"].as_array().expect("names of records");
    let name = |pair: &Value| (ClientId::new(pair[0].as_u64().unwrap()).unwrap(), pair[1].as_u64().unwrap());
    records.iter().map(name).collect()
}

async fn draw(socket: &mut Socket, n: u64, draws: &[Draw]) {
    socket.draw(n, draws).await;
    socket.acked(n + draws.len() as u64 - 1).await;
}

/// M-8, M-9.
#[tokio::test]
async fn what_one_author_drew_is_hidden_and_shows_again_when_that_is_revoked() {
    for (name, kept) in Kept::all() {
        let relay = kept.relay(Role::Moderator).await;
        let mut ann = Socket::join(relay.address, "a").await;
        let mut reader = Socket::join(relay.address, "a").await;
        let mut bob = Socket::join(relay.address, "a").await;
        let (ann_id, bob_id) = (ann.client, bob.client);
        draw(&mut ann, 1, &[stroke(1), stroke(2), stroke(3)]).await;
        draw(&mut bob, 1, &[stroke(1), Draw::Erase(vec![(ann_id, 2)])]).await;
        let answer = relay.post("/v1/rooms/a/draws", JSON, "[[0,0,[0,1,16],0,[5,5],true]]").await.json();
        let anonymous = answer["position"][3].as_u64().unwrap();
        let (ann_no, bob_no) = (ann_id.get(), bob_id.get());

        let erased = done(&relay, json!({"action": "erase", "client": ann_no})).await;
        assert_eq!((&erased["erased"], &erased["done"]), (&json!(2), &json!(true)), "{name}: what shows");
        assert_eq!(shown(&relay.store).await, [(bob_no, 1), (0, anonymous)]);
        // Everyone is told by a record: author 0's, and an erase like any other.
        let records = reader.records(1, 7).await;
        let last = Record::parse(&records[6]).unwrap();
        assert!(last.identity.author.is_anonymous());
        assert_eq!(Draw::decode(last.draw), Ok(Draw::Erase(vec![(ann_id, 1), (ann_id, 3)])));
        assert_eq!(names(&erased), [(ClientId::ANONYMOUS, last.identity.n)]);

        let again = done(&relay, json!({"action": "erase", "client": ann_no})).await;
        assert_eq!((&again["erased"], again.get("records")), (&json!(0), None), "{name}: nothing is left");
        draw(&mut bob, 3, &[Draw::Revoke(names(&erased))]).await;
        assert_eq!(shown(&relay.store).await, [(ann_no, 1), (ann_no, 3), (bob_no, 1), (0, anonymous)]);

        let erased = done(&relay, json!({"action": "erase", "client": 0})).await;
        assert_eq!(erased["erased"], 1);
        assert_eq!(shown(&relay.store).await, [(ann_no, 1), (ann_no, 3), (bob_no, 1)], "{name}");

        let cleared = done(&relay, json!({"action": "clear"})).await;
        assert!(shown(&relay.store).await.is_empty());
        draw(&mut bob, 4, &[Draw::Revoke(names(&cleared))]).await;
        assert_eq!(shown(&relay.store).await.len(), 3, "{name}");
        // Nobody, and somebody who never came: there is nothing to do.
        assert_eq!(done(&relay, json!({"action": "erase", "client": 77})).await["erased"], 0);
    }
}

/// M-8: as many draws as their limits ask for, in a room that is locked, on either server.
#[tokio::test]
async fn a_long_erasure_keeps_the_limits_and_reaches_the_other_server() {
    let redis = RedisServer::start();
    let store = inkrelay_server::store::RedisStore::connect(&redis.url(), Default::default()).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let one = Relay::start_on(Arc::clone(&store), |config| {
        config.role = Role::Moderator;
        config.limits.max_draw = 300;
    })
    .await;
    let two = relay_on(Role::Drawer, &redis).await;
    let mut ann = Socket::join(two.address, "a").await;
    for turn in 0..4 {
        let draws: Vec<_> = (1..=100).map(|number| stroke(100 * turn + number)).collect();
        draw(&mut ann, 100 * turn + 1, &draws).await;
    }
    done(&one, json!({"action": "lock"})).await;
    let erased = done(&one, json!({"action": "erase", "client": ann.client.get()})).await;
    let draws = names(&erased).len();
    assert_eq!((erased["erased"].as_u64(), erased["read"].as_u64()), (Some(400), Some(400)));
    assert!(draws > 10, "{draws} draws of 300 bytes");
    let records = Socket::join(two.address, "a").await.records(1, 400 + draws).await;
    assert!(records[400..].iter().all(|record| Record::parse(record).unwrap().draw.len() <= 300));
    assert!(shown(&store).await.is_empty());
}

/// M-10.
#[tokio::test]
async fn an_erasure_that_takes_long_tells_how_far_it_is_and_goes_on() {
    let store = SlowStore::new();
    let relay = relay_for(Role::Moderator, &(store.clone() as Arc<dyn Store>)).await;
    let mut ann = Socket::join(relay.address, "a").await;
    draw(&mut ann, 1, &[stroke(1), stroke(2)]).await;
    store.hold_appends(true);
    let erase = json!({"action": "erase", "client": ann.client.get()});
    let slow = act(&relay, erase.clone()).await;
    let progress = json!({"client": ann.client.get(), "erased": 0, "read": 2, "of": 2, "done": false});
    assert_eq!(slow.status, 202, "{slow:?}");
    for (name, value) in progress.as_object().unwrap() {
        assert_eq!(&slow.json()[name], value);
    }
    assert_eq!(relay.get(super::ROOM).await.json()["erasing"], progress);
    let other = act(&relay, json!({"action": "erase", "client": 5})).await;
    assert_eq!(other.problem(), (429, "rate_limited".to_owned()));
    store.hold_appends(false);
    let fast = done(&relay, erase).await;
    assert_eq!((&fast["erased"], names(&fast).len()), (&json!(2), 1));
    assert_eq!(relay.get(super::ROOM).await.json()["erasing"], Value::Null);
}
