//! A record: a draw stamped with its author, the author's number for it, and the server's time.

use crate::id::ClientId;
use crate::limits::SAFE_INTEGER_MAX;
use crate::msgpack::{self, Malformed, Reader};

/// What tells one append from every other: no two share it, also when a draw is stored again after a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Who drew.
    pub author: ClientId,
    /// The author's own number for the draw, from 1.
    pub n: u64,
    /// The server's wall clock at the append, in milliseconds since 1970.
    pub at: u64,
}

impl Identity {
    /// What stands in a position at the start of a log.
    pub const NONE: Self = Self { author: ClientId::ANONYMOUS, n: 0, at: 0 };
}

/// `[author, n, at, draw]`, read in place. What a store holds and what receivers get, byte for byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Who, which and when.
    pub identity: Identity,
    /// The draw's own bytes.
    pub draw: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads one whole record.
    ///
    /// # Errors
    /// When the bytes are no record, or more than one. The draw inside is not looked at.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        Self::read(&mut Reader::whole(bytes)?)
    }

    /// Reads the next record of several.
    ///
    /// # Errors
    /// As [`Record::parse`].
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let fields = reader.array()?;
        if fields < 4 {
            return Err(Malformed("a record has author, n, at and draw"));
        }
        let author = ClientId::new(reader.uint()?).ok_or(Malformed("an author is at most 2^48 - 1"))?;
        let (n, at) = (reader.uint()?, reader.uint()?);
        if n == 0 || n > SAFE_INTEGER_MAX || at > SAFE_INTEGER_MAX {
            return Err(Malformed("n and at of a record are at most 2^53 - 1, and n is at least 1"));
        }
        let draw = reader.raw()?;
        reader.skip_rest(fields - 4)?;
        Ok(Self { identity: Identity { author, n, at }, draw })
    }

    /// Appends the record's bytes to `out`. The draw is copied as it is.
    pub fn encode(&self, out: &mut Vec<u8>) {
        msgpack::write_array(out, 4);
        msgpack::write_uint(out, self.identity.author.get());
        msgpack::write_uint(out, self.identity.n);
        msgpack::write_uint(out, self.identity.at);
        out.extend_from_slice(self.draw);
    }

    /// The most bytes that a record is longer than its draw.
    pub const OVERHEAD_BYTES: usize = 1 + 3 * 9;
}
