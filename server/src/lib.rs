//! The relay: [`run`] puts the parts together.
//!
//! Dependencies point one way: `operators → transport → session → hub → room → store`, with the protocol under all.

pub mod access;
mod clock;
pub mod config;
pub mod export;
pub mod hub;
mod live;
mod lock;
pub mod metrics;
pub mod operators;
pub mod random;
pub mod rest;
pub mod retention;
pub mod room;
pub mod session;
pub mod store;
pub mod token;
pub mod transport;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use access::{KeyError, Tokens};
use config::{Config, to_usize};
use hub::{Hub, HubLimits};
use retention::Retention;
use room::{Node, RoomLimits};
use session::Relay;
use store::{Store, StoreError};
use transport::Listener;

/// Rates of clients that have gone are forgotten this often.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// Why a relay does not come up.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store does not tell the secret that signs tickets.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of keys or of revoked tokens is not taken.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

/// Serves on the listener, and operators on theirs, until `shutdown` is ready, then drains: no new rooms, everyone is told to come back
/// elsewhere, what was begun is finished and acked, and all of it within the drain time.
///
/// # Errors
/// When the store does not tell the secret that signs tickets, or a file of keys is not taken.
pub async fn run(
    config: Config,
    store: Arc<dyn Store>,
    listener: impl Into<Listener>,
    operators: Option<TcpListener>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let (_, configs) = watch::channel(Arc::new(config));
    run_with_reloads(configs, store, listener, operators, shutdown).await
}

/// As [`run`], with settings that change: whatever is sent takes effect, as far as [`config::reload::RELOADABLE`] has it.
///
/// # Errors
/// As [`run`].
pub async fn run_with_reloads(
    mut configs: watch::Receiver<Arc<Config>>,
    store: Arc<dyn Store>,
    listener: impl Into<Listener>,
    operators: Option<TcpListener>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let config = Config::clone(&configs.borrow_and_update()).effective();
    let node = Node::new(Arc::clone(&store), room_limits(&config));
    let hub = Hub::new(Arc::new(node), hub_limits(&config));
    let secret = match &config.secret {
        Some(secret) => secret.clone().into_bytes(),
        None => store.secret().await?.to_vec(),
    };
    let tokens = Tokens::open(config.tokens())?.map(Arc::new);
    let (drain, draining) = watch::channel(false);
    let relay = Arc::new(Relay::new(config, Arc::clone(&hub), &secret, tokens.clone(), draining));
    if let Some(tokens) = tokens.clone() {
        relay.on_reload(
            "the keys of tokens",
            Box::new(move |_| tokens.reload().map(drop).map_err(|why| why.to_string())),
        );
    }
    let revoked = tokens.map(|tokens| tokio::spawn(async move { tokens.follow_revoked().await }));

    let care = tokio::spawn(Arc::clone(&hub).look_after());
    let room_ttl = relay.config().times.room_ttl;
    let retention = (!room_ttl.is_zero())
        .then(|| tokio::spawn(Retention::new(Arc::clone(&hub), room_ttl).run()).abort_handle());
    let forget = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move {
            loop {
                tokio::time::sleep(FORGET_INTERVAL).await;
                relay.forget_old_rates();
            }
        }
    });
    let reload = tokio::spawn({
        let (relay, hub) = (Arc::clone(&relay), Arc::clone(&hub));
        async move {
            while configs.changed().await.is_ok() {
                let config = Config::clone(&configs.borrow_and_update()).effective();
                hub.hold_to(hub_limits(&config), room_limits(&config));
                relay.reload(config);
            }
        }
    });
    let server = transport::serve(Arc::clone(&relay), listener.into());
    // To the very end: how a server drains is what operators want to see.
    let operators = operators.map(|listener| tokio::spawn(operators::serve(Arc::clone(&relay), listener)));
    shutdown.await;
    relay.leave();
    let delay = relay.config().times.drain_delay;
    if !delay.is_zero() {
        tracing::info!(?delay, "told to stop: no longer ready, and serving on for load balancers to notice");
        tokio::time::sleep(delay).await;
    }
    tracing::info!("stopping: no new rooms, and everyone is asked to come back later");
    hub.drain();
    drain.send_replace(true);
    if !server.finish(relay.config().times.drain_time).await {
        tracing::warn!("some connections were cut, since they did not end within the drain time");
    }
    care.abort();
    forget.abort();
    revoked.iter().for_each(tokio::task::JoinHandle::abort);
    if let Some(retention) = retention {
        retention.abort();
    }
    operators.inspect(tokio::task::JoinHandle::abort);
    reload.abort();
    store.close().await;
    Ok(())
}

fn room_limits(config: &Config) -> RoomLimits {
    RoomLimits {
        tail_bytes: config.limits.tail_bytes(),
        room_bytes: config.limits.max_room,
        sessions: config.limits.max_sessions,
        flush_time: Duration::from_millis(config.times.flush_ms.into()),
        idle_time: config.times.idle_time,
    }
}

fn hub_limits(config: &Config) -> HubLimits {
    HubLimits {
        rooms: config.limits.max_rooms,
        room_idle: config.times.room_idle,
        tail_bytes: to_usize(config.limits.memory_budget),
    }
}
