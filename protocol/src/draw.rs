//! A draw: what a client sends. And the door: the check of a batch's raw bytes against the rules and limits.

use crate::id::{ClientId, Role};
use crate::limits::{COORDINATE_MAX, DRAW_DEPTH, DrawLimits, SAFE_INTEGER_MAX, WIDTH_MAX};
use crate::msgpack::{self, Malformed, Reader, Token};

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

/// Who sends a batch, as far as the rules at the door care.
#[derive(Clone, Copy, Debug)]
pub struct Drawer {
    /// The author that the records will have.
    pub client: ClientId,
    /// What the author may do.
    pub role: Role,
}

/// Why a draw is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It breaks a rule of its shape.
    #[error("{0}")]
    Invalid(Malformed),
    /// It is longer than a draw may be.
    #[error("the draw has {bytes} bytes, and {max} are allowed")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// Its author may not.
    #[error("{0}")]
    Forbidden(&'static str),
}

/// Why a batch is refused. Nothing of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// It is no array of draws.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It holds more draws than a batch may.
    #[error("the batch has {draws} draws, and {max} are allowed")]
    TooMany {
        /// Draws in the batch.
        draws: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// The draw of that index, from 0, is refused.
    #[error("draw {index} of the batch: {refusal}")]
    Draw {
        /// Its place in the batch, from 0.
        index: usize,
        /// Why.
        refusal: Refusal,
    },
}

/// The door: checks `[draw, …]` in place and returns the bytes of each draw.
///
/// No value is built from what the bytes hold; memory is one slice per draw, and the number of draws is
/// held against its limit before that.
///
/// # Errors
/// The first thing that is wrong. Malformed MessagePack anywhere comes before a rule that a draw breaks.
pub fn check_batch<'a>(
    batch: &'a [u8],
    limits: &DrawLimits,
    drawer: Drawer,
) -> Result<Vec<&'a [u8]>, BatchError> {
    let mut whole = Reader::new(batch);
    whole.skip()?;
    whole.finish()?;

    let mut reader = Reader::new(batch);
    let len = reader.array()? as usize;
    if len == 0 {
        return Err(Malformed("a batch holds at least one draw").into());
    }
    if limits.draws_per_batch != 0 && len > limits.draws_per_batch {
        return Err(BatchError::TooMany { draws: len, max: limits.draws_per_batch });
    }
    if drawer.role < Role::Drawer {
        let refusal = Refusal::Forbidden("viewers may not draw");
        return Err(BatchError::Draw { index: 0, refusal });
    }
    let mut draws = Vec::with_capacity(len);
    for index in 0..len {
        let draw = reader.raw()?;
        check_draw(draw, limits, drawer).map_err(|refusal| BatchError::Draw { index, refusal })?;
        draws.push(draw);
    }
    Ok(draws)
}

/// Checks one draw against its rules, its size and its author.
///
/// # Errors
/// The first rule that it breaks.
pub fn check_draw(draw: &[u8], limits: &DrawLimits, drawer: Drawer) -> Result<(), Refusal> {
    if limits.bytes_per_draw != 0 && draw.len() > limits.bytes_per_draw {
        return Err(Refusal::TooLarge { bytes: draw.len(), max: limits.bytes_per_draw });
    }
    let facts = check_shape(draw).map_err(Refusal::Invalid)?;
    if drawer.client.is_anonymous() && !facts.open_to_anonymous {
        return Err(Refusal::Invalid(Malformed(
            "without a ticket a stroke is sent whole: a begin with stroke 0 and end true, and no extend",
        )));
    }
    let own_only = drawer.role < Role::Moderator;
    if let Some(revoked) = facts.revokes.filter(|_| own_only) {
        let mut pairs = revoked;
        let len = pairs.array().map_err(Refusal::Invalid)?;
        for _ in 0..len {
            let (author, _) = read_pair(&mut pairs).map_err(Refusal::Invalid)?;
            if author.is_anonymous() || author != drawer.client {
                return Err(Refusal::Forbidden("only moderators revoke what others did"));
            }
        }
    }
    Ok(())
}

/// What the author's rules need to know of a draw whose shape is right.
struct Facts<'a> {
    open_to_anonymous: bool,
    revokes: Option<Reader<'a>>,
}

const RGBA: Malformed = Malformed("rgba is an integer of 32 bits");
const WIDTH: Malformed = Malformed("a width is 0 to 65535 sixteenths of a pixel");
const CHANNELS: Malformed = Malformed("channels are the bits 1 pressure, 2 time and 4 tilt");
const POINT_SIZE: Malformed = Malformed("every integer of points fits 32 signed bits");
const OPAQUE_BIN: Malformed = Malformed("an opaque draw holds binary");
const TOO_FEW: Malformed = Malformed("the draw lacks required fields");

