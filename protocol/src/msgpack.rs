//! Reading MessagePack where it lies, and writing it.
//!
//! Source: the MessagePack specification, <https://github.com/msgpack/msgpack/blob/master/spec.md>.
//! Nothing is allocated by what a length promises: a length that the bytes at hand cannot hold is an error
//! before anything is made of it.

use rmp::Marker;

use crate::limits::MESSAGE_DEPTH;

/// Bytes that are not what they should be, with the reason in plain words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

const TRUNCATED: Malformed = Malformed("the bytes end in the middle of a value");

/// One scalar, or the head of an array or map whose elements follow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Nothing.
    Nil,
    /// True or false.
    Bool(bool),
    /// An integer from 0 up, in whichever form it came.
    Uint(u64),
    /// An integer below 0.
    Negative(i64),
    /// A single float.
    F32(f32),
    /// A double float.
    F64(f64),
    /// The bytes of a string; not yet checked to be UTF-8.
    Str(&'a [u8]),
    /// Binary.
    Bin(&'a [u8]),
    /// That many elements follow.
    Array(u32),
    /// That many pairs follow.
    Map(u32),
    /// An extension type.
    Ext(&'a [u8]),
}

/// A place in bytes that somebody sent.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// At the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// At the first byte of what is now known to be one whole value and nothing more, so that what is wrong
    /// with the bytes is told before what is wrong with their meaning.
    ///
    /// # Errors
    /// When the bytes end too early, go on after the value, or nest deeper than a message may.
    pub fn whole(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Self::new(bytes);
        reader.skip()?;
        reader.finish()?;
        Ok(Self::new(bytes))
    }

    /// Whether all bytes are read.
    pub const fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// # Errors
    /// When bytes are left.
    pub const fn finish(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed("bytes follow after the end")) }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    fn be<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(*taken)
    }

    /// An element takes at least one byte, so a length that promises more elements than there are bytes is
    /// known to be false at once.
    fn elements(&self, len: u32, bytes_each: u64) -> Result<u32, Malformed> {
        if u64::from(len) * bytes_each > self.rest.len() as u64 { Err(TRUNCATED) } else { Ok(len) }
    }

    /// Reads one scalar or head.
    ///
    /// # Errors
    /// When the bytes end too early, or begin with the one byte that MessagePack never uses.
    pub fn token(&mut self) -> Result<Token<'a>, Malformed> {
        let signed = |value: i64| u64::try_from(value).map_or(Token::Negative(value), Token::Uint);
        let [first] = self.be()?;
        Ok(match Marker::from_u8(first) {
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixPos(value) => Token::Uint(value.into()),
            Marker::FixNeg(value) => Token::Negative(value.into()),
            Marker::U8 => Token::Uint(u8::from_be_bytes(self.be()?).into()),
            Marker::U16 => Token::Uint(u16::from_be_bytes(self.be()?).into()),
            Marker::U32 => Token::Uint(u32::from_be_bytes(self.be()?).into()),
            Marker::U64 => Token::Uint(u64::from_be_bytes(self.be()?)),
            Marker::I8 => signed(i8::from_be_bytes(self.be()?).into()),
            Marker::I16 => signed(i16::from_be_bytes(self.be()?).into()),
            Marker::I32 => signed(i32::from_be_bytes(self.be()?).into()),
            Marker::I64 => signed(i64::from_be_bytes(self.be()?)),
            Marker::F32 => Token::F32(f32::from_be_bytes(self.be()?)),
            Marker::F64 => Token::F64(f64::from_be_bytes(self.be()?)),
            Marker::FixStr(len) => Token::Str(self.take(len.into())?),
            Marker::Str8 => Token::Str(self.sized8()?),
            Marker::Str16 => Token::Str(self.sized16()?),
            Marker::Str32 => Token::Str(self.sized32()?),
            Marker::Bin8 => Token::Bin(self.sized8()?),
            Marker::Bin16 => Token::Bin(self.sized16()?),
            Marker::Bin32 => Token::Bin(self.sized32()?),
            Marker::FixArray(len) => Token::Array(self.elements(len.into(), 1)?),
            Marker::Array16 => {
                let len = u16::from_be_bytes(self.be()?);
                Token::Array(self.elements(len.into(), 1)?)
            }
            Marker::Array32 => {
                let len = u32::from_be_bytes(self.be()?);
                Token::Array(self.elements(len, 1)?)
            }
            Marker::FixMap(len) => Token::Map(self.elements(len.into(), 2)?),
            Marker::Map16 => {
                let len = u16::from_be_bytes(self.be()?);
                Token::Map(self.elements(len.into(), 2)?)
            }
            Marker::Map32 => {
                let len = u32::from_be_bytes(self.be()?);
                Token::Map(self.elements(len, 2)?)
            }
            Marker::FixExt1 => self.ext(1)?,
            Marker::FixExt2 => self.ext(2)?,
            Marker::FixExt4 => self.ext(4)?,
            Marker::FixExt8 => self.ext(8)?,
            Marker::FixExt16 => self.ext(16)?,
            Marker::Ext8 => {
                let [len] = self.be()?;
                self.ext(len.into())?
            }
            Marker::Ext16 => {
                let len = u16::from_be_bytes(self.be()?);
                self.ext(len.into())?
            }
            Marker::Ext32 => {
                let len = u32::from_be_bytes(self.be()?);
                self.ext(len as usize)?
            }
            Marker::Reserved => return Err(Malformed("0xc1 begins no MessagePack value")),
        })
    }

    fn sized8(&mut self) -> Result<&'a [u8], Malformed> {
        let [len] = self.be()?;
        self.take(len.into())
    }

    fn sized16(&mut self) -> Result<&'a [u8], Malformed> {
        let len = u16::from_be_bytes(self.be()?);
        self.take(len.into())
    }

    fn sized32(&mut self) -> Result<&'a [u8], Malformed> {
        let len = u32::from_be_bytes(self.be()?);
        self.take(len as usize)
    }

    fn ext(&mut self, len: usize) -> Result<Token<'a>, Malformed> {
        let [_type] = self.be()?;
        Ok(Token::Ext(self.take(len)?))
    }

    /// Reads an array's head and returns how many elements follow.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn array(&mut self) -> Result<u32, Malformed> {
        match self.token()? {
            Token::Array(len) => Ok(len),
            _ => Err(Malformed("an array was expected")),
        }
    }

    /// Reads an integer from 0 up.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn uint(&mut self) -> Result<u64, Malformed> {
        match self.token()? {
            Token::Uint(value) => Ok(value),
            _ => Err(Malformed("an integer from 0 up was expected")),
        }
    }

    /// Reads an integer that fits 64 signed bits.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn int(&mut self) -> Result<i64, Malformed> {
        const EXPECTED: Malformed = Malformed("an integer was expected");
        match self.token()? {
            Token::Uint(value) => i64::try_from(value).map_err(|_| EXPECTED),
            Token::Negative(value) => Ok(value),
            _ => Err(EXPECTED),
        }
    }

    /// Reads true or false.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn bool(&mut self) -> Result<bool, Malformed> {
        match self.token()? {
            Token::Bool(value) => Ok(value),
            _ => Err(Malformed("true or false was expected")),
        }
    }

    /// Reads a string of valid UTF-8.
    ///
    /// # Errors
    /// When something else stands there.
    pub fn str(&mut self) -> Result<&'a str, Malformed> {
        match self.token()? {
            Token::Str(bytes) => str::from_utf8(bytes).map_err(|_| Malformed("a string is not valid UTF-8")),
            _ => Err(Malformed("a string was expected")),
        }
    }

    /// Steps over nil, and says whether it stood there.
    pub fn nil(&mut self) -> bool {
        let is_nil = self.rest.first() == Some(&Marker::Null.to_u8());
        if is_nil {
            self.rest = &self.rest[1..];
        }
        is_nil
    }

    /// Steps over one whole value.
    ///
    /// # Errors
    /// When the bytes end too early or nest deeper than a message may.
    pub fn skip(&mut self) -> Result<(), Malformed> {
        self.skip_nested(MESSAGE_DEPTH)
    }

    /// Steps over that many values.
    ///
    /// # Errors
    /// As [`Reader::skip`].
    pub fn skip_rest(&mut self, values: u32) -> Result<(), Malformed> {
        (0..values).try_for_each(|_| self.skip())
    }

    fn skip_nested(&mut self, depth: usize) -> Result<(), Malformed> {
        let values = match self.token()? {
            Token::Array(len) => u64::from(len),
            Token::Map(len) => u64::from(len) * 2,
            _ => return Ok(()),
        };
        let depth = depth.checked_sub(1).ok_or(Malformed("values are nested deeper than 32 levels"))?;
        self.each_but_small(values, |reader, _| reader.skip_nested(depth))
    }

    /// Visits that many values, each with its index, but for integers of one byte, which are stepped over.
    /// Points are mostly such integers: this makes the check several times as fast.
    ///
    /// # Errors
    /// The first of `visit`, which has to read exactly one value.
    pub fn each_but_small(
        &mut self,
        values: u64,
        mut visit: impl FnMut(&mut Self, u64) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        let is_small = |byte: &u8| (-32..=127).contains(&(*byte as i8));
        let mut index = 0;
        loop {
            let left = usize::try_from(values - index).unwrap_or(usize::MAX).min(self.rest.len());
            let small = self.rest[..left].iter().position(|byte| !is_small(byte)).unwrap_or(left);
            self.rest = &self.rest[small..];
            index += small as u64;
            if index == values {
                return Ok(());
            }
            visit(self, index)?;
            index += 1;
        }
    }

    /// Steps over one whole value and returns its bytes.
    ///
    /// # Errors
    /// As [`Reader::skip`].
    pub fn raw(&mut self) -> Result<&'a [u8], Malformed> {
        let before = self.rest;
        self.skip()?;
        Ok(&before[..before.len() - self.rest.len()])
    }
}

