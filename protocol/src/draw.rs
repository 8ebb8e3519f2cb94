//! A draw: what a client sends.

mod door;

use crate::id::ClientId;
use crate::msgpack::{self, Malformed, Reader, Token};

pub use door::{BatchError, Drawer, Refusal, check_batch, check_draw};
use door::{CHANNELS, OPAQUE_BIN, POINT_SIZE, RGBA, WIDTH, check_shape, read_end, read_pair};

const BEGIN: u64 = 0;
const EXTEND: u64 = 1;
const ERASE: u64 = 2;
const REVOKE: u64 = 3;
const CLEAR: u64 = 4;
/// The one kind whose string is binary in JSON.
pub(crate) const OPAQUE: u64 = 5;

/// Which values each point carries after its `x` and `y`, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels(u8);

impl Channels {
    /// Only `x` and `y`.
    pub const NONE: Self = Self(0);
    /// Pressure, 0 to 255: one value.
    pub const PRESSURE: Self = Self(1);
    /// Milliseconds since the previous point: one value.
    pub const TIME: Self = Self(2);
    /// Tilt in degrees along x and y: two values.
    pub const TILT: Self = Self(4);

    /// `None` when a bit is set that means nothing.
    pub const fn new(bits: u64) -> Option<Self> {
        if bits <= 7 { Some(Self(bits as u8)) } else { None }
    }

    /// The bits on the wire.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of the other's channels are here.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// How many integers one point takes, `x` and `y` included.
    pub const fn values_per_point(self) -> usize {
        2 + (self.0 & 1) as usize + (self.0 >> 1 & 1) as usize + 2 * (self.0 >> 2 & 1) as usize
    }
}

/// What a stroke is drawn with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// 0 pen, 1 highlighter; all others are drawn as a pen.
    pub tool: u64,
    /// Red, green, blue and alpha, eight bits each, red first.
    pub rgba: u32,
    /// Sixteenths of a CSS pixel.
    pub width: u16,
}

/// A draw, decoded. The relay itself never makes one of these: it is for clients and for the board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Draw {
    /// Starts a stroke.
    Begin {
        /// The author's own counter.
        stroke: u64,
        /// What it is drawn with.
        style: Style,
        /// What each point carries.
        channels: Channels,
        /// Flat: `x, y` and one value per channel, for each point; the first absolute, the others differences.
        points: Vec<i32>,
        /// Whether the stroke is whole.
        end: bool,
    },
    /// Adds points to a stroke, or closes it.
    Extend {
        /// The stroke's number.
        stroke: u64,
        /// As in `Begin`, all differences.
        points: Vec<i32>,
        /// Whether the stroke is whole now.
        end: bool,
    },
    /// Hides strokes, each named by its author and number.
    Erase(Vec<(ClientId, u64)>),
    /// Makes erase, clear and revoke records count as if they had never been, each named by author and `n`.
    Revoke(Vec<(ClientId, u64)>),
    /// Hides every stroke begun before it.
    Clear,
    /// For the application, or encrypted from end to end.
    Opaque(Vec<u8>),
    /// Of a kind that a later version knows.
    Unknown(u64),
}

impl Draw {
    /// Reads one whole draw and holds it to the rules that need no author.
    ///
    /// # Errors
    /// The rule that is broken, in plain words.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        check_shape(bytes)?;
        let mut reader = Reader::new(bytes);
        let fields = reader.array()?;
        Ok(match reader.uint()? {
            BEGIN => {
                let stroke = reader.uint()?;
                let style_fields = reader.array()?;
                let style = Style {
                    tool: reader.uint()?,
                    rgba: u32::try_from(reader.uint()?).map_err(|_| RGBA)?,
                    width: u16::try_from(reader.uint()?).map_err(|_| WIDTH)?,
                };
                reader.skip_rest(style_fields - 3)?;
                let channels = Channels::new(reader.uint()?).ok_or(CHANNELS)?;
                let points = decode_points(&mut reader)?;
                Self::Begin { stroke, style, channels, points, end: read_end(&mut reader, fields, 6)? }
            }
            EXTEND => {
                let stroke = reader.uint()?;
                let points = decode_points(&mut reader)?;
                Self::Extend { stroke, points, end: read_end(&mut reader, fields, 4)? }
            }
            ERASE => Self::Erase(decode_pairs(&mut reader)?),
            REVOKE => Self::Revoke(decode_pairs(&mut reader)?),
            CLEAR => Self::Clear,
            OPAQUE => match reader.token()? {
                Token::Bin(bytes) => Self::Opaque(bytes.to_vec()),
                _ => return Err(OPAQUE_BIN),
            },
            kind => Self::Unknown(kind),
        })
    }

    /// Appends the draw's bytes to `out`, each value in its shortest form. A draw of an unknown kind is
    /// written without whatever it held.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Begin { stroke, style, channels, points, end } => {
                msgpack::write_array(out, if *end { 6 } else { 5 });
                msgpack::write_uint(out, BEGIN);
                msgpack::write_uint(out, *stroke);
                msgpack::write_array(out, 3);
                msgpack::write_uint(out, style.tool);
                msgpack::write_uint(out, style.rgba.into());
                msgpack::write_uint(out, style.width.into());
                msgpack::write_uint(out, channels.bits().into());
                encode_points(out, points);
                if *end {
                    msgpack::write_bool(out, true);
                }
            }
            Self::Extend { stroke, points, end } => {
                msgpack::write_array(out, if *end { 4 } else { 3 });
                msgpack::write_uint(out, EXTEND);
                msgpack::write_uint(out, *stroke);
                encode_points(out, points);
                if *end {
                    msgpack::write_bool(out, true);
                }
            }
            Self::Erase(pairs) => encode_pairs(out, ERASE, pairs),
            Self::Revoke(pairs) => encode_pairs(out, REVOKE, pairs),
            Self::Clear => {
                msgpack::write_array(out, 1);
                msgpack::write_uint(out, CLEAR);
            }
            Self::Opaque(bytes) => {
                msgpack::write_array(out, 2);
                msgpack::write_uint(out, OPAQUE);
                msgpack::write_bin(out, bytes);
            }
            Self::Unknown(kind) => {
                msgpack::write_array(out, 1);
                msgpack::write_uint(out, *kind);
            }
        }
    }

    /// The draw's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }
}

fn encode_points(out: &mut Vec<u8>, points: &[i32]) {
    msgpack::write_array(out, points.len());
    for value in points {
        msgpack::write_int(out, (*value).into());
    }
}

fn encode_pairs(out: &mut Vec<u8>, kind: u64, pairs: &[(ClientId, u64)]) {
    msgpack::write_array(out, 2);
    msgpack::write_uint(out, kind);
    msgpack::write_array(out, pairs.len());
    for (client, number) in pairs {
        msgpack::write_array(out, 2);
        msgpack::write_uint(out, client.get());
        msgpack::write_uint(out, *number);
    }
}

fn decode_points(reader: &mut Reader<'_>) -> Result<Vec<i32>, Malformed> {
    let len = reader.array()?;
    (0..len).map(|_| i32::try_from(reader.int()?).map_err(|_| POINT_SIZE)).collect()
}

fn decode_pairs(reader: &mut Reader<'_>) -> Result<Vec<(ClientId, u64)>, Malformed> {
    let len = reader.array()?;
    (0..len).map(|_| read_pair(reader)).collect()
}
