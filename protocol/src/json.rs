//! The same shapes in JSON, for people with `curl` and languages without MessagePack.
//!
//! Both directions go value by value without building a tree. Binary values become base64 strings with
//! padding (RFC 4648, section 4); on the way back a string becomes binary only in draw kind 5.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::draw::OPAQUE;
use crate::limits::MESSAGE_DEPTH;
use crate::msgpack::{self, Malformed, Reader, Token};

/// Appends one MessagePack value as JSON.
///
/// What JSON cannot tell can stand in a store only if something else than the relay put it there. It is
/// told as `null`, and as a key `""`, so that the rest of the log stays readable.
///
/// # Errors
/// When the bytes are no MessagePack value, or more than one.
pub fn from_msgpack(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut reader = Reader::new(bytes);
    write_value(&mut reader, out, MESSAGE_DEPTH)?;
    reader.finish()
}

fn write_value(reader: &mut Reader<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Malformed> {
    let token = reader.token()?;
    let inside = || depth.checked_sub(1).ok_or(Malformed("values are nested deeper than 32 levels"));
    match token {
        Token::Nil | Token::Ext(_) => out.extend_from_slice(b"null"),
        Token::Bool(value) => write_scalar(out, &value),
        Token::Uint(value) => write_scalar(out, &value),
        Token::Negative(value) => write_scalar(out, &value),
        Token::F32(value) => write_scalar(out, &f64::from(value)),
        Token::F64(value) => write_scalar(out, &value),
        Token::Str(bytes) => write_scalar(out, &String::from_utf8_lossy(bytes)),
        Token::Bin(bytes) => write_scalar(out, &BASE64.encode(bytes)),
        Token::Array(len) => {
            let depth = inside()?;
            out.push(b'[');
            for index in 0..len {
                if index > 0 {
                    out.push(b',');
                }
                write_value(reader, out, depth)?;
            }
            out.push(b']');
        }
        Token::Map(len) => {
            let depth = inside()?;
            out.push(b'{');
            for index in 0..len {
                if index > 0 {
                    out.push(b',');
                }
                match Reader::new(reader.raw()?).token()? {
                    Token::Str(key) => write_scalar(out, &String::from_utf8_lossy(key)),
                    _ => out.extend_from_slice(b"\"\""),
                }
                out.push(b':');
                write_value(reader, out, depth)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

fn write_scalar<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("a scalar is written to memory");
}

/// What a piece of JSON stands for; it decides where a string is binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `[draw, …]`, the body of a POST.
    Draws,
    /// A frame of the WebSocket, from a client.
    ClientFrame,
}

/// Why JSON was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJson(String);

/// Turns one JSON text into MessagePack of the same shape, every value in its shortest form.
///
/// # Errors
/// When the text is no JSON of at most 32 levels, or more follows after it. `NaN` and the infinities are no
/// JSON, and neither is a number that no double holds. A string that is no base64 stays a string; the check
/// of draws refuses it where binary is required.
pub fn to_msgpack(text: &[u8], shape: Shape) -> Result<Vec<u8>, InvalidJson> {
    let mut out = Vec::with_capacity(text.len());
    let place = match shape {
        Shape::Draws => Place::Draws,
        Shape::ClientFrame => Place::Frame,
    };
    let mut json = serde_json::Deserializer::from_slice(text);
    let result = Value { out: &mut out, place, depth: MESSAGE_DEPTH }.deserialize(&mut json);
    result.and_then(|_| json.end()).map_err(|error| InvalidJson(error.to_string()))?;
    Ok(out)
}

/// Where in its shape a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Any,
    /// A string here is base64.
    Binary,
    Draws,
    Draw,
    Frame,
}

impl Place {
    /// The place of the element of that index, given the integer that came first.
    fn element(self, index: usize, first: Option<u64>) -> Self {
        match (self, index, first) {
            (Self::Draws, _, _) => Self::Draw,
            (Self::Draw, 1, Some(OPAQUE)) => Self::Binary,
            (Self::Frame, 2, Some(2)) => Self::Draws,
            _ => Self::Any,
        }
    }
}

struct Value<'o> {
    out: &'o mut Vec<u8>,
    place: Place,
    depth: usize,
}

impl Value<'_> {
    /// Elements are counted only when they are all there, and their head stands before them.
    fn insert_head(&mut self, at: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let mut head = Vec::with_capacity(5);
        write(&mut head);
        self.out.splice(at..at, head);
    }

    fn inside<E: de::Error>(&self) -> Result<usize, E> {
        self.depth.checked_sub(1).ok_or_else(|| E::custom("values are nested deeper than 32 levels"))
    }
}

// What is returned is the value, if it is an integer from 0 up.
impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = Option<u64>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        msgpack::write_nil(self.out);
        Ok(None)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        msgpack::write_bool(self.out, value);
        Ok(None)
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        msgpack::write_uint(self.out, value);
        Ok(Some(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        msgpack::write_int(self.out, value);
        Ok(u64::try_from(value).ok())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Self::Value, E> {
        msgpack::write_f64(self.out, value);
        Ok(None)
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        match (self.place == Place::Binary).then(|| BASE64.decode(value)) {
            Some(Ok(bytes)) => msgpack::write_bin(self.out, &bytes),
            _ => msgpack::write_str(self.out, value),
        }
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<Self::Value, A::Error> {
        let depth = self.inside()?;
        let at = self.out.len();
        let (mut len, mut first) = (0, None);
        loop {
            let place = self.place.element(len, first);
            let Some(integer) = elements.next_element_seed(Value { out: self.out, place, depth })? else {
                break;
            };
            if len == 0 {
                first = integer;
            }
            len += 1;
        }
        self.insert_head(at, |head| msgpack::write_array(head, len));
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Self::Value, A::Error> {
        let depth = self.inside()?;
        let at = self.out.len();
        let mut len = 0;
        while entries.next_key_seed(Value { out: self.out, place: Place::Any, depth })?.is_some() {
            entries.next_value_seed(Value { out: self.out, place: Place::Any, depth })?;
            len += 1;
        }
        self.insert_head(at, |head| msgpack::write_map(head, len));
        Ok(None)
    }
}
