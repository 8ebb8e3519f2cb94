//! Where a reader is in a room's log.

use std::fmt;
use std::str::FromStr;

use crate::id::ClientId;
use crate::limits::SAFE_INTEGER_MAX;
use crate::record::Identity;

/// Names one incarnation of a room's log: 1 to 2^53 − 1.
///
/// It changes whenever the store cannot vouch that nothing acknowledged was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// What is told of a log that has no record yet, and so no incarnation that could be lost.
    pub const EMPTY: Self = Self(1);

    /// `None` outside 1 to 2^53 − 1.
    pub const fn new(epoch: u64) -> Option<Self> {
        if epoch >= 1 && epoch <= SAFE_INTEGER_MAX { Some(Self(epoch)) } else { None }
    }

    /// An epoch made of 64 random bits; never [`Epoch::EMPTY`].
    pub const fn from_random(bits: u64) -> Self {
        Self((bits & SAFE_INTEGER_MAX) | 2)
    }

    /// The number on the wire.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// A record's number in the room's log: 1, 2, 3… without gaps. 0 is the place before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Seq(u64);

impl Seq {
    /// Before the first record.
    pub const START: Self = Self(0);

    /// `None` above 2^53 − 1.
    pub const fn new(seq: u64) -> Option<Self> {
        if seq <= SAFE_INTEGER_MAX { Some(Self(seq)) } else { None }
    }

    /// The number on the wire.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number that many records later. A log does not live to reach the bound.
    pub const fn plus(self, records: usize) -> Self {
        Self(self.0.saturating_add(records as u64))
    }

    /// The number of the next record.
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// The number before, or the start.
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The last record that a reader has, with that record's identity.
///
/// A sequence number alone would resume a reader in the wrong log: after a failover that lost the newest
/// writes the store hands the same numbers out again, for other draws, and the reader's board would differ
/// from everyone else's without anyone noticing. So the server compares the identity with that of its own
/// record of that number (the *log matching* of Raft, Ongaro and Ousterhout 2014, §5.3): the same, and all
/// before it is the same; different, and the reader is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The incarnation of the log in which the reader read.
    pub epoch: Epoch,
    /// The number of the last record; [`Seq::START`] for none.
    pub seq: Seq,
    /// That record's identity; all zero at the start.
    pub identity: Identity,
}

impl Position {
    /// Before the first record of an epoch.
    pub const fn start(epoch: Epoch) -> Self {
        Self { epoch, seq: Seq::START, identity: Identity::NONE }
    }

    /// Whether both name the same record of the same log, whatever the epoch was called at the time.
    pub fn matches(&self, other: &Self) -> bool {
        self.seq == other.seq && (self.seq == Seq::START || self.identity == other.identity)
    }
}

/// As in addresses, headers and event ids: `epoch.seq.author.n.at`.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { author, n, at } = self.identity;
        write!(f, "{}.{}.{author}.{n}.{at}", self.epoch.get(), self.seq)
    }
}

/// Why a string is no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is epoch.seq.author.n.at as the server gave it, or a bare seq")]
pub struct InvalidPosition;

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        let mut parts = text.split('.').map(decimal);
        let mut next = || parts.next().flatten().ok_or(InvalidPosition);
        let (epoch, seq, author, n, at) = (next()?, next()?, next()?, next()?, next()?);
        // Later versions may add parts, as everywhere; they must be numbers all the same.
        if parts.any(|part| part.is_none()) {
            return Err(InvalidPosition);
        }
        Ok(Self {
            epoch: Epoch::new(epoch).ok_or(InvalidPosition)?,
            seq: Seq::new(seq).ok_or(InvalidPosition)?,
            identity: Identity { author: ClientId::new(author).ok_or(InvalidPosition)?, n, at },
        })
    }
}

/// Digits and nothing else, at most 2^53 − 1: `u64::from_str` would take a plus sign.
fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.len() <= 16 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten().filter(|value| *value <= SAFE_INTEGER_MAX)
}

/// Where a reader asks to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// From the first record.
    Start,
    /// After a bare number, without log matching: for people with `curl`.
    Seq(Seq),
    /// After a record that the reader can name.
    Position(Position),
}

impl After {
    /// A place at the start is the same as none.
    pub fn position(position: Option<Position>) -> Self {
        match position {
            Some(position) if position.seq > Seq::START => Self::Position(position),
            _ => Self::Start,
        }
    }
}

impl FromStr for After {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        if text.contains('.') {
            return text.parse().map(|position| Self::position(Some(position)));
        }
        let seq = decimal(text).and_then(Seq::new).ok_or(InvalidPosition)?;
        Ok(if seq == Seq::START { Self::Start } else { Self::Seq(seq) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_back_as_it_was_written() {
        let text = "77.4096.281474976710655.12.1700000000000";
        assert_eq!(text.parse::<Position>().unwrap().to_string(), text);
        assert_eq!("5".parse(), Ok(After::Seq(Seq(5))));
        assert_eq!("0".parse(), Ok(After::Start));
        assert_eq!("9.0.0.0.0".parse(), Ok(After::Start));
    }

    #[test]
    fn what_is_no_position_is_refused() {
        let two_to_53 = "9007199254740992";
        for bad in [
            "",
            ".",
            "1.2",
            "1.2.3.4",
            "a",
            "-1",
            "+1",
            "1.5",
            "0.1.1.1.1",
            "1.2.3.4.5.x",
            " 1",
            "1e3",
            two_to_53,
        ] {
            assert_eq!(bad.parse::<After>(), Err(InvalidPosition), "{bad:?}");
        }
    }
}
