//! Frames from a client.

use super::{
    Fields, Profile, read_coordinate, read_credential, read_position, write_optional, write_position,
};
use crate::limits::SAFE_INTEGER_MAX;
use crate::msgpack::{self, Malformed, Reader};
use crate::position::Position;

/// The first frame of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// Resumes a client id.
    pub ticket: Option<String>,
    /// The last record that the client has; none: from the start.
    pub position: Option<Position>,
    /// Name and colour.
    pub profile: Option<Profile>,
    /// Proves a role.
    pub token: Option<String>,
}

/// A frame from a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame<'a> {
    /// 1
    Hello(Hello),
    /// 2: draws to store; `draws` is the array's bytes, still to be checked.
    Draws {
        /// The number of the first.
        n: u64,
        /// For [`crate::draw::check_batch`].
        draws: &'a [u8],
    },
    /// 3: where the pen hovers, in sixteenths of a CSS pixel.
    Pointer {
        /// To the right.
        x: i32,
        /// Down.
        y: i32,
    },
    /// 4
    Profile(Profile),
    /// 5
    Token(String),
    /// Of a tag that a later version knows.
    Unknown(u64),
}

impl<'a> ClientFrame<'a> {
    /// Reads one whole frame.
    ///
    /// # Errors
    /// When the bytes are no frame. What stands inside `draws` is checked to be MessagePack and no more.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::whole(bytes)?;
        let mut fields = Fields::open(&mut reader)?;
        let frame = match fields.required()?.uint()? {
            1 => Self::Hello(Hello {
                ticket: fields.optional()?.map(read_credential).transpose()?,
                position: fields.optional()?.map(read_position).transpose()?,
                profile: fields.optional()?.map(Profile::read).transpose()?,
                token: fields.optional()?.map(read_credential).transpose()?,
            }),
            2 => {
                let n = fields.required()?.uint()?;
                if n == 0 || n > SAFE_INTEGER_MAX {
                    return Err(Malformed("n is 1 to 2^53 - 1"));
                }
                let draws = fields.required()?.raw()?;
                if Reader::new(draws).array()? == 0 {
                    return Err(Malformed("a batch holds at least one draw"));
                }
                Self::Draws { n, draws }
            }
            3 => {
                let x = read_coordinate(fields.required()?)?;
                Self::Pointer { x, y: read_coordinate(fields.required()?)? }
            }
            4 => Self::Profile(Profile::read(fields.required()?)?),
            5 => Self::Token(read_credential(fields.required()?)?),
            tag => Self::Unknown(tag),
        };
        fields.close()?;
        Ok(frame)
    }

    /// The frame's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Hello(Hello { ticket, position, profile, token }) => {
                msgpack::write_array(&mut out, 5);
                msgpack::write_uint(&mut out, 1);
                write_optional(&mut out, ticket.as_deref(), msgpack::write_str);
                write_optional(&mut out, position.as_ref(), write_position);
                write_optional(&mut out, profile.as_ref(), |out, profile| profile.write(out));
                write_optional(&mut out, token.as_deref(), msgpack::write_str);
            }
            Self::Draws { n, draws } => {
                msgpack::write_array(&mut out, 3);
                msgpack::write_uint(&mut out, 2);
                msgpack::write_uint(&mut out, *n);
                out.extend_from_slice(draws);
            }
            Self::Pointer { x, y } => {
                msgpack::write_array(&mut out, 3);
                msgpack::write_uint(&mut out, 3);
                msgpack::write_int(&mut out, (*x).into());
                msgpack::write_int(&mut out, (*y).into());
            }
            Self::Profile(profile) => {
                msgpack::write_array(&mut out, 2);
                msgpack::write_uint(&mut out, 4);
                profile.write(&mut out);
            }
            Self::Token(token) => {
                msgpack::write_array(&mut out, 2);
                msgpack::write_uint(&mut out, 5);
                msgpack::write_str(&mut out, token);
            }
            Self::Unknown(tag) => {
                msgpack::write_array(&mut out, 1);
                msgpack::write_uint(&mut out, *tag);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // F-17
    #[test]
    fn a_credential_has_a_largest_length() {
        let largest = ClientFrame::Token("x".repeat(crate::limits::CREDENTIAL_BYTES));
        assert_eq!(ClientFrame::decode(&largest.to_bytes()), Ok(largest));
        let longer = "x".repeat(crate::limits::CREDENTIAL_BYTES + 1);
        assert!(ClientFrame::decode(&ClientFrame::Token(longer.clone()).to_bytes()).is_err());
        let hello = Hello { ticket: Some(longer), ..Hello::default() };
        assert!(ClientFrame::decode(&ClientFrame::Hello(hello).to_bytes()).is_err());
    }
}
