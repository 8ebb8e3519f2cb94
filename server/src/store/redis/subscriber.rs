//! Hears what is appended: a connection of its own, kept alive without end.
//!
//! redis-rs would reconnect by itself, but gives up after some seconds, and what it could not subscribe to
//! again it forgets in silence. So the set of rooms that should be heard is kept here; the task makes each
//! new connection agree with it, every confirmation counted, and tells the listener that it may have missed
//! something. Pub/sub is a hint: the list is the truth.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use inkrelay_protocol::RoomId;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, PushInfo, PushKind, Value};
use tokio::sync::Notify;
use tokio::time::{interval, sleep, timeout};

use super::backoff::Backoff;
use super::link::CONNECT_TIMEOUT;
use super::message::{self, Message};
use crate::store::{StoreEvent, StoreListener};

/// A link that died in silence is noticed after one of these and one [`ANSWER_TIMEOUT`].
const PING_EVERY: Duration = Duration::from_secs(3);
/// How long confirmations and pongs may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Channels in one SUBSCRIBE.
const SUBSCRIBE_CHANNELS: usize = 256;
/// Waits between connections.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Always subscribed to, with or without rooms: Redis does not close a subscriber for being idle, and it shows
/// that this user may subscribe at all.
const OWN_CHANNEL: &str = "inkrelay";

/// See the module's documentation.
pub(super) struct Subscriber {
    client: Client,
    node: String,
    listener: OnceLock<Weak<dyn StoreListener>>,
    rooms: Mutex<Rooms>,
    changed: Notify,
    subscribed: AtomicBool,
    took_hold: Notify,
    /// Subscriptions that took hold.
    connects: AtomicU64,
}

#[derive(Default)]
struct Rooms {
    desired: HashSet<RoomId>,
    /// Rooms that came or went since the task last looked. Empty while there is no connection, because a new
    /// one begins with all that is desired.
    changed: HashSet<RoomId>,
    /// What the connection is subscribed to: from the confirmation on, and until it is to be so no longer.
    heard: HashSet<RoomId>,
    connected: bool,
}

/// What has to be done so that a connection agrees with what is desired.
#[derive(Default)]
struct Changes {
    subscribe: Vec<RoomId>,
    unsubscribe: Vec<RoomId>,
    /// Left and watched again before the task looked: heard all the time, but the new watch wants its word.
    kept: Vec<RoomId>,
}

impl Subscriber {
    pub(super) fn new(client: Client, node: String) -> Arc<Self> {
        Arc::new(Self {
            client,
            node,
            listener: OnceLock::new(),
            rooms: Mutex::default(),
            changed: Notify::new(),
            subscribed: AtomicBool::new(false),
            took_hold: Notify::new(),
            connects: AtomicU64::new(0),
        })
    }

    pub(super) fn listen(&self, listener: Weak<dyn StoreListener>) {
        if self.listener.set(listener).is_err() {
            tracing::warn!("a second listener was named, and is not heard");
        }
    }

    pub(super) fn watch(&self, room: &RoomId) {
        self.change(room, |desired| {
            desired.insert(room.clone());
        });
    }

    pub(super) fn unwatch(&self, room: &RoomId) {
        self.change(room, |desired| {
            desired.remove(room);
        });
    }

    fn change(&self, room: &RoomId, change: impl FnOnce(&mut HashSet<RoomId>)) {
        let mut rooms = self.lock();
        change(&mut rooms.desired);
        if rooms.connected {
            rooms.changed.insert(room.clone());
            self.changed.notify_one();
        }
    }

    /// Whether Redis counts this server among those who are subscribed to the room, as far as is known: where it is not,
    /// another server may miss what is published, as it may miss anything.
    pub(super) fn hears(&self, room: &RoomId) -> bool {
        self.lock().heard.contains(room)
    }

    /// Whether everything desired at the last connection is heard.
    pub(super) fn is_subscribed(&self) -> bool {
        self.subscribed.load(Ordering::Acquire)
    }

    /// How many subscriptions took hold.
    pub(super) fn connects(&self) -> u64 {
        self.connects.load(Ordering::Relaxed)
    }

    /// Waits until [`Subscriber::is_subscribed`] for the first time. No bound of its own.
    pub(super) async fn subscribed(&self) {
        while !self.is_subscribed() {
            let took_hold = self.took_hold.notified();
            if self.is_subscribed() {
                return;
            }
            took_hold.await;
        }
    }

