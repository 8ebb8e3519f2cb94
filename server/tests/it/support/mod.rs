//! What the tests share.

pub mod redis;
