//! Every bound of the wire, named with its unit. What an operator may change has its default here.

/// Levels of arrays and maps in one draw, the draw itself being the first.
pub const DRAW_DEPTH: usize = 16;
/// Levels of arrays and maps in one message; a frame holds a batch, which holds draws.
pub const MESSAGE_DEPTH: usize = 32;
/// Characters in a room's name.
pub const ROOM_NAME_CHARS: usize = 64;
/// Characters in a participant's name.
pub const PROFILE_NAME_CHARS: usize = 64;
/// Bytes of a ticket or token that anyone will look at.
pub const CREDENTIAL_BYTES: usize = 8 * 1024;
/// The largest client id: 48 bits, a safe integer in JavaScript.
pub const CLIENT_MAX: u64 = (1 << 48) - 1;
/// The largest draw number, sequence number, epoch and stroke number: a safe integer in JavaScript.
pub const SAFE_INTEGER_MAX: u64 = (1 << 53) - 1;
/// The furthest coordinate from the origin, in sixteenths of a CSS pixel.
pub const COORDINATE_MAX: i64 = 1 << 30;
/// The widest pen, in sixteenths of a CSS pixel.
pub const WIDTH_MAX: u64 = 65_535;

/// Seconds that a long poll waits when it does not say.
pub const POLL_WAIT_DEFAULT_S: u64 = 25;
/// Seconds that a long poll waits at most: proxies cut at 60.
pub const POLL_WAIT_MAX_S: u64 = 55;
/// Records that one poll answers at most.
pub const POLL_RECORDS_MAX: u64 = 4096;

/// What a batch of draws is held against at the door. 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawLimits {
    /// Bytes of one encoded draw.
    pub bytes_per_draw: usize,
    /// Draws in one batch.
    pub draws_per_batch: usize,
}

impl Default for DrawLimits {
    fn default() -> Self {
        Self { bytes_per_draw: 64 * 1024, draws_per_batch: 512 }
    }
}
