//! Any bytes as a frame, a record or JSON.

#![no_main]

#[allow(dead_code, reason = "each target uses one half")]
#[path = "../../tests/properties/examine.rs"]
mod examine;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| examine::message(bytes));
