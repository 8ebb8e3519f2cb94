//! `inkrelay board`: a room's board as a picture.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::{CommandError, Place, counted};
use crate::long_poll::{Fetched, fetch_snapshot, poll_or_snapshot, poll_request, snapshot_request};
use crate::replica::Replica;
use crate::svg;

/// Answers that are read at most before the board is drawn as it is then.
const POLLS_MAX: usize = 100_000;

/// Arguments of `inkrelay board`.
#[derive(Debug, Args)]
pub struct BoardArgs {
    #[command(flatten)]
    pub(super) place: Place,
    /// Where the picture goes; - for standard output
    #[arg(long, value_name = "FILE")]
    svg: PathBuf,
}

pub(super) async fn run(args: BoardArgs) -> Result<(), CommandError> {
    let replica = read_board(&args.place).await?;
    let board = replica.board().ok_or_else(|| CommandError::new("there is no board"))?;
    let picture = svg::render(board);
    if args.svg.as_os_str() == "-" {
        return match std::io::stdout().write_all(picture.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(CommandError::new(error)),
            _ => Ok(()),
        };
    }
    std::fs::write(&args.svg, picture)
        .map_err(|error| CommandError(format!("cannot write {}: {error}", args.svg.display())))?;
    let strokes = counted(board.strokes().count(), "stroke");
    println!("drew {strokes} as of record {} into {}", replica.seq(), args.svg.display());
    Ok(())
}

/// The room's board as it is now: the snapshot, and what came after it.
async fn read_board(place: &Place) -> Result<Replica, CommandError> {
    let http = place.http()?;
    let snapshot = || place.authorize(snapshot_request(&http));
    let mut replica = Replica::new(None, true);
    let mut fetched = fetch_snapshot(snapshot()).await;
    let mut goal = None;
    for _ in 0..POLLS_MAX {
        match fetched.map_err(|error| place.explain(&error))? {
            Fetched::Reset { position, records } => {
                replica.on_reset(position, &records, false).map_err(CommandError::new)?;
            }
            Fetched::Records { epoch, first, records, head } => {
                replica.on_connected(epoch);
                replica.on_records(first, &records).map_err(CommandError::new)?;
                // Others may be drawing: what the head was at first is what the picture shows at least.
                let goal = *goal.get_or_insert(head);
                if records.is_empty() || goal.is_some_and(|goal| replica.seq() >= goal) {
                    break;
                }
            }
        }
        let poll = place.authorize(poll_request(&http, replica.position(), 0));
        fetched = poll_or_snapshot(poll, snapshot()).await;
    }
    Ok(replica)
}
