//! Short locks that a panic elsewhere does not poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks. What a panicking holder left is taken as it is: holders here only ever do whole steps.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
