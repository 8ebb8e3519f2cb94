//! Rooms as a whole: deleting one, and listing all, in an order that `SCAN` does not have, without stopping Redis or
//! keeping all names in memory.
//!
//! One walk through all keys, a thousand at a time, finds the next names in order, as many as a window holds. Pages
//! are told from the window; behind its end the keys are walked through again. A room that begins while somebody pages
//! may be missed.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

use bytes::Bytes;
use inkrelay_protocol::{RoomId, Seq};
use redis::Value;
use tokio::sync::Mutex;

use super::call::Call;
use super::link::{Link, Repeat};
use super::{RedisStore, array, decimal, integer, keys, rules, unexpected};
use crate::store::{RoomSummary, Rules, Store, StoreError};

/// Rooms that one listing tells at most.
const LISTED_ROOMS: usize = 4096;

/// Names that are kept in memory at most: some megabytes.
const WINDOW_ROOMS: usize = 65_536;
/// How long pages are told from one walk.
const WINDOW_AGE: Duration = Duration::from_secs(600);
/// Pages after which it is forgotten that one was told: as many may walk at the same time without disturbing each other.
const WALKERS: usize = 16;
/// Keys that Redis looks at in one step, well below a millisecond.
const SCAN_KEYS: &[u8] = b"1000";
/// A list of records or a string of rules: without either there is no room, whatever the other keys say.
const LOGS_AND_RULES: &[u8] = b"inkrelay:{*}:[lr][ou]*";

impl RedisStore {
    /// See [`Store::rooms`].
    pub(super) async fn list(
        &self,
        after: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<RoomSummary>, StoreError> {
        let (mut after, limit) = (after.cloned(), limit.clamp(1, LISTED_ROOMS));
        loop {
            let names = self.listing.page(&self.link, after.as_ref(), limit).await?;
            let Some(last) = names.last().cloned() else { return Ok(Vec::new()) };
            let heads = self.heads(&names).await?;
            let mut rooms = Vec::with_capacity(names.len());
            for (room, head) in names.into_iter().zip(&heads) {
                let is_drawn = head.position.seq > Seq::START;
                let rules = if is_drawn { Rules::default() } else { rules::get(&self.link, &room).await? };
                rooms.extend(RoomSummary::new(room, head, &rules));
            }
            // All of a page may be deleted since the names were found.
            if !rooms.is_empty() {
                return Ok(rooms);
            }
            after = Some(last);
        }
    }

    /// See [`Store::delete`] and [`Store::delete_idle`].
    pub(super) async fn delete_if(
        &self,
        room: &RoomId,
        idle_before: Option<u64>,
    ) -> Result<bool, StoreError> {
        let [log, meta, clients, channel] = keys(room);
        let keys = [log, meta, clients, channel, rules::key(room)];
        let node = Bytes::from(self.node.clone());
        let before = idle_before.map_or_else(Bytes::new, decimal);
        let run = async |place: u64, name: Bytes| {
            let args = vec![node.clone(), before.clone(), decimal(place), name];
            let call = Call::Run { script: &self.scripts.delete, keys: &keys, args };
            self.link.run(&call, Repeat::Safe).await
        };
        let [records, name] = array(run(0, Bytes::new()).await?).ok_or_else(unexpected)?;
        let records = integer(&records).ok_or_else(unexpected)?;
        let Value::BulkString(name) = name else { return Ok(matches!(name, Value::Int(1))) };
        match run(records, name.into()).await? {
            // Gone since it was named, by a try that was not answered or by somebody else.
            Value::Int(1 | -1) => Ok(true),
            Value::Int(0) => Ok(false),
            _ => Err(unexpected()),
        }
    }
}

/// What pages are told from; a second walker waits for the first.
#[derive(Default)]
pub(super) struct Listing(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    window: Option<Window>,
    /// The last names of the newest pages: whoever goes on from one of them is told from the window, and whoever
    /// begins elsewhere, what is there now.
    told: VecDeque<RoomId>,
}

struct Window {
    after: Option<RoomId>,
    names: BTreeSet<RoomId>,
    /// Whether no name comes behind these.
    is_last: bool,
    found_at: Instant,
}

impl Window {
    fn covers(&self, after: &RoomId) -> bool {
        self.found_at.elapsed() < WINDOW_AGE
            && self.after.as_ref() <= Some(after)
            && (self.is_last || self.names.last().is_some_and(|last| after < last))
    }

