//! What a log looks like when drawn.

/// Placeholder until the board lands.
#[derive(Debug, Default)]
pub struct Board;
