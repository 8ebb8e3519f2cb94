//! The load generator: it puts load on a relay, checks every record that every reader gets, and tells what it cost.
//!
//! Dependencies point down: `scenario → server → run → sampler → report, target → measure`. A [`target`] knows how to
//! speak to a server; a [`scenario`] knows what load to put on it; [`measure`] decides what is right and how long it
//! took. The [`bare_loop`] is the one server that is part of it.

pub mod bare_loop;
pub mod bounds;
pub mod compare;
pub mod measure;
pub mod messaging;
pub mod report;
pub mod run;
pub mod sampler;
pub mod scenario;
pub mod server;
pub mod target;
pub mod tasks;
pub mod versions;
