//! The secret that signs tickets: kept in Redis, so that all servers have the same, and put back when Redis lost it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::Value;
use tokio::time::sleep;

use super::call::Call;
use super::link::{Link, Repeat};
use super::unexpected;
use crate::store::StoreError;

const KEY: &str = "inkrelay:secret";
/// A Redis that lost its data has the secret back after this time, before a server that starts makes another.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Keeps that secret, unless there is one, and returns the one that is kept.
pub(super) async fn keep(link: &Link, own: &[u8; 32]) -> Result<[u8; 32], StoreError> {
    let key = KEY.as_bytes();
    link.run(&Call::Command { name: "SET", args: &[key, own, b"NX"] }, Repeat::Safe).await?;
    match link.run(&Call::Command { name: "GET", args: &[key] }, Repeat::Safe).await? {
        Value::BulkString(kept) => {
            kept.try_into().map_err(|_| StoreError::Unavailable(format!("{KEY} does not hold 32 bytes")))
        }
        _ => Err(unexpected()),
    }
}

/// Puts the secret back when it is gone, and says so when another has taken its place: then this server and
/// another do not know each other's tickets.
pub(super) async fn guard(link: Arc<Link>, secret: Arc<OnceLock<[u8; 32]>>) {
    let mut differed = false;
    loop {
        sleep(LOOK_EVERY).await;
        let Some(own) = secret.get() else { continue };
        match keep(&link, own).await {
            Ok(kept) => {
                let differs = kept != *own;
                if differs && !differed {
                    tracing::error!(
                        "{KEY} in Redis is another than this server signs tickets with: servers refuse each other's \
                         tickets until this one is started again"
                    );
                }
                differed = differs;
            }
            Err(error) => tracing::debug!(%error, "could not look after the secret"),
        }
    }
}
