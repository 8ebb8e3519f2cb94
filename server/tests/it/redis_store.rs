//! What the Redis store promises beyond the contract, and its faults.

mod contract;
