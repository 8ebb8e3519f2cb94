//! The Rust client against a relay: what needs both to be right.

use std::sync::Arc;
use std::time::Duration;

use inkrelay_client::client::{Client, ClientConfig, Event, Events, Timing, Transport, Welcome};
use inkrelay_protocol::{Channels, Draw, Identity, Profile, Record, RoomId, Seq, Style};
use inkrelay_server::store::{Batch, MemoryStore, ReadLimit, Store};
use tokio::time::timeout;

use crate::support::PATIENCE;
use crate::support::proxy::{Fate, Proxy};
use crate::support::relay::Relay;

fn config(relay: &Relay, transport: Transport) -> ClientConfig {
    let mut config = ClientConfig::new(relay.url(""), "r".parse().unwrap());
    config.transport = transport;
    config.timing = Timing {
        backoff_first: Duration::from_millis(20),
        backoff_max: Duration::from_millis(50),
        ..Timing::default()
    };
    config
}

fn dot(stroke: u64) -> Draw {
    let style = Style { tool: 0, rgba: 255, width: 16 };
    Draw::Begin { stroke, style, channels: Channels::NONE, points: vec![1, 2], end: true }
}

/// The next event that `looked_for` makes something of.
pub async fn wait<T>(events: &mut Events, mut looked_for: impl FnMut(Event) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = looked_for(events.recv().await.expect("the client goes on")) {
                return found;
            }
        }
    };
    timeout(PATIENCE, found).await.expect("the event comes in time")
}

async fn connected(events: &mut Events) -> Welcome {
    wait(events, |event| match event {
        Event::Connected { welcome, .. } => Some(welcome),
        _ => None,
    })
    .await
}

async fn flush(client: &Client) {
    timeout(PATIENCE, client.flush()).await.expect("all is stored in time").unwrap();
}

#[tokio::test]
async fn people_see_each_others_names_and_pens() {
    let relay = Relay::start(|_| {}).await;
    let (anna, mut sees) = Client::connect(config(&relay, Transport::WebSocket)).unwrap();
    let mut as_bert = config(&relay, Transport::WebSocket);
    as_bert.profile = Some(Profile { name: "Bert".to_owned(), rgba: 7 });
    let (bert, _events) = Client::connect(as_bert).unwrap();
    let named = |wanted: &'static str| {
        move |event| match event {
            Event::Participants(people) => {
                people.into_iter().find(|person| person.profile.name == wanted).map(|person| person.client)
            }
            _ => None,
        }
    };
    let id = wait(&mut sees, named("Bert")).await;
    bert.set_profile(Profile { name: "Berta".to_owned(), rgba: 7 });
    assert_eq!(wait(&mut sees, named("Berta")).await, id);
    bert.pointer(-160, 320);
    let pointer = wait(&mut sees, |event| match event {
        Event::Pointer { client, x, y } => Some((client, x, y)),
        _ => None,
    });
    assert_eq!(pointer.await, (id, -160, 320));
    anna.close().await;
    bert.close().await;
    relay.stopped().await;
}

#[tokio::test]
async fn a_later_run_goes_on_with_its_ticket_on_another_node() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let secret = |config: &mut inkrelay_server::config::Config| config.secret = Some("s".repeat(32));
        let relay = Relay::start_on(Arc::clone(&store), secret).await;
        let mut here = config(&relay, transport);
        let (client, _events) = Client::connect(here.clone()).unwrap();
        for stroke in 0..100 {
            client.draw(&dot(stroke)).unwrap();
        }
        flush(&client).await;
        let ticket = client.ticket();
        client.close().await;
        relay.stopped().await;

        // Another node of the same store: the client goes on with its ticket and its numbers.
        let relay = Relay::start_on(store, secret).await;
        here.server = relay.url("");
        here.ticket = ticket.clone();
        let (client, mut events) = Client::connect(here).unwrap();
        let welcome = connected(&mut events).await;
        assert_eq!(welcome.limits.last_n, 100, "{transport:?}");
        for stroke in 100..200 {
            client.draw(&dot(stroke)).unwrap();
        }
        flush(&client).await;
        assert_eq!(client.ticket(), ticket, "{transport:?}");
        let mut numbers = Vec::new();
        wait(&mut events, |event| {
            match event {
                Event::Records { first, records } => {
                    assert_eq!(first.get(), numbers.len() as u64 + 1);
                    numbers.extend(records.iter().map(|record| Record::parse(record).unwrap().identity.n));
                }
                Event::Reset { .. } => panic!("no reset is due"),
                _ => {}
            }
            (numbers.len() >= 200).then_some(())
        })
        .await;
        assert_eq!(numbers, (1..=200).collect::<Vec<_>>(), "{transport:?}");
        client.close().await;
        relay.stopped().await;
    }
}

/// Everything in a room's log.
async fn log(store: &dyn Store, room: &RoomId) -> Vec<bytes::Bytes> {
    let all = ReadLimit { records: usize::MAX, bytes: usize::MAX };
    store.read(room, Seq::START, all).await.unwrap().records
}

/// P-14.
#[tokio::test]
async fn what_a_store_lost_is_offered_again() {
    for transport in [Transport::WebSocket, Transport::LongPoll] {
        let room: RoomId = "r".parse().unwrap();
        let secret = |config: &mut inkrelay_server::config::Config| config.secret = Some("s".repeat(32));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let relay = Relay::start_on(Arc::clone(&store), secret).await;
        let proxy = Proxy::start(relay.address.port(), Arc::new(|_, _, _| Fate::Forward)).await;
        let mut by_proxy = config(&relay, transport);
        by_proxy.server = format!("http://{}", proxy.address());
        let (client, mut events) = Client::connect(by_proxy).unwrap();
        for stroke in 0..20 {
            client.draw(&dot(stroke)).unwrap();
        }
        flush(&client).await;
        let before = connected(&mut events).await;
        relay.stopped().await;
        wait(&mut events, |event| matches!(event, Event::Disconnected { .. }).then_some(())).await;

        // What comes back is a store that has only the first twelve.
        let mut records = log(&*store, &room).await;
        records.truncate(12);
        let late: Arc<dyn Store> = Arc::new(MemoryStore::new());
        late.append(&room, &[Batch { author: before.client, first_n: 1, records }]).await.unwrap();
        let relay = Relay::start_on(Arc::clone(&late), secret).await;
        proxy.lead_to(relay.address.port());
        let after = connected(&mut events).await;
        assert_eq!((after.client, after.limits.last_n), (before.client, 12), "{transport:?}");
        client.draw(&dot(20)).unwrap();
        flush(&client).await;
        let stored = log(&*late, &room).await;
        let drawn = |record: &bytes::Bytes| {
            let Record { identity: Identity { n, .. }, draw } = Record::parse(record).unwrap();
            (n, Draw::decode(draw).unwrap())
        };
        let expected: Vec<_> = (0..21).map(|stroke| (stroke + 1, dot(stroke))).collect();
        assert_eq!(stored.iter().map(drawn).collect::<Vec<_>>(), expected, "{transport:?}");
        client.close().await;
        relay.stopped().await;
    }
}
