//! `churn`: a new connection for each request.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::measure::recorder::Clock;
use crate::report::{Figure, Report};
use crate::run::{Failure, STOPPED, latency};
use crate::sampler::{Live, Sampler};
use crate::scenario::{RunArgs, ServerArgs};
use crate::target::{ANSWER_TIMEOUT, Transport};

/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;
/// Counters of the kernel that tell who gave up first: their file, their group, their name there, and ours.
const COUNTERS: [(&str, &str, &str, &str); 6] = [
    ("/proc/net/snmp", "Tcp:", "RetransSegs", "segments sent again"),
    ("/proc/net/snmp", "Tcp:", "EstabResets", "connections reset"),
    ("/proc/net/snmp", "Tcp:", "AttemptFails", "attempts that failed"),
    ("/proc/net/netstat", "TcpExt:", "ListenOverflows", "overflows of the listen queue"),
    ("/proc/net/netstat", "TcpExt:", "ListenDrops", "connections dropped at the door"),
    ("/proc/net/netstat", "TcpExt:", "TW", "waits in TIME_WAIT that ended"),
];

/// A new connection for each request, without keep-alive, as `ab -n 100000 -c 100`
///
/// Says whether the server or the client's range of ports was the limit, with the kernel's counters before and after.
/// Example: inkrelay-load churn --requests 20000 --at-once 100
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Churn {
    /// How many
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// How many at the same time
    #[arg(long, default_value_t = 100)]
    at_once: usize,
    /// What is asked for
    #[arg(long, default_value = "/healthz")]
    path: String,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    pub(super) run: RunArgs,
}

/// Why a request got nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Miss {
    NoPort,
    Refused,
    Reset,
    Late,
    Status,
    Other,
}

impl Miss {
    const fn name(self) -> &'static str {
        match self {
            Self::NoPort => "found no free port here",
            Self::Refused => "were refused",
            Self::Reset => "were reset",
            Self::Late => "were not answered in time",
            Self::Status => "were answered with another status than 200",
            Self::Other => "failed otherwise",
        }
    }
}

impl From<std::io::Error> for Miss {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => Self::NoPort,
            ErrorKind::ConnectionRefused => Self::Refused,
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted => Self::Reset,
            _ => Self::Other,
        }
    }
}

