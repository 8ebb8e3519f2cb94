//! `idle`: what a connection costs that says nothing.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::measure::recorder::Clock;
use crate::measure::watcher::{slab_kib, tcp_memory_kib};
use crate::report::{Figure, Report};
use crate::run::{CONNECTING_MAX, Failure, STOPPED, fresh_room};
use crate::sampler::{Live, Sampler};
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::{Broken, Transport};

/// The figure that tells what a connection costs the server.
pub const IDLE_KIB: &str = "the server's memory";

/// KiB by which the kernel's memory has to grow to mean anything.
const KERNEL_KIB_MIN: u64 = 2048;
/// How long memory may settle before it is read.
const SETTLE: Duration = Duration::from_secs(2);

/// Connections that say nothing: what each costs the server and the kernel
///
/// Example: inkrelay-load idle --connections 5000
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Idle {
    /// How many
    #[arg(long, default_value_t = 1000)]
    connections: usize,
    /// How many of them share a room
    #[arg(long, default_value_t = 10)]
    per_room: usize,
    /// How long they stay, in seconds
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

impl Idle {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let options = [
            ("connections", self.connections.to_string()),
            ("per-room", self.per_room.to_string()),
            ("seconds", self.seconds.to_string()),
        ];
        if self.connections == 0 {
            return Err("--connections is at least 1".into());
        }
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        let mut report = setup.report("idle");
        let live = Arc::new(Live::new(Clock::start()));
        let (sampler, unreadable) = Sampler::start(live.clone(), setup.processes.clone(), 0);
        report.warnings.extend(unreadable.into_iter().map(|name| format!("{name} cannot be watched")));
        sleep(SETTLE).await;
        let kernel_before = tcp_memory_kib() + slab_kib();

        let name = fresh_room("idle")?;
        let connecting = Arc::new(Semaphore::new(CONNECTING_MAX));
        let mut opening: JoinSet<Result<_, Broken>> = JoinSet::new();
        for index in 0..self.connections {
            let (target, connecting) = (setup.target.clone(), connecting.clone());
            let room = format!("{name}-{}", index / self.per_room.max(1));
            opening.spawn(async move {
                let _connecting = connecting.acquire().await.map_err(Broken::new)?;
                target.reader(&room, None).await
            });
        }
        let mut readers = Vec::new();
        while let Some(opened) = tokio::select! {
            opened = opening.join_next() => opened,
            () = setup.stopped() => return Err("it was stopped before all were connected".into()),
        } {
            readers.push(opened??);
        }
        let connected_s = live.clock.now_us() as f64 / 1e6 - SETTLE.as_secs_f64();
        // A poll is only there while it waits, and a socket has to answer pings: all of them read.
        let mut idling: JoinSet<()> = JoinSet::new();
        let stay = SETTLE + Duration::from_secs(self.seconds);
        for mut reader in readers {
            let live = live.clone();
            idling.spawn(async move {
                let reading = async {
                    loop {
                        if let Err(broken) = reader.next(&mut |_| {}).await {
                            live.on_broken(&broken);
                            return;
                        }
                    }
                };
                // It is over when the time is.
                let _ = timeout(stay, reading).await;
            });
        }
        tokio::select! {
            () = sleep(stay - Duration::from_millis(500)) => {}
            () = setup.stopped() => report.warnings.push(STOPPED.to_owned()),
        }
        let kernel_after = tcp_memory_kib() + slab_kib();
        let (seconds, processes) = sampler.stop().await;
        idling.shutdown().await;

        let each = |kib: f64| kib / self.connections.max(1) as f64;
        report.figures.push(Figure::new("connections", self.connections as f64, ""));
        report.figures.push(Figure::new("all of them connected after", connected_s, "s"));
        if let Some(server) = processes.iter().find(|process| process.name == "server") {
            let grown = server.rss_last_kib.saturating_sub(server.rss_first_kib);
            report.figures.push(Figure::new(IDLE_KIB, each(grown as f64), "KiB a connection"));
        }
        let kernel = kernel_after.saturating_sub(kernel_before);
        // The whole machine's, which comes and goes by itself.
        if kernel >= KERNEL_KIB_MIN {
            let what = "the kernel's memory, of both ends if both are here";
            report.figures.push(Figure::new(what, each(kernel as f64), "KiB a connection"));
        } else {
            report.warnings.push("too few connections to tell what each costs the kernel".to_owned());
        }
        report.took_s = live.clock.now_us() as f64 / 1e6;
        (report.seconds, report.processes) = (seconds, processes);
        report.broken = live.broken();
        if report.broken.0 > 0 {
            report.failures.push(format!("{} idle connections were closed", report.broken.0));
        }
        Ok(report)
    }
}
