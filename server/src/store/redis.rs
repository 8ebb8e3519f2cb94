//! The Redis store: logs that several servers share, each a list that is read with nothing but `LRANGE`.
//!
//! | key | type | holds |
//! |---|---|---|
//! | `inkrelay:{ROOM}:log` | list | one record per element: the truth |
//! | `inkrelay:{ROOM}:meta` | hash | `replid`, `epoch`, and what must fit the other keys: `records`, `bytes`, `clients` |
//! | `inkrelay:{ROOM}:clients` | hash | client → first n, last n and last seq of its latest batch |
//! | `inkrelay:{ROOM}:rules` | string | what moderators laid down, if they did: MessagePack, as in `store/rules.rs` |
//! | `inkrelay:{ROOM}:restored:…` | list, hash | a log that is being restored, for an hour after the last part of it |
//! | `inkrelay:secret` | string | the key under which tickets are signed |
//!
//! and the channels `inkrelay:{ROOM}`, see `message.rs`, and `inkrelay`, on which nothing is said. Channels do not
//! know database numbers: two installations on one Redis would hear each other, so that only number 0 is taken.
//! What is appended is published when anybody but the server that appends it is subscribed, or may be at a replica.
//! A Redis that lost its data is given the secret back by the servers that know it (`secret.rs`).
//!
//! Every access to a room's log goes through a script, which begins by asking whether the keys still belong together,
//! and whether this is still the Redis that wrote them (`open.lua`). If not, a new epoch begins, and what the
//! authors' numbers are is read from the list: about a second for a million records, in which Redis does nothing
//! else.
//!
//! Needs Redis 7 or later, and a user who may run scripts and, in them, `INFO`. What this user may not do beyond
//! that, `PUBLISH` and `PUBSUB`, costs speed, and `CONFIG GET` a sentence at the start. Listing rooms needs `SCAN`,
//! deleting them `UNLINK`, and deleting those that nobody has drawn in for long `PUBSUB`.

mod backoff;
mod call;
mod element;
mod link;
mod message;
mod restore;
mod rooms;
mod rules;
mod secret;
mod space;
mod subscriber;
mod teller;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::try_join_all;
use inkrelay_protocol::{ClientId, Epoch, Position, RoomId, Seq};
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{Client, IntoConnectionInfo, ProtocolVersion, Value};
use tokio::task::AbortHandle;

use self::call::{Call, Script};
use self::link::{Link, Repeat};
use self::restore::Restoring;
use self::rooms::Listing;
use self::subscriber::Subscriber;
use self::teller::Teller;
use super::{
    Appended, Batch, Chunk, Gap, Head, ReadLimit, Restore, RoomSummary, Rules, Space, Store, StoreError,
    StoreListener, Stored, identity_of,
};
use crate::random;

const APPEND: &str = concat!(include_str!("redis/open.lua"), include_str!("redis/append.lua"));
const READ: &str = concat!(include_str!("redis/open.lua"), include_str!("redis/read.lua"));
const LAST_N: &str = concat!(include_str!("redis/open.lua"), include_str!("redis/last_n.lua"));
const DELETE: &str = concat!(include_str!("redis/open.lua"), include_str!("redis/delete.lua"));
const RESTORE_PUT: &str = concat!(include_str!("redis/open.lua"), include_str!("redis/restore_put.lua"));
const RESTORE_FINISH: &str =
    concat!(include_str!("redis/open.lua"), include_str!("redis/restore_finish.lua"));

const PING: Call<'_> = Call::Command { name: "PING", args: &[] };
/// Bytes of new records that go along with the hint that there are some.
const PUBLISH_BYTES: usize = 8 * 1024;
/// Bytes and records that one read takes out at most, whatever it was allowed: Redis does nothing else meanwhile.
const READ_BYTES: usize = 8 * 1024 * 1024;
const READ_RECORDS: usize = 64 * 1024;
/// Who asks for health wants to know about now.
const CHECK_WITHIN: Duration = Duration::from_secs(1);
/// Heads that are asked for at once.
const HEADS_IN_FLIGHT: usize = 64;
/// After so much silence the kernel asks whether the other side still lives, and again after each second.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(1);
/// Bytes that the other side has not acknowledged for so long end the connection.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(5);

/// What an operator may choose.
#[derive(Clone, Copy, Debug)]
pub struct RedisConfig {
    /// Every question is answered within this, with an error if need be. Tries again inside it.
    pub answer_within: Duration,
}

impl Default for RedisConfig {
    /// So that whoever asked for a bounded answer of five seconds gets one.
    fn default() -> Self {
        Self { answer_within: Duration::from_millis(4500) }
    }
}

