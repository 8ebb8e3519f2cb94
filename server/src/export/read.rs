//! Reading rooms from a file.

use std::io::Read;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Identity, Position, RoomId, Seq};

use super::frame::{Frame, FrameReader, VERSION};
use super::{ExportError, Progress};
use crate::store::{LatestBatch, Restore, Rules, Store, identity_of};

/// How often rules are laid down that somebody else changes at the same time.
const TRIES: usize = 5;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Rooms that are in the store now, with their records.
    pub done: Progress,
    /// Rooms that were there already, and were left as they are.
    pub existing: Vec<RoomId>,
}

/// Reads a whole file, and says where it is damaged. Nothing is kept.
///
/// # Errors
/// What is wrong with it.
pub fn check(file: impl Read) -> Result<Progress, ExportError> {
    let mut parts = Parts::open(file)?;
    let mut done = Progress::default();
    let (mut records, mut bytes) = (0, 0);
    loop {
        match parts.next()? {
            Part::Room(..) => (records, bytes) = (0, 0),
            Part::Records(new) => {
                records += new.len() as u64;
                bytes += new.iter().map(|record| record.len() as u64).sum::<u64>();
            }
            Part::RoomEnd => {
                done.rooms += 1;
                (done.records, done.bytes) = (done.records + records, done.bytes + bytes);
            }
            Part::Authors(_) | Part::Void => {}
            Part::End => return Ok(done),
        }
    }
}

/// Brings the rooms of a file into a store, one after the other, each in one step. A room that is there already is left
/// as it is, or replaced. `progress` hears of every part.
///
/// # Errors
/// When the store or the file fails. Rooms that were complete by then are in the store.
pub async fn import(
    file: impl Read,
    store: &dyn Store,
    replace: bool,
    mut progress: impl FnMut(&Progress),
) -> Result<Imported, ExportError> {
    let mut parts = Parts::open(file)?;
    let mut imported = Imported::default();
    let mut before = Progress::default();
    // None in a room that is there already.
    let mut restoring: Option<(RoomId, Rules, Box<dyn Restore>)> = None;
    loop {
        let done = &mut imported.done;
        match parts.next()? {
            Part::Room(room, rules) => {
                before = *done;
                if !replace && store.head(&room).await?.position.seq > Seq::START {
                    imported.existing.push(room);
                } else {
                    let log = store.restore(&room).await?;
                    restoring = Some((room, rules, log));
                }
            }
            Part::Records(records) => {
                let Some((_, _, log)) = &mut restoring else { continue };
                done.records += records.len() as u64;
                done.bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
                log.records(records).await?;
                progress(done);
            }
            Part::Authors(authors) => {
                if let Some((_, _, log)) = &mut restoring {
                    log.authors(authors).await?;
                }
            }
            Part::RoomEnd => {
                let Some((room, rules, log)) = restoring.take() else { continue };
                if log.finish(replace).await? {
                    lay_down(store, &room, &rules).await?;
                    done.rooms += 1;
                    progress(done);
                } else {
                    *done = before;
                    imported.existing.push(room);
                }
            }
            Part::Void => {
                // One that is there already is told of when it comes again.
                if restoring.take().is_none() {
                    imported.existing.pop();
                }
                imported.done = before;
            }
            Part::End => return Ok(imported),
        }
    }
}

/// Has a room that was brought in follow the rules that it had.
async fn lay_down(store: &dyn Store, room: &RoomId, rules: &Rules) -> Result<(), ExportError> {
    for _ in 0..TRIES {
        if store.set_rules(room, &store.rules(room).await?, rules).await? {
            return Ok(());
        }
    }
    Err(ExportError::Refused(format!("the rules of room {room} are changed by somebody else all the time")))
}

/// A part in its place.
enum Part {
    Room(RoomId, Rules),
    Records(Vec<Bytes>),
    Authors(Vec<(ClientId, LatestBatch)>),
    RoomEnd,
    Void,
    End,
}

/// Reads parts, and holds each against those before it.
struct Parts<R> {
    frames: FrameReader<R>,
    open: Option<Open>,
    rooms: u64,
    records: u64,
}

/// A room that is not complete yet.
struct Open {
    room: RoomId,
    position: Position,
    last: Seq,
    identity: Identity,
    bytes: u64,
    authors: u64,
}

impl<R: Read> Parts<R> {
    fn open(file: R) -> Result<Self, ExportError> {
        let mut frames = FrameReader::new(file);
        match frames.next()? {
            (Frame::Header { version: VERSION, .. }, end) => frames.go_on(end),
            (Frame::Header { version, .. }, _) => {
                let what = format!("a newer version wrote it (format {version}, this one knows {VERSION})");
                return Err(ExportError::Refused(what));
            }
            _ => return Err(frames.damaged("it does not begin as an export does")),
        }
        Ok(Self { frames, open: None, rooms: 0, records: 0 })
    }

    fn next(&mut self) -> Result<Part, ExportError> {
        let (frame, end) = self.frames.next()?;
        let place = self.open.as_ref().map_or_else(String::new, |open| format!(" (in room {})", open.room));
        let wrong =
            |what: &str| ExportError::Damaged { at: self.frames.at(), what: format!("{what}{place}") };
        let part = match (frame, &mut self.open) {
            (Frame::Room { room, position, rules }, open @ None) if position.seq > Seq::START => {
                let (last, identity) = (Seq::START, Identity::NONE);
                *open = Some(Open { room: room.clone(), position, last, identity, bytes: 0, authors: 0 });
                Part::Room(room, rules)
            }
            (Frame::Records { first, records }, Some(open)) => {
                let last = open.last.plus(records.len());
                let Some(newest) = records.last().filter(|_| first == open.last.next()) else {
                    return Err(wrong("records are missing before these"));
                };
                if last > open.position.seq {
                    return Err(wrong("there are more records than the room has"));
                }
                (open.last, open.identity) = (last, identity_of(newest));
                open.bytes += records.iter().map(|record| record.len() as u64).sum::<u64>();
                Part::Records(records)
            }
            (Frame::Authors(authors), Some(open)) => {
                if authors.iter().any(|(_, latest)| latest.last_seq > open.position.seq) {
                    return Err(wrong("an author's latest batch is not among the records"));
                }
                open.authors += authors.len() as u64;
                Part::Authors(authors)
            }
            (Frame::RoomEnd { records, bytes, authors }, Some(open)) => {
                let is_whole = open.last == open.position.seq && open.identity == open.position.identity;
                if !is_whole || (records, bytes, authors) != (open.last.get(), open.bytes, open.authors) {
                    return Err(wrong("the room ends, and is not complete"));
                }
                (self.rooms, self.records) = (self.rooms + 1, self.records + records);
                self.open = None;
                Part::RoomEnd
            }
            (Frame::Void, open @ Some(_)) => {
                *open = None;
                Part::Void
            }
            (Frame::End { rooms, records }, None) => {
                if (rooms, records) != (self.rooms, self.records) {
                    return Err(wrong("the file ends, and rooms are missing"));
                }
                self.frames.go_on(end);
                if !self.frames.is_at_end()? {
                    return Err(self.frames.damaged("something follows the end mark"));
                }
                Part::End
            }
            _ => return Err(wrong("a part is out of its place")),
        };
        self.frames.go_on(end);
        Ok(part)
    }
}
