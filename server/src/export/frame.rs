//! The parts of the file: each an array of a tag, bytes, and their checksum.

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;
use inkrelay_protocol::msgpack::{self, Malformed, Reader, Token};
use inkrelay_protocol::{ClientId, Epoch, Identity, Position, RoomId, Seq};

use super::ExportError;
use crate::store::{LatestBatch, Rules};

/// What the file says that it is.
const MAGIC: &str = "inkrelay export";
/// Goes up when an older server could no longer read the file.
pub(super) const VERSION: u64 = 1;
/// Bytes of one part's content at most: a list's element in Redis may have half of it.
const CONTENT_BYTES: u32 = 1 << 30;
/// An array of three, whose second element is binary with a length of four bytes, and its third an integer of four.
const ARRAY: u8 = 0x93;
const BINARY: u8 = 0xc6;
const INTEGER: u8 = 0xce;
/// The first bytes of the header, and so of every export.
const BEGINNING: [u8; 3] = [ARRAY, 0, BINARY];
const CUT_OFF: &str = "the file ends here, without its end mark: it was cut off";
/// Bytes of a part before its content.
const HEAD_BYTES: usize = 7;

/// A part, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// The first.
    Header { version: u64, made_at: u64, made_by: String },
    /// A room begins; its position is that of the last record that follows. The rules are those of when it was read.
    Room { room: RoomId, position: Position, rules: Rules },
    /// Its next records.
    Records { first: Seq, records: Vec<Bytes> },
    /// Authors, with their latest batches among these records.
    Authors(Vec<(ClientId, LatestBatch)>),
    /// The room is complete.
    RoomEnd { records: u64, bytes: u64, authors: u64 },
    /// What there is of the room is void: it changed while it was read, and begins again or was deleted.
    Void,
    /// The last.
    End { rooms: u64, records: u64 },
}

impl Frame {
    const fn tag(&self) -> u8 {
        match self {
            Self::Header { .. } => 0,
            Self::Room { .. } => 1,
            Self::Records { .. } => 2,
            Self::Authors(_) => 3,
            Self::RoomEnd { .. } => 4,
            Self::Void => 5,
            Self::End { .. } => 6,
        }
    }

    fn content(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let numbers = |out: &mut Vec<u8>, numbers: &[u64]| {
            msgpack::write_array(out, numbers.len());
            numbers.iter().for_each(|number| msgpack::write_uint(out, *number));
        };
        match self {
            Self::Header { version, made_at, made_by } => {
                msgpack::write_array(&mut out, 4);
                msgpack::write_str(&mut out, MAGIC);
                msgpack::write_uint(&mut out, *version);
                msgpack::write_uint(&mut out, *made_at);
                msgpack::write_str(&mut out, made_by);
            }
            Self::Room { room, position, rules } => {
                msgpack::write_array(&mut out, 3);
                msgpack::write_str(&mut out, room.as_str());
                let Position { epoch, seq, identity: Identity { author, n, at } } = position;
                numbers(&mut out, &[epoch.get(), seq.get(), author.get(), *n, *at]);
                msgpack::write_bin(&mut out, &rules.encode());
            }
            Self::Records { first, records } => {
                out.reserve(records.iter().map(|record| record.len() + 5).sum::<usize>() + 32);
                msgpack::write_array(&mut out, 2);
                msgpack::write_uint(&mut out, first.get());
                msgpack::write_array(&mut out, records.len());
                records.iter().for_each(|record| msgpack::write_bin(&mut out, record));
            }
            Self::Authors(authors) => {
                msgpack::write_array(&mut out, authors.len());
                for (author, LatestBatch { first_n, last_n, last_seq }) in authors {
                    numbers(&mut out, &[author.get(), *first_n, *last_n, last_seq.get()]);
                }
            }
            Self::RoomEnd { records, bytes, authors } => numbers(&mut out, &[*records, *bytes, *authors]),
            Self::Void => numbers(&mut out, &[]),
            Self::End { rooms, records } => numbers(&mut out, &[*rooms, *records]),
        }
        out
    }

    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let (tag, content) = (self.tag(), self.content());
        let len = u32::try_from(content.len()).ok().filter(|len| *len <= CONTENT_BYTES);
        let len = len.ok_or_else(|| io::Error::other("a record is too large to be exported"))?;
        out.write_all(&[ARRAY, tag, BINARY])?;
        out.write_all(&len.to_be_bytes())?;
        out.write_all(&content)?;
        out.write_all(&[INTEGER])?;
        out.write_all(&checksum(tag, &content).to_be_bytes())
    }

    /// `Ok(None)` for a tag that a later version may use.
    fn decode(tag: u8, content: &Bytes) -> Result<Option<Self>, Malformed> {
        let mut reader = Reader::new(content);
        let fields = reader.array()?;
        let need = |least: u32| {
            if fields < least { Err(Malformed("an array is too short")) } else { Ok(()) }
        };
        Ok(Some(match tag {
            0 => {
                need(4)?;
                if reader.str()? != MAGIC {
                    return Err(Malformed("it is not an export of this program"));
                }
                let (version, made_at) = (reader.uint()?, reader.uint()?);
                Self::Header { version, made_at, made_by: reader.str()?.to_owned() }
            }
            1 => {
                need(3)?;
                let room = reader.str()?.parse().map_err(|_| Malformed("a room's name is none"))?;
                let position = array_of(&mut reader)?;
                let rules = Rules::decode(&binary(&mut reader, content)?);
                let rules = rules.ok_or(Malformed("the rules of a room are none"))?;
                Self::Room { room, position: position_of(position)?, rules }
            }
            2 => {
                need(2)?;
                let first = seq(reader.uint()?)?;
                let records = (0..reader.array()?).map(|_| binary(&mut reader, content));
                Self::Records { first, records: records.collect::<Result<_, _>>()? }
            }
            3 => Self::Authors((0..fields).map(|_| author(&mut reader)).collect::<Result<_, _>>()?),
            4 => {
                need(3)?;
                Self::RoomEnd { records: reader.uint()?, bytes: reader.uint()?, authors: reader.uint()? }
            }
            5 => Self::Void,
            6 => {
                need(2)?;
                Self::End { rooms: reader.uint()?, records: reader.uint()? }
            }
            _ => return Ok(None),
        }))
    }
}

