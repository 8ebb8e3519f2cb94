//! Tickets: who a client is in a room.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use inkrelay_protocol::{ClientId, RoomId};
use sha2::Sha256;

use crate::random;

/// Bytes of a client id in a ticket: 48 bits.
const ID_BYTES: usize = 6;
/// Bytes of the MAC in a ticket: 128 bits cannot be guessed over a network.
const MAC_BYTES: usize = 16;

/// Makes and checks tickets: a client id and an HMAC-SHA-256 (RFC 2104) over it, the room, and the subject of the token
/// with which it was asked for.
///
/// A ticket needs no stored session, so any server with the same secret resumes the client. No one can
/// continue someone else's numbering, which would make that person's draws look like duplicates: where people have
/// subjects, also not with a ticket that was stolen.
pub struct Tickets {
    key: Hmac<Sha256>,
}

impl Tickets {
    /// Under that secret.
    ///
    /// # Panics
    /// Never: HMAC takes keys of any length.
    pub fn new(secret: &[u8]) -> Self {
        Self { key: Hmac::new_from_slice(secret).expect("HMAC takes keys of any length") }
    }

    fn mac(&self, room: &RoomId, subject: Option<&str>, id: &[u8; ID_BYTES]) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        mac.update(b"inkrelay ticket 1\0");
        mac.update(id);
        mac.update(room.as_str().as_bytes());
        if let Some(subject) = subject {
            // No room's name holds a NUL, so that nothing else reads like this.
            mac.update(b"\0");
            mac.update(subject.as_bytes());
        }
        mac
    }

    /// A new client id, with its ticket.
    pub fn issue(&self, room: &RoomId, subject: Option<&str>) -> (ClientId, String) {
        loop {
            let id: [u8; ID_BYTES] = random::bytes();
            if let Some(client) = client_of(&id).filter(|client| !client.is_anonymous()) {
                return (client, self.sign(room, subject, &id));
            }
        }
    }

    fn sign(&self, room: &RoomId, subject: Option<&str>, id: &[u8; ID_BYTES]) -> String {
        let mac = self.mac(room, subject, id).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&id[..], &mac[..MAC_BYTES]].concat())
    }

    /// The client of a ticket that was made for that room and subject under this secret; compared in constant time.
    pub fn verify(&self, room: &RoomId, subject: Option<&str>, ticket: &str) -> Option<ClientId> {
        let bytes = URL_SAFE_NO_PAD.decode(ticket).ok()?;
        let (id, mac) = bytes.split_first_chunk::<ID_BYTES>()?;
        if mac.len() != MAC_BYTES {
            return None;
        }
        self.mac(room, subject, id).verify_truncated_left(mac).ok()?;
        client_of(id).filter(|client| !client.is_anonymous())
    }
}

fn client_of(id: &[u8; ID_BYTES]) -> Option<ClientId> {
    let [a, b, c, d, e, f] = *id;
    ClientId::new(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(name: &str) -> RoomId {
        name.parse().unwrap()
    }

    #[test]
    fn a_ticket_is_good_for_its_room_and_its_secret_only() {
        let tickets = Tickets::new(b"one");
        let (client, ticket) = tickets.issue(&room("a"), None);
        assert_eq!(tickets.verify(&room("a"), None, &ticket), Some(client));
        assert_eq!(tickets.verify(&room("b"), None, &ticket), None);
        assert_eq!(Tickets::new(b"two").verify(&room("a"), None, &ticket), None);
        assert!(ticket.bytes().all(|b| b.is_ascii_graphic()));
    }

    // S-19
    #[test]
    fn a_ticket_is_good_for_its_subject_only() {
        let tickets = Tickets::new(b"one");
        let (client, ticket) = tickets.issue(&room("a"), Some("ann"));
        assert_eq!(tickets.verify(&room("a"), Some("ann"), &ticket), Some(client));
        for other in [None, Some(""), Some("bob"), Some("Ann"), Some("ann\0"), Some("an")] {
            assert_eq!(tickets.verify(&room("a"), other, &ticket), None, "{other:?}");
        }
        let (_, nobodys) = tickets.issue(&room("a"), None);
        assert_eq!(tickets.verify(&room("a"), Some("ann"), &nobodys), None);
    }

    #[test]
    fn a_ticket_that_was_touched_is_none() {
        let tickets = Tickets::new(b"one");
        let (_, ticket) = tickets.issue(&room("a"), None);
        for end in 0..ticket.len() {
            assert_eq!(tickets.verify(&room("a"), None, &ticket[..end]), None);
        }
        for extra in ["A", "=", " ", "AAAA", "\0"] {
            assert_eq!(tickets.verify(&room("a"), None, &format!("{ticket}{extra}")), None);
            assert_eq!(tickets.verify(&room("a"), None, &format!("{extra}{ticket}")), None);
        }
        for index in 0..ticket.len() {
            let mut touched = ticket.clone().into_bytes();
            touched[index] = if touched[index] == b'A' { b'B' } else { b'A' };
            assert_eq!(
                tickets.verify(&room("a"), None, &String::from_utf8(touched).unwrap()),
                None,
                "{index}"
            );
        }
    }
}
