//! The order of a room: which draw stands at which number. It is the same for all who read there.

use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records of a room that are compared at most: 128 MiB.
const RECORDS_MAX: u64 = 1 << 24;

/// Filled by the reader who sees a record first.
#[derive(Debug, Default)]
pub struct Order {
    /// Index is the number in the room, less one. A value is the writer's index and the draw's number; 0 is none.
    records: RwLock<Vec<AtomicU64>>,
}

impl Order {
    /// Says that a draw stands at a number. Draws are numbered from 1.
    ///
    /// # Errors
    /// With the writer and the number of the draw that others have there.
    pub fn stands(&self, seq: u64, writer: u16, number: u32) -> Result<(), (u16, u32)> {
        // Numbers that no room reaches are another breach, and not worth the memory.
        let Some(place) = seq.checked_sub(1).filter(|place| *place < RECORDS_MAX) else { return Ok(()) };
        let (place, draw) = (place as usize, u64::from(writer) << 32 | u64::from(number));
        let set = |records: &[AtomicU64]| {
            let set = records.get(place)?.compare_exchange(0, draw, Ordering::Relaxed, Ordering::Relaxed);
            Some(set.or_else(|found| if found == draw { Ok(draw) } else { Err(found) }))
        };
        let found = set(&self.records.read().unwrap_or_else(PoisonError::into_inner));
        let found = found.or_else(|| {
            let mut records = self.records.write().unwrap_or_else(PoisonError::into_inner);
            let len = records.len().max((place + 1).next_power_of_two());
            records.resize_with(len, AtomicU64::default);
            set(&records)
        });
        match found {
            Some(Err(other)) => Err(parts(other)),
            _ => Ok(()),
        }
    }

    /// The writer and the number of the draw that stands there, if anybody has read it.
    pub fn at(&self, seq: u64) -> Option<(u16, u32)> {
        let place = usize::try_from(seq.checked_sub(1)?).ok()?;
        let records = self.records.read().unwrap_or_else(PoisonError::into_inner);
        let draw = records.get(place)?.load(Ordering::Relaxed);
        (draw > 0).then_some(parts(draw))
    }
}

const fn parts(draw: u64) -> (u16, u32) {
    ((draw >> 32) as u16, draw as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_see_it_decides() {
        let order = Order::default();
        assert_eq!(order.stands(5, 1, 7), Ok(()));
        assert_eq!(order.stands(5, 1, 7), Ok(()));
        assert_eq!(order.stands(5, 2, 7), Err((1, 7)));
        assert_eq!(order.stands(500, u16::MAX, u32::MAX), Ok(()));
        assert_eq!(order.stands(500, 0, 1), Err((u16::MAX, u32::MAX)));
        assert_eq!(
            [4, 5, 500, 501].map(|seq| order.at(seq)),
            [None, Some((1, 7)), Some((u16::MAX, u32::MAX)), None]
        );
        for seq in [0, u64::MAX] {
            assert_eq!((order.stands(seq, 1, 1), order.stands(seq, 2, 2)), (Ok(()), Ok(())));
        }
    }
}
