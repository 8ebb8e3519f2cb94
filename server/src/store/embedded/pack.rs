//! Several records in one row: consecutive ones, as MessagePack binaries one after another.
//!
//! A row costs about the same whatever is in it. A row of one record has the record's bytes as they are.

use bytes::Bytes;
use inkrelay_protocol::msgpack::{self, Reader};

use super::journal::binary;

/// Bytes of records in a row of several. With more SQLite would put a part of the row on a page of its own.
const ROW_BYTES: usize = 900;

/// Takes the records for the next row off the front.
pub(super) fn next<'a>(records: &mut &'a [Bytes]) -> Option<&'a [Bytes]> {
    let mut bytes = 0;
    let fits = |record: &&Bytes| {
        bytes += record.len();
        bytes <= ROW_BYTES
    };
    let count = records.iter().take_while(fits).count().max(1);
    let (row, rest) = records.split_at_checked(count)?;
    *records = rest;
    Some(row)
}

/// The row's count, and its bytes, for which `space` may be needed. A single record has no count.
pub(super) fn pack<'a>(records: &'a [Bytes], space: &'a mut Vec<u8>) -> (Option<i64>, &'a [u8]) {
    if let [record] = records {
        return (None, record);
    }
    space.clear();
    for record in records {
        msgpack::write_bin(space, record);
    }
    (i64::try_from(records.len()).ok(), space)
}

/// The records of a row; `None` when these are not so many.
pub(super) fn unpack(count: Option<i64>, row: &[u8]) -> Option<Vec<Bytes>> {
    let row = Bytes::copy_from_slice(row);
    let Some(count) = count else { return Some(vec![row]) };
    let mut reader = Reader::new(&row);
    let mut records = Vec::new();
    while !reader.is_at_end() {
        records.push(binary(&mut reader, &row).ok()?);
    }
    (i64::try_from(records.len()) == Ok(count)).then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_packed_is_unpacked(
            records in vec(prop_oneof![vec(any::<u8>(), 0..90), vec(any::<u8>(), 0..2000)], 0..60)
        ) {
            let records: Vec<Bytes> = records.into_iter().map(Bytes::from).collect();
            let (mut rest, mut space, mut unpacked) = (&records[..], Vec::new(), Vec::new());
            while let Some(row) = next(&mut rest) {
                let bytes: usize = row.iter().map(Bytes::len).sum();
                prop_assert!(row.len() == 1 || bytes <= ROW_BYTES);
                let (count, packed) = pack(row, &mut space);
                prop_assert_eq!(count, (row.len() > 1).then_some(row.len() as i64));
                unpacked.extend(unpack(count, packed).unwrap());
            }
            prop_assert_eq!(unpacked, records);
        }

        #[test]
        fn bytes_that_are_no_row_are_none(row in vec(any::<u8>(), 0..50), count in 2..9i64) {
            if let Some(records) = unpack(Some(count), &row) {
                prop_assert_eq!(records.len() as i64, count);
            }
        }
    }
}
