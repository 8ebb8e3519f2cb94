//! What holds for every input: random values go round, random bytes never harm, and the board keeps its rules.
//!
//! Each test prints its seed; `PROPTEST_RNG_SEED` repeats a run and `PROPTEST_CASES` makes it longer. A seed
//! that failed becomes a named test beside the property.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod board;
mod examine;
mod mutation;
mod values;
mod wire;

use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngSeed};

/// That many cases from a seed which the test's output names.
fn cases(cases: u32) -> Config {
    let from_environment = Config::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { from_environment.cases } else { cases };
    let seed = match from_environment.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().hash_one(0),
    };
    println!("PROPTEST_RNG_SEED={seed} repeats this run");
    Config { cases, rng_seed: RngSeed::Fixed(seed), failure_persistence: None, ..from_environment }
}