const TO_MEMORY: &str = "writing to a Vec does not fail";

/// Appends an array's head.
pub fn write_array(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("an array of more than 2^32 elements does not fit any limit");
    rmp::encode::write_array_len(out, len).expect(TO_MEMORY);
}

/// Appends an integer in its shortest form.
pub fn write_uint(out: &mut Vec<u8>, value: u64) {
    rmp::encode::write_uint(out, value).expect(TO_MEMORY);
}

/// Appends an integer in its shortest form.
pub fn write_int(out: &mut Vec<u8>, value: i64) {
    rmp::encode::write_sint(out, value).expect(TO_MEMORY);
}

/// Appends a string.
pub fn write_str(out: &mut Vec<u8>, value: &str) {
    rmp::encode::write_str(out, value).expect(TO_MEMORY);
}

/// Appends binary.
pub fn write_bin(out: &mut Vec<u8>, value: &[u8]) {
    rmp::encode::write_bin(out, value).expect(TO_MEMORY);
}

/// Appends nil.
pub fn write_nil(out: &mut Vec<u8>) {
    out.push(Marker::Null.to_u8());
}

/// Appends true or false.
pub fn write_bool(out: &mut Vec<u8>, value: bool) {
    out.push(if value { Marker::True } else { Marker::False }.to_u8());
}

