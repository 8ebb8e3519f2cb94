//! An element of a room's list, made tellable: whoever writes to Redis can put anything there.

use bytes::Bytes;
use inkrelay_protocol::draw::check_tellable;
use inkrelay_protocol::limits::DRAW_DEPTH;
use inkrelay_protocol::{ClientId, Draw, Identity, Record, Seq};

/// The element as a record. What is none, or could not be sent to a client, is told as an opaque draw by the
/// anonymous author that holds it: it keeps its number, so that the log has no hole, and every server tells it
/// alike. A draw that breaks a rule inside a sound record is the board's matter.
pub(super) fn told(seq: Seq, element: Bytes) -> Bytes {
    if Record::parse(&element).is_ok() && check_tellable(&element, DRAW_DEPTH + 1).is_ok() {
        return element;
    }
    let draw = Draw::Opaque(element.to_vec()).to_bytes();
    let identity = Identity { author: ClientId::ANONYMOUS, n: seq.get(), at: 0 };
    let mut record = Vec::with_capacity(draw.len() + Record::OVERHEAD_BYTES);
    Record { identity, draw: &draw }.encode(&mut record);
    Bytes::from(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_told_as_an_opaque_draw() {
        let seq = Seq::new(7).unwrap();
        let deep = [&b"\x94\x01\x01\x01"[..], &[0x91; 17], b"\x00"].concat();
        let nan = b"\x94\x01\x01\x01\x91\xca\x7f\xc0\x00\x00";
        let nested = [0x91; 100_000];
        for garbage in
            [&b""[..], b"hello", b"\xc1", b"\x94", &nested, &deep, nan, b"\x94\x01\x00\x01\x91\x04"]
        {
            let record = told(seq, Bytes::copy_from_slice(garbage));
            let parsed = Record::parse(&record).unwrap();
            assert_eq!(parsed.identity, Identity { author: ClientId::ANONYMOUS, n: 7, at: 0 });
            assert_eq!(Draw::decode(parsed.draw), Ok(Draw::Opaque(garbage.to_vec())));
        }
        for sound in [&b"\x94\x01\x01\x01\x91\x04"[..], b"\x95\x01\x01\x01\x91\x00\x2a"] {
            assert_eq!(told(seq, Bytes::copy_from_slice(sound)), sound);
        }
    }
}
