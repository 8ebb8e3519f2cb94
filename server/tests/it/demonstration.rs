//! The demonstration: people draw recorded ink in one room and others read along, over every transport, and all end
//! with the same records and the same picture. `make demo` runs it, and it tells in plain words what it does. The
//! pictures are left in `target/demonstration`.
//!
//! - `ink`: with the commands of the binary, as people run them
//! - `kills`: the same for longer, while servers, the store and connections are killed; a ledger tells what is lost
//!
//! The rest is what these two share: the ink, the commands, who draws and who reads.

mod command;
mod drawer;
mod ink;
pub mod kills;
mod reader;
mod recorded;
pub mod stage;

use std::path::PathBuf;

use inkrelay_client::svg;
use inkrelay_protocol::{Board, Record};

/// The room in which everything happens.
const ROOM: &str = "demonstration";

/// Says a line to whoever watches.
macro_rules! say {
    ($($words:tt)*) => { println!("  {}", format_args!($($words)*)) };
}
use say;

/// What records draw.
fn board<R: AsRef<[u8]>>(records: &[R]) -> Board {
    let mut board = Board::new();
    records.iter().for_each(|record| board.apply(&Record::parse(record.as_ref()).expect("a record")));
    board
}

/// The picture of what records draw.
fn picture<R: AsRef<[u8]>>(records: &[R]) -> String {
    svg::render(&board(records))
}

/// Where a picture of that name is left for people to look at.
fn picture_path(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let folder = target.parent().expect("it lies in the target folder").join("demonstration");
    std::fs::create_dir_all(&folder).expect("a folder for pictures");
    folder.join(format!("{name}.svg"))
}
