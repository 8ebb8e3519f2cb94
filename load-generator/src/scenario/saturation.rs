//! `saturation`: one drawer as fast as acks allow, many readers.

use clap::Args;

use crate::measure::pacer::Pace;
use crate::measure::watcher::ProcessWhole;
use crate::report::{Figure, Report};
use crate::run::{Failure, Plan, Room, drive, fresh_room};
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::Transport;

/// The figure that tells what a core of the server can do.
pub const PER_CORE: &str = "deliveries a second per core of the server";

/// One drawer as fast as acks allow, many readers in a room: how many deliveries a core of the server makes
///
/// The drawer sends batches, as client libraries do, and has a window of draws that wait for their acks. Generator and
/// server share the machine: what counts are deliveries for each CPU second of the server and what belongs to it.
/// Example: inkrelay-load saturation --readers 50 --seconds 10
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Saturation {
    /// Who watches
    #[arg(long, default_value_t = 50)]
    readers: usize,
    /// For how long it is drawn, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Draws without an ack at most
    #[arg(long, default_value_t = 4096)]
    window: usize,
    /// Draws in a frame at most
    #[arg(long, default_value_t = 100)]
    batch: usize,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Saturation {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let options = [
            ("readers", self.readers.to_string()),
            ("seconds", self.seconds.to_string()),
            ("window", self.window.to_string()),
            ("batch", self.batch.to_string()),
        ];
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        let pace = Pace::Flood { window: self.window, batch: self.batch, seconds: self.seconds };
        let name = fresh_room("saturation")?;
        let room = Room { name, readers: self.readers, drawing: vec![(pace, 1)], ..Room::default() };
        let plan = Plan { scenario: "saturation", rooms: vec![room], storms_s: Vec::new() };
        let mut report = drive(plan, &setup).await?;
        let delivered = report.delivered as f64;
        let a_second = delivered / report.took_s.max(1e-3);
        report.figures.push(Figure::new("deliveries a second", a_second, ""));
        let cpu_s = report.server_cpu_s();
        let generator = report.processes.iter().find(|process| process.name == "generator");
        if let Some(own_s) = generator.map(ProcessWhole::cpu).filter(|own_s| *own_s > cpu_s) {
            report.warnings.push(format!(
                "the generator was the limit, not the server: it used {own_s:.1} s of CPU to read and check, the server \
                 {cpu_s:.1} s; what a core of the server delivers stands all the same"
            ));
        }
        if cpu_s > 0.0 && report.processes.iter().all(|process| !process.has_ended) {
            report.figures.push(Figure::new(PER_CORE, delivered / cpu_s, ""));
        }
        Ok(report)
    }
}
