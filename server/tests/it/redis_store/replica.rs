//! A listener that keeps logs as a room does: it takes what fits, and reads from the store what does not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use inkrelay_protocol::{Position, RoomId, Seq};
use inkrelay_server::store::{ReadLimit, RedisStore, Store, StoreEvent, StoreListener};
use tokio::sync::mpsc;

/// The logs of some rooms, as they come over the subscription.
pub struct Replica {
    logs: Arc<Mutex<HashMap<RoomId, Vec<Bytes>>>>,
    /// Kept for the store, which has only a weak one.
    _listener: Arc<dyn StoreListener>,
    task: tokio::task::JoinHandle<()>,
}

/// Hands every event on.
pub struct Forward(pub mpsc::UnboundedSender<StoreEvent>);

impl StoreListener for Forward {
    fn on_event(&self, event: StoreEvent) {
        let _ = self.0.send(event);
    }
}

/// Names a listener of that store, and returns what it hears.
pub fn listen(store: &RedisStore) -> (Arc<dyn StoreListener>, mpsc::UnboundedReceiver<StoreEvent>) {
    let (sender, events) = mpsc::unbounded_channel();
    let listener: Arc<dyn StoreListener> = Arc::new(Forward(sender));
    store.listen(Arc::downgrade(&listener));
    (listener, events)
}

impl Replica {
    /// Watches the rooms.
    pub fn start(store: &Arc<RedisStore>, rooms: &[RoomId]) -> Self {
        let (listener, events) = listen(store);
        rooms.iter().for_each(|room| store.watch(room));
        let logs = Arc::new(Mutex::new(rooms.iter().map(|room| (room.clone(), Vec::new())).collect()));
        let task = tokio::spawn(follow(Arc::clone(store), Arc::clone(&logs), rooms.to_vec(), events));
        Self { logs, _listener: listener, task }
    }

    pub fn log(&self, room: &RoomId) -> Vec<Bytes> {
        self.logs.lock().unwrap()[room].clone()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    store: Arc<RedisStore>,
    logs: Arc<Mutex<HashMap<RoomId, Vec<Bytes>>>>,
    rooms: Vec<RoomId>,
    mut events: mpsc::UnboundedReceiver<StoreEvent>,
) {
    let mut heads: HashMap<RoomId, Position> = HashMap::new();
    while let Some(event) = events.recv().await {
        let behind = match event {
            StoreEvent::Appended { room, before, records } => {
                let mut logs = logs.lock().unwrap();
                let log = logs.get_mut(&room).expect("only watched rooms are told of");
                let start = before.seq.get() as usize;
                if start + records.len() <= log.len() && log[start..][..records.len()] == records {
                    continue;
                }
                if before.seq == Seq::START.plus(log.len()) && heads.get(&room) == Some(&before) {
                    let last = inkrelay_protocol::Record::parse(records.last().unwrap()).unwrap().identity;
                    let seq = before.seq.plus(records.len());
                    heads.insert(room, Position { seq, identity: last, ..before });
                    log.extend(records);
                    continue;
                }
                vec![room]
            }
            StoreEvent::CatchUp(Some(room)) => vec![room],
            StoreEvent::CatchUp(None) => rooms.clone(),
            StoreEvent::Told { .. } => continue,
        };
        for room in behind {
            let from = Seq::START.plus(logs.lock().unwrap()[&room].len()).next();
            let limit = ReadLimit { records: usize::MAX, bytes: usize::MAX };
            // Without an answer the room stays behind until the next event; the tests give it one.
            let Ok(chunk) = store.read(&room, from, limit).await else { continue };
            heads.insert(room.clone(), chunk.head.position);
            logs.lock().unwrap().get_mut(&room).unwrap().extend(chunk.records);
        }
    }
}
