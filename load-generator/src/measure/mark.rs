//! A mark: what every draw carries so that any reader can check it alone, without a table.
//!
//! A draw is one whole stroke of ink, `[0, 0, [tool, rgba, width], channels, points, true]`, with four integers more
//! at its end, which every reader of the protocol ignores: the writer, the draw's number, the microsecond at which
//! it was due, and a checksum. The checksum is over the ink's bytes and the three other integers as values, so
//! that it survives a server that turns draws into JSON and back.

use inkrelay_protocol::msgpack::{self, Malformed, Reader};

/// Elements of a whole stroke.
const INK_FIELDS: u32 = 6;
/// Elements of a mark.
const MARK_FIELDS: u32 = 4;

/// Who sent a draw, which one it is, and when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The run's tag and the writer's index: [`writer_id`].
    pub writer: u32,
    /// The writer's draws are numbered 1, 2, 3…
    pub number: u32,
    /// When it was due, in microseconds since the run began.
    pub due_us: u64,
}

/// Tells the writers of one run from those of another in the same room.
pub const fn writer_id(run: u16, index: u16) -> u32 {
    (run as u32) << 16 | index as u32
}

/// Ink that is encoded once and sent many times, each time with another mark.
#[derive(Clone, Debug)]
pub struct Ink {
    bytes: Vec<u8>,
    hasher: crc32fast::Hasher,
}

impl Ink {
    /// Of the six elements of a whole stroke, without the array's head, each value in its shortest form.
    pub fn new(elements: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(elements.len() + 1);
        msgpack::write_array(&mut bytes, (INK_FIELDS + MARK_FIELDS) as usize);
        bytes.extend_from_slice(elements);
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes);
        Self { bytes, hasher }
    }

    /// The draw with that mark, in place of what was in `out`.
    pub fn mark(&self, mark: Mark, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.bytes);
        msgpack::write_uint(out, mark.writer.into());
        msgpack::write_uint(out, mark.number.into());
        msgpack::write_uint(out, mark.due_us);
        msgpack::write_uint(out, checksum(self.hasher.clone(), mark).into());
    }
}

fn checksum(mut hasher: crc32fast::Hasher, mark: Mark) -> u32 {
    let mut values = [0; 16];
    values[..4].copy_from_slice(&mark.writer.to_le_bytes());
    values[4..8].copy_from_slice(&mark.number.to_le_bytes());
    values[8..].copy_from_slice(&mark.due_us.to_le_bytes());
    hasher.update(&values);
    hasher.finalize()
}

/// Reads a draw's mark and compares its checksum.
///
/// # Errors
/// When it is no marked draw, or its content changed.
pub fn read(draw: &[u8]) -> Result<Mark, Malformed> {
    const NOT_MARKED: Malformed = Malformed("it carries no mark");
    let mut reader = Reader::new(draw);
    if reader.array()? != INK_FIELDS + MARK_FIELDS {
        return Err(NOT_MARKED);
    }
    let before = draw.len();
    let mut rest = reader.clone();
    let mut ink_bytes = 1;
    for _ in 0..INK_FIELDS {
        ink_bytes += rest.raw()?.len();
    }
    let ink = draw.get(..ink_bytes.min(before)).ok_or(NOT_MARKED)?;
    let small = |value: u64| u32::try_from(value).map_err(|_| NOT_MARKED);
    let mark = Mark { writer: small(rest.uint()?)?, number: small(rest.uint()?)?, due_us: rest.uint()? };
    let expected = rest.uint()?;
    rest.finish()?;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(ink);
    if u64::from(checksum(hasher, mark)) != expected {
        return Err(Malformed("its content does not fit its checksum"));
    }
    Ok(mark)
}

#[cfg(test)]
mod tests {
    use inkrelay_protocol::draw::{Drawer, check_draw};
    use inkrelay_protocol::json::{self, Shape};
    use inkrelay_protocol::limits::DrawLimits;
    use inkrelay_protocol::{ClientId, Role};

    use super::*;
    use crate::measure::ink;

    fn marked() -> (Mark, Vec<u8>) {
        let mark = Mark { writer: writer_id(7, 3), number: 4711, due_us: 123_456_789 };
        let mut out = Vec::new();
        ink::handwriting()[5].mark(mark, &mut out);
        (mark, out)
    }

    #[test]
    fn the_anonymous_author_may_send_it_and_the_mark_comes_back() {
        let (mark, draw) = marked();
        let limits = DrawLimits { bytes_per_draw: 0, draws_per_batch: 0 };
        let anyone = Drawer { client: ClientId::ANONYMOUS, role: Role::Drawer };
        check_draw(&draw, &limits, anyone).unwrap();
        assert_eq!(read(&draw), Ok(mark));
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        let (_, draw) = marked();
        for index in 0..draw.len() {
            for bit in 0..8 {
                let mut changed = draw.clone();
                changed[index] ^= 1 << bit;
                assert!(read(&changed).is_err(), "byte {index}, bit {bit}");
            }
        }
    }

    #[test]
    fn it_survives_a_way_through_json() {
        let (mark, draw) = marked();
        let mut text = Vec::new();
        json::from_msgpack(&draw, &mut text).unwrap();
        let again = json::to_msgpack(&[b"[", &text[..], b"]"].concat(), Shape::Draws).unwrap();
        assert_eq!(read(&again[1..]), Ok(mark));
    }
}
