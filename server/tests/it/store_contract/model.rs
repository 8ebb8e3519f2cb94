//! The simplest store that could be right, and the dice that throw calls at it.

use std::collections::HashMap;

use bytes::Bytes;
use inkrelay_protocol::{ClientId, Epoch, Identity, Seq};
use inkrelay_server::store::{Batch, Gap, Head, Stored};

use super::{author, identity, record_with, seq};

/// A log, and where each number of each author stands.
#[derive(Default)]
pub struct Model {
    pub log: Vec<Bytes>,
    places: HashMap<(ClientId, u64), Seq>,
    /// The first new number of each author's latest batch.
    latest: HashMap<ClientId, u64>,
    epoch: Option<Epoch>,
}

impl Model {
    pub fn last_n(&self, author: ClientId) -> u64 {
        (1..).find(|n| !self.places.contains_key(&(author, *n))).unwrap() - 1
    }

    pub fn bytes(&self) -> u64 {
        self.log.iter().map(|record| record.len() as u64).sum()
    }

    pub fn head(&self) -> (Seq, Identity) {
        let last = self.log.last().map_or(Identity::NONE, |record| identity(record));
        (seq(self.log.len() as u64), last)
    }

    pub fn assert_head(&mut self, head: Head) {
        assert_eq!((head.position.seq, head.position.identity), self.head());
        assert_eq!(head.bytes, self.bytes());
        if self.log.is_empty() {
            assert_eq!(head, Head::EMPTY);
        } else {
            assert_eq!(head.position.epoch, *self.epoch.get_or_insert(head.position.epoch));
        }
    }

    pub fn append(&mut self, batch: &Batch) -> Result<Stored, Gap> {
        let expected = self.last_n(batch.author) + 1;
        if batch.first_n > expected {
            return Err(Gap { expected });
        }
        // Asked before the new records become the latest batch.
        let is_told = batch.first_n == expected || batch.first_n >= self.latest[&batch.author];
        let mut new = 0;
        for (n, record) in (batch.first_n..).zip(&batch.records) {
            if n >= expected {
                self.log.push(record.clone());
                self.places.insert((batch.author, n), seq(self.log.len() as u64));
                new += 1;
            }
        }
        if new > 0 {
            self.latest.insert(batch.author, expected);
        }
        let first_seq = is_told.then(|| self.places[&(batch.author, batch.first_n)]);
        let last_n = self.last_n(batch.author);
        Ok(Stored { new, first_seq, last_n, last_seq: self.places[&(batch.author, last_n)] })
    }

    /// Mostly the next draws of somebody; sometimes a retry, an overlap or a gap.
    pub fn some_batch(&self, dice: &mut Dice) -> Batch {
        let id = author(1 + dice.below(3));
        let next = self.last_n(id) + 1;
        let first_n = match dice.below(6) {
            0 => next.saturating_sub(dice.below(12)).max(1),
            1 => next + dice.below(3),
            2 => self.latest.get(&id).copied().unwrap_or(1),
            _ => next,
        };
        let records = first_n..=first_n + dice.below(6);
        let records = records.map(|n| record_with(id, n, dice.below(1 << 40), &[0x91, 0x04])).collect();
        Batch { author: id, first_n, records }
    }
}

/// Random numbers that a seed brings back (Steele, Lea and Flood 2014, SplitMix).
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % bound
    }
}