/// Why there is no Redis store.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RedisConnectError {
    /// The address is none.
    #[error("this is no address of a Redis: {0}")]
    InvalidUrl(String),
    /// It names a database other than 0. What is published is heard in all of them, so that rooms of the same name
    /// would leak into each other.
    #[error(
        "only database 0 of a Redis can be used: what is published is heard in all of them. Give each installation a Redis of its own"
    )]
    NumberedDatabase,
    /// It does not answer, or not as it should.
    #[error("Redis at {address} cannot be used: {reason}")]
    Unusable {
        /// Without the password.
        address: String,
        /// In Redis's or the system's words.
        reason: String,
    },
}

/// Logs in a Redis that other servers share. See the module's documentation.
pub struct RedisStore {
    link: Arc<Link>,
    subscriber: Arc<Subscriber>,
    teller: Teller,
    node: String,
    description: String,
    scripts: Arc<Scripts>,
    listing: Listing,
    tasks: [AbortHandle; 3],
    secret: Arc<OnceLock<[u8; 32]>>,
}

struct Scripts {
    append: Script,
    read: Script,
    last_n: Script,
    delete: Script,
    restore_put: Script,
    restore_finish: Script,
    set_rules: Script,
}

/// A client of the Redis at an address, and that address without its password.
fn client(url: &str) -> Result<(Client, String), RedisConnectError> {
    let invalid = |error: redis::RedisError| RedisConnectError::InvalidUrl(error.to_string());
    let info = url.into_connection_info().map_err(invalid)?;
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    if settings.db() != 0 {
        return Err(RedisConnectError::NumberedDatabase);
    }
    let secret = if settings.password().is_some() { "***@" } else { "" };
    let masked = format!("redis://{secret}{}/{}", info.addr(), settings.db());
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_EVERY);
    let tcp = TcpSettings::default().set_nodelay(true).set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let tcp = tcp.set_user_timeout(TCP_USER_TIMEOUT);
    let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
    Ok((Client::open(info).map_err(invalid)?, masked))
}

impl RedisStore {
    /// Whether [`RedisStore::connect`] would take the address. Nothing is sent.
    ///
    /// # Errors
    /// As there, but for what only the Redis itself tells.
    pub fn check(url: &str) -> Result<(), RedisConnectError> {
        client(url).map(drop)
    }

    /// Connects, and waits until the subscription stands. `url` is `redis://[user:password@]host[:port][/db]`.
    ///
    /// # Errors
    /// When the address is none, or the Redis there does not answer within `config.answer_within`.
    pub async fn connect(url: &str, config: RedisConfig) -> Result<Self, RedisConnectError> {
        let (client, masked) = client(url)?;
        let unusable = |reason: String| RedisConnectError::Unusable { address: masked.clone(), reason };
        let link = Arc::new(Link::new(client.clone(), config.answer_within));
        let ping = link.run(&PING, Repeat::Safe).await;
        ping.map_err(|error| unusable(error.to_string()))?;
        let description = format!("draws are kept in Redis at {masked}; {}", promise(&link).await);

        let node = format!("{:016x}", random::u64());
        let subscriber = Subscriber::new(client, node.clone());
        let (teller, tell) = Teller::new(node.clone(), Arc::clone(&link));
        let listen = Arc::clone(&subscriber).run();
        let secret = Arc::new(OnceLock::new());
        let guard = secret::guard(Arc::clone(&link), Arc::clone(&secret));
        let tasks = [
            tokio::spawn(listen).abort_handle(),
            tokio::spawn(tell).abort_handle(),
            tokio::spawn(guard).abort_handle(),
        ];
        let scripts = Arc::new(Scripts {
            append: Script::new(APPEND),
            read: Script::new(READ),
            last_n: Script::new(LAST_N),
            set_rules: Script::new(rules::SET),
            delete: Script::new(DELETE),
            restore_put: Script::new(RESTORE_PUT),
            restore_finish: Script::new(RESTORE_FINISH),
        });
        let listing = Listing::default();
        let store = Self { link, subscriber, teller, node, description, scripts, listing, tasks, secret };
        let subscribed = tokio::time::timeout(config.answer_within, store.subscriber.subscribed()).await;
        subscribed.map_err(|_| unusable("a subscription was not confirmed".to_owned()))?;
        Ok(store)
    }

