//! The page.
use crate::report::Report;
/// x
pub fn page(_reports: &[Report]) -> String {
    String::new()
}
