//! The relay: [`run`] puts the parts together.
//!
//! Dependencies point one way: `operators → transport → session → hub → room → store`, with the protocol under all.

pub mod access;
mod clock;
pub mod config;
pub mod export;
pub mod files;
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
use tokio::sync::{mpsc, watch};

use access::Tokens;
use config::{Config, to_usize};
use files::{FileError, Files};
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
    /// A file that a setting names is not taken.
    #[error(transparent)]
    File(#[from] FileError),
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
    let files = Files::read(&config)?;
    let ready = Ready::new(config.clone(), store, files.tokens).await?;
    let (_, configs) = watch::channel(Arc::new(config));
    let (stop, stops) = mpsc::channel(1);
    let told = async {
        shutdown.await;
        // What is told once is told; nobody else listens.
        let _ = stop.send(()).await;
        std::future::pending().await
    };
    tokio::select! {
        () = ready.serve(configs, listener, operators, stops) => {}
        () = told => {}
    }
    Ok(())
}

/// A relay that is ready to serve: what can fail has not.
pub struct Ready {
    store: Arc<dyn Store>,
    hub: Arc<Hub>,
    relay: Arc<Relay>,
    tokens: Option<Arc<Tokens>>,
    drain: watch::Sender<bool>,
}

impl Ready {
    /// Puts the parts together.
    ///
    /// # Errors
    /// When the store does not tell the secret that signs tickets.
    pub async fn new(
        config: Config,
        store: Arc<dyn Store>,
        tokens: Option<Arc<Tokens>>,
    ) -> Result<Self, StoreError> {
        let config = config.effective();
        let node = Node::new(Arc::clone(&store), room_limits(&config));
        let hub = Hub::new(Arc::new(node), hub_limits(&config));
        let secret = match &config.secret {
            Some(secret) => secret.clone().into_bytes(),
            None => store.secret().await?.to_vec(),
        };
        let (drain, draining) = watch::channel(false);
        let relay = Arc::new(Relay::new(config, Arc::clone(&hub), &secret, tokens.clone(), draining));
        Ok(Self { store, hub, relay, tokens, drain })
    }

    /// Serves until it is told to stop, as [`run`] does. Told so again, it waits no longer for load balancers to hear of
    /// it. Settings that are sent take effect, as far as [`config::reload::RELOADABLE`] has it.
    pub async fn serve(
        self,
        mut configs: watch::Receiver<Arc<Config>>,
        listener: impl Into<Listener>,
        operators: Option<TcpListener>,
        mut stops: mpsc::Receiver<()>,
    ) {
        let Self { store, hub, relay, tokens, drain } = self;
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
        let operators =
            operators.map(|listener| tokio::spawn(operators::serve(Arc::clone(&relay), listener)));
        stops.recv().await;
        relay.leave();
        let delay = relay.config().times.drain_delay;
        if !delay.is_zero() {
            tracing::info!(
                ?delay,
                "told to stop: no longer ready, and serving on for load balancers to notice"
            );
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                Some(()) = stops.recv() => tracing::info!("told to stop again: the rest of that time is let go"),
            }
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
    }
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