    async fn read_script(
        &self,
        room: &RoomId,
        from: Seq,
        records: usize,
        bytes: usize,
    ) -> Result<Chunk, StoreError> {
        let from = from.get().max(1);
        let args = vec![fresh_epoch(), decimal(from), decimal(records as u64), decimal(bytes as u64)];
        let keys = keys(room);
        let call = Call::Run { script: &self.scripts.read, keys: &keys, args };
        let reply = self.link.run(&call, Repeat::Safe).await?;
        chunk(reply, from).ok_or_else(unexpected)
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

#[async_trait]
impl Store for RedisStore {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn listen(&self, listener: Weak<dyn StoreListener>) {
        self.subscriber.listen(listener);
    }

    fn watch(&self, room: &RoomId) {
        self.subscriber.watch(room);
    }

    fn unwatch(&self, room: &RoomId) {
        self.subscriber.unwatch(room);
    }

    fn tell(&self, room: &RoomId, message: Bytes) {
        self.teller.tell(room, &message);
    }

    async fn append(&self, room: &RoomId, batches: &[Batch]) -> Result<Appended, StoreError> {
        let records: usize = batches.iter().map(|batch| batch.records.len()).sum();
        let mut args = Vec::with_capacity(5 + 3 * batches.len() + records);
        args.extend([fresh_epoch(), Bytes::from(self.node.clone()), decimal(PUBLISH_BYTES as u64)]);
        args.extend([decimal(self.subscriber.hears(room).into()), decimal(batches.len() as u64)]);
        for batch in batches {
            args.extend([decimal(batch.author.get()), decimal(batch.first_n)]);
            args.push(decimal(batch.records.len() as u64));
            args.extend(batch.records.iter().cloned());
        }
        // Only what is numbered can be told from a repetition of itself.
        let anonymous = batches.iter().any(|batch| batch.author.is_anonymous());
        let repeat = if anonymous { Repeat::Never } else { Repeat::Safe };
        let keys = keys(room);
        let call = Call::Run { script: &self.scripts.append, keys: &keys, args };
        let reply = self.link.run(&call, repeat).await?;
        appended(reply).ok_or_else(unexpected)
    }

    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        let records = limit.records.clamp(1, READ_RECORDS);
        self.read_script(room, from, records, limit.bytes.min(READ_BYTES)).await
    }

    async fn head(&self, room: &RoomId) -> Result<Head, StoreError> {
        self.read_script(room, Seq::START, 0, 0).await.map(|chunk| chunk.head)
    }

    async fn heads(&self, rooms: &[RoomId]) -> Result<Vec<Head>, StoreError> {
        // One connection: what is in flight at once goes out in few writes.
        let mut heads = Vec::with_capacity(rooms.len());
        for rooms in rooms.chunks(HEADS_IN_FLIGHT) {
            heads.extend(try_join_all(rooms.iter().map(|room| self.head(room))).await?);
        }
        Ok(heads)
    }

    async fn last_n(&self, room: &RoomId, author: ClientId) -> Result<u64, StoreError> {
        let keys = keys(room);
        let args = vec![fresh_epoch(), decimal(author.get())];
        let call = Call::Run { script: &self.scripts.last_n, keys: &keys, args };
        let reply = self.link.run(&call, Repeat::Safe).await?;
        integer(&reply).ok_or_else(unexpected)
    }

    async fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError> {
        self.list(after, limit).await
    }

    async fn delete(&self, room: &RoomId) -> Result<bool, StoreError> {
        self.delete_if(room, None).await
    }

    async fn delete_idle(&self, room: &RoomId, before: u64) -> Result<bool, StoreError> {
        self.delete_if(room, Some(before)).await
    }

    async fn restore(&self, room: &RoomId) -> Result<Box<dyn Restore>, StoreError> {
        let (link, scripts) = (Arc::clone(&self.link), Arc::clone(&self.scripts));
        Ok(Box::new(Restoring::new(link, scripts, self.node.clone(), room)))
    }

    async fn rules(&self, room: &RoomId) -> Result<Rules, StoreError> {
        rules::get(&self.link, room).await
    }

    async fn set_rules(&self, room: &RoomId, expected: &Rules, rules: &Rules) -> Result<bool, StoreError> {
        rules::set(&self.link, &self.scripts.set_rules, room, expected, rules).await
    }

    async fn secret(&self) -> Result<[u8; 32], StoreError> {
        let kept = secret::keep(&self.link, &random::bytes()).await?;
        Ok(*self.secret.get_or_init(|| kept))
    }

    fn reconnects(&self) -> u64 {
        // The first connection of each is none made anew.
        self.link.connects().saturating_sub(1) + self.subscriber.connects().saturating_sub(1)
    }

    async fn check(&self) -> Result<(), StoreError> {
        if !self.subscriber.is_subscribed() {
            return Err(StoreError::Unavailable("there is no subscription".to_owned()));
        }
        match tokio::time::timeout(CHECK_WITHIN, self.link.run(&PING, Repeat::Safe)).await {
            Ok(answer) => answer.map(drop),
            Err(_) => Err(StoreError::Unavailable(format!("no answer in {CHECK_WITHIN:?}"))),
        }
    }

    async fn space(&self) -> Option<Space> {
        space::of(&self.link).await
    }

    async fn close(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// What an ack is worth, from Redis's own settings, as far as this user may read them.
async fn promise(link: &Link) -> &'static str {
    let appendonly = setting(link, "appendonly").await;
    let appendfsync = setting(link, "appendfsync").await;
    if let Some(policy) = setting(link, "maxmemory-policy").await.filter(|policy| policy != "noeviction") {
        tracing::warn!(
            policy,
            "Redis may throw away whole logs for lack of memory: set maxmemory-policy noeviction"
        );
    }
    match (appendonly.as_deref(), appendfsync.as_deref()) {
        (Some("yes"), Some("always")) => "an acknowledged draw is on Redis's disk",
        (Some("yes"), Some("everysec")) => {
            "an acknowledged draw survives a crash of Redis, and a power cut takes at most the last two seconds"
        }
        (Some("yes"), Some(_)) => {
            "an acknowledged draw survives a crash of Redis, and a power cut takes what the system had not yet written"
        }
        (Some("no"), _) => {
            tracing::warn!(
                "Redis keeps draws in memory: a restart takes what is newer than its last dump; set appendonly yes"
            );
            "an acknowledged draw is in Redis's memory, and a restart of Redis takes what is newer than its last dump"
        }
        _ => "what an acknowledged draw survives is up to Redis's settings, which this user may not read",
    }
}

async fn setting(link: &Link, name: &str) -> Option<String> {
    let get = Call::Command { name: "CONFIG", args: &[b"GET", name.as_bytes()] };
    let reply = link.run(&get, Repeat::Safe).await.ok()?;
    let pair: Vec<(String, String)> = redis::from_redis_value(reply).ok()?;
    pair.into_iter().next().map(|(_, value)| value)
}

fn keys(room: &RoomId) -> [String; 4] {
    let channel = message::channel(room);
    [format!("{channel}:log"), format!("{channel}:meta"), format!("{channel}:clients"), channel]
}

fn decimal(number: u64) -> Bytes {
    Bytes::from(number.to_string())
}

fn fresh_epoch() -> Bytes {
    decimal(Epoch::from_random(random::u64()).get())
}

fn unexpected() -> StoreError {
    StoreError::Unavailable("Redis gave an answer that makes no sense".to_owned())
}

fn integer(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

fn array<const N: usize>(value: Value) -> Option<[Value; N]> {
    match value {
        Value::Array(values) => values.try_into().ok(),
        _ => None,
    }
}

/// The position of the log's last record.
fn position(epoch: &Value, seq: &Value, last: Value) -> Option<Position> {
    let epoch = Epoch::new(integer(epoch)?)?;
    let seq = Seq::new(integer(seq)?)?;
    match last {
        Value::BulkString(last) => {
            let last = element::told(seq, Bytes::from(last));
            Some(Position { epoch, seq, identity: identity_of(&last) })
        }
        _ => Some(Position::start(epoch)),
    }
}

fn chunk(reply: Value, from: u64) -> Option<Chunk> {
    let [epoch, records, bytes, last, stretch] = array(reply)?;
    let Value::Array(stretch) = stretch else { return None };
    let position = position(&epoch, &records, last)?;
    let bytes = integer(&bytes)?;
    let head = if position.seq == Seq::START { Head::EMPTY } else { Head { position, bytes } };
    let before = Seq::new(from - 1).unwrap_or(Seq::START);
    let record = |(index, element)| match element {
        Value::BulkString(element) => Some(element::told(before.plus(index + 1), Bytes::from(element))),
        _ => None,
    };
    let records = stretch.into_iter().enumerate().map(record).collect::<Option<_>>()?;
    Some(Chunk { head, records })
}

fn appended(reply: Value) -> Option<Appended> {
    let [epoch, before_seq, before, bytes, outcomes] = array(reply)?;
    let Value::Array(outcomes) = outcomes else { return None };
    let outcomes = outcomes.into_iter().map(outcome).collect::<Option<Vec<_>>>()?;
    let mut before = position(&epoch, &before_seq, before)?;
    let stored = outcomes.iter().any(|outcome| outcome.is_ok_and(|stored| stored.new > 0));
    if before.seq == Seq::START && !stored {
        before = Position::start(Epoch::EMPTY);
    }
    Some(Appended { epoch: before.epoch, before, bytes: integer(&bytes)?, outcomes })
}

fn outcome(value: Value) -> Option<Result<Stored, Gap>> {
    let Value::Array(values) = value else { return None };
    match values.as_slice() {
        [Value::Int(-1), expected] => Some(Err(Gap { expected: integer(expected)? })),
        [new, first_seq, last_n, last_seq] => Some(Ok(Stored {
            new: usize::try_from(integer(new)?).ok()?,
            first_seq: integer(first_seq).and_then(Seq::new),
            last_n: integer(last_n)?,
            last_seq: Seq::new(integer(last_seq)?)?,
        })),
        _ => None,
    }
}
