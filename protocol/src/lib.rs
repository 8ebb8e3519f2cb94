//! The wire of Inkrelay: what goes over it, how it is checked, and what a log looks like when drawn.
//!
//! Nothing here does I/O or reads a clock. Incoming bytes are checked where they lie: [`draw::check_batch`]
//! says which slice is which draw, and from then on those slices are copied and never re-encoded.
//! `PROTOCOL.md` beside this crate describes the wire for people; `SPEC.md` numbers the rules.

pub mod board;
pub mod code;
pub mod draw;
pub mod frame;
pub mod id;
pub mod json;
pub mod limits;
pub mod msgpack;
pub mod position;
pub mod record;

pub use board::Board;
pub use code::{CloseCode, ErrorCode};
pub use draw::{Channels, Draw, Style};
pub use frame::{ClientFrame, Participant, Profile, ServerFrame, SessionLimits};
pub use id::{ClientId, Role, RoomId};
pub use msgpack::Malformed;
pub use position::{After, Epoch, Position, Seq};
pub use record::{Identity, Record};
