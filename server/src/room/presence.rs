//! Presence: who is here, as what, and where their pens hover. Nothing of it is in the log.
//!
//! Pure: time is an argument. Of everything only the newest per client counts, so a reader that is late skips
//! what it missed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use inkrelay_protocol::{ClientId, Participant, Profile};

/// One server process.
pub type NodeId = u64;

/// Everyone who is here, on this node and on others. `A` stands for one WebSocket, equal only to itself.
#[derive(Debug)]
pub struct Presence<A> {
    members: HashMap<ClientId, Member<A>>,
    /// Grows with every change of who is here or as what.
    version: u64,
    /// Grows with every move of a pointer.
    moves: u64,
}

#[derive(Debug)]
struct Member<A> {
    profile: Profile,
    socket: Option<A>,
    /// Polling clients are here until then.
    polled_until: Option<Instant>,
    /// Other nodes that say the client is with them, until when to believe it.
    elsewhere: HashMap<NodeId, Instant>,
    pointer: Option<Pointer>,
}

#[derive(Clone, Copy, Debug)]
struct Pointer {
    x: i32,
    y: i32,
    /// The value of `moves` when it came here.
    moved: u64,
    is_local: bool,
}

impl<A> Default for Member<A> {
    fn default() -> Self {
        let (profile, elsewhere) = (Profile::default(), HashMap::new());
        Self { profile, socket: None, polled_until: None, elsewhere, pointer: None }
    }
}

impl<A> Default for Presence<A> {
    fn default() -> Self {
        Self { members: HashMap::new(), version: 0, moves: 0 }
    }
}

impl<A> Member<A> {
    fn is_local(&self) -> bool {
        self.socket.is_some() || self.polled_until.is_some()
    }

    fn is_here(&self) -> bool {
        self.is_local() || !self.elsewhere.is_empty()
    }
}

impl<A: PartialEq> Presence<A> {
    /// Changes whenever [`Presence::participants`] does.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Changes whenever a pointer moves.
    pub const fn moves(&self) -> u64 {
        self.moves
    }

    /// How many are here.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether nobody is here.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Whether that client is here.
    pub fn contains(&self, client: ClientId) -> bool {
        self.members.contains_key(&client)
    }

    /// Whether a WebSocket of that client is open on this node.
    pub fn is_connected(&self, client: ClientId) -> bool {
        self.members.get(&client).is_some_and(|member| member.socket.is_some())
    }

    /// Everyone, in the order of their numbers.
    pub fn participants(&self) -> Vec<Participant> {
        Self::listed(self.members.iter())
    }

    /// Those who are connected to this node.
    pub fn local_participants(&self) -> Vec<Participant> {
        Self::listed(self.members.iter().filter(|(_, member)| member.is_local()))
    }

    fn listed<'a>(members: impl Iterator<Item = (&'a ClientId, &'a Member<A>)>) -> Vec<Participant>
    where
        A: 'a,
    {
        let mut all: Vec<_> = members
            .map(|(client, member)| Participant { client: *client, profile: member.profile.clone() })
            .collect();
        all.sort_unstable_by_key(|participant| participant.client);
        all
    }

    /// A WebSocket of that client opened. Returns the one that it replaces.
    pub fn attach(&mut self, client: ClientId, socket: A, profile: Profile) -> Option<A> {
        self.version += 1;
        let member = self.members.entry(client).or_default();
        member.profile = profile;
        member.socket.replace(socket)
    }

    /// That WebSocket closed. The late close of one that was replaced changes nothing.
    pub fn detach(&mut self, client: ClientId, socket: &A) {
        let Some(member) = self.members.get_mut(&client) else { return };
        if member.socket.as_ref() == Some(socket) {
            member.socket = None;
            self.remove_if_gone(client);
        }
    }

    /// The client's newest WebSocket is on another node. Returns the one here that it replaces.
    pub fn attached_elsewhere(&mut self, client: ClientId, node: NodeId, until: Instant) -> Option<A> {
        let member = self.members.get_mut(&client)?;
        let replaced = member.socket.take()?;
        member.elsewhere.insert(node, until);
        self.version += 1;
        Some(replaced)
    }

    /// The client has a new name or colour.
    pub fn rename(&mut self, client: ClientId, profile: Profile) {
        let Some(member) = self.members.get_mut(&client) else { return };
        if member.profile != profile {
            member.profile = profile;
            self.version += 1;
        }
    }

    /// The client called over HTTP, and is here until then. Without a profile it keeps the one it had.
    pub fn polled(&mut self, client: ClientId, profile: Option<Profile>, until: Instant) {
        let is_new = !self.contains(client);
        let member = self.members.entry(client).or_default();
        member.polled_until = Some(until);
        if is_new {
            self.version += 1;
        }
        if let Some(profile) = profile {
            self.rename(client, profile);
        }
    }

    /// What the client was here by its calls over HTTP ends. Returns whether it was.
    pub fn dismiss(&mut self, client: ClientId) -> bool {
        let was_here =
            self.members.get_mut(&client).is_some_and(|member| member.polled_until.take().is_some());
        self.remove_if_gone(client);
        was_here
    }

    /// What another node says of those who are with it: the whole list.
    pub fn heard(&mut self, node: NodeId, list: Vec<Participant>, until: Instant) {
        let listed: std::collections::HashSet<ClientId> =
            list.iter().map(|participant| participant.client).collect();
        for Participant { client, profile } in list {
            let is_new = !self.contains(client);
            let member = self.members.entry(client).or_default();
            member.elsewhere.insert(node, until);
            if is_new {
                self.version += 1;
            }
            if !member.is_local() && member.profile != profile {
                member.profile = profile;
                self.version += 1;
            }
        }
        self.retain(|client, member| {
            if !listed.contains(client) {
                member.elsewhere.remove(&node);
            }
        });
    }

