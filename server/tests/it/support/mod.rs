//! What the tests share.

pub mod proxy;
pub mod redis;
