//! What moderators do: lock, kick, ban, erase and clear (M-1 to M-12), on every store and across servers.

mod erasing;
mod keeping_out;
mod locking;
mod subjects;

use std::sync::Arc;

use http::Method;
use inkrelay_protocol::Role;
use inkrelay_server::store::{EmbeddedStore, MemoryStore, RedisConfig, RedisStore, Rules, Store, SyncPolicy};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::requests::{Answer, JSON, answer};

const ROOM: &str = "/v1/rooms/a/moderation";

/// Where draws and rules are kept; each relay opens it anew, and closes it when it stops.
enum Kept {
    Memory(Arc<MemoryStore>),
    Embedded(TempDir),
    Redis(RedisServer),
}

impl Kept {
    /// One of each kind.
    fn all() -> [(&'static str, Self); 3] {
        [
            ("memory", Self::Memory(Arc::new(MemoryStore::new()))),
            ("embedded", Self::Embedded(tempfile::tempdir().unwrap())),
            ("redis", Self::Redis(RedisServer::start())),
        ]
    }

    /// A relay on it that gives everyone that role.
    async fn relay(&self, role: Role) -> Relay {
        match self {
            Self::Memory(store) => relay_for(role, &(store.clone() as Arc<dyn Store>)).await,
            Self::Embedded(folder) => {
                let store = EmbeddedStore::open(folder.path(), SyncPolicy::Always).unwrap();
                relay_for(role, &(Arc::new(store) as Arc<dyn Store>)).await
            }
            Self::Redis(redis) => relay_on(role, redis).await,
        }
    }
}

/// A relay that gives everyone that role.
async fn relay_for(role: Role, store: &Arc<dyn Store>) -> Relay {
    Relay::start_on(Arc::clone(store), |config| config.role = role).await
}

/// The same on a Redis that others share.
async fn relay_on(role: Role, redis: &RedisServer) -> Relay {
    let store = RedisStore::connect(&redis.url(), RedisConfig::default()).await.unwrap();
    relay_for(role, &(Arc::new(store) as Arc<dyn Store>)).await
}

/// Asks for something in room `a`.
async fn act(relay: &Relay, action: Value) -> Answer {
    relay.post(ROOM, JSON, action.to_string()).await
}

/// Does something in room `a`, which is taken. What is laid down then.
async fn done(relay: &Relay, action: Value) -> Value {
    let answer = act(relay, action).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

/// A call with a ticket.
async fn call(relay: &Relay, method: Method, path: &str, ticket: &str) -> Answer {
    answer(relay.request(method, path).header("inkrelay-ticket", ticket)).await
}

/// M-1, M-2, M-12.
#[tokio::test]
async fn moderators_alone_are_asked_what_they_mean() {
    for (name, kept) in Kept::all() {
        for role in [Role::Viewer, Role::Drawer] {
            let relay = kept.relay(role).await;
            for answer in [relay.get(ROOM).await, act(&relay, json!({"action": "lock"})).await] {
                assert_eq!(answer.problem(), (403, "forbidden".to_owned()), "{name}");
            }
            relay.stopped().await;
        }
        let relay = kept.relay(Role::Moderator).await;
        let nothing = json!({"locked": false, "banned_clients": [], "banned_subjects": [], "erasing": null});
        assert_eq!(relay.get(ROOM).await.json(), nothing);
        let room = "a".parse().unwrap();
        assert_eq!(
            relay.store.rules(&room).await.unwrap(),
            Rules::default(),
            "{name}: asking leaves no trace"
        );
        for (body, status, named) in [
            ("{}", 400, "\"action\" is missing"),
            (r#"{"action":"kick"}"#, 400, "\"client\" is missing"),
            (r#"{"action":"ban","client":0}"#, 400, "client 0 is everyone without a ticket"),
            (r#"{"action":"ban","client":1.5}"#, 400, "whole number"),
            ("lock", 400, "the body is"),
        ] {
            let answer = relay.post(ROOM, JSON, body).await;
            assert_eq!(answer.problem(), (status, "malformed".to_owned()));
            assert!(answer.json()["detail"].as_str().unwrap().contains(named), "{body}: {answer:?}");
        }
        let form = relay.post(ROOM, "text/plain", r#"{"action":"lock"}"#).await;
        assert_eq!(form.problem(), (415, "unsupported_media_type".to_owned()));
        let ruled = done(&relay, json!({"action": "ban", "subject": "ann"})).await;
        assert_eq!(ruled, json!({"locked": false, "banned_clients": [], "banned_subjects": ["ann"]}));
        done(&relay, json!({"action": "unban", "subject": "ann"})).await;
        assert_eq!(relay.get(ROOM).await.json(), nothing);
        assert_eq!(relay.store.rules(&room).await.unwrap(), Rules::default());
    }
}

/// M-11.
#[tokio::test]
async fn one_ban_too_many_is_told() {
    use inkrelay_server::store::rules::{BANS_MAX, Ban, RuleChange};
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut full = Rules::default();
    for id in 1..=BANS_MAX as u64 {
        full.change(&RuleChange::Client(inkrelay_protocol::ClientId::new(id).unwrap(), Ban::Banned)).unwrap();
    }
    store.set_rules(&"a".parse().unwrap(), &Rules::default(), &full).await.unwrap();
    let relay = relay_for(Role::Moderator, &store).await;
    let refused = act(&relay, json!({"action": "ban", "client": 5000})).await;
    assert_eq!(refused.problem(), (413, "too_large".to_owned()));
    done(&relay, json!({"action": "unban", "client": 1})).await;
    done(&relay, json!({"action": "ban", "client": 5000})).await;
}
