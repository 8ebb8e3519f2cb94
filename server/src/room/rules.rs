//! The rules of a live room: what moderators laid down, held to here within seconds wherever it was laid down.
//!
//! The store has them; a message between servers is only the hint to read them again, and the hub's watchdog does so
//! where the hint was lost. Kicks travel with them, as a count.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inkrelay_protocol::ClientId;
use tokio::sync::watch;

use super::append::in_time;
use super::gossip::Gossip;
use super::presence::POLL_PRESENCE;
use super::{Room, StoreError};
use crate::clock;
use crate::lock::lock;
use crate::store::Rules;
use crate::store::rules::{RuleChange, TooManyBans};

/// Rules that were read longer ago are read again before somebody enters a room that nobody reads here: of those that
/// are read the watchdog takes care.
const TRUSTED: Duration = Duration::from_secs(4);
/// So long that may take. Then the old rules hold, as they do while the store is away.
const RENEWAL_TIME: Duration = Duration::from_secs(1);
/// How often a change is tried while others change the same rules.
const TRIES: u32 = 32;

/// Why a session ends though its client does not want it to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A moderator ended it. Its client may come back.
    Kicked,
    /// A moderator keeps its client, or its token's subject, out.
    Banned,
    /// An operator ended all of the room's sessions on this server. Everyone may come back.
    Closed,
}

