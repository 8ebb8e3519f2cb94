//! What the program and its connection share, behind short locks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use inkrelay_protocol::Profile;
use tokio::sync::{Notify, watch};

use crate::event::Stopped;
use crate::outbox::{DrawId, Outbox};

/// What the program's side sees of the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Status {
    pub(crate) settled: DrawId,
    pub(crate) stopped: Option<Stopped>,
}

/// What is sent beside draws: the newest of each is all that counts.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    pub(crate) pointer: Option<(i32, i32)>,
    pub(crate) new_profile: bool,
    pub(crate) profile: Option<Profile>,
    pub(crate) new_token: bool,
    pub(crate) token: Option<String>,
    pub(crate) ticket: Option<String>,
}

/// What the program and its connection share, behind short locks.
#[derive(Debug)]
pub(crate) struct Shared {
    outbox: Mutex<Outbox>,
    extras: Mutex<Extras>,
    /// There is something to send. One task waits on it.
    pub(crate) wake: Notify,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) closing: watch::Sender<bool>,
}

impl Shared {
    pub(crate) fn new(outbox: Outbox, extras: Extras) -> Self {
        Self {
            outbox: Mutex::new(outbox),
            extras: Mutex::new(extras),
            wake: Notify::new(),
            status: watch::Sender::default(),
            closing: watch::Sender::default(),
        }
    }

    pub(crate) fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn extras(&self) -> MutexGuard<'_, Extras> {
        self.extras.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the program closes the client.
    pub(crate) async fn closed(&self) {
        // The sender lives in `self`, so the wait ends only by what it waits for.
        let _ = self.closing.subscribe().wait_for(|closing| *closing).await;
    }
}
