//! A log on its way into Redis: under keys of its own in the room's slot, until one script renames them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use inkrelay_protocol::{ClientId, RoomId, Seq};
use redis::Value;

use super::call::Call;
use super::link::{Link, Repeat};
use super::{Scripts, decimal, fresh_epoch, keys, unexpected};
use crate::random;
use crate::store::{LatestBatch, Restore, StoreError, nothing_to_restore};

/// Seconds after which a log goes away that nothing more was added to.
const KEPT_SECONDS: u64 = 3600;

/// See the module's documentation.
pub(super) struct Restoring {
    link: Arc<Link>,
    scripts: Arc<Scripts>,
    node: String,
    /// The room's, and then its own two.
    keys: Vec<String>,
    records: u64,
    bytes: u64,
    clients: u64,
}

impl Restoring {
    pub(super) fn new(link: Arc<Link>, scripts: Arc<Scripts>, node: String, room: &RoomId) -> Self {
        let [log, meta, clients, channel] = keys(room);
        let own = format!("{channel}:restored:{:016x}", random::u64());
        let keys = vec![log, meta, clients, channel, format!("{own}:log"), format!("{own}:clients")];
        Self { link, scripts, node, keys, records: 0, bytes: 0, clients: 0 }
    }

    async fn put(&self, records: Vec<Bytes>, authors: Vec<Bytes>) -> Result<(), StoreError> {
        let count = decimal(records.len() as u64);
        let mut args = vec![decimal(KEPT_SECONDS), decimal(self.records), count];
        args.extend(records);
        args.extend(authors);
        let call = Call::Run { script: &self.scripts.restore_put, keys: &self.keys[4..], args };
        match self.link.run(&call, Repeat::Safe).await? {
            Value::Int(1) => Ok(()),
            Value::Int(0) => Err(broken_off()),
            _ => Err(unexpected()),
        }
    }
}

#[async_trait]
impl Restore for Restoring {
    async fn records(&mut self, records: Vec<Bytes>) -> Result<(), StoreError> {
        let bytes = records.iter().map(|record| record.len() as u64).sum::<u64>();
        let count = records.len() as u64;
        self.put(records, Vec::new()).await?;
        (self.records, self.bytes) = (self.records + count, self.bytes + bytes);
        Ok(())
    }

    async fn authors(&mut self, authors: Vec<(ClientId, LatestBatch)>) -> Result<(), StoreError> {
        let count = authors.len() as u64;
        let field = |(author, latest): (ClientId, LatestBatch)| {
            let LatestBatch { first_n, last_n, last_seq } = latest;
            [decimal(author.get()), Bytes::from(format!("{first_n} {last_n} {last_seq}"))]
        };
        self.put(Vec::new(), authors.into_iter().flat_map(field).collect()).await?;
        self.clients += count;
        Ok(())
    }

    async fn finish(self: Box<Self>, replace: bool) -> Result<bool, StoreError> {
        if Seq::new(self.records).is_none_or(|last| last == Seq::START) {
            return Err(nothing_to_restore());
        }
        let mut args = vec![fresh_epoch(), Bytes::from(self.node.clone()), decimal(replace.into())];
        args.extend([self.records, self.bytes, self.clients].map(decimal));
        let call = Call::Run { script: &self.scripts.restore_finish, keys: &self.keys, args };
        match self.link.run(&call, Repeat::Safe).await? {
            Value::Int(1) => Ok(true),
            Value::Int(0) => Ok(false),
            Value::Int(-1) => Err(broken_off()),
            _ => Err(unexpected()),
        }
    }
}

fn broken_off() -> StoreError {
    StoreError::Unavailable("Redis no longer has what was restored so far: begin again".to_owned())
}
