//! The rules of rooms: rows that change seldom, each in a transaction of its own and past the journal.

use inkrelay_protocol::RoomId;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use tokio::sync::oneshot;

use super::log::{Fault, checksum};
use super::writer::Writer;
use crate::store::{Rules, StoreError};

/// A change on its way to the writer.
pub(super) struct SetRules {
    pub room: RoomId,
    pub expected: Rules,
    pub rules: Rules,
    pub reply: oneshot::Sender<Result<bool, StoreError>>,
}

/// Of a row of `rules`.
fn rules_checksum(name: &str, rules: &[u8]) -> i64 {
    checksum(&[], &[name.as_bytes(), &[0], rules].concat())
}

/// The rules of a room; the default without a row.
pub(super) fn rules(connection: &Connection, room: &RoomId) -> Result<Rules, Fault> {
    let mut statement = connection.prepare_cached("SELECT rules, checksum FROM rules WHERE room = ?1")?;
    let row = statement.query_row([room.as_str()], |row| {
        let rules = row.get_ref(0)?.as_blob()?;
        let is_whole = row.get::<_, i64>(1)? == rules_checksum(room.as_str(), rules);
        Ok(is_whole.then(|| rules.to_vec()))
    });
    match row.optional()? {
        None => Ok(Rules::default()),
        Some(Some(bytes)) => Rules::of(room, &bytes).map_err(Fault::Damaged),
        Some(None) => Err(Fault::Damaged(format!("the rules of room {room} are not as they were written"))),
    }
}

/// Takes away the rules of a room that is deleted. Returns whether it had any.
pub(super) fn remove(connection: &Connection, room: &RoomId) -> Result<bool, rusqlite::Error> {
    let mut remove = connection.prepare_cached("DELETE FROM rules WHERE room = ?1")?;
    Ok(remove.execute([room.as_str()])? > 0)
}

/// Looks at every row, and at their order: a ban that vanished would be missed by nobody.
pub(super) fn check_rules(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare("SELECT room, rules, checksum FROM rules ORDER BY room")?;
    let mut rows = statement.query([])?;
    let mut previous = String::new();
    while let Some(row) = rows.next()? {
        let name: String = row.get(0)?;
        if rules_checksum(&name, row.get_ref(1)?.as_blob().map_err(rusqlite::Error::from)?)
            != row.get::<_, i64>(2)?
            || name <= previous
        {
            let what =
                format!("the rules of room {name:?}, after {previous:?}, are not as they were written");
            return Err(Fault::Damaged(what));
        }
        previous = name;
    }
    Ok(())
}

/// What [`crate::store::Store::set_rules`] does. In no transaction of the caller's.
fn set(connection: &mut Connection, asked: &SetRules) -> Result<bool, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if rules(&transaction, &asked.room)? != asked.expected {
        return Ok(false);
    }
    let (name, bytes) = (asked.room.as_str(), asked.rules.encode());
    if bytes.is_empty() {
        transaction.execute("DELETE FROM rules WHERE room = ?1", [name])?;
    } else {
        transaction.execute(
            "INSERT INTO rules (room, rules, checksum) VALUES (?1, ?2, ?3)
             ON CONFLICT (room) DO UPDATE SET rules = excluded.rules, checksum = excluded.checksum",
            (name, &bytes, rules_checksum(name, &bytes)),
        )?;
    }
    transaction.commit()?;
    Ok(true)
}

impl Writer {
    /// Lays down a room's rules, and answers.
    pub(super) fn set_rules(&mut self, asked: SetRules) {
        let answer = match self.poisoned() {
            Some(why) => Err(why),
            None => match set(&mut self.connection, &asked) {
                Ok(is_set) => {
                    if is_set {
                        self.wrote_beside_the_journal();
                    }
                    Ok(is_set)
                }
                Err(Fault::Sql(error)) => Err(self.give_up(&error)),
                Err(fault) => Err(fault.into()),
            },
        };
        // Whoever asked may have stopped waiting.
        let _ = asked.reply.send(answer);
    }
}
