//! Who may come in, and what they may do: tickets say who a client is, tokens and roles what it may, origins whose pages
//! may connect.

mod grant;
mod origins;
mod tickets;

pub use grant::Grant;
pub use origins::Origins;
pub use tickets::Tickets;
