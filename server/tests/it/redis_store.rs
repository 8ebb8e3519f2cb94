//! The Redis store and its faults.
