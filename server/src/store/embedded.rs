//! The embedded store: SQLite.

/// To come.
pub struct EmbeddedStore;
