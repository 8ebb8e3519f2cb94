//! The beat: how often readers are told of records.
//!
//! What comes when it was quiet is told at once. While a room is busy, records are told together, one flush time after
//! the first of them: one write for each reader instead of many.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::{Room, RoomLimits, STRETCH};
use crate::lock::lock;

/// A room is quiet when nothing came for so many flush times. With one drawer and a display of 60 Hz it is.
const QUIET: u32 = 2;

/// When records came, and what waits.
#[derive(Default)]
pub(super) struct Beat {
    state: Mutex<State>,
    /// Whether readers are told when the flush time is over.
    is_scheduled: AtomicBool,
    /// Whether somebody is about to tell them: the one append that is in flight.
    is_promised: AtomicBool,
}

#[derive(Default)]
struct State {
    came_at: Option<Instant>,
    waiting_bytes: usize,
    /// When the first of what waits came.
    waiting_since: Option<Instant>,
}

impl Room {
    /// Whether readers are told of records within the flush time, so that other news for them can go along.
    pub fn is_beat_due(&self) -> bool {
        self.beat.is_scheduled.load(Ordering::Acquire) || self.beat.is_promised.load(Ordering::Acquire)
    }

    /// Has what is for readers alone wait for [`Room::keep_promise`], which is to come in a moment.
    pub(super) fn promise_beat(&self) {
        self.beat.is_promised.store(true, Ordering::Release);
    }

    /// The tail has that many bytes of new records, as was promised; their append began then.
    pub(super) fn keep_promise(self: &Arc<Self>, bytes: usize, came_at: Instant) {
        self.beat.is_promised.store(false, Ordering::Release);
        self.records_came(bytes, came_at);
    }

    /// The tail has that many bytes of new records, which came then.
    pub(super) fn records_came(self: &Arc<Self>, bytes: usize, came_at: Instant) {
        let RoomLimits { flush_time, tail_bytes, .. } = self.node.limits.get();
        let now = Instant::now();
        {
            let mut state = lock(&self.beat.state);
            let earlier = state.came_at.replace(now);
            state.waiting_bytes += bytes;
            state.waiting_since.get_or_insert(came_at);
            let is_quiet = earlier.is_none_or(|at| now.duration_since(at) >= QUIET * flush_time);
            // What waits has to be in the tail still when it is told.
            let most = STRETCH.bytes.min(tail_bytes / 2);
            let may_wait = !flush_time.is_zero() && state.waiting_bytes < most;
            if may_wait && self.beat.is_scheduled.load(Ordering::Acquire) {
                return;
            }
            if may_wait && !is_quiet {
                self.beat.is_scheduled.store(true, Ordering::Release);
                let room = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::time::sleep_until((now + flush_time).into()).await;
                    room.beat.is_scheduled.store(false, Ordering::Release);
                    room.show_records();
                });
                return;
            }
        }
        self.show_records();
    }

    /// Tells readers of all that the tail has.
    pub(super) fn show_records(self: &Arc<Self>) {
        let since = {
            let mut state = lock(&self.beat.state);
            state.waiting_bytes = 0;
            state.waiting_since.take()
        };
        self.tell_rows(since);
        self.changed.send_replace(since);
    }
}
