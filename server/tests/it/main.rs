//! The integration tests: one binary, so that it links once. Where a new test goes:
//!
//! - `store_contract`: what every store promises; quotes the contract in `src/store.rs`
//! - `sessions`: who a client is over HTTP, and what its ticket resumes
//! - `access`: tokens and roles over every way in, and the command that makes them
//! - `bad_input`: whatever anyone sends gets its documented answer, and costs nothing that stays
//! - `limits`: each bound, how it is told, what it answers and how it is lifted
//! - `producer`: draws once and in order, whatever is retried over whichever transport
//! - `shared_append`: batches that go together in one append, by whoever came first
//! - `http`: sessions, polls, event streams, snapshots and the rest of the addresses
//! - `board`: the drawing board's page and files, and that its page may connect
//! - `presence`: who is here, and pointers
//! - `moderation`: what moderators do, on every store and across servers
//! - `drain`: a server that is told to stop
//! - `room_life`: rooms that are deleted, because somebody wants it or nobody has drawn in them for long
//! - `websocket`: sessions over the WebSocket as clients see them
//! - `two_servers`: one room through two servers on one Redis
//! - `tls`: everything over TLS, its files, and those who do not shake hands
//! - `security`: headers, origins, and addresses behind proxies
//! - `tidy`: which part may know which, and how long a file may be
//! - `command_line`: the commands that are clients
//! - `configuration`: flags, environment and file, their checks, and the reload at SIGHUP
//! - `starting`: what is refused at the start, by `serve` and `config check` alike, and the greeting
//! - `export`: rooms that go through a file, from store to store
//! - `field_reports`: faults that people met in systems that do this job, each tried on the relay
//! - `demonstration`: recorded ink, drawn and read by everyone at once, also while processes are killed
//! - `deploy`: what stands in `deploy/`, against the relay that it is for
//! - `operators`: the operators' port, its metrics and its answers; and the log
//! - `rust_client`: the Rust client against the relay
//! - `embedded_store`, `redis_store`: what one store promises beyond it, and its faults

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails, panics; clippy takes only the bodies of tests for tests"
)]

mod access;
mod bad_input;
mod board;
mod command_line;
mod configuration;
mod demonstration;
mod deploy;
mod drain;
mod embedded_store;
mod export;
mod field_reports;
mod http;
mod limits;
mod moderation;
mod operators;
mod presence;
mod producer;
mod redis_store;
mod room_life;
mod rust_client;
mod security;
mod sessions;
mod shared_append;
mod starting;
mod store_contract;
mod support;
mod tidy;
mod tls;
mod two_servers;
mod websocket;
