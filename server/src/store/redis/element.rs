//! An element of a room's list, made tellable: whoever writes to Redis can put anything there.

use bytes::Bytes;
use inkrelay_protocol::limits::MESSAGE_DEPTH;
use inkrelay_protocol::msgpack::{Malformed, Reader, Token};
use inkrelay_protocol::{ClientId, Draw, Identity, Record, Seq};

/// Levels of arrays around a record in a frame: the frame, and its array of records.
const LEVELS_AROUND: usize = 2;

/// The element as a record. What is none, or would make the frame around it unreadable, is told as an opaque
/// draw by the anonymous author that holds it: it keeps its number, so that the log has no hole, and every
/// server tells it alike. A draw that breaks a rule inside a sound record is the board's matter.
pub(super) fn told(seq: Seq, element: Bytes) -> Bytes {
    let shallow = |bytes| skip(&mut Reader::new(bytes), MESSAGE_DEPTH - LEVELS_AROUND).is_ok();
    if Record::parse(&element).is_ok() && shallow(&element) {
        return element;
    }
    let draw = Draw::Opaque(element.to_vec()).to_bytes();
    let identity = Identity { author: ClientId::ANONYMOUS, n: seq.get(), at: 0 };
    let mut record = Vec::with_capacity(draw.len() + Record::OVERHEAD_BYTES);
    Record { identity, draw: &draw }.encode(&mut record);
    Bytes::from(record)
}

/// Steps over one value of at most `levels` levels of arrays and maps.
fn skip(reader: &mut Reader<'_>, levels: usize) -> Result<(), Malformed> {
    let values = match reader.token()? {
        Token::Array(len) => u64::from(len),
        Token::Map(len) => u64::from(len) * 2,
        _ => return Ok(()),
    };
    let levels = levels.checked_sub(1).ok_or(Malformed("nested too deep for a frame"))?;
    (0..values).try_for_each(|_| skip(reader, levels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_told_as_an_opaque_draw() {
        let seq = Seq::new(7).unwrap();
        let nested_in = |levels| [&b"\x94\x01\x01\x01"[..], &vec![0x91; levels], b"\x00"].concat();
        let (deep, deepest) = (nested_in(30), nested_in(29));
        let nan = b"\xca\x7f\xc0\x00\x00";
        let nested = [0x91; 100_000];
        for garbage in
            [&b""[..], b"hello", b"\xc1", b"\x94", &nested, &deep, nan, b"\x94\x01\x00\x01\x91\x04"]
        {
            let record = told(seq, Bytes::copy_from_slice(garbage));
            let parsed = Record::parse(&record).unwrap();
            assert_eq!(parsed.identity, Identity { author: ClientId::ANONYMOUS, n: 7, at: 0 });
            assert_eq!(Draw::decode(parsed.draw), Ok(Draw::Opaque(garbage.to_vec())));
        }
        for sound in [&b"\x94\x01\x01\x01\x91\x04"[..], b"\x95\x01\x01\x01\x91\x00\x2a", &deepest] {
            assert_eq!(told(seq, Bytes::copy_from_slice(sound)), sound);
        }
    }
}
