//! Rules: what moderators laid down for a room. They stand apart from its log, and are kept and told as a whole.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use inkrelay_protocol::msgpack::{self, Malformed, Reader};
use inkrelay_protocol::{ClientId, RoomId};

/// Clients, and subjects, that are banned from one room at most.
pub const BANS_MAX: usize = 1000;
/// Bytes of a subject's name.
pub const SUBJECT_BYTES_MAX: usize = 256;
/// Kicks that are told to servers that missed them; far more than a moderator does in the seconds that this takes.
const KICKS_KEPT: usize = 64;

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether only moderators draw.
    pub is_locked: bool,
    /// Clients that are kept out; at most [`BANS_MAX`], the anonymous one never among them.
    pub banned_clients: BTreeSet<ClientId>,
    /// Subjects of tokens that are kept out; at most [`BANS_MAX`].
    pub banned_subjects: BTreeSet<Arc<str>>,
    /// How many kicks there were. A server that sees a higher number than before has kicks to carry out, so that
    /// one whose message was lost is late and not forgotten.
    kicks: u64,
    /// The clients of the last of them, the newest at the end.
    kicked: VecDeque<ClientId>,
    /// When they were changed last, in milliseconds since 1970; 0 where that was not noted.
    pub changed_at: u64,
}

/// One change of a room's rules. Made twice it has the effect of once, but for a kick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleChange {
    /// From now on only moderators draw, or everyone who might.
    Lock(bool),
    /// Ends what a client has open.
    Kick(ClientId),
    /// Keeps a client out, or lets it in again.
    Client(ClientId, Ban),
    /// The same of a token's subject.
    Subject(Arc<str>, Ban),
}

/// Whether somebody is kept out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ban {
    /// From now on.
    Banned,
    /// No longer.
    Lifted,
}

/// As many are banned as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{BANS_MAX} are banned in this room already: lift a ban first")]
pub struct TooManyBans;

impl Rules {
    /// Makes one change.
    ///
    /// # Errors
    /// Nothing is changed when as many are banned as may be.
    pub fn change(&mut self, change: &RuleChange) -> Result<(), TooManyBans> {
        match change {
            RuleChange::Lock(is_locked) => self.is_locked = *is_locked,
            RuleChange::Kick(client) => {
                self.kicks += 1;
                self.kicked.push_back(*client);
                while self.kicked.len() > KICKS_KEPT {
                    self.kicked.pop_front();
                }
            }
            RuleChange::Client(client, ban) => set(&mut self.banned_clients, client, *ban)?,
            RuleChange::Subject(subject, ban) => set(&mut self.banned_subjects, subject, *ban)?,
        }
        Ok(())
    }

    /// Notes when they were changed. Rules that lay nothing down any more are those of a room that nobody ruled.
    pub fn date(&mut self, at: u64) {
        self.changed_at = 0;
        if *self != Self::default() {
            self.changed_at = at;
        }
    }

    /// Whether a client, or whoever's token names that subject, is kept out. Without a ticket there is no client
    /// that could be.
    pub fn ban(&self, client: ClientId, subject: Option<&str>) -> bool {
        (!client.is_anonymous() && self.banned_clients.contains(&client))
            || subject.is_some_and(|subject| self.banned_subjects.contains(subject))
    }

    /// How many kicks there were.
    pub const fn kicks(&self) -> u64 {
        self.kicks
    }

    /// The clients that were kicked since there were so many kicks, as far as that is known.
    pub fn kicked_since(&self, kicks: u64) -> impl Iterator<Item = ClientId> {
        let new = usize::try_from(self.kicks.saturating_sub(kicks)).unwrap_or(usize::MAX);
        self.kicked.iter().rev().take(new).copied()
    }

