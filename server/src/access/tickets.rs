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

/// Makes and checks tickets: a client id and an HMAC-SHA-256 (RFC 2104) over it and the room.
///
/// A ticket needs no stored session, so any server with the same secret resumes the client. No one can
/// continue someone else's numbering, which would make that person's draws look like duplicates.
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

    fn mac(&self, room: &RoomId, id: &[u8; ID_BYTES]) -> Hmac<Sha256> {
        let mut mac = self.key.clone();
        mac.update(b"inkrelay ticket 1\0");
        mac.update(id);
        mac.update(room.as_str().as_bytes());
        mac
    }

    /// A new client id, with its ticket.
    pub fn issue(&self, room: &RoomId) -> (ClientId, String) {
        loop {
            let id: [u8; ID_BYTES] = random::bytes();
            if let Some(client) = client_of(&id).filter(|client| !client.is_anonymous()) {
                return (client, self.sign(room, &id));
            }
        }
    }

    fn sign(&self, room: &RoomId, id: &[u8; ID_BYTES]) -> String {
        let mac = self.mac(room, id).finalize().into_bytes();
        URL_SAFE_NO_PAD.encode([&id[..], &mac[..MAC_BYTES]].concat())
    }

    /// The client of a ticket that was made for that room under this secret; compared in constant time.
    pub fn verify(&self, room: &RoomId, ticket: &str) -> Option<ClientId> {
        let bytes = URL_SAFE_NO_PAD.decode(ticket).ok()?;
        let (id, mac) = bytes.split_first_chunk::<ID_BYTES>()?;
        if mac.len() != MAC_BYTES {
            return None;
        }
        self.mac(room, id).verify_truncated_left(mac).ok()?;
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
        let (client, ticket) = tickets.issue(&room("a"));
        assert_eq!(tickets.verify(&room("a"), &ticket), Some(client));
        assert_eq!(tickets.verify(&room("b"), &ticket), None);
        assert_eq!(Tickets::new(b"two").verify(&room("a"), &ticket), None);
        assert!(ticket.bytes().all(|b| b.is_ascii_graphic()));
    }

    #[test]
    fn a_ticket_that_was_touched_is_none() {
        let tickets = Tickets::new(b"one");
        let (_, ticket) = tickets.issue(&room("a"));
        for end in 0..ticket.len() {
            assert_eq!(tickets.verify(&room("a"), &ticket[..end]), None);
        }
        for extra in ["A", "=", " ", "AAAA", "\0"] {
            assert_eq!(tickets.verify(&room("a"), &format!("{ticket}{extra}")), None);
            assert_eq!(tickets.verify(&room("a"), &format!("{extra}{ticket}")), None);
        }
        for index in 0..ticket.len() {
            let mut touched = ticket.clone().into_bytes();
            touched[index] = if touched[index] == b'A' { b'B' } else { b'A' };
            assert_eq!(tickets.verify(&room("a"), &String::from_utf8(touched).unwrap()), None, "{index}");
        }
    }
}
