//! The Rust client of Inkrelay.
pub mod backoff;
pub mod client;
pub mod command;
mod connection;
mod http;
pub mod ink;
mod long_poll;
pub mod outbox;
pub mod replica;
mod session;
mod sse;
pub mod svg;
mod websocket;
