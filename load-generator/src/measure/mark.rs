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
    match read_from_end(draw) {
        Some(mark) => Ok(mark),
        None => read_from_start(draw),
    }
}

/// Without a walk over the ink, which takes several times as long. MessagePack cannot be read backwards for sure, but
/// the checksum tells whether it was: what fits it is what was sent.
fn read_from_end(draw: &[u8]) -> Option<Mark> {
    let (expected, rest) = last_uint(draw)?;
    let (due_us, rest) = last_uint(rest)?;
    let (number, rest) = last_uint(rest)?;
    let (writer, ink) = last_uint(rest)?;
    let mark = Mark { writer: u32::try_from(writer).ok()?, number: u32::try_from(number).ok()?, due_us };
    fits(ink, mark, expected).then_some(mark)
}

/// The integer at the end, if it is the longest that may stand there, and what is before it.
fn last_uint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let value = |len: usize, marker: u8| {
        let (rest, value) = bytes.split_at_checked(bytes.len().checked_sub(len)?)?;
        let rest = rest.strip_suffix(&[marker])?;
        Some((value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), rest))
    };
    let small =
        || bytes.split_last().filter(|(last, _)| **last < 0x80).map(|(last, rest)| ((*last).into(), rest));
    value(4, 0xce)
        .or_else(|| value(8, 0xcf))
        .or_else(|| value(2, 0xcd))
        .or_else(|| value(1, 0xcc))
        .or_else(small)
}

fn fits(ink: &[u8], mark: Mark, expected: u64) -> bool {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(ink);
    u64::from(checksum(hasher, mark)) == expected
}

fn read_from_start(draw: &[u8]) -> Result<Mark, Malformed> {
    const NOT_MARKED: Malformed = Malformed("it carries no mark");
    let mut reader = Reader::new(draw);
    if reader.array()? != INK_FIELDS + MARK_FIELDS {
        return Err(NOT_MARKED);
    }
    let mut rest = reader.clone();
    let mut ink_bytes = 1;
    for _ in 0..INK_FIELDS {
        ink_bytes += rest.raw()?.len();
    }
    let ink = draw.get(..ink_bytes.min(draw.len())).ok_or(NOT_MARKED)?;
    let small = |value: u64| u32::try_from(value).map_err(|_| NOT_MARKED);
    let mark = Mark { writer: small(rest.uint()?)?, number: small(rest.uint()?)?, due_us: rest.uint()? };
    let expected = rest.uint()?;
    rest.finish()?;
    if fits(ink, mark, expected) { Ok(mark) } else { Err(Malformed("its content does not fit its checksum")) }
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
    fn marks_are_read_alike_from_both_ends() {
        let sizes = [0, 1, 127, 128, 255, 256, 65_535, 65_536, u64::from(u32::MAX), 1 << 40];
        let mut from_end = 0;
        for (index, ink) in ink::handwriting().iter().enumerate() {
            for due_us in sizes {
                let small = sizes[(index + due_us as usize) % 9] as u32;
                let mark = Mark { writer: u32::MAX - small, number: small, due_us };
                let mut draw = Vec::new();
                ink.mark(mark, &mut draw);
                assert_eq!((read(&draw), read_from_start(&draw)), (Ok(mark), Ok(mark)));
                from_end += usize::from(read_from_end(&draw) == Some(mark));
            }
        }
        // Now and then a byte in a number looks like the beginning of another.
        assert!(from_end > 550, "{from_end} of 640");
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
