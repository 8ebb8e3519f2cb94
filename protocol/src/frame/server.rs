//! Frames from a server.

use super::{
    Fields, Participant, SessionLimits, read_client, read_coordinate, read_credential, read_epoch,
    read_limits, read_participants, read_position, read_records, read_safe, read_seq, write_identity,
    write_optional, write_participants, write_position, write_records,
};
use crate::id::{ClientId, Role};
use crate::msgpack::{self, Malformed, Reader};
use crate::position::{Position, Seq};
use crate::record::Identity;

/// A frame from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerFrame<'a> {
    /// 65: the session is open; then what the client lacks follows.
    Welcome {
        /// Who the client is in this room.
        client: ClientId,
        /// Resumes that id.
        ticket: String,
        /// The head of the log.
        position: Position,
        /// What the client may do.
        role: Role,
        /// What it is to keep to.
        limits: SessionLimits,
    },
    /// 66: the next records that the client lacks, each as its bytes.
    Records {
        /// The number of the first.
        seq: Seq,
        /// In order, without gaps.
        records: Vec<&'a [u8]>,
    },
    /// 67: all of the client's draws up to `n` are stored.
    Ack {
        /// The newest that is.
        n: u64,
        /// Where it stands in the log.
        seq: Seq,
    },
    /// 68: forget the board; these records draw it as of the position.
    Reset {
        /// Where reading goes on when all parts are there.
        position: Position,
        /// This part's records.
        records: Vec<&'a [u8]>,
        /// Whether another part follows.
        more: bool,
    },
    /// 69: everyone who is here.
    Participants(Vec<Participant>),
    /// 70: where somebody's pen hovers.
    Pointer {
        /// Whose.
        client: ClientId,
        /// To the right.
        x: i32,
        /// Down.
        y: i32,
    },
    /// 71: nothing was sent for a while; the head of the log.
    Heartbeat(Position),
    /// 72: something was refused, or got no answer.
    Error {
        /// As in [`crate::ErrorCode`]; a string, since later servers know more of them.
        code: String,
        /// In plain words.
        message: String,
        /// When to try again, in milliseconds.
        retry_ms: Option<u64>,
        /// The first draw refused, or for a gap the number expected.
        n: Option<u64>,
    },
    /// 73: the server is draining.
    GoAway {
        /// In plain words.
        reason: String,
        /// When to reconnect, in milliseconds.
        retry_ms: u64,
    },
    /// 75: whether only moderators draw. Not sent while a room was never locked.
    Lock(bool),
    /// Of a tag that a later version knows.
    Unknown(u64),
}

impl<'a> ServerFrame<'a> {
    /// Reads one whole frame.
    ///
    /// # Errors
    /// When the bytes are no frame.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::whole(bytes)?;
        let mut fields = Fields::open(&mut reader)?;
        let frame = match fields.required()?.uint()? {
            65 => Self::Welcome {
                client: read_client(fields.required()?)?,
                ticket: read_credential(fields.required()?)?,
                position: read_position(fields.required()?)?,
                role: Role::from_number(fields.required()?.uint()?).ok_or(Malformed("no such role"))?,
                limits: read_limits(fields.required()?)?,
            },
            66 => Self::Records {
                seq: read_seq(fields.required()?)?,
                records: read_records(fields.required()?)?,
            },
            67 => Self::Ack { n: read_safe(fields.required()?)?, seq: read_seq(fields.required()?)? },
            68 => {
                let epoch = read_epoch(fields.required()?)?;
                let seq = read_seq(fields.required()?)?;
                let records = read_records(fields.required()?)?;
                let more = fields.required()?.bool()?;
                let author = read_client(fields.required()?)?;
                let n = read_safe(fields.required()?)?;
                let identity = Identity { author, n, at: read_safe(fields.required()?)? };
                Self::Reset { position: Position { epoch, seq, identity }, records, more }
            }
            69 => Self::Participants(read_participants(fields.required()?)?),
            70 => {
                let client = read_client(fields.required()?)?;
                let x = read_coordinate(fields.required()?)?;
                Self::Pointer { client, x, y: read_coordinate(fields.required()?)? }
            }
            71 => Self::Heartbeat(read_position(fields.required()?)?),
            72 => Self::Error {
                code: fields.required()?.str()?.to_owned(),
                message: fields.required()?.str()?.to_owned(),
                retry_ms: fields.optional()?.map(read_safe).transpose()?,
                n: fields.optional()?.map(read_safe).transpose()?,
            },
            73 => Self::GoAway {
                reason: fields.required()?.str()?.to_owned(),
                retry_ms: read_safe(fields.required()?)?,
            },
            75 => Self::Lock(fields.required()?.bool()?),
            tag => Self::Unknown(tag),
        };
        fields.close()?;
        Ok(frame)
    }

    /// The frame's bytes. Records are copied as they are.
    pub fn to_bytes(&self) -> Vec<u8> {
        let out = &mut Vec::new();
        let head = |out: &mut Vec<u8>, fields: usize, tag: u64| {
            msgpack::write_array(out, fields);
            msgpack::write_uint(out, tag);
        };
        match self {
            Self::Welcome { client, ticket, position, role, limits } => {
                head(out, 6, 65);
                msgpack::write_uint(out, client.get());
                msgpack::write_str(out, ticket);
                write_position(out, position);
                msgpack::write_uint(out, role.number());
                let limits = limits.to_array();
                msgpack::write_array(out, limits.len());
                limits.iter().for_each(|limit| msgpack::write_uint(out, *limit));
            }
            Self::Records { seq, records } => {
                head(out, 3, 66);
                msgpack::write_uint(out, seq.get());
                write_records(out, records);
            }
            Self::Ack { n, seq } => {
                head(out, 3, 67);
                msgpack::write_uint(out, *n);
                msgpack::write_uint(out, seq.get());
            }
            Self::Reset { position, records, more } => {
                head(out, 8, 68);
                msgpack::write_uint(out, position.epoch.get());
                msgpack::write_uint(out, position.seq.get());
                write_records(out, records);
                msgpack::write_bool(out, *more);
                write_identity(out, &position.identity);
            }
            Self::Participants(participants) => {
                head(out, 2, 69);
                write_participants(out, participants);
            }
            Self::Pointer { client, x, y } => {
                head(out, 4, 70);
                msgpack::write_uint(out, client.get());
                msgpack::write_int(out, (*x).into());
                msgpack::write_int(out, (*y).into());
            }
            Self::Heartbeat(position) => {
                head(out, 2, 71);
                write_position(out, position);
            }
            Self::Error { code, message, retry_ms, n } => {
                head(out, 5, 72);
                msgpack::write_str(out, code);
                msgpack::write_str(out, message);
                write_optional(out, *retry_ms, msgpack::write_uint);
                write_optional(out, *n, msgpack::write_uint);
            }
            Self::GoAway { reason, retry_ms } => {
                head(out, 3, 73);
                msgpack::write_str(out, reason);
                msgpack::write_uint(out, *retry_ms);
            }
            Self::Lock(is_locked) => {
                head(out, 2, 75);
                msgpack::write_bool(out, *is_locked);
            }
            Self::Unknown(tag) => head(out, 1, *tag),
        }
        std::mem::take(out)
    }
}
