//! A grant: what somebody may do in one room, and for how long.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use inkrelay_protocol::Role;
use tokio::time::sleep;

/// The wall clock may be set while a grant waits for its end: it is looked at this often at least.
const CLOCK_LOOK: Duration = Duration::from_secs(30);

/// What whoever was admitted to a room may do there. Made by [`crate::session::Relay::admit`] alone.
#[derive(Clone, Debug)]
pub struct Grant {
    /// What it may do.
    pub role: Role,
    /// Whoever the token was made out to.
    pub subject: Option<Arc<str>>,
    /// The token's own name, by which it can be revoked.
    pub token_id: Option<Arc<str>>,
    /// The name that its participant goes by.
    pub name: Option<Arc<str>>,
    /// When it ends.
    pub expires: Option<SystemTime>,
}

impl Grant {
    /// For everyone, where no tokens are asked for: it never ends.
    pub(crate) const fn open(role: Role) -> Self {
        Self { role, subject: None, token_id: None, name: None, expires: None }
    }

    /// Whether it can end at all.
    pub const fn can_end(&self) -> bool {
        self.expires.is_some()
    }

    /// Whether it is over.
    pub fn has_ended(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// Ready when it is over. Never, for one that cannot end.
    pub async fn ended(&self) {
        while let Some(left) = self.left() {
            if left.is_zero() {
                return;
            }
            sleep(left.min(CLOCK_LOOK)).await;
        }
        std::future::pending().await
    }

    fn left(&self) -> Option<Duration> {
        self.expires.map(|expires| expires.duration_since(SystemTime::now()).unwrap_or_default())
    }
}
