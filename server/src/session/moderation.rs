//! What moderators and operators do in a room: one way for all of them.
//!
//! What changes the board is appended as records of author 0, with numbers of the server's own, as anonymous draws have:
//! clients of any version show it, and a moderator undoes it by revoking these records.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use inkrelay_protocol::{ClientId, Draw, ErrorCode, Identity, Record, Role, RoomId};
use tokio::sync::watch;

use super::{Refused, Relay};
use crate::lock::lock;
use crate::room::erasing::Strokes;
use crate::room::{LogError, Room};
use crate::store::rules::{Ban, RuleChange};
use crate::store::{ReadLimit, Rules, StoreError};

/// What is read of a log at a time.
const PART: ReadLimit = ReadLimit { records: 2048, bytes: 256 * 1024 };
/// So long whoever asks for an erasure waits for its end, before it is told how far that has come.
const WAIT: Duration = Duration::from_secs(4);
/// Erasures that go on at the same time on one server.
const ERASURES: usize = 16;
/// Bytes of one pair `[client, stroke]` at most.
const PAIR_BYTES: usize = 1 + 9 + 9;
/// Bytes of an erase beside its pairs at most.
const ERASE_BYTES: usize = 8;
/// Bytes of one erase, however long draws may be: small ones fit where nothing else does any more.
const DRAW_BYTES: usize = 960;
/// Erases that are appended together at most.
const DRAWS_AT_ONCE: usize = 64;

/// What a moderator does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Only moderators draw from now on, or everyone who might.
    Lock(bool),
    /// Ends all that a client has open. It may come back.
    Kick(ClientId),
    /// The same, and keeps it out.
    Ban(Who),
    /// Lets somebody in again.
    Unban(Who),
    /// Hides all that an author drew and that still shows; 0 is everyone without a ticket.
    Erase(ClientId),
    /// Hides all that anyone drew.
    Clear,
}

/// Whom a ban means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// A client, never the anonymous one: it stays out as long as it comes with its ticket.
    Client(ClientId),
    /// Whoever comes with a token that is made out to that subject.
    Subject(Arc<str>),
}

/// What came of an action.
#[derive(Clone, Debug)]
pub struct Done {
    /// What is laid down now.
    pub rules: Arc<Rules>,
    /// How far an erasure has come.
    pub erasure: Option<Erasure>,
    /// Author and number of each record that was appended, so that they can be revoked; of an erasure when it is done.
    pub records: Vec<(ClientId, u64)>,
}

/// How far an erasure has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Whose strokes.
    pub client: ClientId,
    /// Strokes that were hidden so far.
    pub erased: u64,
    /// Records of the log that are read.
    pub read: u64,
    /// Records that are to be read.
    pub of: u64,
    /// Whether it is done.
    pub is_done: bool,
}

/// Erasures that go on, by room, and those whose end nobody was there to be told: the next who asks for the same is.
#[derive(Default)]
pub(super) struct Erasures(Mutex<HashMap<RoomId, watch::Receiver<State>>>);

/// How an erasure stands.
#[derive(Clone, Debug)]
struct State {
    erasure: Erasure,
    records: Vec<(ClientId, u64)>,
    /// Why it ended before it was done.
    failure: Option<Refused>,
}

impl State {
    fn has_ended(&self) -> bool {
        self.erasure.is_done || self.failure.is_some()
    }
}

impl Relay {
    /// Does what a moderator or operator asks for; whether somebody may ask is the caller's to know.
    ///
    /// # Errors
    /// Why it is not done, or may not be. All of it can be asked for again.
    pub async fn moderate(self: &Arc<Self>, room: &RoomId, action: Action) -> Result<Done, Refused> {
        let (relay, room) = (Arc::clone(self), room.clone());
        // In a task of its own: what was begun is told to everyone here, also when whoever asked is gone.
        let done = tokio::spawn(async move { relay.carry_out(&room, action).await });
        done.await.unwrap_or_else(|_| Err(Refused::new(ErrorCode::Internal, "a fault of the server's own")))
    }

    async fn carry_out(self: &Arc<Self>, room: &RoomId, action: Action) -> Result<Done, Refused> {
        let room = self.visit(room).await?;
        tracing::info!(room = %room.id(), ?action, "moderation");
        let change = match action {
            Action::Lock(is_locked) => RuleChange::Lock(is_locked),
            Action::Kick(client) => RuleChange::Kick(client),
            Action::Ban(who) => ban(who, Ban::Banned),
            Action::Unban(who) => ban(who, Ban::Lifted),
            Action::Clear => {
                let records = self.append_own(&room, &[Draw::Clear.to_bytes()]).await?;
                return Ok(Done { rules: room.rules(), erasure: None, records });
            }
            Action::Erase(client) => {
                let State { erasure, records, failure } = self.erase(&room, client).await?;
                let records = if erasure.is_done { records } else { Vec::new() };
                let done = Done { rules: room.rules(), erasure: Some(erasure), records };
                return failure.map_or(Ok(done), Err);
            }
        };
        let changed = room.change_rules(&change).await;
        self.hub.changed(&room).await;
        let rules = changed?;
        Ok(Done { rules, erasure: None, records: Vec::new() })
    }

    /// The erasure that goes on in a room on this server, or whose end nobody was told yet.
    pub fn erasing(&self, room: &RoomId) -> Option<Erasure> {
        lock(&self.erasures.0).get(room).map(|state| state.borrow().erasure)
    }

