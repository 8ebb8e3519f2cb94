//! The door: the check of a batch's raw bytes against the rules and limits, D-1 to D-20 of `SPEC.md`.

use super::{BEGIN, Channels, ERASE, EXTEND, OPAQUE, REVOKE};
use crate::id::{ClientId, Role};
use crate::limits::{COORDINATE_MAX, DRAW_DEPTH, DrawLimits, SAFE_INTEGER_MAX, WIDTH_MAX};
use crate::msgpack::{Malformed, Reader, Token};

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
    let mut reader = Reader::whole(batch)?;
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
pub(super) struct Facts<'a> {
    open_to_anonymous: bool,
    revokes: Option<Reader<'a>>,
}

pub(super) const RGBA: Malformed = Malformed("rgba is an integer of 32 bits");
pub(super) const WIDTH: Malformed = Malformed("a width is 0 to 65535 sixteenths of a pixel");
pub(super) const CHANNELS: Malformed = Malformed("channels are the bits 1 pressure, 2 time and 4 tilt");
pub(super) const POINT_SIZE: Malformed = Malformed("every integer of points fits 32 signed bits");
pub(super) const OPAQUE_BIN: Malformed = Malformed("an opaque draw holds binary");
const TOO_FEW: Malformed = Malformed("the draw lacks required fields");

pub(super) fn check_shape(draw: &[u8]) -> Result<Facts<'_>, Malformed> {
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
            if values == 0 || !values.is_multiple_of(channels.values_per_point()) {
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
    reader.each_but_small(len.into(), |reader, index| {
        let value = reader.int().map_err(|_| POINT_SIZE)?;
        if i32::try_from(value).is_err() {
            return Err(POINT_SIZE);
        }
        if first_is_absolute && index < 2 && value.abs() > COORDINATE_MAX {
            return Err(Malformed("a coordinate is within 2^30 sixteenths of a pixel of the origin"));
        }
        Ok(())
    })?;
    Ok(len as usize)
}

/// Reads the flag that may stand as field number `place`, counted from 1.
pub(super) fn read_end(reader: &mut Reader<'_>, fields: u32, place: u32) -> Result<bool, Malformed> {
    if fields < place || reader.nil() {
        return Ok(false);
    }
    reader.bool().map_err(|_| Malformed("end is true, false or nil"))
}

pub(super) fn read_pair(reader: &mut Reader<'_>) -> Result<(ClientId, u64), Malformed> {
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
                reader.each_but_small(len.into(), |reader, _| value(reader, depth))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    const DRAWER: Drawer = Drawer { client: ClientId::ANONYMOUS, role: Role::Drawer };

    // D-14, D-15: a limit is what is still allowed, and 0 is none.
    #[test]
    fn limits_include_what_they_name() {
        let draw = Draw::Opaque(vec![0; 60]).to_bytes();
        let batch = [&[0x92][..], &draw, &draw].concat();
        let check = |bytes_per_draw, draws_per_batch| {
            check_batch(&batch, &DrawLimits { bytes_per_draw, draws_per_batch }, DRAWER)
                .map(|draws| draws.len())
        };
        assert_eq!(check(draw.len(), 2), Ok(2));
        assert_eq!(check(0, 0), Ok(2));
        assert_eq!(check(draw.len(), 1), Err(BatchError::TooMany { draws: 2, max: 1 }));
        let refusal = Refusal::TooLarge { bytes: draw.len(), max: draw.len() - 1 };
        assert_eq!(check(draw.len() - 1, 2), Err(BatchError::Draw { index: 0, refusal }));
    }

    // D-16
    #[test]
    fn viewers_draw_nothing() {
        let drawer = Drawer { role: Role::Viewer, ..DRAWER };
        let refused = check_batch(&[0x91, 0x91, 0x04], &DrawLimits::default(), drawer);
        assert!(matches!(refused, Err(BatchError::Draw { index: 0, refusal: Refusal::Forbidden(_) })));
    }

    // D-8: only the first point of a begin is held to the range; the board sees to the others.
    #[test]
    fn only_a_first_point_is_absolute() {
        let limits = DrawLimits::default();
        let drawer = Drawer { client: ClientId::new(7).unwrap(), ..DRAWER };
        let far = i32::MAX;
        let extend = Draw::Extend { stroke: 1, points: vec![far, far], end: false };
        assert_eq!(check_draw(&extend.to_bytes(), &limits, drawer), Ok(()));
        let style = crate::draw::Style { tool: 0, rgba: 0, width: 1 };
        for (points, fits) in [(vec![0, 0, far, far], true), (vec![far, 0], false), (vec![0, far], false)] {
            let begin = Draw::Begin { stroke: 1, style, channels: Channels::NONE, points, end: false };
            assert_eq!(check_draw(&begin.to_bytes(), &limits, drawer).is_ok(), fits);
        }
    }

    // D-17
    #[test]
    fn a_revoke_is_for_its_author_and_for_moderators() {
        let client = |id| ClientId::new(id).unwrap();
        let check = |author, role, of| {
            let draw = Draw::Revoke(vec![(client(author), 1), (client(of), 1)]).to_bytes();
            check_draw(&draw, &DrawLimits::default(), Drawer { client: client(author), role })
        };
        assert_eq!(check(7, Role::Drawer, 7), Ok(()));
        assert!(matches!(check(7, Role::Drawer, 8), Err(Refusal::Forbidden(_))));
        assert!(matches!(check(7, Role::Drawer, 0), Err(Refusal::Forbidden(_))));
        assert!(matches!(check(0, Role::Drawer, 0), Err(Refusal::Forbidden(_))));
        assert_eq!(check(0, Role::Moderator, 8), Ok(()));
    }
}
