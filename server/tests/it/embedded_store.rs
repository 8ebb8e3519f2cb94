//! The embedded store and its faults.
