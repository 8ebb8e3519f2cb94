//! What is counted, and that the reference lists it all.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use http::Method;
use inkrelay_server::config::Config;
use inkrelay_server::operators::reference;
use inkrelay_server::store::{EmbeddedStore, RedisConfig, RedisStore, Store, SyncPolicy};

use super::{ANY, all_that_is_told, relay, values};
use crate::support::eventually;
use crate::support::redis::RedisServer;
use crate::support::relay::Relay;
use crate::support::requests::answer;
use crate::support::socket::{Socket, mark};

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_counted() {
    let (relay, operators) = relay().await;
    let mut drawer = Socket::join(relay.address, "a").await;
    let mut reader = Socket::join(relay.address, "a").await;
    drawer.draw(1, &[mark(1), mark(2)]).await;
    drawer.acked(2).await;
    reader.records(1, 2).await;
    assert_eq!(relay.post_marks("a", 3..=5).await.status, 200);
    reader.records(3, 3).await;
    assert_eq!(relay.get("/v1/rooms/a/draws?after=9.9.9.9.9&wait=0").await.status, 410);
    assert_eq!(relay.get("/nothing").await.status, 404);
    // Rows are told on tasks of their own.
    eventually("both readers have all", async || {
        values(operators).await["inkrelay_records_sent_total"] >= 10.0
    })
    .await;
    let values = values(operators).await;
    for (name, value) in [
        ("inkrelay_draws_total", 5.0),
        ("inkrelay_rooms", 1.0),
        ("inkrelay_sessions{transport=\"websocket\"}", 2.0),
        ("inkrelay_sessions{transport=\"long_poll\"}", 0.0),
        ("inkrelay_batch_draws_count", 2.0),
        ("inkrelay_batch_draws_sum", 5.0),
        ("inkrelay_batch_draws_bucket{le=\"2\"}", 1.0),
        ("inkrelay_batch_draws_bucket{le=\"4\"}", 2.0),
        ("inkrelay_batch_draws_bucket{le=\"+Inf\"}", 2.0),
        ("inkrelay_append_seconds_count", 2.0),
        ("inkrelay_refused_total{code=\"position_gone\"}", 1.0),
        ("inkrelay_refused_total{code=\"not_found\"}", 1.0),
        ("inkrelay_refused_total{code=\"rate_limited\"}", 0.0),
        ("inkrelay_redis_reconnects_total", 0.0),
    ] {
        assert_eq!(values.get(name), Some(&value), "{name}");
    }
    assert!(values["inkrelay_connections"] >= 2.0);
    assert!(values["inkrelay_received_bytes_total"] > 0.0 && values["inkrelay_sent_bytes_total"] > 0.0);
    let delivery = |what: &str, transport: &str| {
        values[&format!("inkrelay_delivery_seconds_{what}{{transport=\"{transport}\"}}")]
    };
    assert!(delivery("count", "websocket") >= 2.0 && delivery("sum", "websocket") < 20.0);
    assert_eq!(delivery("count", "long_poll"), 0.0, "one that did not wait");
    assert_eq!(
        [values["inkrelay_tail_budget_bytes"], values["inkrelay_rooms_limit"]],
        [134_217_728.0, 10_000.0]
    );
    assert!(values["inkrelay_memory_limit_bytes"] > values["process_resident_memory_bytes"]);
    assert!(values["process_resident_memory_bytes"] > 1e6 && values["process_open_fds"] > 3.0);
    assert_eq!(values[&format!("inkrelay_build_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"))], 1.0);
    drop((drawer, reader));
    eventually("nobody is there any more", async || {
        super::values(operators).await["inkrelay_sessions{transport=\"websocket\"}"] == 0.0
    })
    .await;
    eventually("the store was asked", async || super::values(operators).await["inkrelay_store_up"] == 1.0)
        .await;
}

