//! What hides strokes: the erases, clears and revokes of a log, and which strokes show after them (B-14 to B-18).

use std::collections::HashMap;

use crate::draw::Draw;
use crate::id::ClientId;
use crate::record::Identity;

/// What hides strokes or undoes that, in the order of the log. Strokes are places, counted from 0 in the order of their
/// begins; whoever holds them may hold some of a log's strokes only, as long as it gives them places in that order.
#[derive(Clone, Debug, Default)]
pub struct Hiding {
    operations: Vec<Operation>,
    /// From author and `n` to a place in `operations`.
    index: HashMap<(ClientId, u64), usize>,
}

/// What can be revoked. Names are resolved when the record is applied: only what stood before it counts.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Hides the strokes at these places.
    Erase(Box<[usize]>),
    /// Hides that many strokes from the front.
    Clear(usize),
    /// Undoes the operations at these places.
    Revoke(Box<[usize]>),
}

impl Operation {
    /// How many strokes and operations it names that are there; a clear counts as one where there is any stroke.
    pub fn names(&self) -> usize {
        match self {
            Self::Erase(places) | Self::Revoke(places) => places.len(),
            Self::Clear(strokes) => (*strokes).min(1),
        }
    }
}

impl Hiding {
    /// What a draw does to the strokes that are there: so many, each at the place that `place` tells of its author and
    /// number. `None` for a draw that hides nothing and undoes nothing.
    pub fn operation(
        &self,
        draw: &Draw,
        strokes: usize,
        place: impl Fn(&(ClientId, u64)) -> Option<usize>,
    ) -> Option<Operation> {
        match draw {
            Draw::Erase(erased) => Some(Operation::Erase(erased.iter().filter_map(place).collect())),
            Draw::Revoke(draws) => Some(Operation::Revoke(
                draws.iter().filter_map(|name| self.index.get(name).copied()).collect(),
            )),
            Draw::Clear => Some(Operation::Clear(strokes)),
            _ => None,
        }
    }

    /// Adds the next operation of the log. Of two with the same author and `n`, which no store of ours makes, a revoke means
    /// the first.
    pub fn push(&mut self, identity: Identity, operation: Operation) {
        self.index.entry((identity.author, identity.n)).or_insert(self.operations.len());
        self.operations.push(operation);
    }

    /// Whether there is no operation.
    pub const fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The places of those that show, of so many strokes.
    pub fn shown(&self, strokes: usize) -> impl Iterator<Item = usize> + use<> {
        let mut counts = vec![true; self.operations.len()];
        let mut hidden = vec![false; strokes];
        let mut cleared = 0;
        // A revoke names earlier operations only, so from the end on each is settled when its turn comes.
        for (place, operation) in self.operations.iter().enumerate().rev() {
            match operation {
                _ if !counts[place] => {}
                Operation::Erase(strokes) => strokes.iter().for_each(|stroke| hidden[*stroke] = true),
                Operation::Clear(strokes) => cleared = cleared.max(*strokes),
                Operation::Revoke(revoked) => revoked.iter().for_each(|place| counts[*place] = false),
            }
        }
        let shown = hidden.into_iter().enumerate().skip(cleared);
        shown.filter(|(_, is_hidden)| !is_hidden).map(|(place, _)| place)
    }
}
