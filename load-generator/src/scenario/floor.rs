//! `floor`: the physical limit that others are given as a multiple of.

use clap::Args;

use crate::report::Report;
use crate::run::{Failure, drive};
use crate::scenario::RunArgs;
use crate::scenario::fanout::Load;
use crate::server::Server;
use crate::target::{Kind, Transport};

/// The least that a fan-out can cost: a loop in one thread that copies the same bytes to each socket
///
/// It has no protocol, keeps nothing and answers nothing, and gets the load of `fanout`.
/// Example: inkrelay-load floor --readers 1000 --seconds 20
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Floor {
    #[command(flatten)]
    load: Load,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Floor {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let server = Server::bare_loop()?;
        let setup = self.run.set_up(&server, Kind::Bare, Transport::Ws, threads, &self.load.options())?;
        drive(self.load.plan("floor")?, &setup).await
    }
}