/// Why rules were not changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotChanged {
    /// As many are banned as may be.
    #[error(transparent)]
    TooManyBans(#[from] TooManyBans),
    /// The store did not answer: they may or may not be changed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// See the module's documentation.
pub(super) struct RoomRules {
    current: watch::Sender<Arc<Rules>>,
    /// The same as in `current`, for the way of every draw.
    is_locked: AtomicBool,
    /// Held by whoever reads or changes the store's, also while the store is asked: what is read later is taken later.
    /// Whoever waits for it gives up when its own time is over, and so does whoever holds it.
    alone: tokio::sync::Mutex<()>,
    read_at: Mutex<Option<Instant>>,
    /// Whether a task is about to read them.
    is_scheduled: AtomicBool,
    /// Clients that were kicked and have not been told, since nothing of theirs waited here just then; until when their
    /// next call is to be. No more than have polled here lately.
    untold: Mutex<HashMap<ClientId, Instant>>,
    /// How often an operator closed the room here.
    closings: watch::Sender<u64>,
}

impl Default for RoomRules {
    fn default() -> Self {
        Self {
            current: watch::Sender::default(),
            is_locked: AtomicBool::new(false),
            alone: tokio::sync::Mutex::default(),
            read_at: Mutex::default(),
            is_scheduled: AtomicBool::new(false),
            untold: Mutex::default(),
            closings: watch::Sender::default(),
        }
    }
}

/// Somebody's leave to stay in a room, until a moderator ends it.
#[derive(Debug)]
pub struct Stay {
    rules: watch::Receiver<Arc<Rules>>,
    client: ClientId,
    subject: Option<Arc<str>>,
    /// The kicks that came before.
    kicks: u64,
    /// Another value is one more than was when the session began.
    closings: watch::Receiver<u64>,
}

impl Stay {
    /// Ready when the session is to end.
    pub async fn ended(&self) -> Ending {
        let (mut rules, mut closings) = (self.rules.clone(), self.closings.clone());
        loop {
            if let Some(ending) = self.ending(&rules.borrow_and_update()) {
                return ending;
            }
            let is_gone = tokio::select! {
                changed = rules.changed() => changed.is_err(),
                changed = closings.changed() => changed.is_err(),
            };
            if is_gone {
                // The room is gone, which whoever stays in it holds: nobody is left to ask.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether it is to end already.
    pub fn has_ended(&self) -> bool {
        self.ending(&self.rules.borrow()).is_some()
    }

    fn ending(&self, rules: &Rules) -> Option<Ending> {
        if self.closings.has_changed().unwrap_or(false) {
            return Some(Ending::Closed);
        }
        if rules.ban(self.client, self.subject.as_deref()) {
            return Some(Ending::Banned);
        }
        let is_kicked = !self.client.is_anonymous()
            && rules.kicks() != self.kicks
            && rules.kicked_since(self.kicks).any(|kicked| kicked == self.client);
        is_kicked.then_some(Ending::Kicked)
    }
}

impl Room {
    /// What moderators laid down, as it is known here.
    pub fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.current.borrow())
    }

    /// Whether only moderators draw.
    pub fn is_locked(&self) -> bool {
        self.rules.is_locked.load(Ordering::Relaxed)
    }

    /// Lets somebody stay, with a ticket or as the anonymous client, and with the subject of a token if there is one.
    ///
    /// # Errors
    /// When that client or subject is banned.
    pub fn stay(&self, client: ClientId, subject: Option<Arc<str>>) -> Result<Stay, Ending> {
        let rules = self.rules.current.subscribe();
        let kicks = rules.borrow().kicks();
        let closings = self.rules.closings.subscribe();
        let stay = Stay { rules, client, subject, kicks, closings };
        let ending = stay.ending(&stay.rules.borrow());
        ending.map_or(Ok(stay), Err)
    }

    /// Ends all sessions that the room has on this server. Everyone may come back.
    pub fn close_sessions(&self) {
        self.rules.closings.send_modify(|closings| *closings += 1);
    }

    /// Whether a client that calls over HTTP was kicked since its last call, and is not told yet. Asked once, it is told.
    pub fn was_kicked(&self, client: ClientId) -> bool {
        let mut untold = lock(&self.rules.untold);
        !untold.is_empty() && untold.remove(&client).is_some_and(|until| until > Instant::now())
    }

    /// Makes one change of the rules, here and for all servers, in the time in which everything is answered. Returns them
    /// as they are then.
    ///
    /// # Errors
    /// Why they are not, or may not be, changed.
    pub async fn change_rules(self: &Arc<Self>, change: &RuleChange) -> Result<Arc<Rules>, NotChanged> {
        let changed = in_time(self.change_alone(change)).await;
        if matches!(changed, Err(NotChanged::Store(_))) {
            // They may be changed all the same.
            self.request_rules();
        }
        changed
    }

    async fn change_alone(&self, change: &RuleChange) -> Result<Arc<Rules>, NotChanged> {
        let _alone = self.rules.alone.lock().await;
        for _ in 0..TRIES {
            let expected = self.node.store.rules(&self.id).await?;
            let mut rules = expected.clone();
            rules.change(change)?;
            if rules != expected {
                rules.date(clock::unix_ms());
            }
            if rules == expected || self.node.store.set_rules(&self.id, &expected, &rules).await? {
                self.take_rules(rules);
                self.tell(&Gossip::RulesChanged);
                return Ok(self.rules());
            }
        }
        Err(StoreError::Unavailable("others change the rules all the time".to_owned()).into())
    }

    /// Reads the rules from the store, in the time in which everything is answered.
    ///
    /// # Errors
    /// When it does not answer. What was known holds until then.
    pub async fn read_rules(&self) -> Result<(), StoreError> {
        in_time(async {
            let _alone = self.rules.alone.lock().await;
            self.read_alone().await
        })
        .await
    }

    async fn read_alone(&self) -> Result<(), StoreError> {
        let rules = self.node.store.rules(&self.id).await?;
        self.take_rules(rules);
        Ok(())
    }

    /// Reads the rules again when it was long ago, for somebody who enters.
    pub(super) async fn renew_rules(&self) {
        let is_old = || lock(&self.rules.read_at).is_none_or(|at| at.elapsed() >= TRUSTED);
        if !self.node.store.is_shared() || self.has_readers() || !is_old() {
            return;
        }
        let renewed = async {
            let _alone = self.rules.alone.lock().await;
            // One reads for all who come at the same time.
            if is_old() { self.read_alone().await } else { Ok(()) }
        };
        if let Ok(Err(error)) = tokio::time::timeout(RENEWAL_TIME, renewed).await {
            tracing::warn!(room = %self.id, %error, "the rules may be old");
        }
    }

    /// Has the rules read again, soon and in the background.
    pub(super) fn request_rules(self: &Arc<Self>) {
        if self.loaded.initialized() && !self.rules.is_scheduled.swap(true, Ordering::AcqRel) {
            let room = Arc::clone(self);
            tokio::spawn(async move {
                // From here on a change may come after the read began, and needs another task.
                room.rules.is_scheduled.store(false, Ordering::Release);
                if let Err(error) = room.read_rules().await {
                    tracing::warn!(room = %room.id, %error, "could not read the rules; the watchdog tries again");
                }
            });
        }
    }

    fn take_rules(&self, rules: Rules) {
        let is_first = lock(&self.rules.read_at).replace(Instant::now()).is_none();
        let before = self.rules();
        if *before == rules {
            return;
        }
        if !is_first {
            // Whoever polls between two calls has nothing here that could end: the next call is told.
            let now = Instant::now();
            let mut untold = lock(&self.rules.untold);
            untold.retain(|_, until| *until > now);
            for client in rules.kicked_since(before.kicks()) {
                if self.dismiss(client) {
                    untold.insert(client, now + POLL_PRESENCE);
                }
            }
            for client in rules.banned_clients.difference(&before.banned_clients) {
                self.dismiss(*client);
            }
        }
        let was_locked = self.rules.is_locked.swap(rules.is_locked, Ordering::Relaxed);
        let is_news = was_locked != rules.is_locked;
        self.rules.current.send_replace(Arc::new(rules));
        if is_news {
            self.show_news();
        }
    }
}
