//! Who may come in, and what they may do: tickets say who a client is, tokens what it may, origins whose pages may
//! connect, hosts by which name they may ask.

mod grant;
mod host;
mod keys;
mod origins;
mod revocation;
mod tickets;
mod tokens;
#[cfg(test)]
mod tokens_tests;

pub use grant::Grant;
pub use host::Host;
pub use keys::KeyError;
pub(crate) use keys::{pem_blocks, read_file as read_key_file};
pub use origins::Origins;
pub use tickets::Tickets;
pub use tokens::{LEEWAY, NotTaken, TokenSettings, Tokens};
