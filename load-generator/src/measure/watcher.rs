//! The watcher.
