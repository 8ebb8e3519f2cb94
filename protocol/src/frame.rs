//! Frames: what goes over the WebSocket, in both directions.

mod client;
mod server;

use crate::id::ClientId;
use crate::limits::{COORDINATE_MAX, CREDENTIAL_BYTES, PROFILE_NAME_CHARS, SAFE_INTEGER_MAX};
use crate::msgpack::{self, Malformed, Reader};
use crate::position::{Epoch, Position, Seq};
use crate::record::{Identity, Record};

pub use client::{ClientFrame, Hello};
pub use server::ServerFrame;

/// A name and a colour that others see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// At most 64 characters; may be empty.
    pub name: String,
    /// Red, green, blue and alpha, eight bits each, red first.
    pub rgba: u32,
}

impl Profile {
    /// # Errors
    /// When the name is longer than 64 characters.
    pub fn new(name: String, rgba: u32) -> Result<Self, Malformed> {
        if name.chars().count() > PROFILE_NAME_CHARS {
            return Err(Malformed("a name has at most 64 characters"));
        }
        Ok(Self { name, rgba })
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let fields = at_least(reader.array()?, 2)?;
        let name = reader.str()?.to_owned();
        let rgba = read_rgba(reader)?;
        reader.skip_rest(fields - 2)?;
        Self::new(name, rgba)
    }

    fn write(&self, out: &mut Vec<u8>) {
        msgpack::write_array(out, 2);
        msgpack::write_str(out, &self.name);
        msgpack::write_uint(out, self.rgba.into());
    }
}

/// Someone who is in the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Who.
    pub client: ClientId,
    /// As what.
    pub profile: Profile,
}

/// What a session is told to keep to. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Bytes of one draw.
    pub bytes_per_draw: u64,
    /// Draws in one batch.
    pub draws_per_batch: u64,
    /// Bytes of one message.
    pub bytes_per_message: u64,
    /// Batches in one second.
    pub batches_per_second: u64,
    /// The newest of the client's draws that is stored; 0 for none.
    pub last_n: u64,
}

impl SessionLimits {
    /// In the order in which they stand on the wire.
    pub const fn to_array(self) -> [u64; 5] {
        [
            self.bytes_per_draw,
            self.draws_per_batch,
            self.bytes_per_message,
            self.batches_per_second,
            self.last_n,
        ]
    }

    /// From the order in which they stand on the wire.
    pub const fn from_array(values: [u64; 5]) -> Self {
        let [bytes_per_draw, draws_per_batch, bytes_per_message, batches_per_second, last_n] = values;
        Self { bytes_per_draw, draws_per_batch, bytes_per_message, batches_per_second, last_n }
    }
}

/// The fields of one array, required and optional, with whatever a later version put behind them.
struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: u32,
}

impl<'r, 'a> Fields<'r, 'a> {
    fn open(reader: &'r mut Reader<'a>) -> Result<Self, Malformed> {
        let left = reader.array().map_err(|_| Malformed("a frame is an array"))?;
        Ok(Self { reader, left })
    }

    fn required(&mut self) -> Result<&mut Reader<'a>, Malformed> {
        self.left = self.left.checked_sub(1).ok_or(Malformed("the frame lacks required fields"))?;
        Ok(self.reader)
    }

    /// `None` where nothing or nil stands.
    fn optional(&mut self) -> Result<Option<&mut Reader<'a>>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(if self.reader.nil() { None } else { Some(self.reader) })
    }

    fn close(self) -> Result<(), Malformed> {
        self.reader.skip_rest(self.left)?;
        self.reader.finish()
    }
}

fn at_least(fields: u32, required: u32) -> Result<u32, Malformed> {
    if fields < required { Err(Malformed("an array lacks required fields")) } else { Ok(fields) }
}

fn read_credential(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let text = reader.str()?;
    if text.len() > CREDENTIAL_BYTES {
        return Err(Malformed("a ticket or token is longer than 8 KiB"));
    }
    Ok(text.to_owned())
}

