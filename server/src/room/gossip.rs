//! What the nodes of one store tell each other about a room, beside its log: presence and pointers.
//!
//! One message is a kind, the node that tells it, and frames of the wire, so that it needs no codec of its own.
//! It is never stored; nodes of different versions ignore what they do not know.

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Participant, ServerFrame};

use super::presence::NodeId;

/// One message between nodes.
#[derive(Debug, PartialEq, Eq)]
pub enum Gossip {
    /// Everyone who is with the node.
    Here(Vec<Participant>),
    /// Where pens of those who are with the node hover now.
    Pointers(Vec<(ClientId, i32, i32)>),
    /// A WebSocket of that client opened on the node: an older one elsewhere is replaced.
    Attached(ClientId),
    /// The node is new in the room, and asks who is with the others.
    WhoIsThere,
    /// What moderators laid down is another now: the store has it.
    RulesChanged,
}

const HERE: u8 = 1;
const POINTERS: u8 = 2;
const ATTACHED: u8 = 3;
const WHO_IS_THERE: u8 = 4;
const RULES_CHANGED: u8 = 5;

impl Gossip {
    /// The message's bytes.
    pub fn encode(&self, node: NodeId) -> Bytes {
        let message = |kind: u8| [&[kind][..], &node.to_be_bytes()].concat();
        match self {
            Self::Here(participants) => {
                let mut out = message(HERE);
                out.extend(ServerFrame::Participants(participants.clone()).to_bytes());
                out
            }
            Self::Pointers(pointers) => {
                let mut out = message(POINTERS);
                for (client, x, y) in pointers {
                    out.extend(client.get().to_be_bytes());
                    out.extend(x.to_be_bytes());
                    out.extend(y.to_be_bytes());
                }
                out
            }
            Self::Attached(client) => {
                let mut out = message(ATTACHED);
                out.extend(client.get().to_be_bytes());
                out
            }
            Self::WhoIsThere => message(WHO_IS_THERE),
            Self::RulesChanged => message(RULES_CHANGED),
        }
        .into()
    }

    /// `None` for what is no message of this version.
    pub fn decode(bytes: &[u8]) -> Option<(NodeId, Self)> {
        let (kind, rest) = bytes.split_first()?;
        let (node, rest) = rest.split_first_chunk::<8>()?;
        let gossip = match *kind {
            HERE => match ServerFrame::decode(rest).ok()? {
                ServerFrame::Participants(participants) => Self::Here(participants),
                _ => return None,
            },
            POINTERS => {
                let (pointers, []) = rest.as_chunks::<16>() else { return None };
                Self::Pointers(pointers.iter().map(decode_pointer).collect::<Option<_>>()?)
            }
            ATTACHED => Self::Attached(ClientId::new(u64::from_be_bytes(rest.try_into().ok()?))?),
            WHO_IS_THERE => Self::WhoIsThere,
            RULES_CHANGED => Self::RulesChanged,
            _ => return None,
        };
        Some((NodeId::from_be_bytes(*node), gossip))
    }
}

fn decode_pointer(bytes: &[u8; 16]) -> Option<(ClientId, i32, i32)> {
    let (client, rest) = bytes.split_first_chunk::<8>()?;
    let (x, rest) = rest.split_first_chunk::<4>()?;
    let y = rest.first_chunk::<4>()?;
    Some((ClientId::new(u64::from_be_bytes(*client))?, i32::from_be_bytes(*x), i32::from_be_bytes(*y)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkrelay_protocol::Profile;

    #[test]
    fn a_message_is_read_back_and_a_torn_one_is_not() {
        let client = ClientId::new(77).unwrap();
        let profile = Profile { name: "Ada".to_owned(), rgba: 0xff00_00ff };
        for gossip in [
            Gossip::Here(vec![Participant { client, profile }]),
            Gossip::Pointers(vec![(client, -5, 1 << 30)]),
            Gossip::Attached(client),
            Gossip::WhoIsThere,
            Gossip::RulesChanged,
        ] {
            let bytes = gossip.encode(9);
            for end in 0..bytes.len() {
                if let Some((_, torn)) = Gossip::decode(&bytes[..end]) {
                    assert_eq!(torn, Gossip::Pointers(vec![]));
                }
            }
            assert_eq!(Gossip::decode(&bytes), Some((9, gossip)));
        }
    }
}