    /// Begins an erasure, or joins the same one that goes on, and waits for its end for a while.
    async fn erase(self: &Arc<Self>, room: &Arc<Room>, client: ClientId) -> Result<State, Refused> {
        let mut state = self.begin_erasure(room, client)?;
        // When its time is over, it is told how far it has come.
        drop(tokio::time::timeout(WAIT, state.wait_for(State::has_ended)).await);
        let state = state.borrow().clone();
        Ok(state)
    }

    fn begin_erasure(
        self: &Arc<Self>,
        room: &Arc<Room>,
        client: ClientId,
    ) -> Result<watch::Receiver<State>, Refused> {
        let busy = |why| Refused::new(ErrorCode::RateLimited, why);
        let mut erasures = lock(&self.erasures.0);
        if let Some(state) = erasures.get(room.id()).cloned() {
            let (is_same, has_ended) = (state.borrow().erasure.client == client, state.borrow().has_ended());
            if has_ended {
                erasures.remove(room.id());
            }
            if is_same {
                return Ok(state);
            }
            if !has_ended {
                return Err(busy("what another author drew is being erased: ask again when that is done"));
            }
        }
        if erasures.len() >= ERASURES {
            erasures.retain(|_, state| !state.borrow().has_ended());
        }
        if erasures.len() >= ERASURES {
            return Err(busy("as many authors are being erased as may be"));
        }
        let erasure = Erasure { client, erased: 0, read: 0, of: 0, is_done: false };
        let (sender, state) = watch::channel(State { erasure, records: Vec::new(), failure: None });
        erasures.insert(room.id().clone(), state.clone());
        drop(erasures);
        let (relay, room) = (Arc::clone(self), room.id().clone());
        tokio::spawn(async move {
            let result = match relay.visit(&room).await {
                Ok(room) => relay.erase_all(&room, client, &sender).await,
                Err(refused) => Err(refused),
            };
            let mut erasures = lock(&relay.erasures.0);
            sender.send_modify(|state| match result {
                Ok(()) => state.erasure.is_done = true,
                Err(refused) => state.failure = Some(refused),
            });
            // Beside those who wait, the map has one itself.
            if sender.receiver_count() > 1 {
                erasures.remove(&room);
            }
        });
        Ok(state)
    }

    /// Reads the log as often as the author's strokes need, and hides those that show. What is drawn meanwhile stays.
    async fn erase_all(
        &self,
        room: &Arc<Room>,
        client: ClientId,
        state: &watch::Sender<State>,
    ) -> Result<(), Refused> {
        let mut passed = 0;
        loop {
            let mut strokes = Strokes::new(client, passed);
            let mut log = room.log().await?;
            let of = log.until().seq.get();
            let (mut read, before) = (0, state.borrow().erasure);
            while !log.is_done() {
                let records = room.read_log(&mut log, PART).await.map_err(|error| match error {
                    LogError::Changed => StoreError::Unavailable("the log is another one now".to_owned()),
                    LogError::Store(error) => error,
                })?;
                records
                    .iter()
                    .filter_map(|record| Record::parse(record).ok())
                    .for_each(|r| strokes.apply(&r));
                read += records.len() as u64;
                state.send_modify(|state| {
                    state.erasure.read = before.read + read;
                    state.erasure.of = before.read + of;
                });
                tokio::task::yield_now().await;
            }
            let shown = strokes.shown();
            let per_draw = self.pairs_per_draw();
            for strokes in shown.chunks(per_draw * self.draws_at_once()) {
                let erase = |strokes: &[u64]| Draw::Erase(strokes.iter().map(|one| (client, *one)).collect());
                let draws: Vec<_> = strokes.chunks(per_draw).map(|some| erase(some).to_bytes()).collect();
                let records = self.append_own(room, &draws).await?;
                state.send_modify(|state| {
                    state.erasure.erased += strokes.len() as u64;
                    state.records.extend(records);
                });
            }
            match strokes.passed() {
                Some(so_far) => passed = so_far,
                None => return Ok(()),
            }
        }
    }

    fn pairs_per_draw(&self) -> usize {
        let most = self.config().limits.draws().bytes_per_draw;
        let most = if most == 0 { DRAW_BYTES } else { most.min(DRAW_BYTES) };
        (most.saturating_sub(ERASE_BYTES) / PAIR_BYTES).max(1)
    }

    fn draws_at_once(&self) -> usize {
        let most = self.config().limits.max_batch;
        if most == 0 { DRAWS_AT_ONCE } else { most.min(DRAWS_AT_ONCE) }
    }

    /// Appends draws of the server's own. Returns the names of their records.
    async fn append_own(&self, room: &Arc<Room>, draws: &[Vec<u8>]) -> Result<Vec<(ClientId, u64)>, Refused> {
        let draws: Vec<&[u8]> = draws.iter().map(Vec::as_slice).collect();
        let batch = self.records(ClientId::ANONYMOUS, 1, &draws);
        let name = |record: &bytes::Bytes| {
            let Identity { author, n, .. } = crate::store::identity_of(record);
            (author, n)
        };
        let names = batch.records.iter().map(name).collect();
        let appended = room.append_and_wait(batch, Role::Moderator).await;
        self.hub.changed(room).await;
        appended?;
        Ok(names)
    }
}

fn ban(who: Who, ban: Ban) -> RuleChange {
    match who {
        Who::Client(client) => RuleChange::Client(client, ban),
        Who::Subject(subject) => RuleChange::Subject(subject, ban),
    }
}
