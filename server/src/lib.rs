//! The relay: [`run`] puts the parts together.
//!
//! Dependencies point one way: `transport → session → hub → room → store`, with the protocol under all.

pub mod access;
pub mod config;
pub mod hub;
mod lock;
pub mod random;
pub mod rest;
pub mod room;
pub mod session;
pub mod store;
pub mod transport;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use config::{Config, to_usize};
use hub::{Hub, HubLimits};
use room::{Node, RoomLimits};
use session::Relay;
use store::{Store, StoreError};

/// Rates of clients that have gone are forgotten this often.
const FORGET_INTERVAL: Duration = Duration::from_secs(60);

/// Serves on the listener until `shutdown` is ready, then drains: no new rooms, everyone is told to come back
/// elsewhere, what was begun is finished and acked, and all of it within the drain time.
///
/// # Errors
/// When the store does not tell the secret that signs tickets.
pub async fn run(
    config: Config,
    store: Arc<dyn Store>,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), StoreError> {
    let config = config.effective();
    let limits = &config.limits;
    let room_limits = RoomLimits {
        tail_bytes: limits.tail_bytes(),
        room_bytes: limits.max_room,
        sessions: limits.max_sessions,
        flush_time: Duration::from_millis(config.times.flush_ms.into()),
        idle_time: config.times.idle_time,
    };
    let hub_limits = HubLimits {
        rooms: limits.max_rooms,
        room_idle: config.times.room_idle,
        tail_bytes: to_usize(limits.memory_budget),
    };
    let node = Node {
        id: random::u64(),
        store: Arc::clone(&store),
        limits: room_limits,
        tail_bytes: AtomicUsize::new(0),
    };
    let hub = Hub::new(Arc::new(node), hub_limits);
    let secret = match &config.secret {
        Some(secret) => secret.clone().into_bytes(),
        None => store.secret().await?.to_vec(),
    };
    let (drain, draining) = watch::channel(false);
    let relay = Arc::new(Relay::new(config, Arc::clone(&hub), &secret, draining));

    let care = tokio::spawn(Arc::clone(&hub).look_after());
    let forget = tokio::spawn({
        let relay = Arc::clone(&relay);
        async move {
            loop {
                tokio::time::sleep(FORGET_INTERVAL).await;
                relay.forget_old_rates();
            }
        }
    });
    let server = transport::serve(Arc::clone(&relay), listener);
    shutdown.await;
    relay.leave();
    let delay = relay.config.times.drain_delay;
    if !delay.is_zero() {
        tracing::info!(?delay, "told to stop: no longer ready, and serving on for load balancers to notice");
        tokio::time::sleep(delay).await;
    }
    tracing::info!("stopping: no new rooms, and everyone is asked to come back later");
    hub.drain();
    drain.send_replace(true);
    if !server.finish(relay.config.times.drain_time).await {
        tracing::warn!("some connections were cut, since they did not end within the drain time");
    }
    care.abort();
    forget.abort();
    store.close().await;
    Ok(())
}
