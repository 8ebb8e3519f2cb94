//! Any bytes as a batch at the door.

#![no_main]

#[allow(dead_code, reason = "each target uses one half")]
#[path = "../../tests/properties/examine.rs"]
mod examine;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| examine::batch(bytes));
