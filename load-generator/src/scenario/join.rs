//! `join`: how long late joiners wait for what was drawn before.

use std::sync::Arc;

use clap::Args;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::measure::pacer::Pace;
use crate::measure::recorder::{Clock, Quantiles};
use crate::measure::{Recorder, mark};
use crate::report::{Figure, Report};
use crate::run::{Failure, Plan, Room, STOPPED, Setup, drive, fresh_room};
use crate::sampler::{Live, Sampler};
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::{Broken, Transport};

/// Connections that fill the room.
const FILLERS: u16 = 8;

/// Late joiners into a room with a long log: time to the first and to the last record, and bytes
///
/// Example: inkrelay-load join --records 50000 --joiners 100 --at-once 10
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Join {
    /// Records in the room
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// How many join
    #[arg(long, default_value_t = 50)]
    joiners: usize,
    /// How many of them at the same time
    #[arg(long, default_value_t = 1)]
    at_once: usize,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// What joiners measure.
#[derive(Default)]
struct Waits {
    first: Recorder,
    last: Recorder,
}

impl Join {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let options = [
            ("records", self.records.to_string()),
            ("joiners", self.joiners.to_string()),
            ("at-once", self.at_once.to_string()),
        ];
        if self.joiners == 0 {
            return Err("--joiners is at least 1".into());
        }
        let (_server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        if !setup.target.keeps_log() {
            return Err("this server keeps nothing that a late joiner could get".into());
        }
        let room = fresh_room("join")?;
        let filling = Room {
            name: room.clone(),
            readers: 0,
            drawing: vec![(Pace::Max { count: self.records }, FILLERS)],
            ..Room::default()
        };
        let filled =
            drive(Plan { scenario: "join", rooms: vec![filling], storms_s: Vec::new() }, &setup).await?;
        let mut report = setup.report("join");
        (report.breaches, report.failures) = (filled.breaches, filled.failures);
        (report.tally, report.broken) = (filled.tally, filled.broken);
        if setup.is_stopped() {
            report.warnings.push(STOPPED.to_owned());
        } else if report.tally.stored < self.records {
            report.failures.push(format!("only {} records were stored", report.tally.stored));
        }
        let expected = report.tally.stored;

        let live = Arc::new(Live::new(Clock::start()));
        let (sampler, _) = Sampler::start(live.clone(), setup.processes.clone(), 0);
        let waits = Arc::new(Waits::default());
        let began_us = live.clock.now_us();
        let (mut joining, mut joined, mut bytes) = (JoinSet::new(), 0, 0);
        loop {
            while joined < self.joiners && !setup.is_stopped() && joining.len() < self.at_once.max(1) {
                joining.spawn(join(
                    setup.clone(),
                    room.clone(),
                    expected,
                    live.clone(),
                    waits.clone(),
                    joined,
                ));
                joined += 1;
            }
            match joining.join_next().await {
                None => break,
                Some(Ok(Ok(received))) => bytes += received,
                Some(Ok(Err(broken))) => report.failures.push(format!("a joiner failed: {broken}")),
                Some(Err(error)) => report.failures.push(format!("a joiner failed: {error}")),
            }
        }
        report.took_s = live.clock.now_us().saturating_sub(began_us) as f64 / 1e6;
        (report.seconds, report.processes) = sampler.stop().await;
        report.delivered = live.delivered.load(std::sync::atomic::Ordering::Relaxed);
        let ms = |us: u64| us as f64 / 1000.0;
        for (name, recorder) in [("first", &waits.first), ("last", &waits.last)] {
            let (Quantiles { p50, p99, max, .. }, _) = recorder.whole();
            for (which, us) in [("median", p50), ("p99", p99), ("longest", max)] {
                report.figures.push(Figure::new(format!("to the {name} record, {which}"), ms(us), "ms"));
            }
        }
        let each = bytes as f64 / 1024.0 / self.joiners.max(1) as f64;
        report.figures.push(Figure::new("received by each", each, "KiB"));
        live.judge_generator(&mut report, threads);
        Ok(report)
    }
}

/// Joins once, and returns how many bytes came.
async fn join(
    setup: Setup,
    room: String,
    expected: u64,
    live: Arc<Live>,
    waits: Arc<Waits>,
    who: usize,
) -> Result<u64, Broken> {
    let began_us = live.clock.now_us();
    let since = || live.clock.now_us().saturating_sub(began_us);
    let mut reader = setup.target.reader(&room, None).await?;
    let (mut got, mut wrong) = (0, None);
    while got < expected {
        let before = got;
        let mut take = |arrived: crate::target::Arrived<'_>| {
            got += 1;
            let is_next = arrived.seq.is_none_or(|seq| seq == got);
            if wrong.is_none() && !(is_next && mark::read(arrived.draw).is_ok()) {
                wrong = Some(got);
            }
        };
        let next = timeout(setup.drain, reader.next(&mut take)).await;
        next.map_err(|_| Broken::new(format!("nothing came after record {before} in room {room}")))??;
        if before == 0 && got > 0 {
            waits.first.record(who, &[since()]);
        }
    }
    if let Some(seq) = wrong {
        return Err(Broken::new(format!("record {seq} of room {room} is not what was sent")));
    }
    waits.last.record(who, &[since()]);
    live.delivered.fetch_add(got, std::sync::atomic::Ordering::Relaxed);
    Ok(reader.bytes())
}
