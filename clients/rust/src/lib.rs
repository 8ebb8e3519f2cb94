//! The Rust client of Inkrelay.
pub mod backoff;
pub mod client;
mod connection;
mod http;
mod long_poll;
pub mod outbox;
pub mod replica;
mod session;
mod websocket;