fn read_rgba(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    u32::try_from(reader.uint()?).map_err(|_| Malformed("rgba is an integer of 32 bits"))
}

fn read_client(reader: &mut Reader<'_>) -> Result<ClientId, Malformed> {
    ClientId::new(reader.uint()?).ok_or(Malformed("a client is at most 2^48 - 1"))
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<Epoch, Malformed> {
    Epoch::new(reader.uint()?).ok_or(Malformed("an epoch is 1 to 2^53 - 1"))
}

/// An integer that JavaScript can hold.
fn read_safe(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let value = reader.uint()?;
    if value > SAFE_INTEGER_MAX { Err(Malformed("an integer is at most 2^53 - 1")) } else { Ok(value) }
}

fn read_seq(reader: &mut Reader<'_>) -> Result<Seq, Malformed> {
    Seq::new(reader.uint()?).ok_or(Malformed("a seq is at most 2^53 - 1"))
}

fn read_coordinate(reader: &mut Reader<'_>) -> Result<i32, Malformed> {
    const RANGE: Malformed = Malformed("a coordinate is within 2^30 sixteenths of a pixel of the origin");
    let value = reader.int()?;
    if value.unsigned_abs() > COORDINATE_MAX.unsigned_abs() {
        return Err(RANGE);
    }
    i32::try_from(value).map_err(|_| RANGE)
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    let fields = at_least(reader.array()?, 5)?;
    let (epoch, seq) = (read_epoch(reader)?, read_seq(reader)?);
    let identity = Identity { author: read_client(reader)?, n: read_safe(reader)?, at: read_safe(reader)? };
    reader.skip_rest(fields - 5)?;
    Ok(Position { epoch, seq, identity })
}

fn read_limits(reader: &mut Reader<'_>) -> Result<SessionLimits, Malformed> {
    let fields = at_least(reader.array()?, 5)?;
    let mut values = [0; 5];
    for value in &mut values {
        *value = read_safe(reader)?;
    }
    reader.skip_rest(fields - 5)?;
    Ok(SessionLimits::from_array(values))
}

fn read_records<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, Malformed> {
    let len = reader.array()?;
    let one = |_| {
        let bytes = reader.raw()?;
        Record::parse(bytes).map(|_| bytes)
    };
    (0..len).map(one).collect()
}

fn read_participants(reader: &mut Reader<'_>) -> Result<Vec<Participant>, Malformed> {
    let len = reader.array()?;
    let one = |_| {
        let fields = at_least(reader.array()?, 3)?;
        let client = read_client(reader)?;
        let profile = Profile { name: reader.str()?.to_owned(), rgba: read_rgba(reader)? };
        reader.skip_rest(fields - 3)?;
        Ok(Participant { client, profile })
    };
    (0..len).map(one).collect()
}

fn write_optional<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => msgpack::write_nil(out),
    }
}

fn write_identity(out: &mut Vec<u8>, identity: &Identity) {
    msgpack::write_uint(out, identity.author.get());
    msgpack::write_uint(out, identity.n);
    msgpack::write_uint(out, identity.at);
}

fn write_position(out: &mut Vec<u8>, position: &Position) {
    msgpack::write_array(out, 5);
    msgpack::write_uint(out, position.epoch.get());
    msgpack::write_uint(out, position.seq.get());
    write_identity(out, &position.identity);
}

/// Appends `[record, …]`, each record as its bytes.
pub fn write_records<R: AsRef<[u8]>>(out: &mut Vec<u8>, records: &[R]) {
    msgpack::write_array(out, records.len());
    for record in records {
        out.extend_from_slice(record.as_ref());
    }
}

/// Appends `[[client, name, rgba], …]`.
pub fn write_participants(out: &mut Vec<u8>, participants: &[Participant]) {
    msgpack::write_array(out, participants.len());
    for Participant { client, profile } in participants {
        msgpack::write_array(out, 3);
        msgpack::write_uint(out, client.get());
        msgpack::write_str(out, &profile.name);
        msgpack::write_uint(out, profile.rgba.into());
    }
}
