//! Who and where: the names of rooms and clients, valid by construction, and what a role allows.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::limits::{CLIENT_MAX, ROOM_NAME_CHARS};

/// A room's name: 1 to 64 characters of `A-Z a-z 0-9 _ - .`, not starting with a dot; case matters.
///
/// The characters are chosen so that a name is one URL path segment, one file name and one Redis hash
/// tag without any escaping: `/`, `..` or `}` in a name would leave its place in each of these.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomId(Arc<str>);

/// Why a string is no room name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a room's name has 1 to 64 characters of A-Z a-z 0-9 _ - . and does not start with a dot")]
pub struct InvalidRoomId;

impl RoomId {
    /// The name as it stands in addresses.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for RoomId {
    type Err = InvalidRoomId;

    fn from_str(name: &str) -> Result<Self, InvalidRoomId> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
        let valid = (1..=ROOM_NAME_CHARS).contains(&name.len())
            && !name.starts_with('.')
            && name.bytes().all(allowed);
        if valid { Ok(Self(name.into())) } else { Err(InvalidRoomId) }
    }
}

impl fmt::Display for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RoomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoomId({})", self.0)
    }
}

/// A participant's number in a room: 1 to 2^48 − 1, or 0 for the anonymous author of HTTP appends
/// without a ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u64);

impl ClientId {
    /// The author of what came without a ticket.
    pub const ANONYMOUS: Self = Self(0);

    /// `None` above 2^48 − 1.
    pub const fn new(id: u64) -> Option<Self> {
        if id <= CLIENT_MAX { Some(Self(id)) } else { None }
    }

    /// The number on the wire.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is [`ClientId::ANONYMOUS`].
    pub const fn is_anonymous(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a participant may do. Each role may do all that the one before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads and draws.
    Drawer,
    /// Reads, draws and revokes what others erased or cleared.
    Moderator,
}

impl Role {
    /// The number on the wire: 0, 1, 2.
    pub const fn number(self) -> u64 {
        match self {
            Self::Viewer => 0,
            Self::Drawer => 1,
            Self::Moderator => 2,
        }
    }

    /// The role of that number, if there is one.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Viewer),
            1 => Some(Self::Drawer),
            2 => Some(Self::Moderator),
            _ => None,
        }
    }
}

impl FromStr for Role {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        match name {
            "viewer" => Ok(Self::Viewer),
            "drawer" => Ok(Self::Drawer),
            "moderator" => Ok(Self::Moderator),
            _ => Err("a role is viewer, drawer or moderator"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_names_are_checked() {
        for good in ["a", "Board_1-x.y", &"x".repeat(64), "a..b"] {
            assert_eq!(good.parse::<RoomId>().unwrap().as_str(), good);
        }
        for bad in
            ["", ".", "..", ".hidden", "a/b", "a}b", "a{b", "a b", "é", "🖊", &"x".repeat(65), "a\0", "a%2f"]
        {
            assert_eq!(bad.parse::<RoomId>(), Err(InvalidRoomId), "{bad:?}");
        }
    }

    #[test]
    fn client_ids_fit_48_bits() {
        assert!(ClientId::new((1 << 48) - 1).is_some());
        assert!(ClientId::new(1 << 48).is_none());
    }
}