    /// The bytes that a store keeps; none for the rules of a room that nobody ruled. The same rules are the same bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if *self == Self::default() {
            return out;
        }
        msgpack::write_array(&mut out, if self.changed_at > 0 { 6 } else { 5 });
        msgpack::write_bool(&mut out, self.is_locked);
        msgpack::write_array(&mut out, self.banned_clients.len());
        self.banned_clients.iter().for_each(|client| msgpack::write_uint(&mut out, client.get()));
        msgpack::write_array(&mut out, self.banned_subjects.len());
        self.banned_subjects.iter().for_each(|subject| msgpack::write_str(&mut out, subject));
        msgpack::write_uint(&mut out, self.kicks);
        msgpack::write_array(&mut out, self.kicked.len());
        self.kicked.iter().for_each(|client| msgpack::write_uint(&mut out, client.get()));
        if self.changed_at > 0 {
            msgpack::write_uint(&mut out, self.changed_at);
        }
        out
    }

    /// Reads what [`Rules::encode`] wrote; what a later version added is ignored.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let read = || -> Result<Option<Self>, Malformed> {
            let mut reader = Reader::whole(bytes)?;
            let fields = reader.array()?;
            if fields < 5 {
                return Ok(None);
            }
            let is_locked = reader.bool()?;
            let Some(banned_clients) = clients(&mut reader)? else { return Ok(None) };
            let subjects = reader.array()?;
            let banned_subjects =
                (0..subjects).map(|_| Ok(Arc::from(reader.str()?))).collect::<Result<_, Malformed>>()?;
            let kicks = reader.uint()?;
            let Some(kicked) = clients(&mut reader)? else { return Ok(None) };
            let changed_at = if fields > 5 { reader.uint()? } else { 0 };
            Ok(Some(Self { is_locked, banned_clients, banned_subjects, kicks, kicked, changed_at }))
        };
        read().ok().flatten()
    }

    /// As [`Rules::decode`], for a store that has to say what is wrong.
    pub(crate) fn of(room: &RoomId, bytes: &[u8]) -> Result<Self, String> {
        Self::decode(bytes).ok_or_else(|| format!("the rules of room {room} are not as they were written"))
    }
}

fn clients<C: FromIterator<ClientId>>(reader: &mut Reader<'_>) -> Result<Option<C>, Malformed> {
    let len = reader.array()?;
    (0..len).map(|_| Ok(ClientId::new(reader.uint()?))).collect()
}

fn set<T: Ord + Clone>(banned: &mut BTreeSet<T>, who: &T, ban: Ban) -> Result<(), TooManyBans> {
    match ban {
        Ban::Lifted => drop(banned.remove(who)),
        Ban::Banned if banned.len() >= BANS_MAX && !banned.contains(who) => return Err(TooManyBans),
        Ban::Banned => drop(banned.insert(who.clone())),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ClientId {
        ClientId::new(number).unwrap()
    }

    fn ruled(changes: &[RuleChange]) -> Rules {
        let mut rules = Rules::default();
        changes.iter().for_each(|change| rules.change(change).unwrap());
        rules
    }

    #[test]
    fn rules_are_read_back_and_torn_ones_are_not() {
        let mut rules = ruled(&[
            RuleChange::Lock(true),
            RuleChange::Client(id(7), Ban::Banned),
            RuleChange::Subject("ann".into(), Ban::Banned),
            RuleChange::Kick(id(9)),
        ]);
        for at in [0, 1 << 40] {
            rules.date(at);
            let bytes = rules.encode();
            assert_eq!(Rules::decode(&bytes).as_ref(), Some(&rules));
            assert!((1..bytes.len()).all(|end| Rules::decode(&bytes[..end]).is_none()));
        }
        assert!(Rules::default().encode().is_empty());
        assert_eq!(Rules::decode(&[]), Some(Rules::default()));
    }

    #[test]
    fn a_ban_that_is_lifted_leaves_no_trace() {
        let both = |ban| [RuleChange::Client(id(7), ban), RuleChange::Subject("ann".into(), ban)];
        let rules = ruled(&both(Ban::Banned));
        assert!(rules.ban(id(7), None) && rules.ban(id(8), Some("ann")));
        assert!(!rules.ban(id(8), Some("Ann")) && !rules.ban(ClientId::ANONYMOUS, None));
        let mut lifted = rules;
        lifted.date(1000);
        both(Ban::Lifted).iter().for_each(|change| lifted.change(change).unwrap());
        lifted.date(2000);
        assert_eq!(lifted, Rules::default());
    }

    #[test]
    fn bans_are_bounded_and_one_more_changes_nothing() {
        let mut rules = Rules::default();
        for number in 1..=BANS_MAX as u64 {
            rules.change(&RuleChange::Client(id(number), Ban::Banned)).unwrap();
        }
        let full = rules.clone();
        assert_eq!(rules.change(&RuleChange::Client(id(5000), Ban::Banned)), Err(TooManyBans));
        assert_eq!(rules.change(&RuleChange::Client(id(1), Ban::Banned)), Ok(()));
        assert_eq!(rules, full);
    }

    #[test]
    fn each_kick_is_seen_once_by_whoever_counts() {
        let mut rules = ruled(&[RuleChange::Kick(id(1)), RuleChange::Kick(id(2))]);
        let since = |rules: &Rules, kicks| rules.kicked_since(kicks).collect::<Vec<_>>();
        assert_eq!((since(&rules, 0), since(&rules, 1)), (vec![id(2), id(1)], vec![id(2)]));
        assert!(since(&rules, 2).is_empty());
        for _ in 0..1000 {
            rules.change(&RuleChange::Kick(id(3))).unwrap();
        }
        assert_eq!((rules.kicks(), since(&rules, 0).len()), (1002, KICKS_KEPT));
    }
}