    /// Forgets whose time is over.
    pub fn expire(&mut self, now: Instant) {
        self.retain(|_, member| {
            member.polled_until = member.polled_until.filter(|until| *until > now);
            member.elsewhere.retain(|_, until| *until > now);
        });
    }

    fn retain(&mut self, mut change: impl FnMut(&ClientId, &mut Member<A>)) {
        let before = self.members.len();
        self.members.retain(|client, member| {
            change(client, member);
            member.is_here()
        });
        if self.members.len() != before {
            self.version += 1;
        }
    }

    fn remove_if_gone(&mut self, client: ClientId) {
        if self.members.get(&client).is_some_and(|member| !member.is_here()) {
            self.members.remove(&client);
            self.version += 1;
        }
    }

    /// Somebody's pen hovers there. Of those who are not here nothing is kept.
    pub fn point(&mut self, client: ClientId, x: i32, y: i32, is_local: bool) {
        if let Some(member) = self.members.get_mut(&client) {
            self.moves += 1;
            member.pointer = Some(Pointer { x, y, moved: self.moves, is_local });
        }
    }

    /// The newest place of each pointer that moved since `moves` was read.
    pub fn pointers_since(&self, moves: u64) -> Vec<(ClientId, i32, i32)> {
        self.pointers(|pointer| pointer.moved > moves)
    }

    /// As [`Presence::pointers_since`], of those who are connected to this node.
    pub fn local_pointers_since(&self, moves: u64) -> Vec<(ClientId, i32, i32)> {
        self.pointers(|pointer| pointer.moved > moves && pointer.is_local)
    }

    fn pointers(&self, wanted: impl Fn(&Pointer) -> bool) -> Vec<(ClientId, i32, i32)> {
        let moved = |(client, member): (&ClientId, &Member<A>)| {
            member.pointer.filter(&wanted).map(|pointer| (*client, pointer.x, pointer.y))
        };
        self.members.iter().filter_map(moved).collect()
    }
}

/// How long a polling client is present after it called.
pub const POLL_PRESENCE: Duration = Duration::from_secs(45);

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ClientId {
        ClientId::new(number).unwrap()
    }

    fn names(presence: &Presence<u64>) -> Vec<(u64, String)> {
        presence.participants().into_iter().map(|p| (p.client.get(), p.profile.name)).collect()
    }

    fn profile(name: &str) -> Profile {
        Profile { name: name.to_owned(), rgba: 0 }
    }

    #[test]
    fn the_late_close_of_a_replaced_socket_changes_nothing() {
        let mut presence = Presence::<u64>::default();
        assert_eq!(presence.attach(id(1), 10, profile("old")), None);
        assert_eq!(presence.attach(id(1), 11, profile("new")), Some(10));
        presence.detach(id(1), &10);
        assert_eq!(names(&presence), [(1, "new".to_owned())]);
        presence.detach(id(1), &11);
        assert!(presence.is_empty());
    }

    #[test]
    fn a_polling_client_is_here_for_its_time() {
        let (mut presence, now) = (Presence::<u64>::default(), Instant::now());
        presence.polled(id(1), Some(profile("poll")), now + POLL_PRESENCE);
        presence.polled(id(1), None, now + POLL_PRESENCE);
        presence.expire(now + POLL_PRESENCE - Duration::from_millis(1));
        assert_eq!(names(&presence), [(1, "poll".to_owned())]);
        presence.expire(now + POLL_PRESENCE);
        assert!(presence.is_empty());
    }

    #[test]
    fn whoever_is_dismissed_stays_by_a_socket_only() {
        let (mut presence, now) = (Presence::<u64>::default(), Instant::now());
        presence.polled(id(1), None, now + POLL_PRESENCE);
        presence.polled(id(2), None, now + POLL_PRESENCE);
        presence.attach(id(2), 1, profile("both"));
        assert_eq!([1, 2, 3].map(|client| presence.dismiss(id(client))), [true, true, false]);
        assert_eq!(names(&presence), [(2, "both".to_owned())]);
        assert!(!presence.dismiss(id(2)), "a socket is no call");
    }

    #[test]
    fn another_node_vouches_for_its_own_and_only_for_a_time() {
        let (mut presence, now) = (Presence::<u64>::default(), Instant::now());
        let until = now + Duration::from_secs(30);
        let list = |clients: &[u64]| {
            clients
                .iter()
                .map(|c| Participant { client: id(*c), profile: profile("far") })
                .collect::<Vec<_>>()
        };
        presence.attach(id(1), 1, profile("near"));
        presence.heard(99, list(&[1, 2, 3]), until);
        assert_eq!(names(&presence), [(1, "near".to_owned()), (2, "far".to_owned()), (3, "far".to_owned())]);
        let version = presence.version();
        presence.heard(99, list(&[1, 2, 3]), until);
        assert_eq!(presence.version(), version, "the same list is no change");
        presence.heard(99, list(&[3]), until);
        assert_eq!(presence.len(), 2);
        presence.expire(until);
        assert_eq!(names(&presence), [(1, "near".to_owned())]);
    }

    #[test]
    fn only_the_newest_place_of_a_pointer_counts() {
        let mut presence = Presence::<u64>::default();
        presence.point(id(1), 1, 1, true);
        assert!(presence.pointers_since(0).is_empty(), "who is not here has no pointer");
        presence.attach(id(1), 1, profile(""));
        presence.point(id(1), 1, 1, true);
        presence.point(id(1), 2, 2, true);
        assert_eq!(presence.pointers_since(0), [(id(1), 2, 2)]);
        assert!(presence.pointers_since(presence.moves()).is_empty());
    }
}
