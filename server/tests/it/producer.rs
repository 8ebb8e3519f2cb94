//! The idempotent producer (P-1 to P-16): draws are stored once and in order, whatever is retried over
//! whichever transport.

use http::Method;
use inkrelay_protocol::{Draw, Role, ServerFrame, draw::Channels, draw::Style};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::requests::{JSON, answer};
use crate::support::slow_store::SlowStore;
use crate::support::socket::{Socket, mark, marked};

/// `[seq, stored]` of a POST's answer, and the head's seq.
fn told(answer: &crate::support::requests::Answer) -> (Value, u64) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let body = answer.json();
    (json!([body["seq"], body["stored"]]), body["position"][1].as_u64().unwrap())
}

async fn log(relay: &Relay, room: &str, count: usize) -> Vec<u64> {
    let records = Socket::join(relay.address, room).await.records(1, count).await;
    records.iter().map(|record| marked(record)).collect()
}

/// P-3, P-4, P-11.
#[tokio::test]
async fn a_batch_that_is_posted_again_is_stored_once() {
    let relay = Relay::start(|_| {}).await;
    let (_, ticket) = relay.session("a").await;
    let post = async |n: u64, numbers: std::ops::RangeInclusive<u64>| {
        let draws: Vec<_> = numbers.map(mark).collect();
        relay.post_as("a", &ticket, n, &draws).await
    };
    assert_eq!(told(&post(1, 1..=2).await), (json!([1, 2]), 2));
    assert_eq!(told(&post(1, 1..=2).await), (json!([1, 0]), 2), "a retry of the latest");
    relay.post_marks("a", 100..=100).await;
    assert_eq!(told(&post(3, 3..=5).await), (json!([4, 3]), 6));
    assert_eq!(told(&post(3, 3..=5).await), (json!([4, 0]), 6));
    assert_eq!(told(&post(4, 4..=5).await), (json!([5, 0]), 6), "the end of the latest");
    assert_eq!(told(&post(1, 1..=2).await), (json!([null, 0]), 6), "a retry of an older one");
    assert_eq!(told(&post(5, 5..=7).await), (json!([6, 2]), 8), "an overlap");
    // P-5.
    let gap = post(9, 9..=9).await;
    assert_eq!((gap.problem(), &gap.json()["expected"]), ((409, "gap".to_owned()), &json!(8)));
    assert_eq!(told(&post(8, 8..=8).await), (json!([9, 1]), 9));
    assert_eq!(log(&relay, "a", 9).await, [1, 2, 100, 3, 4, 5, 6, 7, 8]);
}

