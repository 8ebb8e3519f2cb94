//! Writing rooms into a file.

use std::collections::HashMap;
use std::io::Write;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, RoomId, Seq};

use super::frame::{Frame, VERSION};
use super::{ExportError, Progress, Source};
use crate::clock;
use crate::store::{LatestBatch, ReadLimit, identity_of};

/// Records that are in memory at once, unless one alone is larger.
const PART: ReadLimit = ReadLimit { records: 4096, bytes: 1 << 20 };
/// Authors in one part.
const PART_AUTHORS: usize = 4096;
/// Rooms that are listed at once.
const PAGE_ROOMS: usize = 256;
/// How often a room is begun that becomes another log while it is read.
const TRIES: usize = 5;

/// Which rooms.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Those that are there all the time that it takes.
    All,
    /// One.
    One(&'a RoomId),
}

/// Writes rooms, each as it was at one moment, and the end mark. `progress` hears of every part.
///
/// # Errors
/// When the store or the file fails, or the one room has no records. What was written then has no end mark.
pub async fn export(
    source: &Source,
    rooms: Which<'_>,
    out: &mut impl Write,
    mut progress: impl FnMut(&Progress),
) -> Result<Progress, ExportError> {
    let made_at = clock::unix_ms();
    let made_by = concat!("inkrelay ", env!("CARGO_PKG_VERSION")).to_owned();
    Frame::Header { version: VERSION, made_at, made_by }.write(out)?;
    let mut done = Progress::default();
    match rooms {
        Which::One(room) => {
            if !write_room(source, room, out, &mut done, &mut progress).await? {
                return Err(ExportError::Refused(format!("nobody has drawn in room {room}")));
            }
        }
        Which::All => {
            let mut after = None;
            loop {
                let page = source.rooms(after.as_ref(), PAGE_ROOMS).await?;
                let Some(last) = page.last() else { break };
                after = Some(last.room.clone());
                for found in &page {
                    write_room(source, &found.room, out, &mut done, &mut progress).await?;
                }
            }
        }
    }
    Frame::End { rooms: done.rooms, records: done.records }.write(out)?;
    Ok(done)
}

/// Returns whether the room has records.
async fn write_room(
    source: &Source,
    room: &RoomId,
    out: &mut impl Write,
    done: &mut Progress,
    progress: &mut impl FnMut(&Progress),
) -> Result<bool, ExportError> {
    for _ in 0..TRIES {
        let mut chunk = source.read(room, Seq::START.next(), PART).await?;
        let head = chunk.head.position;
        if head.seq == Seq::START {
            return Ok(false);
        }
        let before = *done;
        let rules = source.rules(room).await?;
        Frame::Room { room: room.clone(), position: head, rules }.write(out)?;
        let (mut next, mut authors) = (Seq::START.next(), Authors::default());
        let is_whole = loop {
            let left = head.seq.get() - next.previous().get();
            chunk.records.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            if chunk.records.is_empty() || chunk.head.position.epoch != head.epoch {
                break false;
            }
            authors.take(next, &chunk.records);
            done.records += chunk.records.len() as u64;
            done.bytes += chunk.records.iter().map(|record| record.len() as u64).sum::<u64>();
            let first = next;
            next = next.plus(chunk.records.len());
            let last = chunk.records.last().map(|record| identity_of(record));
            Frame::Records { first, records: chunk.records }.write(out)?;
            progress(done);
            if next > head.seq {
                break last == Some(head.identity);
            }
            chunk = source.read(room, next, PART).await?;
        };
        if !is_whole {
            *done = before;
            Frame::Void.write(out)?;
            continue;
        }
        for part in authors.latest().chunks(PART_AUTHORS) {
            Frame::Authors(part.to_vec()).write(out)?;
        }
        let (records, bytes) = (done.records - before.records, done.bytes - before.bytes);
        Frame::RoomEnd { records, bytes, authors: authors.0.len() as u64 }.write(out)?;
        done.rooms += 1;
        progress(done);
        return Ok(true);
    }
    Err(ExportError::Refused(format!("room {room} became another log each time that it was read")))
}

/// The authors of records, by what the records say: as a store does that has lost what it knew of them.
#[derive(Default)]
struct Authors(HashMap<ClientId, LatestBatch>);

impl Authors {
    /// Takes the next records. Only numbers without a gap from 1 on count.
    fn take(&mut self, first: Seq, records: &[Bytes]) {
        for (index, record) in records.iter().enumerate() {
            let (identity, seq) = (identity_of(record), first.plus(index));
            if identity.author.is_anonymous() {
                continue;
            }
            let n = identity.n;
            let alone = LatestBatch { first_n: n, last_n: n, last_seq: seq };
            match self.0.get_mut(&identity.author) {
                None if n == 1 => drop(self.0.insert(identity.author, alone)),
                Some(latest) if n == latest.last_n + 1 => {
                    let follows = latest.last_seq.next() == seq;
                    *latest = if follows { LatestBatch { first_n: latest.first_n, ..alone } } else { alone };
                }
                _ => {}
            }
        }
    }

    /// In the order of their numbers, so that the same log makes the same file.
    fn latest(&self) -> Vec<(ClientId, LatestBatch)> {
        let mut latest: Vec<_> = self.0.iter().map(|(author, latest)| (*author, *latest)).collect();
        latest.sort_unstable_by_key(|(author, _)| *author);
        latest
    }
}
