//! The connection for commands: one, shared by all rooms, replaced when it fails, with bounded answers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ErrorKind, PushInfo, PushKind, ServerErrorKind, Value};
use tokio::time::{Instant, sleep, timeout_at};

use super::backoff::Backoff;
use super::call::Call;
use crate::store::StoreError;

/// A connection, its handshake included, is made within this.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long one try of a call that may be repeated waits: a link that died in silence has to be noticed and
/// replaced within the deadline of the call.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Answers that fail to come in a row until the link counts as dead. A timeout alone is no proof: redis-rs
/// keeps such a connection for ever, and Redis may merely be busy.
const STRIKES: u32 = 2;
/// Waits between tries.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// All who wait for a connection share the news that it failed for so long, instead of each trying in turn.
const FAILURE_SHARED: Duration = Duration::from_millis(20);
/// Commands that wait to be written; then callers wait.
const PIPELINE_COMMANDS: usize = 1024;

/// Whether a call may be sent again when nobody knows what became of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeat {
    /// It has the same effect twice as once.
    Safe,
    /// A second time could do it twice.
    Never,
}

/// How a try failed, by what the caller may do about it.
enum Failure {
    /// It certainly had no effect, and may go better in a moment.
    NotApplied(String),
    /// It may have had its effect.
    Unknown(String),
    /// It had no effect, for lack of memory.
    Full(String),
    /// It had no effect, and will not have one however often it is tried.
    Refused(String),
}

/// See the module's documentation.
pub(super) struct Link {
    client: Client,
    answer_within: Duration,
    live: Mutex<Option<Live>>,
    /// Connections that were made.
    connects: AtomicU64,
    /// Held while connecting, so that one does it for all; with the last failure.
    connecting: tokio::sync::Mutex<Option<(Instant, String)>>,
}

#[derive(Clone)]
struct Live {
    connection: MultiplexedConnection,
    health: Arc<Health>,
}

#[derive(Default)]
struct Health {
    closed: AtomicBool,
    strikes: AtomicU32,
}

impl Link {
    pub(super) fn new(client: Client, answer_within: Duration) -> Self {
        let (live, connects, connecting) = Default::default();
        Self { client, answer_within, live, connects, connecting }
    }

    /// Sends a call until it is answered or its time is over, as far as it may be repeated.
    pub(super) async fn run(&self, call: &Call<'_>, repeat: Repeat) -> Result<Value, StoreError> {
        let until = Instant::now() + self.answer_within;
        let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT);
        loop {
            let why = match self.attempt(call, repeat, until).await {
                Ok(value) => return Ok(value),
                Err(Failure::Full(why)) => return Err(StoreError::Full(why)),
                Err(Failure::Refused(why)) => return Err(StoreError::Unavailable(why)),
                Err(Failure::Unknown(why)) if repeat == Repeat::Never => {
                    return Err(StoreError::Unavailable(why));
                }
                Err(Failure::Unknown(why) | Failure::NotApplied(why)) => why,
            };
            let again = Instant::now() + backoff.wait();
            if again >= until {
                return Err(StoreError::Unavailable(why));
            }
            tracing::debug!(why, "Redis is asked again");
            sleep(again - Instant::now()).await;
        }
    }

    async fn attempt(&self, call: &Call<'_>, repeat: Repeat, until: Instant) -> Result<Value, Failure> {
        let mut live = match timeout_at(until, self.live()).await {
            Ok(live) => live.map_err(Failure::NotApplied)?,
            Err(_) => return Err(Failure::NotApplied("no connection in time".to_owned())),
        };
        let patience = match repeat {
            Repeat::Safe => until.min(Instant::now() + ATTEMPT_TIMEOUT),
            Repeat::Never => until,
        };
        match timeout_at(patience, call.send(&mut live.connection)).await {
            Ok(Ok(value)) => {
                live.health.strikes.store(0, Ordering::Relaxed);
                Ok(value)
            }
            Ok(Err(error)) => {
                let failure = classify(&error);
                if !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension)
                    || error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
                {
                    // A server that became a replica may have a new primary behind the same name.
                    self.discard(&live);
                }
                Err(failure)
            }
            Err(_) => {
                if live.health.strikes.fetch_add(1, Ordering::Relaxed) + 1 >= STRIKES {
                    self.discard(&live);
                }
                Err(Failure::Unknown("no answer in time".to_owned()))
            }
        }
    }

    /// The connection, made when there is none.
    async fn live(&self) -> Result<Live, String> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let mut failed = self.connecting.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        if let Some((at, why)) = failed.as_ref()
            && at.elapsed() < FAILURE_SHARED
        {
            return Err(why.clone());
        }
        let health = Arc::new(Health::default());
        let noticed = Arc::clone(&health);
        // A server that closes an idle connection is noticed here, before anyone sends into it.
        let notice = move |push: PushInfo| -> Result<(), redis::aio::SendError> {
            if push.kind == PushKind::Disconnection {
                noticed.closed.store(true, Ordering::Release);
            }
            Ok(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(self.answer_within))
            .set_pipeline_buffer_size(PIPELINE_COMMANDS)
            .set_push_sender(notice);
        match self.client.get_multiplexed_async_connection_with_config(&config).await {
            Ok(connection) => {
                *failed = None;
                self.connects.fetch_add(1, Ordering::Relaxed);
                let live = Live { connection, health };
                *self.lock() = Some(live.clone());
                Ok(live)
            }
            Err(error) => {
                let why = format!("no connection to Redis: {error}");
                *failed = Some((Instant::now(), why.clone()));
                Err(why)
            }
        }
    }

    /// How many connections were made.
    pub(super) fn connects(&self) -> u64 {
        self.connects.load(Ordering::Relaxed)
    }

    /// The connection, when it is one that nothing is known against.
    fn current(&self) -> Option<Live> {
        let mut live = self.lock();
        if live.as_ref().is_some_and(|live| live.health.closed.load(Ordering::Acquire)) {
            *live = None;
        }
        live.clone()
    }

    fn discard(&self, dead: &Live) {
        let mut live = self.lock();
        if live.as_ref().is_some_and(|live| Arc::ptr_eq(&live.health, &dead.health)) {
            *live = None;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, for something that is sent once and not worth an error.
    pub(super) async fn connection(&self) -> Option<MultiplexedConnection> {
        self.live().await.ok().map(|live| live.connection)
    }
}

fn classify(error: &redis::RedisError) -> Failure {
    let why = error.to_string();
    // All of these are said before a command, or the first write of a script, takes effect.
    match error.code() {
        Some("OOM") => Failure::Full(why),
        Some(
            "READONLY" | "LOADING" | "MASTERDOWN" | "BUSY" | "NOREPLICAS" | "MISCONF" | "TRYAGAIN"
            | "CLUSTERDOWN",
        ) => Failure::NotApplied(why),
        Some(_) => Failure::Refused(why),
        None => Failure::Unknown(why),
    }
}
