//! What the tests share: a relay in this process, a WebSocket client that shows every frame, a Redis and a proxy
//! of a test's own, an authority with its certificates, and the ledger that says whether anything was lost.

pub mod caddy;
pub mod certificates;
pub mod http;
pub mod ledger;
pub mod nginx;
pub mod process;
pub mod program;
pub mod proxy;
pub mod reader;
pub mod redis;
pub mod relay;
pub mod requests;
pub mod slow_store;
pub mod socket;
pub mod watched;
pub mod writer;

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