    fn page(&self, after: Option<&RoomId>, limit: usize) -> Vec<RoomId> {
        let after = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        self.names.range((after, Bound::Unbounded)).take(limit).cloned().collect()
    }
}

impl Listing {
    /// The next names after that one, or the first; none at the end.
    pub(super) async fn page(
        &self,
        link: &Link,
        after: Option<&RoomId>,
        limit: usize,
    ) -> Result<Vec<RoomId>, StoreError> {
        let mut pages = self.0.lock().await;
        let goes_on =
            |window: &&Window| after.is_some_and(|after| pages.told.contains(after) && window.covers(after));
        let page = match pages.window.as_ref().filter(goes_on) {
            Some(window) => window.page(after, limit),
            None => {
                let window = walk(link, after).await?;
                let page = window.page(after, limit);
                pages.window = Some(window);
                page
            }
        };
        if let Some(last) = page.last() {
            if pages.told.len() >= WALKERS {
                pages.told.pop_front();
            }
            pages.told.push_back(last.clone());
        }
        Ok(page)
    }
}

/// Walks through all keys. Each step is bounded in time; there are as many as Redis has keys.
async fn walk(link: &Link, after: Option<&RoomId>) -> Result<Window, StoreError> {
    let (mut names, mut is_last) = (BTreeSet::new(), true);
    let mut cursor = b"0".to_vec();
    loop {
        let args = [&cursor[..], b"MATCH", LOGS_AND_RULES, b"COUNT", SCAN_KEYS];
        let reply = link.run(&Call::Command { name: "SCAN", args: &args }, Repeat::Safe).await?;
        let Some([Value::BulkString(next), Value::Array(keys)]) = array(reply) else {
            return Err(unexpected());
        };
        for key in keys {
            let Value::BulkString(key) = key else { return Err(unexpected()) };
            let Some(room) = room_of(&key).filter(|room| Some(room) > after) else { continue };
            names.insert(room);
            if names.len() > WINDOW_ROOMS {
                names.pop_last();
                is_last = false;
            }
        }
        if next == b"0" {
            return Ok(Window { after: after.cloned(), names, is_last, found_at: Instant::now() });
        }
        cursor = next;
    }
}

/// The room whose list or rules have that key; `None` for somebody else's key.
fn room_of(key: &[u8]) -> Option<RoomId> {
    let name = str::from_utf8(key).ok()?.strip_prefix("inkrelay:{")?;
    name.strip_suffix("}:log").or_else(|| name.strip_suffix("}:rules"))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> RoomId {
        name.parse().unwrap()
    }

    #[test]
    fn keys_lead_back_to_their_rooms() {
        for key in ["inkrelay:{a-1}:log", "inkrelay:{a-1}:rules"] {
            assert_eq!(room_of(key.as_bytes()), Some(id("a-1")));
        }
        for other in ["inkrelay:{a}:meta", "inkrelay:{a}:x:log", "inkrelay:{}:log", "other:{a}:log"] {
            assert_eq!(room_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn a_window_covers_what_lies_between_its_ends() {
        let names = ["b", "c", "d"].map(id).into();
        let mut window = Window { after: Some(id("a")), names, is_last: false, found_at: Instant::now() };
        assert_eq!(
            ["A", "a", "c", "d", "x"].map(|name| window.covers(&id(name))),
            [false, true, true, false, false]
        );
        assert_eq!(window.page(Some(&id("b")), 9), ["c", "d"].map(id));
        assert_eq!(window.page(None, 2), ["b", "c"].map(id));
        window.is_last = true;
        assert!(window.covers(&id("d")) && window.page(Some(&id("d")), 9).is_empty());
    }
}
