//! What the tests share: a relay in this process, a WebSocket client that shows every frame, a Redis of the
//! test's own, and a proxy that misbehaves.

pub mod http;
pub mod program;
pub mod proxy;
pub mod redis;
pub mod relay;
pub mod slow_store;
pub mod socket;

use std::time::Duration;

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until the condition holds.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds().await {
        assert!(tokio::time::Instant::now() < until, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