    /// The task. Runs until it is aborted.
    pub(super) async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            let why = self.serve(&mut backoff).await;
            let was_subscribed = self.subscribed.swap(false, Ordering::AcqRel);
            {
                let mut rooms = self.lock();
                rooms.connected = false;
                rooms.changed.clear();
                rooms.heard.clear();
            }
            if was_subscribed {
                tracing::warn!(why, "the subscription was lost, and is taken up again");
            } else {
                tracing::debug!(why, "still no subscription");
            }
            sleep(backoff.wait()).await;
        }
    }

    /// One connection, from its making to its end. Returns why it ended.
    async fn serve(self: &Arc<Self>, backoff: &mut Backoff) -> String {
        let lost = Arc::new(Notify::new());
        let mut connection = match self.connect(Arc::clone(&lost)).await {
            Ok(connection) => connection,
            Err(error) => return error.to_string(),
        };
        let desired = {
            let mut rooms = self.lock();
            rooms.connected = true;
            rooms.desired.clone()
        };
        let mut channels = vec![OWN_CHANNEL.to_owned()];
        channels.extend(desired.iter().map(message::channel));
        if let Err(why) = subscribe(&mut connection, &channels).await {
            return why;
        }
        self.lock().heard = desired;
        self.emit(StoreEvent::CatchUp(None));
        self.connects.fetch_add(1, Ordering::Relaxed);
        self.subscribed.store(true, Ordering::Release);
        self.took_hold.notify_waiters();
        backoff.reset();

        let mut ping = interval(PING_EVERY);
        ping.reset();
        loop {
            let step = tokio::select! {
                () = lost.notified() => Err("Redis closed the connection".to_owned()),
                () = self.changed.notified() => self.reconcile(&mut connection).await,
                _ = ping.tick() => {
                    let ping = redis::cmd("PING");
                    let answer = timeout(ANSWER_TIMEOUT, ping.query_async::<Value>(&mut connection)).await;
                    settled(answer).map(drop)
                }
            };
            if let Err(why) = step {
                return why;
            }
        }
    }

    async fn connect(self: &Arc<Self>, lost: Arc<Notify>) -> redis::RedisResult<MultiplexedConnection> {
        let subscriber = Arc::clone(self);
        // Called where the bytes are read: there is no queue that could grow, and a listener that is slow
        // makes Redis wait.
        let on_push = move |push: PushInfo| -> Result<(), redis::aio::SendError> {
            match push.kind {
                PushKind::Message => subscriber.on_message(push.data),
                PushKind::Disconnection => lost.notify_one(),
                _ => {}
            }
            Ok(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            .set_push_sender(on_push);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn reconcile(&self, connection: &mut MultiplexedConnection) -> Result<(), String> {
        let Changes { subscribe: new, unsubscribe: old, kept } = self.take_changes();
        for room in kept {
            self.emit(StoreEvent::CatchUp(Some(room)));
        }
        let channels: Vec<_> = old.iter().map(message::channel).collect();
        for channels in channels.chunks(SUBSCRIBE_CHANNELS) {
            settled(timeout(ANSWER_TIMEOUT, connection.unsubscribe(channels)).await)?;
        }
        let channels: Vec<_> = new.iter().map(message::channel).collect();
        subscribe(connection, &channels).await?;
        self.lock().heard.extend(new.iter().cloned());
        for room in new {
            self.emit(StoreEvent::CatchUp(Some(room)));
        }
        Ok(())
    }

    fn take_changes(&self) -> Changes {
        let mut rooms = self.lock();
        let mut changes = Changes::default();
        for room in std::mem::take(&mut rooms.changed) {
            match (rooms.desired.contains(&room), rooms.heard.contains(&room)) {
                (true, false) => changes.subscribe.push(room),
                (true, true) => changes.kept.push(room),
                (false, true) => {
                    rooms.heard.remove(&room);
                    changes.unsubscribe.push(room);
                }
                (false, false) => {}
            }
        }
        changes
    }

    fn on_message(&self, data: Vec<Value>) {
        let Ok([Value::BulkString(channel), Value::BulkString(payload)]) = <[Value; 2]>::try_from(data)
        else {
            return;
        };
        let Some(room) = message::room_of(&channel) else { return };
        match message::parse(payload) {
            Some(Message::Appended { before, records }) => {
                self.emit(StoreEvent::Appended { room, before, records });
            }
            Some(Message::Told { node, message }) if node != self.node => {
                self.emit(StoreEvent::Told { room, message });
            }
            Some(Message::Told { .. }) => {}
            Some(Message::Hint) | None => self.emit(StoreEvent::CatchUp(Some(room))),
        }
    }

    fn emit(&self, event: StoreEvent) {
        if let Some(listener) = self.listener.get().and_then(Weak::upgrade) {
            listener.on_event(event);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Subscribes in batches. redis-rs answers each when Redis has confirmed every channel of it.
async fn subscribe(connection: &mut MultiplexedConnection, channels: &[String]) -> Result<(), String> {
    for channels in channels.chunks(SUBSCRIBE_CHANNELS) {
        settled(timeout(ANSWER_TIMEOUT, connection.subscribe(channels)).await)?;
    }
    Ok(())
}

fn settled<T>(answer: Result<redis::RedisResult<T>, tokio::time::error::Elapsed>) -> Result<T, String> {
    match answer {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer in {ANSWER_TIMEOUT:?}")),
    }
}
