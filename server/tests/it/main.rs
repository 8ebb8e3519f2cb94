//! The integration tests: one binary, so that it links once. Where a new test goes:
//!
//! - `store_contract`: what every store promises; quotes the contract in `src/store.rs`
//! - `websocket`: sessions over the WebSocket as clients see them
//! - `embedded_store`, `redis_store`: what one store promises beyond it, and its faults

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails, panics; clippy takes only the bodies of tests for tests"
)]

mod embedded_store;
mod redis_store;
mod store_contract;
mod support;
mod websocket;
