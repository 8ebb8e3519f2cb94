//! Measuring: when draws are due, what becomes of them, how long it takes, and what the server uses meanwhile.

pub mod checker;
pub mod ink;
pub mod ledger;
pub mod mark;
pub mod order;
pub mod pacer;
pub mod recorder;
pub mod watcher;

pub use checker::{Breach, Breaches, Checker};
pub use ledger::{Answers, Ledger, Outcome};
pub use mark::Mark;
pub use recorder::Recorder;