fn seq(number: u64) -> Result<Seq, Malformed> {
    Seq::new(number).ok_or(Malformed("a record's number is out of range"))
}

/// That many integers, and whatever a later version puts behind them.
fn array_of<const N: usize>(reader: &mut Reader<'_>) -> Result<[u64; N], Malformed> {
    let len = reader.array()?;
    let more = len.checked_sub(N as u32).ok_or(Malformed("an array is too short"))?;
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = reader.uint()?;
    }
    reader.skip_rest(more)?;
    Ok(numbers)
}

fn position_of([epoch, at_seq, author, n, at]: [u64; 5]) -> Result<Position, Malformed> {
    let epoch = Epoch::new(epoch).ok_or(Malformed("an epoch is out of range"))?;
    let author = ClientId::new(author).ok_or(Malformed("an author is out of range"))?;
    Ok(Position { epoch, seq: seq(at_seq)?, identity: Identity { author, n, at } })
}

fn author(reader: &mut Reader<'_>) -> Result<(ClientId, LatestBatch), Malformed> {
    let [author, first_n, last_n, last_seq] = array_of(reader)?;
    let author = ClientId::new(author).filter(|author| !author.is_anonymous());
    let author = author.ok_or(Malformed("an author is out of range"))?;
    let last_seq = seq(last_seq)?;
    // Its records stand next to each other, from the first record of the log on at the earliest.
    if first_n == 0 || first_n > last_n || last_n - first_n >= last_seq.get() {
        return Err(Malformed("an author's latest batch cannot be"));
    }
    Ok((author, LatestBatch { first_n, last_n, last_seq }))
}

fn binary(reader: &mut Reader<'_>, content: &Bytes) -> Result<Bytes, Malformed> {
    match reader.token()? {
        Token::Bin([]) => Ok(Bytes::new()),
        Token::Bin(bytes) => Ok(content.slice_ref(bytes)),
        _ => Err(Malformed("it is not binary where binary belongs")),
    }
}

fn checksum(tag: u8, content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[tag]);
    hasher.update(content);
    hasher.finalize()
}

/// Reads one part after the other.
pub(super) struct FrameReader<R> {
    file: R,
    /// Bytes of the parts before.
    read: u64,
}

impl<R: Read> FrameReader<R> {
    pub(super) const fn new(file: R) -> Self {
        Self { file, read: 0 }
    }

    /// Where the next part begins.
    pub(super) const fn at(&self) -> u64 {
        self.read
    }

    pub(super) fn damaged(&self, what: impl ToString) -> ExportError {
        ExportError::Damaged { at: self.read, what: what.to_string() }
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> Result<bool, ExportError> {
        let mut next = [0];
        match self.file.read_exact(&mut next) {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The next part that this version knows, and where the one after it begins.
    pub(super) fn next(&mut self) -> Result<(Frame, u64), ExportError> {
        loop {
            let (tag, content) = self.part()?;
            let frame = Frame::decode(tag, &content).map_err(|error| self.damaged(error))?;
            let end = self.read + (HEAD_BYTES + content.len() + 5) as u64;
            if let Some(frame) = frame {
                return Ok((frame, end));
            }
            self.read = end;
        }
    }

    /// What follows is judged by the place where it begins.
    pub(super) const fn go_on(&mut self, end: u64) {
        self.read = end;
    }

    fn part(&mut self) -> Result<(u8, Bytes), ExportError> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        (&mut self.file).take(HEAD_BYTES as u64).read_to_end(&mut head)?;
        if self.read == 0 && !head.starts_with(&BEGINNING) {
            return Err(no_export(&head));
        }
        let head = head.try_into().map_err(|_| self.damaged(CUT_OFF))?;
        let [array, tag, binary, len @ ..]: [u8; HEAD_BYTES] = head;
        let len = u32::from_be_bytes(len);
        if array != ARRAY || tag > 0x7f || binary != BINARY || len > CONTENT_BYTES {
            return Err(self.damaged("no part of an export begins here"));
        }
        // Not reserved by what the length promises.
        let mut content = Vec::new();
        let read = (&mut self.file).take(len.into()).read_to_end(&mut content)?;
        if read < len as usize {
            return Err(self.damaged("the file ends in the middle: it was cut off"));
        }
        let mut tail = [0; 5];
        self.fill(&mut tail)?;
        let [integer, sum @ ..] = tail;
        if integer != INTEGER || u32::from_be_bytes(sum) != checksum(tag, &content) {
            return Err(self.damaged("it does not fit its checksum"));
        }
        Ok((tag, content.into()))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), ExportError> {
        self.file.read_exact(bytes).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => self.damaged(CUT_OFF),
            _ => error.into(),
        })
    }
}

/// Of a file with those first bytes.
fn no_export(begins_with: &[u8]) -> ExportError {
    ExportError::NoExport(match begins_with {
        [] => "it is empty".to_owned(),
        bytes => format!("it begins with \"{}\"", bytes.escape_ascii()),
    })
}
