//! Retention: rooms in which nobody has drawn for long are deleted, and their rules with them.
//!
//! A walk through all rooms of the store, a page at a time, that begins anew when it is through. A room that is in
//! memory of any server, because somebody reads it, is present or draws, stays; so does one that does not say when its
//! last draw was stored. In a room that was only ruled the last change of its rules is what counts. Servers on one store all walk: each deletion is one step of the store, which looks at the
//! last draw again.

use std::sync::Arc;
use std::time::Duration;

use inkrelay_protocol::RoomId;

use crate::clock;
use crate::hub::Hub;
use crate::random;
use crate::store::StoreError;

/// Rooms that one step looks at.
const STEP_ROOMS: usize = 256;
/// Rooms that one step deletes at most.
const STEP_DELETIONS: usize = 32;
/// How long after a step the next one begins.
const STEP_EVERY: Duration = Duration::from_secs(1);
/// How long after a step that failed the next begins.
const RETRY: Duration = Duration::from_secs(10);
/// Between two walks there is this share of the time for which rooms are kept, but no more than [`LONGEST_REST`].
const REST_SHARE: u32 = 10;
const LONGEST_REST: Duration = Duration::from_secs(600);

/// See the module's documentation.
pub struct Retention {
    hub: Arc<Hub>,
    keep: Duration,
    /// Where the walk is.
    after: Option<RoomId>,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Rooms that it deleted.
    pub deleted: usize,
    /// Whether the walk is through.
    pub is_last: bool,
}

impl Retention {
    /// Keeps rooms for that time after their last draw.
    pub const fn new(hub: Arc<Hub>, keep: Duration) -> Self {
        Self { hub, keep, after: None }
    }

    /// Looks at the next rooms, as of that time in milliseconds since 1970.
    ///
    /// # Errors
    /// When the store does not answer. The next step looks at the same rooms.
    pub async fn step(&mut self, now: u64) -> Result<Step, StoreError> {
        let keep = u64::try_from(self.keep.as_millis()).unwrap_or(u64::MAX);
        let before = now.saturating_sub(keep);
        let rooms = self.hub.store().rooms(self.after.as_ref(), STEP_ROOMS).await?;
        let mut step = Step { deleted: 0, is_last: rooms.is_empty() };
        for found in rooms {
            if step.deleted >= STEP_DELETIONS {
                return Ok(step);
            }
            if found.last_at < before && self.hub.delete_idle(&found.room, before).await? {
                tracing::info!(room = %found.room, last_at = found.last_at, "deleted: nobody drew or ruled for long");
                step.deleted += 1;
            }
            self.after = Some(found.room);
        }
        if step.is_last {
            self.after = None;
        }
        Ok(step)
    }

    /// Walks on without end.
    pub async fn run(mut self) {
        // Servers that start together do not walk in step.
        tokio::time::sleep(Duration::from_millis(random::u64() % 1000)).await;
        loop {
            let rest = match self.step(clock::unix_ms()).await {
                Ok(Step { is_last: true, .. }) => (self.keep / REST_SHARE).clamp(STEP_EVERY, LONGEST_REST),
                Ok(_) => STEP_EVERY,
                Err(error) => {
                    tracing::warn!(%error, "could not look for rooms to delete");
                    RETRY
                }
            };
            tokio::time::sleep(rest).await;
        }
    }
}
