//! A batch: consecutive draws of one client that are sent in one message.

use bytes::Bytes;
use inkrelay_protocol::frame::ClientFrame;
use inkrelay_protocol::msgpack;

/// What a batch's message holds beside its draws, in bytes: heads of two arrays, the tag and `n`.
pub const FRAME_BYTES: usize = 1 + 1 + 9 + 5;

/// Draws to send in one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The number of the first.
    pub n: u64,
    /// Each as its bytes; at least one.
    pub draws: Vec<Bytes>,
}

impl Batch {
    /// The number of the last.
    pub fn last_n(&self) -> u64 {
        self.n + self.draws.len() as u64 - 1
    }

    /// `[draw, …]`: the body of a POST.
    pub fn body(&self) -> Vec<u8> {
        let bytes: usize = self.draws.iter().map(Bytes::len).sum();
        let mut out = Vec::with_capacity(bytes + FRAME_BYTES);
        msgpack::write_array(&mut out, self.draws.len());
        self.draws.iter().for_each(|draw| out.extend_from_slice(draw));
        out
    }

    /// `[2, n, [draw, …]]`: a frame.
    pub fn frame(&self) -> Vec<u8> {
        ClientFrame::Draws { n: self.n, draws: &self.body() }.to_bytes()
    }
}
