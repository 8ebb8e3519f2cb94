//! Short ways to say what the tests do.

use std::time::Duration;

use bytes::Bytes;
use inkrelay_client::client::{Client, ClientConfig, Event, Events, Timing, Transport, Welcome};
use inkrelay_protocol::{Channels, Draw, Record, Style};
use tokio::time::timeout;

use crate::relay::Relay;

/// Nothing here takes longer, unless it fails.
const DEADLINE: Duration = Duration::from_secs(20);

pub fn config(relay: &Relay, transport: Transport) -> ClientConfig {
    let mut config = ClientConfig::new(format!("http://{}", relay.address), "test".parse().unwrap());
    config.transport = transport;
    config.timing = Timing {
        silence: Duration::from_secs(5),
        socket_again: Duration::from_millis(100),
        backoff_first: Duration::from_millis(20),
        backoff_max: Duration::from_millis(50),
        ..Timing::default()
    };
    config
}

pub fn connect(relay: &Relay, transport: Transport) -> (Client, Events) {
    Client::connect(config(relay, transport)).unwrap()
}

/// A draw that can be told from the others.
pub fn dot(stroke: u64) -> Draw {
    let style = Style { tool: 0, rgba: 255, width: 16 };
    Draw::Begin { stroke, style, channels: Channels::NONE, points: vec![1, 2], end: true }
}

/// What a record draws, as in [`dot`].
pub fn stroke_of(record: &[u8]) -> u64 {
    match Draw::decode(Record::parse(record).unwrap().draw).unwrap() {
        Draw::Begin { stroke, .. } => stroke,
        other => panic!("no dot but {other:?}"),
    }
}

pub fn strokes<R: AsRef<[u8]>>(records: &[R]) -> Vec<u64> {
    records.iter().map(|record| stroke_of(record.as_ref())).collect()
}

pub async fn flush(client: &Client) {
    timeout(DEADLINE, client.flush()).await.expect("all draws are stored in time").unwrap();
}

/// The first event that is looked for.
pub async fn wait<T>(events: &mut Events, mut looked_for: impl FnMut(Event) -> Option<T>) -> T {
    let found = async {
        loop {
            let event = events.recv().await.expect("the client goes on");
            if let Some(found) = looked_for(event) {
                return found;
            }
        }
    };
    timeout(DEADLINE, found).await.expect("the event comes in time")
}

/// What the next connection over that transport was told.
pub async fn connected(events: &mut Events, on: Transport) -> Welcome {
    wait(events, |event| match event {
        Event::Connected { transport, welcome } if transport == on => Some(welcome),
        _ => None,
    })
    .await
}

/// The records of a room from the start, as a reader sees them whatever happens on the way.
pub async fn read(events: &mut Events, count: usize) -> Vec<Bytes> {
    let mut log: Vec<Bytes> = Vec::new();
    if count == 0 {
        return log;
    }
    wait(events, |event| {
        match event {
            Event::Records { first, records } => {
                assert_eq!(first.get(), log.len() as u64 + 1, "records come in order and once");
                log.extend(records);
            }
            Event::Reset { records, first, .. } => {
                if first {
                    log.clear();
                }
                log.extend(records);
            }
            _ => {}
        }
        (log.len() >= count).then_some(())
    })
    .await;
    log
}
