//! Presence in a live room: a ticker shows what changed, at a bounded rate, to readers here and to other nodes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Profile, ServerFrame};
use tokio::sync::{Notify, watch};

use super::gossip::Gossip;
use super::presence::POLL_PRESENCE;
use super::{Room, RoomPresence};
use crate::lock::lock;

/// Pointers are shown at most once in this time.
const POINTER_INTERVAL: Duration = Duration::from_millis(40);
/// The list of participants is shown at most once in this time.
const LIST_INTERVAL: Duration = Duration::from_millis(250);
/// Each node repeats who is with it so many times in the time for which it is believed: two repeats may get lost.
const REPEATS: u32 = 3;

/// One WebSocket of a client, equal only to itself.
#[derive(Clone, Debug, Default)]
pub struct Attachment(Arc<Notify>);

impl PartialEq for Attachment {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Attachment {
    /// Waits until a newer WebSocket of the same client takes over.
    pub async fn replaced(&self) {
        self.0.notified().await;
    }

    fn replace(&self) {
        self.0.notify_one();
    }
}

/// Who is here, and what of it has been shown.
#[derive(Default)]
pub(super) struct People {
    presence: RoomPresence,
    is_ticking: AtomicBool,
    /// The version of the list that readers are to see.
    shown: AtomicU64,
    /// The moves that readers are to see.
    shown_moves: AtomicU64,
    /// The frame of the newest list, made once for all readers.
    frame: Mutex<Option<(u64, Bytes)>>,
    told: Mutex<Told>,
    /// Wakes those who show who is here. What changed is looked up.
    news: watch::Sender<()>,
}

/// What other nodes have been told.
#[derive(Default)]
struct Told {
    version: u64,
    moves: u64,
    list_at: Option<Instant>,
}

impl People {
    pub fn any_here(&self) -> bool {
        !lock(&self.presence).is_empty()
    }
}

impl Room {
    /// Opens a WebSocket's presence, and ends that of an older one of the same client, wherever it is.
    /// `None` when as many are here as may be.
    pub fn attach(self: &Arc<Self>, client: ClientId, profile: Profile) -> Option<Attachment> {
        let attachment = Attachment::default();
        {
            let mut presence = lock(&self.people.presence);
            let max = self.node.limits.get().sessions;
            if max != 0 && presence.len() >= max && !presence.contains(client) {
                return None;
            }
            if let Some(older) = presence.attach(client, attachment.clone(), profile) {
                older.replace();
            }
        }
        self.tell(&Gossip::Attached(client));
        self.presence_changed();
        Some(attachment)
    }

    /// Whether a WebSocket of that client is open here.
    pub fn is_connected(&self, client: ClientId) -> bool {
        lock(&self.people.presence).is_connected(client)
    }

    /// Ends a WebSocket's presence.
    pub fn detach(self: &Arc<Self>, client: ClientId, attachment: &Attachment) {
        lock(&self.people.presence).detach(client, attachment);
        self.presence_changed();
    }

    /// A participant has a new name or colour.
    pub fn rename(self: &Arc<Self>, client: ClientId, profile: Profile) {
        lock(&self.people.presence).rename(client, profile);
        self.presence_changed();
    }

    /// A client called over HTTP, and is present for a time. Returns whether there was room for it.
    pub fn polled(self: &Arc<Self>, client: ClientId, profile: Option<Profile>) -> bool {
        {
            let mut presence = lock(&self.people.presence);
            let max = self.node.limits.get().sessions;
            if max != 0 && presence.len() >= max && !presence.contains(client) {
                return false;
            }
            presence.polled(client, profile, Instant::now() + POLL_PRESENCE);
        }
        self.presence_changed();
        true
    }

    /// Somebody's pen hovers there.
    pub fn point(self: &Arc<Self>, client: ClientId, x: i32, y: i32) {
        lock(&self.people.presence).point(client, x, y, true);
        self.presence_changed();
    }

    /// Wakes with every change of who is here, and of pointers.
    pub fn news_of_people(&self) -> watch::Receiver<()> {
        self.people.news.subscribe()
    }

    /// The version of the list that readers are to see; see [`Room::participants_frame`].
    pub fn shown_participants(&self) -> u64 {
        self.people.shown.load(Ordering::Acquire)
    }

    /// The moves that readers are to see; see [`Room::pointers_since`].
    pub fn shown_moves(&self) -> u64 {
        self.people.shown_moves.load(Ordering::Acquire)
    }

    /// How many are here now.
    pub fn participant_count(&self) -> usize {
        lock(&self.people.presence).len()
    }

    /// Everyone who is here now.
    pub fn participants(&self) -> Vec<inkrelay_protocol::Participant> {
        lock(&self.people.presence).participants()
    }

    /// The frame that lists everyone who is here, and the version of the list.
    pub fn participants_frame(&self) -> (u64, Bytes) {
        let (version, participants) = {
            let presence = lock(&self.people.presence);
            let version = presence.version();
            if let Some((framed, frame)) = lock(&self.people.frame).as_ref()
                && *framed == version
            {
                return (version, frame.clone());
            }
            (version, presence.participants())
        };
        let frame = Bytes::from(ServerFrame::Participants(participants).to_bytes());
        *lock(&self.people.frame) = Some((version, frame.clone()));
        (version, frame)
    }

