//! The relay: `run` puts the parts together.

pub mod random;
pub mod store;
