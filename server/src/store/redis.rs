//! The Redis store.

/// To come.
pub struct RedisStore;
