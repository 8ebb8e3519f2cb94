//! What goes over a room's channel: one line of text that says what it is, and then bytes.
//!
//! | line | then |
//! |---|---|
//! | `A node epoch seq author n at` | the records appended after the one that the line names, end to end |
//! | `H node epoch seq author n at` | nothing: records were appended, too many bytes to publish |
//! | `T node` | what was passed to `tell` |

use bytes::Bytes;
use inkrelay_protocol::msgpack::Reader;
use inkrelay_protocol::{ClientId, Epoch, Identity, Position, RoomId, Seq};

use super::element;

const PREFIX: &str = "inkrelay:";

/// The channel of a room.
pub(super) fn channel(room: &RoomId) -> String {
    format!("{PREFIX}{{{room}}}")
}

/// The room of a channel.
pub(super) fn room_of(channel: &[u8]) -> Option<RoomId> {
    let name = str::from_utf8(channel).ok()?.strip_prefix(PREFIX)?;
    name.strip_prefix('{')?.strip_suffix('}')?.parse().ok()
}

/// A message, understood.
pub(super) enum Message {
    /// Records, and the one before them.
    Appended { before: Position, records: Vec<Bytes> },
    /// There are records to read from the store.
    Hint,
    /// Something ephemeral, by the node of that name.
    Told { node: String, message: Bytes },
}

/// The bytes of a [`Message::Told`].
pub(super) fn tell(node: &str, message: &[u8]) -> Vec<u8> {
    [b"T ", node.as_bytes(), b"\n", message].concat()
}

/// `None` for what this version does not understand.
pub(super) fn parse(payload: Vec<u8>) -> Option<Message> {
    let payload = Bytes::from(payload);
    let end = payload.iter().position(|byte| *byte == b'\n')?;
    let body = payload.slice(end + 1..);
    let line = str::from_utf8(&payload[..end]).ok()?;
    let mut words = line.split(' ');
    match (words.next()?, words.next()?) {
        ("T", node) => Some(Message::Told { node: node.to_owned(), message: body }),
        ("H", _) => Some(Message::Hint),
        ("A", _) => {
            let mut number = || words.next()?.parse::<u64>().ok();
            let before = Position {
                epoch: Epoch::new(number()?)?,
                seq: Seq::new(number()?)?,
                identity: Identity { author: ClientId::new(number()?)?, n: number()?, at: number()? },
            };
            let records = split(&body, before.seq)?;
            Some(Message::Appended { before, records })
        }
        _ => None,
    }
}

fn split(body: &Bytes, before: Seq) -> Option<Vec<Bytes>> {
    let mut reader = Reader::new(body);
    let mut records = Vec::new();
    while !reader.is_at_end() {
        let record = body.slice_ref(reader.raw().ok()?);
        records.push(element::told(before.plus(records.len() + 1), record));
    }
    (!records.is_empty()).then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_lead_back_to_their_rooms() {
        let room: RoomId = "board-1".parse().unwrap();
        assert_eq!(channel(&room), "inkrelay:{board-1}");
        assert_eq!(room_of(b"inkrelay:{board-1}"), Some(room));
        for other in ["inkrelay:", "inkrelay:{}", "inkrelay:{a}x", "other:{a}", "inkrelay:{a/b}"] {
            assert_eq!(room_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_message_is_none() {
        let good = b"A node 7 1 5 1 9\n\x94\x05\x02\x09\x91\x04".to_vec();
        assert!(matches!(parse(good.clone()), Some(Message::Appended { records, .. }) if records.len() == 1));
        for cut in 0..good.len() {
            assert!(parse(good[..cut].to_vec()).is_none(), "{cut} bytes");
        }
        for bad in [
            &b"A node 7 1 5 1 x\n\x94\x05\x02\x09\x91\x04"[..],
            b"A node 0 1 5 1 9\n\xc0",
            b"Z n\n",
            b"\xff\n",
        ] {
            assert!(parse(bad.to_vec()).is_none(), "{bad:?}");
        }
    }
}
