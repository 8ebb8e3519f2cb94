//! The integration tests: one binary, so that it links once. Where a new test goes:
//!
//! - `store_contract`: what every store promises; quotes the contract in `src/store.rs`
//! - `bad_input`: whatever anyone sends gets its documented answer, and costs nothing that stays
//! - `limits`: each bound, how it is told, what it answers and how it is lifted
//! - `producer`: draws once and in order, whatever is retried over whichever transport
//! - `http`: sessions, polls, event streams, snapshots and the rest of the addresses
//! - `presence`: who is here, and pointers
//! - `drain`: a server that is told to stop
//! - `websocket`: sessions over the WebSocket as clients see them
//! - `embedded_store`, `redis_store`: what one store promises beyond it, and its faults

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails, panics; clippy takes only the bodies of tests for tests"
)]

mod bad_input;
mod drain;
mod embedded_store;
mod http;
mod limits;
mod presence;
mod producer;
mod redis_store;
mod store_contract;
mod support;
mod websocket;
