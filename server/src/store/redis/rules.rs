//! The rules of rooms: one string each, beside the room's log and without regard to it.

use bytes::Bytes;
use inkrelay_protocol::RoomId;
use redis::Value;

use super::call::{Call, Script};
use super::link::{Link, Repeat};
use super::{integer, message, unexpected};
use crate::store::{Rules, StoreError};

/// Compares and sets.
pub(super) const SET: &str = include_str!("set_rules.lua");

/// Where the rules of a room are.
pub(super) fn key(room: &RoomId) -> String {
    format!("{}:rules", message::channel(room))
}

/// The rules of a room; the default without the key.
pub(super) async fn get(link: &Link, room: &RoomId) -> Result<Rules, StoreError> {
    let key = key(room);
    let get = Call::Command { name: "GET", args: &[key.as_bytes()] };
    match link.run(&get, Repeat::Safe).await? {
        Value::Nil => Ok(Rules::default()),
        Value::BulkString(bytes) => Rules::of(room, &bytes).map_err(StoreError::Unavailable),
        _ => Err(unexpected()),
    }
}

/// What [`crate::store::Store::set_rules`] does. Asked twice, the second time finds other rules than expected; then the
/// caller reads them and finds its change made.
pub(super) async fn set(
    link: &Link,
    script: &Script,
    room: &RoomId,
    expected: &Rules,
    rules: &Rules,
) -> Result<bool, StoreError> {
    let keys = [key(room)];
    let args = vec![Bytes::from(expected.encode()), Bytes::from(rules.encode())];
    let reply = link.run(&Call::Run { script, keys: &keys, args }, Repeat::Safe).await?;
    Ok(integer(&reply).ok_or_else(unexpected)? == 1)
}
