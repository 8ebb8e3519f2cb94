//! The Rust client of Inkrelay.
