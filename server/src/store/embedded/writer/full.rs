//! The disk is full for the fold and not yet for the journal.

use std::path::Path;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, RoomId, Seq};
use tokio::sync::Semaphore;

use super::*;
use crate::store::ReadLimit;
use crate::store::embedded::{file, log};

/// Records of an append. They are empty, and take many times the space in the tables, where each is a row.
const RECORDS: usize = 500;
/// Pages by which the database may grow: enough for the journal up to its bound, and not for the tables.
const PAGES: i64 = 6;

fn room() -> RoomId {
    "the-room".parse().unwrap()
}

fn open(folder: &Path) -> Writer {
    let mut opened = file::open(folder, SyncPolicy::Always).unwrap();
    let unfolded = Arc::new(Unfolded::new(std::mem::take(&mut opened.unfolded)));
    Writer::new(opened, unfolded, SyncPolicy::Always, Poison::default())
}

fn append(writer: &mut Writer, turn: usize) -> Result<(), StoreError> {
    let (reply, _answer) = oneshot::channel();
    let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let first_n = (turn * RECORDS) as u64 + 1;
    let records = vec![Bytes::new(); RECORDS];
    let batches = vec![Batch { author: ClientId::new(1).unwrap(), first_n, records }];
    let answers = writer.write(&[Append { room: room(), batches, reply, _place: place }])?;
    assert!(answers[0].as_ref().unwrap().outcomes[0].is_ok());
    if writer.fold_is_due() {
        let _ = writer.fold();
    }
    Ok(())
}

fn count(writer: &Writer, table: &str) -> i64 {
    writer.connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

fn allow_pages(writer: &Writer, more: i64) {
    let pages: i64 = writer.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    writer.connection.pragma_update(None, "max_page_count", pages + more).unwrap();
}

fn assert_holds(writer: &Writer, records: usize) {
    let newest = writer.unfolded.get(&room());
    let all = ReadLimit { records: usize::MAX, bytes: usize::MAX };
    let chunk = newest.as_ref().and_then(|newest| newest.read(Seq::START, all));
    let from_tables = || log::read(&writer.connection, &room(), Seq::START, all, newest.as_deref()).unwrap();
    let chunk = chunk.unwrap_or_else(from_tables);
    assert_eq!((chunk.records.len(), chunk.head.bytes), (records, 0));
    assert_eq!(chunk.head.position.seq, Seq::new(records as u64).unwrap());
}

#[test]
fn appends_go_on_while_the_journal_has_space_and_are_refused_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = open(folder.path());
    allow_pages(&writer, PAGES);
    let mut turns = 0;
    let error = loop {
        match append(&mut writer, turns) {
            Ok(()) => turns += 1,
            Err(error) => break error,
        }
        assert!(turns * RECORDS < 2 * JOURNAL_RECORDS, "the journal has no bound");
    };
    assert!(matches!(error, StoreError::Full(_)), "{error}");
    assert!(turns * RECORDS >= JOURNAL_RECORDS, "the journal was full after {turns} appends");
    assert_eq!((count(&writer, "journal"), count(&writer, "records")), (turns as i64, 0));
    assert_holds(&writer, turns * RECORDS);
    let failed_at = |writer: &Writer| writer.fold_failed.as_ref().map(|(again, _)| *again);
    let again = failed_at(&writer);
    for _ in 0..5 {
        assert!(matches!(append(&mut writer, turns), Err(StoreError::Full(_))), "still");
    }
    assert_eq!(failed_at(&writer), again, "the fold was tried with each append");
    // What is stored already is told as stored.
    append(&mut writer, turns - 1).unwrap();
    assert!(writer.poison.get().is_none());

    // A crash does not lose any of it.
    drop(writer);
    let mut writer = open(folder.path());
    assert_holds(&writer, turns * RECORDS);

    // With space it goes on at once.
    append(&mut writer, turns).unwrap();
    turns += 1;
    assert_holds(&writer, turns * RECORDS);
    writer.fold().unwrap();
    assert_eq!((count(&writer, "journal"), count(&writer, "records")), (0, (turns * RECORDS) as i64));
    assert_holds(&writer, turns * RECORDS);
}
