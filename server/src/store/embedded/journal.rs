//! An entry of the journal: all that one commit stored, as bytes.
//!
//! An entry is MessagePack, so that it can be looked at with any tool: one value after another, each of them
//! `[room, epoch, before, [[author, first n, [record, …]], …]]` for an append that stored something. The room is
//! its name; `epoch` is nil but for a room's first records; `before` is the number of the record before them;
//! records are binary, as they go over the wire.

use bytes::Bytes;
use inkrelay_protocol::msgpack::{self, Malformed, Reader, Token};
use inkrelay_protocol::{ClientId, Epoch, RoomId, Seq};

use crate::store::{Batch, Gap, Stored};

/// The new records of a batch, which are its last ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct New<'a> {
    pub author: ClientId,
    /// Of the first new record.
    pub first_n: u64,
    pub records: &'a [Bytes],
}

/// What an append of these batches stored.
pub(super) fn stored<'a>(
    batches: &'a [Batch],
    outcomes: &'a [Result<Stored, Gap>],
) -> impl Iterator<Item = New<'a>> + Clone {
    batches.iter().zip(outcomes).filter_map(|(batch, outcome)| {
        let new = outcome.as_ref().map_or(0, |stored| stored.new);
        let known = batch.records.len() - new;
        let first_n = batch.first_n + known as u64;
        (new > 0).then(|| New { author: batch.author, first_n, records: &batch.records[known..] })
    })
}

/// Adds to an entry what an append stored behind the record `before`.
pub(super) fn encode<'a>(
    entry: &mut Vec<u8>,
    room: &RoomId,
    epoch: Epoch,
    before: Seq,
    batches: impl Iterator<Item = New<'a>> + Clone,
) {
    msgpack::write_array(entry, 4);
    msgpack::write_str(entry, room.as_str());
    if before == Seq::START {
        msgpack::write_uint(entry, epoch.get());
    } else {
        msgpack::write_nil(entry);
    }
    msgpack::write_uint(entry, before.get());
    msgpack::write_array(entry, batches.clone().count());
    for New { author, first_n, records } in batches {
        msgpack::write_array(entry, 3);
        msgpack::write_uint(entry, author.get());
        msgpack::write_uint(entry, first_n);
        msgpack::write_array(entry, records.len());
        for record in records {
            msgpack::write_bin(entry, record);
        }
    }
}

/// What an append stored, as the journal has it.
#[derive(Debug)]
pub(super) struct Section {
    pub room: RoomId,
    /// Of a room that these are the first records of.
    pub epoch: Option<Epoch>,
    pub before: Seq,
    /// New records only.
    pub batches: Vec<Batch>,
}

/// The sections of an entry, in order. Records share the entry's bytes.
pub(super) fn decode(entry: &Bytes) -> Result<Vec<Section>, Malformed> {
    let mut reader = Reader::new(entry);
    let mut sections = Vec::new();
    while !reader.is_at_end() {
        sections.push(section(&mut reader, entry)?);
    }
    Ok(sections)
}

fn section(reader: &mut Reader<'_>, entry: &Bytes) -> Result<Section, Malformed> {
    array_of(reader, 4)?;
    let room = reader.str()?.parse().map_err(|_| Malformed("a room's name is none"))?;
    let epoch = if reader.nil() { None } else { Some(reader.uint()?) };
    let epoch =
        epoch.map(|epoch| Epoch::new(epoch).ok_or(Malformed("an epoch is out of range"))).transpose()?;
    let before = Seq::new(reader.uint()?).ok_or(Malformed("a record's number is out of range"))?;
    if epoch.is_some() != (before == Seq::START) {
        return Err(Malformed("an epoch belongs to a room's first records"));
    }
    let batches = (0..some(reader)?).map(|_| batch(reader, entry)).collect::<Result<_, _>>()?;
    Ok(Section { room, epoch, before, batches })
}

