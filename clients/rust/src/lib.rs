//! The Rust client of Inkrelay.
pub mod backoff;
pub mod outbox;
