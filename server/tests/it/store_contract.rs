//! What every store promises.