/// P-1: one numbering over all transports.
#[tokio::test]
async fn a_retry_over_the_other_transport_is_stored_once() {
    let relay = Relay::start(|_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    let ticket = socket.ticket.clone();
    socket.draw(1, &[mark(1), mark(2)]).await;
    socket.acked(2).await;
    assert_eq!(told(&relay.post_as("a", &ticket, 1, &[mark(1), mark(2)]).await), (json!([1, 0]), 2));
    assert_eq!(told(&relay.post_as("a", &ticket, 3, &[mark(3)]).await), (json!([3, 1]), 3));
    socket.draw(3, &[mark(3)]).await;
    assert_eq!(socket.acked(3).await, (3, inkrelay_protocol::Seq::new(3).unwrap()));
    // P-3: the ack of an old batch names the newest number.
    socket.draw(1, &[mark(1)]).await;
    assert_eq!(socket.acked(1).await.0, 3);
    // P-4.
    socket.draw(3, &[mark(3), mark(4)]).await;
    assert_eq!(socket.acked(4).await.0, 4);
    assert_eq!(log(&relay, "a", 4).await, [1, 2, 3, 4]);
    // In another room the numbering is another, and so is the ticket.
    assert_eq!(relay.post_as("b", &ticket, 1, &[mark(1)]).await.problem().0, 401);
}

/// P-6, P-7, D-2: what is behind a refused batch on the way is dropped, and is no gap.
#[tokio::test]
async fn a_refused_batch_in_the_middle_of_many_costs_only_itself() {
    let relay = Relay::start(|_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.draw(1, &[mark(1)]).await;
    // The second of this batch breaks a rule.
    socket.draw(2, &[mark(2), Draw::Erase(vec![])]).await;
    for n in 4..=8 {
        socket.draw(n, &[mark(n)]).await;
    }
    assert_eq!(socket.refused().await, ("invalid_draw".to_owned(), Some(3)));
    socket.draw(2, &[mark(2), mark(4)]).await;
    for (n, number) in (4..=7).zip(5..=8) {
        socket.draw(n, &[mark(number)]).await;
    }
    socket.acked(7).await;
    assert_eq!(log(&relay, "a", 7).await, [1, 2, 4, 5, 6, 7, 8]);
}

/// P-7: a batch that waits in the store when another before it is refused finds no gap of its own.
#[tokio::test]
async fn a_refusal_by_the_store_is_followed_by_no_gap() {
    let store = SlowStore::new();
    let relay = Relay::start_on(store.clone(), |config| config.limits.max_room = 100).await;
    let mut socket = Socket::join(relay.address, "a").await;
    store.hold_appends(true);
    socket.draw(1, &[mark(1)]).await;
    store.has_appends(1).await;
    socket.draw(2, &[Draw::Opaque(vec![0; 200])]).await;
    socket.draw(3, &[mark(3)]).await;
    store.hold_appends(false);
    assert_eq!(socket.refused().await, ("room_full".to_owned(), Some(2)));
    socket.draw(2, &[mark(2)]).await;
    assert_eq!(socket.acked(2).await.0, 2);
    assert_eq!(log(&relay, "a", 2).await, [1, 2]);
}

/// P-5, C-4.
#[tokio::test]
async fn a_gap_on_a_websocket_is_told_and_closes() {
    let relay = Relay::start(|_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    socket.draw(5, &[mark(5)]).await;
    assert_eq!(socket.refused().await, ("gap".to_owned(), Some(2)));
    assert_eq!(socket.closed().await, 4409);
    // The largest number there is, is only a gap.
    let mut socket = Socket::join_as(relay.address, "a", socket.resume(None)).await;
    socket.draw((1 << 53) - 1, &[mark(5)]).await;
    assert_eq!(socket.refused().await, ("gap".to_owned(), Some(2)));
    assert_eq!(socket.closed().await, 4409);
}

/// P-14, S-2: the numbering goes on where the store says.
#[tokio::test]
async fn numbering_goes_on_after_a_reconnect() {
    let relay = Relay::start(|_| {}).await;
    let mut socket = Socket::join(relay.address, "a").await;
    for round in 0..5 {
        let last_n = socket.welcome.as_ref().unwrap().limits.last_n;
        assert_eq!(last_n, round * 3);
        for n in last_n + 1..=last_n + 3 {
            socket.draw(n, &[mark(n)]).await;
        }
        socket.acked(last_n + 3).await;
        let hello = socket.resume(None);
        drop(socket);
        socket = Socket::join_as(relay.address, "a", hello).await;
    }
    let session =
        relay.request(Method::POST, "/v1/rooms/a/sessions").header("inkrelay-ticket", &socket.ticket);
    let session = answer(session).await.json();
    assert_eq!((&session["client"], &session["limits"][4]), (&json!(socket.client.get()), &json!(15)));
    assert_eq!(session["ticket"], socket.ticket);
    assert_eq!(log(&relay, "a", 15).await, (1..=15).collect::<Vec<_>>());
}

/// P-10.
#[tokio::test]
async fn without_a_ticket_a_retry_stores_twice() {
    let relay = Relay::start(|_| {}).await;
    assert_eq!(told(&relay.post_marks("a", 1..=2).await), (json!([1, 2]), 2));
    assert_eq!(told(&relay.post_marks("a", 1..=2).await), (json!([3, 2]), 4));
    let records = relay.get("/v1/rooms/a/draws?wait=0").await.json()[2].clone();
    let numbers: std::collections::HashSet<_> = records
        .as_array()
        .unwrap()
        .iter()
        .map(|record| {
            assert_eq!(record[0], 0, "author 0");
            record[1].as_u64().unwrap()
        })
        .collect();
    assert_eq!(numbers.len(), 4, "each has a number of its own");
}

/// D-18.
#[tokio::test]
async fn without_a_ticket_strokes_are_whole() {
    let relay = Relay::start(|_| {}).await;
    for (draw, status) in [
        ("[0,0,[0,255,32],0,[1,1],true]", 200),
        ("[0,0,[0,255,32],0,[1,1]]", 422),
        ("[0,0,[0,255,32],0,[1,1],false]", 422),
        ("[0,1,[0,255,32],0,[1,1],true]", 422),
        ("[1,0,[1,1]]", 422),
        ("[1,0,[],true]", 422),
        ("[2,[[0,5]]]", 200),
        ("[4]", 200),
        ("[5,\"AAAA\"]", 200),
        ("[77,1]", 200),
        // D-17: nobody's records are everybody's.
        ("[3,[[0,5]]]", 403),
        ("[3,[[9,5]]]", 403),
    ] {
        let got = relay.post("/v1/rooms/a/draws", JSON, format!("[{draw}]")).await;
        assert_eq!(got.status, status, "{draw}: {got:?}");
    }
    let style = Style { tool: 0, rgba: 0xff, width: 32 };
    let open = Draw::Begin { stroke: 3, style, channels: Channels::NONE, points: vec![1, 1], end: false };
    let (_, ticket) = relay.session("a").await;
    assert_eq!(relay.post_as("a", &ticket, 1, &[open]).await.status, 200);
}

/// D-16, C-6.
#[tokio::test]
async fn viewers_look_and_do_not_draw() {
    let relay = Relay::start(|config| config.role = Role::Viewer).await;
    let mut socket = Socket::join(relay.address, "a").await;
    assert_eq!(socket.welcome.as_ref().unwrap().role, Role::Viewer);
    socket.draw(1, &[mark(1)]).await;
    assert_eq!(socket.refused().await, ("forbidden".to_owned(), Some(1)));
    socket.draw(1, &[mark(1)]).await;
    assert_eq!(socket.refused().await.0, "forbidden", "the connection stays");
    assert_eq!(relay.post_as("a", &socket.ticket, 1, &[mark(1)]).await.problem().0, 403);
    assert_eq!(relay.post_marks("a", 1..=1).await.problem(), (403, "forbidden".to_owned()));
    let session = answer(relay.request(Method::POST, "/v1/rooms/a/sessions")).await.json();
    assert_eq!(session["role"], 0);
    assert_eq!(relay.get("/v1/rooms/a/draws?wait=0").await.status, 200);
}

/// D-17.
#[tokio::test]
async fn only_moderators_revoke_what_others_did() {
    for (role, status) in [(Role::Drawer, 403), (Role::Moderator, 200)] {
        let relay = Relay::start(|config| config.role = role).await;
        let mut one = Socket::join(relay.address, "a").await;
        let mut other = Socket::join(relay.address, "a").await;
        one.draw(1, &[Draw::Clear]).await;
        one.acked(1).await;
        let revoke = Draw::Revoke(vec![(one.client, 1)]);
        assert_eq!(relay.post_as("a", &other.ticket, 1, std::slice::from_ref(&revoke)).await.status, status);
        other.draw(1, std::slice::from_ref(&revoke)).await;
        if status == 403 {
            assert_eq!(other.refused().await, ("forbidden".to_owned(), Some(1)));
        } else {
            other.acked(1).await;
        }
        one.draw(2, &[revoke]).await;
        one.acked(2).await;
        let nobodys = relay.post("/v1/rooms/a/draws", JSON, "[[3,[[0,5]]]]").await;
        assert_eq!(nobodys.status, status);
    }
}

/// P-2, P-13: many batches at once are acked and told to their author in their order.
#[tokio::test]
async fn a_pipeline_is_stored_in_its_order_while_others_draw() {
    let relay = Relay::start(|config| config.limits.max_rate = 0).await;
    let mut sockets = Vec::new();
    for _ in 0..3 {
        sockets.push(Socket::join(relay.address, "a").await);
    }
    for n in 1..=100 {
        for socket in &mut sockets {
            socket.draw(n, &[mark(n)]).await;
        }
    }
    for socket in &mut sockets {
        let (own, mut expected) = (socket.client, 1);
        let records = socket.records(1, 300).await;
        for record in &records {
            if inkrelay_protocol::Record::parse(record).unwrap().identity.author == own {
                assert_eq!(marked(record), expected);
                expected += 1;
            }
        }
        assert_eq!(expected, 101);
    }
    eventually("all is counted", async || relay.get("/v1/rooms/a").await.json()["records"] == 300).await;
}

/// P-7, P-8: of batches that were on their way when the first of them got no answer, only that one is named.
#[tokio::test]
async fn of_a_pipeline_without_an_answer_only_the_first_is_named() {
    let store = SlowStore::new();
    let relay = Relay::start_on(store.clone(), |_| {}).await;
    let mut drawer = Socket::join(relay.address, "a").await;
    store.hold_appends(true);
    for n in 1..=3 {
        drawer.draw(n, &[mark(n)]).await;
    }
    assert_eq!(drawer.refused().await, ("store_unavailable".to_owned(), Some(1)));
    // The others are as old, and would be named by now.
    let other = tokio::time::timeout(std::time::Duration::from_secs(1), drawer.refused()).await;
    assert!(other.is_err(), "{other:?} is named too");
    store.hold_appends(false);
    for n in 1..=3 {
        drawer.draw(n, &[mark(n)]).await;
    }
    let acked = drawer.wait_for("the last ack", |frame| match frame {
        ServerFrame::Ack { n: 3, seq } => Some(seq.get()),
        ServerFrame::Error { code, n, .. } => panic!("{code} names {n:?} too"),
        _ => None,
    });
    assert_eq!(acked.await, 3);
    let mut reader = Socket::join(relay.address, "a").await;
    let stored: Vec<_> = reader.records(1, 3).await.iter().map(|record| marked(record)).collect();
    assert_eq!(stored, [1, 2, 3]);
}