fn check_shape(draw: &[u8]) -> Result<Facts<'_>, Malformed> {
    check_tellable(draw)?;
    let mut reader = Reader::new(draw);
    let fields = reader.array().map_err(|_| Malformed("a draw is an array"))?;
    if fields == 0 {
        return Err(Malformed("a draw begins with its kind"));
    }
    let need = |count: u32| if fields < count { Err(TOO_FEW) } else { Ok(()) };
    let kind = reader.uint().map_err(|_| Malformed("a draw's kind is an integer from 0 up"))?;
    let mut facts = Facts { open_to_anonymous: true, revokes: None };
    match kind {
        BEGIN => {
            need(5)?;
            let stroke = read_stroke(&mut reader)?;
            let style_fields = reader.array().map_err(|_| Malformed("a style is [tool, rgba, width]"))?;
            if style_fields < 3 {
                return Err(Malformed("a style is [tool, rgba, width]"));
            }
            reader.uint().map_err(|_| Malformed("a tool is an integer from 0 up"))?;
            if reader.uint().map_err(|_| RGBA)? > u32::MAX.into() {
                return Err(RGBA);
            }
            if reader.uint().map_err(|_| WIDTH)? > WIDTH_MAX {
                return Err(WIDTH);
            }
            reader.skip_rest(style_fields - 3)?;
            let channels = reader.uint().ok().and_then(Channels::new).ok_or(CHANNELS)?;
            let values = check_points(&mut reader, true)?;
            if values == 0 || values % channels.values_per_point() != 0 {
                return Err(Malformed("a begin holds at least one point, and whole points only"));
            }
            let end = read_end(&mut reader, fields, 6)?;
            facts.open_to_anonymous = end && stroke == 0;
        }
        EXTEND => {
            need(3)?;
            read_stroke(&mut reader)?;
            let values = check_points(&mut reader, false)?;
            let end = read_end(&mut reader, fields, 4)?;
            if values == 0 && !end {
                return Err(Malformed("an extend holds points or closes its stroke"));
            }
            facts.open_to_anonymous = false;
        }
        ERASE | REVOKE => {
            need(2)?;
            let pairs = reader.clone();
            let len = reader.array().map_err(|_| Malformed("an erase or revoke holds an array of pairs"))?;
            if len == 0 {
                return Err(Malformed("an erase or revoke names at least one"));
            }
            for _ in 0..len {
                let (_, number) = read_pair(&mut reader)?;
                if number > SAFE_INTEGER_MAX || (kind == REVOKE && number == 0) {
                    return Err(Malformed("a stroke's number is 0 to 2^53 - 1, and a draw's 1 to 2^53 - 1"));
                }
            }
            facts.revokes = (kind == REVOKE).then_some(pairs);
        }
        OPAQUE => {
            need(2)?;
            if !matches!(reader.token()?, Token::Bin(_)) {
                return Err(OPAQUE_BIN);
            }
        }
        _ => {}
    }
    Ok(facts)
}

fn read_stroke(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    const STROKE: Malformed = Malformed("a stroke's number is an integer, 0 to 2^53 - 1");
    reader.uint().ok().filter(|stroke| *stroke <= SAFE_INTEGER_MAX).ok_or(STROKE)
}

/// Steps over `points` and returns how many integers there are.
fn check_points(reader: &mut Reader<'_>, first_is_absolute: bool) -> Result<usize, Malformed> {
    let len = reader.array().map_err(|_| Malformed("points are a flat array of integers"))?;
    for index in 0..len {
        let value = reader.int().map_err(|_| POINT_SIZE)?;
        if i32::try_from(value).is_err() {
            return Err(POINT_SIZE);
        }
        if first_is_absolute && index < 2 && value.abs() > COORDINATE_MAX {
            return Err(Malformed("a coordinate is within 2^30 sixteenths of a pixel of the origin"));
        }
    }
    Ok(len as usize)
}

/// Reads the flag that may stand as field number `place`, counted from 1.
fn read_end(reader: &mut Reader<'_>, fields: u32, place: u32) -> Result<bool, Malformed> {
    if fields < place || reader.nil() {
        return Ok(false);
    }
    match reader.token()? {
        Token::Bool(end) => Ok(end),
        _ => Err(Malformed("end is true, false or nil")),
    }
}

fn read_pair(reader: &mut Reader<'_>) -> Result<(ClientId, u64), Malformed> {
    const PAIR: Malformed = Malformed("a pair is a client, at most 2^48 - 1, and a number");
    let fields = reader.array().map_err(|_| PAIR)?;
    if fields < 2 {
        return Err(PAIR);
    }
    let client = reader.uint().ok().and_then(ClientId::new).ok_or(PAIR)?;
    let number = reader.uint().map_err(|_| PAIR)?;
    reader.skip_rest(fields - 2)?;
    Ok((client, number))
}

/// Whether the draw can be told in JSON: no extension types, no infinities, map keys that are strings.
fn check_tellable(draw: &[u8]) -> Result<(), Malformed> {
    fn value(reader: &mut Reader<'_>, depth: usize) -> Result<(), Malformed> {
        let token = reader.token()?;
        let inside = || depth.checked_sub(1).ok_or(Malformed("a draw is nested at most 16 levels deep"));
        match token {
            Token::Ext(_) => Err(Malformed("extension types are not relayed")),
            Token::F32(float) if !float.is_finite() => Err(NON_FINITE),
            Token::F64(float) if !float.is_finite() => Err(NON_FINITE),
            Token::Str(bytes) => utf8(bytes),
            Token::Array(len) => {
                let depth = inside()?;
                (0..len).try_for_each(|_| value(reader, depth))
            }
            Token::Map(len) => {
                let depth = inside()?;
                (0..len).try_for_each(|_| {
                    match reader.token()? {
                        Token::Str(key) => utf8(key)?,
                        _ => return Err(Malformed("the keys of a map are strings")),
                    }
                    value(reader, depth)
                })
            }
            _ => Ok(()),
        }
    }
    const NON_FINITE: Malformed = Malformed("NaN and infinities are not relayed");
    fn utf8(bytes: &[u8]) -> Result<(), Malformed> {
        str::from_utf8(bytes).map(drop).map_err(|_| Malformed("a string is not valid UTF-8"))
    }
    let mut reader = Reader::new(draw);
    value(&mut reader, DRAW_DEPTH)?;
    reader.finish()
}
