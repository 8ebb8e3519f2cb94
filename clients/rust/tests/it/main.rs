//! The client against a small relay of its own, which can be told to misbehave. A new test goes to the module
//! that names what it is about.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails, panics; clippy takes only the bodies of tests for tests"
)]

mod faults;
mod relay;
mod support;
mod transports;
