//! Tests of the generator as people run it. Where a new one goes:
//!
//! - `baselines`: the other servers, and messaging, run as they should.
//! - `faults`: a relay that breaks a promise is caught, each fault by its name.
//! - `relays`: the real relay keeps its promises under short runs, with each store and over each transport.
//! - `pages`: what reports look like in a browser.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails, panics; clippy takes only the bodies of tests for tests"
)]

mod baselines;
mod faults;
mod faulty;
mod pages;
mod relays;
mod support;
