//! The transports: the only files that know axum. WebSocket, long polling and server-sent events are three thin
//! faces of a cursor; the drawing board, which people see, is served beside them.

mod address;
mod board;
mod draws;
mod encoding;
mod events;
mod headers;
mod host;
mod http;
mod lingering;
mod listener;
mod long_poll;
mod moderation;
mod problem;
mod request;
mod snapshot;
mod stream;
mod tls;
mod trace;
mod websocket;

pub use board::is_built as has_board;
pub(crate) use board::{accepts_gzip, content_type};
pub(crate) use encoding::Encoding;
pub(crate) use http::ready;
pub use listener::{Listener, Server, listen};
pub(crate) use moderation::{answer as moderation_answer, laid_down, read_action};
pub(crate) use problem::Problem;
pub(crate) use snapshot::of as snapshot_of;
pub use tls::{Certificates, TlsError};
pub use websocket::echo;

use std::sync::Arc;

use inkrelay_protocol::Position;

use crate::session::Relay;
use crate::store::ReadLimit;

/// What one message to a reader holds at most: a slow reader has the stall time for so much.
const MESSAGE: ReadLimit = ReadLimit { records: 2048, bytes: 64 * 1024 };

/// Serves all transports on the listener from now on.
pub fn serve(relay: Arc<Relay>, listener: Listener) -> Server {
    Server::start(Arc::clone(&relay), http::router(relay), listener)
}

/// A position as it stands in JSON objects: the same five numbers as in frames.
fn position_array(position: &Position) -> [u64; 5] {
    let identity = position.identity;
    [position.epoch.get(), position.seq.get(), identity.author.get(), identity.n, identity.at]
}