/// Appends a double float.
pub fn write_f64(out: &mut Vec<u8>, value: f64) {
    rmp::encode::write_f64(out, value).expect(TO_MEMORY);
}

/// Appends a map's head.
pub fn write_map(out: &mut Vec<u8>, len: usize) {
    let len = u32::try_from(len).expect("a map of more than 2^32 pairs does not fit any limit");
    rmp::encode::write_map_len(out, len).expect(TO_MEMORY);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_integer_is_read() {
        let forms: [(&[u8], i64); 12] = [
            (&[0x7f], 127),
            (&[0xe0], -32),
            (&[0xcc, 0x05], 5),
            (&[0xcd, 0, 5], 5),
            (&[0xce, 0, 0, 0, 5], 5),
            (&[0xcf, 0, 0, 0, 0, 0, 0, 0, 5], 5),
            (&[0xd0, 0x05], 5),
            (&[0xd0, 0x80], -128),
            (&[0xd1, 0xff, 0xff], -1),
            (&[0xd2, 0x80, 0, 0, 0], -(1 << 31)),
            (&[0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], -1),
            (&[0xd3, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], i64::MAX),
        ];
        for (bytes, value) in forms {
            assert_eq!(Reader::new(bytes).int(), Ok(value), "{bytes:02x?}");
            assert_eq!(Reader::new(bytes).uint().ok(), u64::try_from(value).ok(), "{bytes:02x?}");
        }
        assert!(Reader::new(&[0xcf, 0x80, 0, 0, 0, 0, 0, 0, 0]).int().is_err());
        assert!(Reader::new(&[0xca, 0, 0, 0, 0]).uint().is_err());
    }

    // F-6
    #[test]
    fn a_length_that_lies_is_an_error_at_its_head() {
        for marker in [0xdb, 0xc6, 0xc9, 0xdd, 0xdf] {
            let mut bytes = vec![marker, 0xff, 0xff, 0xff, 0xff];
            bytes.extend([0; 100]);
            assert_eq!(Reader::new(&bytes).token(), Err(TRUNCATED), "{marker:02x}");
        }
        // As many elements as bytes, or one more; pairs take two.
        assert_eq!(Reader::new(&[0x92, 0, 0]).token(), Ok(Token::Array(2)));
        assert_eq!(Reader::new(&[0x93, 0, 0]).token(), Err(TRUNCATED));
        assert_eq!(Reader::new(&[0x81, 0xa0, 0]).token(), Ok(Token::Map(1)));
        assert_eq!(Reader::new(&[0x82, 0xa0, 0, 0]).token(), Err(TRUNCATED));
    }

    // F-7
    #[test]
    fn nesting_ends_at_its_limit() {
        let nested = |levels: usize| [vec![0x91; levels], vec![0xc0]].concat();
        assert!(Reader::whole(&nested(MESSAGE_DEPTH)).is_ok());
        assert!(Reader::whole(&nested(MESSAGE_DEPTH + 1)).is_err());
        assert!(Reader::whole(&nested(1_000_000)).is_err());
    }

    #[test]
    fn small_integers_are_stepped_over_and_no_other_value() {
        let mut visited = Vec::new();
        let mut reader = Reader::new(&[0x00, 0x7f, 0xc0, 0xe0, 0xff, 0x90, 0x05, 0x06]);
        let visit = |reader: &mut Reader<'_>, index| {
            visited.push(index);
            reader.skip()
        };
        reader.each_but_small(7, visit).unwrap();
        assert_eq!(visited, [2, 5]);
        assert_eq!(reader.uint(), Ok(6));
        assert!(Reader::new(&[0x01]).each_but_small(2, |reader, _| reader.skip()).is_err());
    }
}