impl Churn {
    pub(super) async fn run(&self, threads: usize) -> Result<Report, Failure> {
        let options = [
            ("requests", self.requests.to_string()),
            ("at-once", self.at_once.to_string()),
            ("path", self.path.clone()),
        ];
        let (server, setup) = self.server.set_up(&self.run, Transport::Ws, threads, &options)?;
        let authority = server.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let head = format!("GET {} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n", self.path);
        let request: Arc<str> = head.into();
        let mut report = setup.report("churn");
        // Any server of any kind, and nothing of its protocol.
        report.target = "plain HTTP".to_owned();
        let live = Arc::new(Live::new(Clock::start()));
        let (sampler, unreadable) = Sampler::start(live.clone(), setup.processes.clone(), self.requests);
        report.warnings.extend(unreadable.into_iter().map(|name| format!("{name} cannot be watched")));
        let (before, began_us) = (counters(), live.clock.now_us());
        let taken = Arc::new(AtomicU64::new(0));
        let mut asking = JoinSet::new();
        for who in 0..self.at_once.max(1) {
            let (live, taken, request) = (live.clone(), taken.clone(), request.clone());
            let (authority, requests, setup) = (authority.clone(), self.requests, setup.clone());
            asking.spawn(async move {
                let mut misses: BTreeMap<Miss, u64> = BTreeMap::new();
                while !setup.is_stopped() && taken.fetch_add(1, Ordering::Relaxed) < requests {
                    let from_us = live.clock.now_us();
                    let asked = timeout(ANSWER_TIMEOUT, ask(&authority, &request)).await;
                    match asked.unwrap_or(Err(Miss::Late)) {
                        Ok(()) => live.ack.record(who, &[live.clock.now_us().saturating_sub(from_us)]),
                        Err(miss) => *misses.entry(miss).or_default() += 1,
                    }
                    live.sent.fetch_add(1, Ordering::Relaxed);
                }
                misses
            });
        }
        let mut misses: BTreeMap<Miss, u64> = BTreeMap::new();
        while let Some(missed) = asking.join_next().await {
            for (miss, count) in missed? {
                *misses.entry(miss).or_default() += count;
            }
        }
        report.took_s = live.clock.now_us().saturating_sub(began_us) as f64 / 1e6;
        if setup.is_stopped() {
            report.warnings.push(STOPPED.to_owned());
        }
        (report.seconds, report.processes) = sampler.stop().await;
        report.ack = latency(&live.ack);
        let answered = report.ack.quantiles.count as f64;
        report.figures.push(Figure::new("requests answered", answered, ""));
        report.figures.push(Figure::new("requests a second", answered / report.took_s.max(1e-3), ""));
        let since: Vec<u64> =
            counters().iter().zip(&before).map(|(now, before)| now.saturating_sub(*before)).collect();
        for ((_, _, _, name), count) in COUNTERS.iter().zip(&since) {
            report.figures.push(Figure::new(format!("{name}, on this machine"), *count as f64, ""));
        }
        report.figures.push(Figure::new("sockets in TIME_WAIT at the end", time_wait() as f64, ""));
        report.figures.push(Figure::new("ports of a client", ports() as f64, ""));
        for (miss, count) in &misses {
            let text = format!("{count} requests {}", miss.name());
            // Ports are the client's: that says nothing against the server.
            let list = if *miss == Miss::NoPort { &mut report.warnings } else { &mut report.failures };
            list.push(text);
        }
        let overflows = since[3] + since[4];
        let had_no_port = misses.contains_key(&Miss::NoPort);
        let failed = misses.keys().any(|miss| !matches!(miss, Miss::NoPort | Miss::Late));
        let limit = match (failed, had_no_port, overflows > 0, misses.is_empty()) {
            (true, ..) => "what the limit was cannot be told, since requests failed",
            (_, true, ..) => "the limit was the client's range of ports, not the server",
            (_, _, true, _) => {
                "the limit was the server: connections waited at its door, or were dropped there"
            }
            (.., false) => "the limit was the server, which did not answer in time",
            _ => "neither the server nor the client's range of ports was a limit",
        };
        report.warnings.push(limit.to_owned());
        live.judge_generator(&mut report, threads);
        Ok(report)
    }
}

/// One request over a connection of its own, to the end of the answer.
async fn ask(authority: &str, request: &str) -> Result<(), Miss> {
    let mut socket = TcpStream::connect(authority).await?;
    socket.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(512);
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    let is_good = answer.starts_with(b"HTTP/1.1 200") || answer.starts_with(b"HTTP/1.0 200");
    if is_good {
        Ok(())
    } else if answer.is_empty() {
        Err(Miss::Reset)
    } else {
        Err(Miss::Status)
    }
}

/// The kernel's counters, in the order of [`COUNTERS`]. They are of the whole machine.
fn counters() -> [u64; COUNTERS.len()] {
    COUNTERS.map(|(file, group, name, _)| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let mut lines = text.lines().filter(|line| line.starts_with(group));
        let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
        let place = names.split(' ').position(|other| other == name);
        place.and_then(|place| values.split(' ').nth(place)?.parse().ok()).unwrap_or(0)
    })
}

fn time_wait() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    line.split(' ').skip_while(|word| *word != "tw").nth(1).and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// How many ports outgoing connections choose from.
fn ports() -> u64 {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut bounds = text.split_whitespace().map_while(|bound| bound.parse::<u64>().ok());
    match (bounds.next(), bounds.next()) {
        (Some(low), Some(high)) if high >= low => high - low + 1,
        _ => 0,
    }
}
