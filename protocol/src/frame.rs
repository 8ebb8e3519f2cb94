//! Frames: what goes over the WebSocket, in both directions.

use crate::id::{ClientId, Role};
use crate::limits::{COORDINATE_MAX, CREDENTIAL_BYTES, PROFILE_NAME_CHARS, SAFE_INTEGER_MAX};
use crate::msgpack::{self, Malformed, Reader};
use crate::position::{Epoch, Position, Seq};
use crate::record::{Identity, Record};

/// A name and a colour that others see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// At most 64 characters; may be empty.
    pub name: String,
    /// Red, green, blue and alpha, eight bits each, red first.
    pub rgba: u32,
}

impl Profile {
    /// # Errors
    /// When the name is longer than 64 characters.
    pub fn new(name: String, rgba: u32) -> Result<Self, Malformed> {
        if name.chars().count() > PROFILE_NAME_CHARS {
            return Err(Malformed("a name has at most 64 characters"));
        }
        Ok(Self { name, rgba })
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let fields = at_least(reader.array()?, 2)?;
        let name = reader.str()?.to_owned();
        let rgba = read_rgba(reader)?;
        reader.skip_rest(fields - 2)?;
        Self::new(name, rgba)
    }

    fn write(&self, out: &mut Vec<u8>) {
        msgpack::write_array(out, 2);
        msgpack::write_str(out, &self.name);
        msgpack::write_uint(out, self.rgba.into());
    }
}

/// Someone who is in the room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participant {
    /// Who.
    pub client: ClientId,
    /// As what.
    pub profile: Profile,
}

/// What a session is told to keep to. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionLimits {
    /// Bytes of one draw.
    pub bytes_per_draw: u64,
    /// Draws in one batch.
    pub draws_per_batch: u64,
    /// Bytes of one message.
    pub bytes_per_message: u64,
    /// Batches in one second.
    pub batches_per_second: u64,
    /// The newest of the client's draws that is stored; 0 for none.
    pub last_n: u64,
}

impl SessionLimits {
    /// In the order in which they stand on the wire.
    pub const fn to_array(self) -> [u64; 5] {
        [
            self.bytes_per_draw,
            self.draws_per_batch,
            self.bytes_per_message,
            self.batches_per_second,
            self.last_n,
        ]
    }

    /// From the order in which they stand on the wire.
    pub const fn from_array(values: [u64; 5]) -> Self {
        let [bytes_per_draw, draws_per_batch, bytes_per_message, batches_per_second, last_n] = values;
        Self { bytes_per_draw, draws_per_batch, bytes_per_message, batches_per_second, last_n }
    }
}

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
        let mut reader = Reader::new(bytes);
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
    /// Of a tag that a later version knows.
    Unknown(u64),
}

impl<'a> ServerFrame<'a> {
    /// Reads one whole frame.
    ///
    /// # Errors
    /// When the bytes are no frame.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
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
            67 => Self::Ack { n: fields.required()?.uint()?, seq: read_seq(fields.required()?)? },
            68 => {
                let epoch = read_epoch(fields.required()?)?;
                let seq = read_seq(fields.required()?)?;
                let records = read_records(fields.required()?)?;
                let more = matches!(fields.required()?.token()?, msgpack::Token::Bool(true));
                let author = read_client(fields.required()?)?;
                let n = fields.required()?.uint()?;
                let identity = Identity { author, n, at: fields.required()?.uint()? };
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
                retry_ms: fields.optional()?.map(Reader::uint).transpose()?,
                n: fields.optional()?.map(Reader::uint).transpose()?,
            },
            73 => Self::GoAway {
                reason: fields.required()?.str()?.to_owned(),
                retry_ms: fields.required()?.uint()?,
            },
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
            Self::Unknown(tag) => head(out, 1, *tag),
        }
        std::mem::take(out)
    }
}

/// The fields of one array, required and optional, with whatever a later version put behind them.
struct Fields<'r, 'a> {
    reader: &'r mut Reader<'a>,
    left: u32,
}

impl<'r, 'a> Fields<'r, 'a> {
    fn open(reader: &'r mut Reader<'a>) -> Result<Self, Malformed> {
        let left = reader.array().map_err(|_| Malformed("a frame is an array"))?;
        Ok(Self { reader, left })
    }

    fn required(&mut self) -> Result<&mut Reader<'a>, Malformed> {
        self.left = self.left.checked_sub(1).ok_or(Malformed("the frame lacks required fields"))?;
        Ok(self.reader)
    }

    /// `None` where nothing or nil stands.
    fn optional(&mut self) -> Result<Option<&mut Reader<'a>>, Malformed> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        Ok(if self.reader.nil() { None } else { Some(self.reader) })
    }

    fn close(self) -> Result<(), Malformed> {
        self.reader.skip_rest(self.left)?;
        self.reader.finish()
    }
}