/// Whatever a reader waits by, it is known how long.
#[tokio::test(flavor = "multi_thread")]
async fn delivery_is_measured_over_every_transport() {
    let (relay, operators) = relay().await;
    let sessions = async |transport: &str| {
        values(operators).await[&format!("inkrelay_sessions{{transport=\"{transport}\"}}")]
    };
    let poll = relay.request(Method::GET, "/v1/rooms/a/draws?wait=50").send();
    let poll = tokio::spawn(poll);
    let _events = relay.request(Method::GET, "/v1/rooms/a/events").send().await.unwrap();
    eventually("both wait", async || sessions("long_poll").await + sessions("events").await == 2.0).await;
    assert_eq!(relay.post_marks("a", 1..=1).await.status, 200);
    assert_eq!(poll.await.unwrap().unwrap().status(), 200);
    for transport in ["long_poll", "events"] {
        eventually(transport, async || {
            let values = values(operators).await;
            let of = |what: &str| {
                values[&format!("inkrelay_delivery_seconds_{what}{{transport=\"{transport}\"}}")]
            };
            of("count") == 1.0 && of("sum") > 0.0 && of("sum") < 20.0
        })
        .await;
    }
    let state = super::get(operators, "/api/state").await.json();
    let counted = state["delivery"].as_array().unwrap().iter().map(|bucket| bucket[1].as_u64().unwrap());
    assert_eq!(counted.sum::<u64>(), 2, "operators are told all of them");
}

/// How full the place is where draws are kept, as far as it says.
#[tokio::test(flavor = "multi_thread")]
async fn the_space_of_the_store_is_told() {
    let any = |config: &mut Config| config.operators_listen = ANY;
    let folder = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(folder.path(), SyncPolicy::Interval).unwrap();
    let bounded = RedisServer::with_options(&["--save", "", "--maxmemory", "64mb"]);
    let unbounded = RedisServer::start();
    let redis = async |server: &RedisServer| {
        RedisStore::connect(&server.url(), RedisConfig::default()).await.unwrap()
    };
    let stores: [(Arc<dyn Store>, Option<f64>); 3] = [
        (Arc::new(embedded), None),
        (Arc::new(redis(&bounded).await), Some(f64::from(64 << 20))),
        (Arc::new(redis(&unbounded).await), Some(0.0)),
    ];
    for (store, limit) in stores {
        let relay = Relay::start_on(store, any).await;
        let operators = relay.operators.unwrap();
        let told = async |name: &str| values(operators).await.get(name).copied().unwrap_or_default();
        eventually("the used space is told", async || told("inkrelay_store_used_bytes").await > 0.0).await;
        let told = told("inkrelay_store_limit_bytes").await;
        assert!(limit.map_or(told > 1e6, |limit| told == limit), "{told} and {limit:?}");
        relay.stopped().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumes_resets_and_refused_frames_are_counted() {
    let (relay, operators) = relay().await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    let events = relay.request(Method::GET, "/v1/rooms/a/events?after=1").send().await.unwrap();
    eventually("a stream goes on", async || values(operators).await["inkrelay_resumes_total"] == 1.0).await;
    assert_eq!(values(operators).await["inkrelay_sessions{transport=\"events\"}"], 1.0);
    drop(events);
    let elsewhere = relay.request(Method::GET, "/v1/rooms/a/events?after=7.7.7.7.7").send().await.unwrap();
    eventually("a stream begins anew", async || values(operators).await["inkrelay_resets_total"] == 1.0)
        .await;
    drop(elsewhere);
    // A number before it is missing.
    socket.draw(7, &[mark(7)]).await;
    eventually("a gap is refused", async || {
        values(operators).await["inkrelay_refused_total{code=\"gap\"}"] == 1.0
    })
    .await;
    eventually("and the socket closed", async || {
        values(operators).await["inkrelay_closed_total{code=\"4409\"}"] == 1.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_on_this_port_too() {
    let (relay, operators) = relay().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(super::get(operators, path).await.status, 200, "{path}");
        assert_eq!(relay.get(path).await.status, 200, "{path}");
    }
    assert_eq!(
        relay.get("/metrics").await.problem(),
        (404, "not_found".to_owned()),
        "the public port has none"
    );
    let named =
        answer(super::request(operators, Method::GET, "/metrics").header("host", "relay-1:9090")).await;
    assert_eq!(named.status, 200, "a Prometheus asks by a name");
}

/// `docs/METRICS.md` lists each family with its help, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn the_reference_lists_what_is_told() {
    let told = all_that_is_told().await;
    let table = reference(&told);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/METRICS.md");
    let docs = fs::read_to_string(&path).unwrap();
    if std::env::var_os("INKRELAY_WRITE_REFERENCE").is_some() {
        let (before, rest) = docs.split_once("| name |").expect("a table");
        let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
        fs::write(path, format!("{before}{table}\n{after}")).unwrap();
        return;
    }
    assert!(
        docs.contains(&table),
        "docs/METRICS.md has another table: run this test with INKRELAY_WRITE_REFERENCE=1. It should be:\n{table}"
    );
}