    /// The newest places of the pointers that moved since, and up to when they are.
    pub fn pointers_since(&self, moves: u64) -> (u64, Vec<(ClientId, i32, i32)>) {
        let presence = lock(&self.people.presence);
        (presence.moves(), presence.pointers_since(moves))
    }

    /// Forgets participants whose time is over.
    pub fn expire_presence(self: &Arc<Self>, now: Instant) {
        lock(&self.people.presence).expire(now);
        self.presence_changed();
    }

    /// Takes what another node told.
    pub fn heard(self: &Arc<Self>, message: &[u8]) {
        let Some((node, gossip)) = Gossip::decode(message).filter(|(node, _)| *node != self.node.id) else {
            return;
        };
        let until = Instant::now() + self.node.limits.get().idle_time;
        match gossip {
            Gossip::Here(participants) => lock(&self.people.presence).heard(node, participants, until),
            Gossip::Pointers(pointers) => {
                let mut presence = lock(&self.people.presence);
                pointers.into_iter().for_each(|(client, x, y)| presence.point(client, x, y, false));
            }
            Gossip::Attached(client) => {
                if let Some(replaced) = lock(&self.people.presence).attached_elsewhere(client, node, until) {
                    replaced.replace();
                }
            }
            Gossip::WhoIsThere => lock(&self.people.told).list_at = None,
            Gossip::RulesChanged => self.request_rules(),
        }
        self.presence_changed();
    }

    /// Asks other nodes who is with them; answered when they can.
    pub fn ask_who_is_there(&self) {
        self.tell(&Gossip::WhoIsThere);
    }

    /// Wakes those who show what is new beside the log.
    pub(super) fn show_news(&self) {
        self.people.news.send_replace(());
    }

    /// Ends what presence a client has by its calls over HTTP; its WebSocket ends by itself. Returns whether it had any.
    pub(super) fn dismiss(&self, client: ClientId) -> bool {
        lock(&self.people.presence).dismiss(client)
    }

    pub(super) fn tell(&self, gossip: &Gossip) {
        if self.node.store.is_shared() {
            self.node.store.tell(&self.id, gossip.encode(self.node.id));
        }
    }

    /// Shows changes at once when it was quiet, and otherwise at the ticker's next beat.
    fn presence_changed(self: &Arc<Self>) {
        if self.has_news() && !self.people.is_ticking.swap(true, Ordering::AcqRel) {
            let room = Arc::clone(self);
            tokio::spawn(async move { room.tick().await });
        }
    }

    /// Whether something is to be shown here or told to other nodes.
    fn has_news(&self) -> bool {
        let (version, moves, is_empty) = {
            let presence = lock(&self.people.presence);
            (presence.version(), presence.moves(), presence.is_empty())
        };
        let told_is_due = self.node.store.is_shared() && {
            let told = lock(&self.people.told);
            told.version != version || told.moves != moves || (self.repeat_is_due(&told) && !is_empty)
        };
        told_is_due || self.shown_participants() != version || self.shown_moves() != moves
    }

    fn repeat_is_due(&self, told: &Told) -> bool {
        let interval = self.node.limits.get().idle_time / (REPEATS + 1);
        told.list_at.is_none_or(|at| at.elapsed() >= interval)
    }

    async fn tick(self: Arc<Self>) {
        let mut listed_at: Option<Instant> = None;
        loop {
            let list_is_due = listed_at.is_none_or(|at| at.elapsed() >= LIST_INTERVAL);
            if list_is_due {
                listed_at = Some(Instant::now());
            }
            self.show(list_is_due);
            tokio::time::sleep(POINTER_INTERVAL).await;
            if !self.has_news() {
                // Stopped only when no change of the list was shown lately, so that the list's interval holds.
                if listed_at.is_some_and(|at| at.elapsed() < LIST_INTERVAL) {
                    continue;
                }
                self.people.is_ticking.store(false, Ordering::Release);
                if !self.has_news() || self.people.is_ticking.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        }
    }

    fn show(&self, list_is_due: bool) {
        let (version, moves, here, pointers) = {
            let told = lock(&self.people.told);
            let presence = lock(&self.people.presence);
            let tell_list = list_is_due && (told.version != presence.version() || self.repeat_is_due(&told));
            let here = (tell_list && self.node.store.is_shared()).then(|| presence.local_participants());
            let pointers = presence.local_pointers_since(told.moves);
            (presence.version(), presence.moves(), here, pointers)
        };
        let mut is_news = self.people.shown_moves.swap(moves, Ordering::AcqRel) != moves;
        if list_is_due {
            is_news |= self.people.shown.swap(version, Ordering::AcqRel) != version;
        }
        if is_news {
            self.people.news.send_replace(());
        }
        if !self.node.store.is_shared() {
            return;
        }
        let mut told = lock(&self.people.told);
        told.moves = moves;
        if let Some(here) = here {
            (told.version, told.list_at) = (version, Some(Instant::now()));
            self.tell(&Gossip::Here(here));
        }
        if !pointers.is_empty() {
            self.tell(&Gossip::Pointers(pointers));
        }
    }
}