fn batch(reader: &mut Reader<'_>, entry: &Bytes) -> Result<Batch, Malformed> {
    array_of(reader, 3)?;
    let author = ClientId::new(reader.uint()?).ok_or(Malformed("an author is out of range"))?;
    let first_n = reader.uint()?;
    let count = some(reader)?;
    if first_n.checked_add(count.into()).is_none() {
        return Err(Malformed("an author's number is out of range"));
    }
    let records = (0..count).map(|_| binary(reader, entry)).collect::<Result<_, _>>()?;
    Ok(Batch { author, first_n, records })
}

fn array_of(reader: &mut Reader<'_>, len: u32) -> Result<(), Malformed> {
    if reader.array()? == len { Ok(()) } else { Err(Malformed("an array has another length")) }
}

/// The length of an array that is not empty.
fn some(reader: &mut Reader<'_>) -> Result<u32, Malformed> {
    match reader.array()? {
        0 => Err(Malformed("an array is empty")),
        len => Ok(len),
    }
}

fn binary(reader: &mut Reader<'_>, entry: &Bytes) -> Result<Bytes, Malformed> {
    match reader.token()? {
        Token::Bin([]) => Ok(Bytes::new()),
        Token::Bin(bytes) => Ok(entry.slice_ref(bytes)),
        _ => Err(Malformed("a record is no binary")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn batches() -> impl Strategy<Value = Vec<Batch>> {
        let records = vec(vec(any::<u8>(), 0..300).prop_map(Bytes::from), 1..5);
        let batch = (0..=inkrelay_protocol::limits::CLIENT_MAX, 1..=u64::MAX - 5, records).prop_map(
            |(author, first_n, records)| Batch { author: ClientId::new(author).unwrap(), first_n, records },
        );
        vec(batch, 1..4)
    }

    fn sections() -> impl Strategy<Value = Vec<Section>> {
        let section = ("[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}", any::<u64>(), 0..1u64 << 53, batches()).prop_map(
            |(room, epoch, before, batches)| Section {
                room: room.parse().unwrap(),
                epoch: (before == 0).then(|| Epoch::from_random(epoch)),
                before: Seq::new(before).unwrap(),
                batches,
            },
        );
        vec(section, 0..5)
    }

    fn entry_of(sections: &[Section]) -> Vec<u8> {
        let mut entry = Vec::new();
        for Section { room, epoch, before, batches } in sections {
            let new = batches.iter().map(|batch| New {
                author: batch.author,
                first_n: batch.first_n,
                records: &batch.records,
            });
            encode(&mut entry, room, epoch.unwrap_or(Epoch::EMPTY), *before, new);
        }
        entry
    }

    fn shown(sections: &[Section]) -> String {
        format!("{sections:?}")
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(sections in sections()) {
            let entry = Bytes::from(entry_of(&sections));
            prop_assert_eq!(shown(&decode(&entry).unwrap()), shown(&sections));
        }

        #[test]
        fn a_cut_entry_is_malformed_or_ends_between_two_appends(sections in sections(), at in any::<u16>()) {
            let entry = Bytes::from(entry_of(&sections));
            let cut = entry.slice(..usize::from(at) % (entry.len() + 1));
            if let Ok(decoded) = decode(&cut) {
                prop_assert_eq!(shown(&decoded), shown(&sections[..decoded.len()]));
                prop_assert_eq!(entry_of(&decoded).len(), cut.len());
            }
        }

        #[test]
        fn any_bytes_are_malformed_or_decoded(bytes in vec(any::<u8>(), 0..200)) {
            let _ = decode(&Bytes::from(bytes));
        }
    }

    #[test]
    fn only_what_is_new_is_stored() {
        let (ada, records) = (ClientId::new(1).unwrap(), vec![Bytes::from_static(b"r"); 3]);
        let batch = |first_n| Batch { author: ada, first_n, records: records.clone() };
        let told = |new| Ok(Stored { new, first_seq: None, last_n: 9, last_seq: Seq::START });
        let batches = [batch(1), batch(2), batch(9), batch(7)];
        let outcomes = [told(0), told(1), Err(Gap { expected: 5 }), told(3)];
        let new: Vec<_> = stored(&batches, &outcomes).map(|new| (new.first_n, new.records.len())).collect();
        assert_eq!(new, [(4, 1), (7, 3)]);
    }
}