fn at_least(fields: u32, required: u32) -> Result<u32, Malformed> {
    if fields < required { Err(Malformed("an array lacks required fields")) } else { Ok(fields) }
}

fn read_credential(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let text = reader.str()?;
    if text.len() > CREDENTIAL_BYTES {
        return Err(Malformed("a ticket or token is longer than 8 KiB"));
    }
    Ok(text.to_owned())
}

fn read_rgba(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    u32::try_from(reader.uint()?).map_err(|_| Malformed("rgba is an integer of 32 bits"))
}

fn read_client(reader: &mut Reader<'_>) -> Result<ClientId, Malformed> {
    ClientId::new(reader.uint()?).ok_or(Malformed("a client is at most 2^48 - 1"))
}

fn read_epoch(reader: &mut Reader<'_>) -> Result<Epoch, Malformed> {
    Epoch::new(reader.uint()?).ok_or(Malformed("an epoch is 1 to 2^53 - 1"))
}

fn read_seq(reader: &mut Reader<'_>) -> Result<Seq, Malformed> {
    Seq::new(reader.uint()?).ok_or(Malformed("a seq is at most 2^53 - 1"))
}

fn read_coordinate(reader: &mut Reader<'_>) -> Result<i32, Malformed> {
    const RANGE: Malformed = Malformed("a coordinate is within 2^30 sixteenths of a pixel of the origin");
    let value = reader.int()?;
    if value.unsigned_abs() > COORDINATE_MAX.unsigned_abs() {
        return Err(RANGE);
    }
    i32::try_from(value).map_err(|_| RANGE)
}

fn read_position(reader: &mut Reader<'_>) -> Result<Position, Malformed> {
    let fields = at_least(reader.array()?, 5)?;
    let (epoch, seq) = (read_epoch(reader)?, read_seq(reader)?);
    let identity = Identity { author: read_client(reader)?, n: reader.uint()?, at: reader.uint()? };
    reader.skip_rest(fields - 5)?;
    Ok(Position { epoch, seq, identity })
}

fn read_limits(reader: &mut Reader<'_>) -> Result<SessionLimits, Malformed> {
    let fields = at_least(reader.array()?, 5)?;
    let mut values = [0; 5];
    for value in &mut values {
        *value = reader.uint()?;
    }
    reader.skip_rest(fields - 5)?;
    Ok(SessionLimits::from_array(values))
}

fn read_records<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, Malformed> {
    let len = reader.array()?;
    let one = |_| {
        let bytes = reader.raw()?;
        Record::parse(bytes).map(|_| bytes)
    };
    (0..len).map(one).collect()
}

fn read_participants(reader: &mut Reader<'_>) -> Result<Vec<Participant>, Malformed> {
    let len = reader.array()?;
    let one = |_| {
        let fields = at_least(reader.array()?, 3)?;
        let client = read_client(reader)?;
        let profile = Profile { name: reader.str()?.to_owned(), rgba: read_rgba(reader)? };
        reader.skip_rest(fields - 3)?;
        Ok(Participant { client, profile })
    };
    (0..len).map(one).collect()
}

fn write_optional<T>(out: &mut Vec<u8>, value: Option<T>, write: impl FnOnce(&mut Vec<u8>, T)) {
    match value {
        Some(value) => write(out, value),
        None => msgpack::write_nil(out),
    }
}

fn write_identity(out: &mut Vec<u8>, identity: &Identity) {
    msgpack::write_uint(out, identity.author.get());
    msgpack::write_uint(out, identity.n);
    msgpack::write_uint(out, identity.at);
}

fn write_position(out: &mut Vec<u8>, position: &Position) {
    msgpack::write_array(out, 5);
    msgpack::write_uint(out, position.epoch.get());
    msgpack::write_uint(out, position.seq.get());
    write_identity(out, &position.identity);
}

/// Appends `[record, …]`, each record as its bytes.
pub fn write_records<R: AsRef<[u8]>>(out: &mut Vec<u8>, records: &[R]) {
    msgpack::write_array(out, records.len());
    for record in records {
        out.extend_from_slice(record.as_ref());
    }
}

/// Appends `[[client, name, rgba], …]`.
pub fn write_participants(out: &mut Vec<u8>, participants: &[Participant]) {
    msgpack::write_array(out, participants.len());
    for Participant { client, profile } in participants {
        msgpack::write_array(out, 3);
        msgpack::write_uint(out, client.get());
        msgpack::write_str(out, &profile.name);
        msgpack::write_uint(out, profile.rgba.into());
    }
}
