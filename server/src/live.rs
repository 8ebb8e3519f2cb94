//! A value that a reload replaces as a whole while others use it.

use std::sync::{PoisonError, RwLock};

/// See the module's documentation. Whoever looks gets a copy: what was begun with the old value ends with it.
pub struct Live<T>(RwLock<T>);

impl<T: Clone> Live<T> {
    /// With a value to begin with.
    pub const fn new(value: T) -> Self {
        Self(RwLock::new(value))
    }

    /// What holds now.
    pub fn get(&self) -> T {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

impl<T: Clone> From<T> for Live<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
