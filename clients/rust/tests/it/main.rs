//! The client against a small relay of its own, which can be told to misbehave. A new test goes to the module
//! that names what it is about.

mod faults;
mod relay;
mod support;
mod transports;
