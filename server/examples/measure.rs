//! A first measure: what the relay costs, how fast it is, and that nothing is lost.
//!
//! `make measure`, or `cargo run --release --example measure -- --help`. It starts the `inkrelay` that was built
//! beside it, on a free port of this machine, and sends to that port only. The client runs on the same cores as
//! the server, so that times are upper bounds; the server's CPU time is its own.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use futures_util::{SinkExt, StreamExt};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::msgpack::{self, Reader};
use inkrelay_protocol::{ClientFrame, Draw, Record, ServerFrame};
use tokio_tungstenite::tungstenite::Message;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures a relay of its own.
#[derive(Parser)]
struct Args {
    /// What to measure; both when nothing is named.
    scenario: Option<Scenario>,
    /// Where the relay keeps draws.
    #[arg(long, value_enum, default_value = "embedded")]
    store: Store,
    /// Draws of `replay`.
    #[arg(long, default_value_t = 198_000)]
    draws: u64,
    /// Posts of `replay` at the same time.
    #[arg(long, default_value_t = 8)]
    posts: u64,
    /// Readers of `fanout`.
    #[arg(long, default_value_t = 100)]
    readers: usize,
    /// Seconds of `fanout`, at 60 draws a second.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Scenario {
    /// Draws posted by HTTP as fast as they are answered, one long-poll reader.
    Replay,
    /// One drawer and many readers over WebSocket.
    Fanout,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Store {
    Memory,
    Embedded,
    Redis,
}

/// Processes that end with this program.
struct Processes {
    relay: Child,
    redis: Option<Child>,
    address: String,
    _folder: tempfile::TempDir,
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in [Some(&mut self.relay), self.redis.as_mut()].into_iter().flatten() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Processes {
    fn start(store: Store) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let inkrelay = std::env::current_exe()?
            .parent()
            .and_then(|examples| examples.parent())
            .map(|dir| dir.join("inkrelay"));
        let inkrelay = inkrelay
            .filter(|path| path.exists())
            .ok_or("build the relay first: cargo build --release --bins")?;
        let mut command = Command::new(inkrelay);
        command.args(["serve", "--listen", "127.0.0.1:0", "--unlimited"]);
        let mut redis = None;
        match store {
            Store::Memory => drop(command.arg("--memory")),
            Store::Embedded => drop(command.arg("--data").arg(folder.path().join("data"))),
            Store::Redis => {
                let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                redis = Some(
                    Command::new("redis-server")
                        .args([
                            "--port",
                            &port.to_string(),
                            "--bind",
                            "127.0.0.1",
                            "--save",
                            "",
                            "--appendonly",
                            "yes",
                        ])
                        .arg("--dir")
                        .arg(folder.path())
                        .stdout(Stdio::null())
                        .spawn()?,
                );
                let until = Instant::now() + Duration::from_secs(5);
                while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(20));
                }
                command.arg("--redis").arg(format!("redis://127.0.0.1:{port}"));
            }
        }
        let mut relay = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut first_line = String::new();
        BufReader::new(relay.stdout.take().ok_or("no output")?).read_line(&mut first_line)?;
        let address = first_line.trim().rsplit_once("http://").map(|(_, address)| address.to_owned());
        let address = address.ok_or("the relay does not say where it listens")?;
        Ok(Self { relay, redis, address, _folder: folder })
    }

    /// CPU seconds and peak resident MiB of the relay, and CPU seconds of Redis.
    fn costs(&self) -> Result<Costs, Failure> {
        let relay = self.relay.id();
        let status = std::fs::read_to_string(format!("/proc/{relay}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).ok_or("no VmHWM")?;
        let kib: f64 = peak.trim().trim_end_matches(" kB").parse()?;
        let redis = self.redis.as_ref().map(|redis| cpu_seconds(redis.id())).transpose()?;
        Ok(Costs { cpu: cpu_seconds(relay)?, redis_cpu: redis, peak_mib: kib / 1024.0 })
    }
}

struct Costs {
    cpu: f64,
    redis_cpu: Option<f64>,
    peak_mib: f64,
}

/// User and system time. Linux counts it in hundredths of a second (proc(5): utime, stime).
fn cpu_seconds(process: u32) -> Result<f64, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").ok_or("an unexpected /proc/PID/stat")?;
    let ticks: Vec<f64> = fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

fn mark(number: u64) -> Draw {
    // As long as a stroke's extend of a dozen points.
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    Draw::Opaque(bytes)
}

fn marked(record: &[u8]) -> Result<u64, Failure> {
    match Draw::decode(Record::parse(record)?.draw)? {
        Draw::Opaque(bytes) => Ok(u64::from_be_bytes(bytes[..8].try_into()?)),
        other => Err(format!("not what was drawn: {other:?}").into()),
    }
}

fn batch(number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    msgpack::write_array(&mut out, 1);
    mark(number).encode(&mut out);
    out
}

/// Shows how far it is, where somebody looks.
fn progress(what: &str, done: u64, of: u64) {
    if std::io::stderr().is_terminal() {
        eprint!("\r{what}: {done} of {of}  ");
        // Without it the line shows late, which does not matter.
        let _ = std::io::stderr().flush();
    }
}

struct Delays(Vec<Duration>);

impl Delays {
    fn quantile(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let index = ((self.0.len() as f64 * share) as usize).min(self.0.len().saturating_sub(1));
        self.0.get(index).map_or(0.0, |delay| delay.as_secs_f64() * 1000.0)
    }
}

async fn replay(args: &Args) -> Result<(), Failure> {
    let processes = Processes::start(args.store)?;
    let url = format!("http://{}/v1/rooms/replay/draws", processes.address);
    let http = reqwest::Client::builder().build()?;
    let started = Instant::now();
    let sent: Arc<Vec<AtomicU64>> = Arc::new((0..args.draws).map(|_| AtomicU64::new(0)).collect());
    let next = Arc::new(AtomicU64::new(0));
    let mut posting = tokio::task::JoinSet::new();
    for _ in 0..args.posts {
        let (http, url, sent, next) = (http.clone(), url.clone(), Arc::clone(&sent), Arc::clone(&next));
        let draws = args.draws;
        posting.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= draws {
                    return Ok::<_, Failure>(());
                }
                let now = started.elapsed().as_micros() as u64;
                sent[number as usize].store(now, Ordering::Relaxed);
                let post = http.post(&url).header("content-type", "application/msgpack").body(batch(number));
                post.send().await?.error_for_status()?.bytes().await?;
            }
        });
    }
    let mut seen = vec![false; args.draws as usize];
    let (mut after, mut count, mut delays) = ("0".to_owned(), 0, Delays(Vec::new()));
    while count < args.draws {
        let poll = http.get(format!("{url}?after={after}&wait=10")).header("accept", "application/msgpack");
        let answer = poll.send().await?.error_for_status()?;
        after = answer.headers()["inkrelay-position"].to_str()?.to_owned();
        let body = answer.bytes().await?;
        let now = started.elapsed().as_micros() as u64;
        let mut reader = Reader::new(&body);
        reader.array()?;
        reader.uint()?;
        if reader.uint()? != count + 1 {
            return Err(format!("the record after {count} is missing").into());
        }
        for _ in 0..reader.array()? {
            let number = marked(reader.raw()?)? as usize;
            if std::mem::replace(&mut seen[number], true) {
                return Err(format!("draw {number} came twice").into());
            }
            delays.0.push(Duration::from_micros(now.saturating_sub(sent[number].load(Ordering::Relaxed))));
            count += 1;
        }
        progress("replay", count, args.draws);
        if posting.is_empty() && count < args.draws {
            return Err(format!("{} draws are lost", args.draws - count).into());
        }
    }
    while let Some(posted) = posting.join_next().await {
        posted??;
    }
    let took = started.elapsed().as_secs_f64();
    report(
        &format!("replay, {:?}", args.store),
        &processes.costs()?,
        took,
        args.draws,
        args.draws,
        &mut delays,
    );
    Ok(())
}

async fn fanout(args: &Args) -> Result<(), Failure> {
    let processes = Processes::start(args.store)?;
    let url = format!("ws://{}/v1/rooms/fanout/ws", processes.address);
    let draws = args.seconds * 60;
    let started = Instant::now();
    let sent: Arc<Vec<AtomicU64>> = Arc::new((0..draws).map(|_| AtomicU64::new(0)).collect());
    let mut reading = tokio::task::JoinSet::new();
    let joined = Arc::new(tokio::sync::Semaphore::new(0));
    for _ in 0..args.readers {
        let (url, sent, joined) = (url.clone(), Arc::clone(&sent), Arc::clone(&joined));
        reading.spawn(async move { read(&url, &sent, started, draws, &joined).await });
    }
    drop(joined.acquire_many(u32::try_from(args.readers)?).await?);
    let before = processes.costs()?;
    let (mut socket, _) = tokio_tungstenite::connect_async(&url).await?;
    socket.send(Message::Binary(ClientFrame::Hello(Hello::default()).to_bytes().into())).await?;
    let (mut out, mut incoming) = socket.split();
    // The drawer gets its own records back, and has to take them.
    let taking = tokio::spawn(async move { while let Some(Ok(_)) = incoming.next().await {} });
    let mut tick = tokio::time::interval(Duration::from_secs(1) / 60);
    let drawing = Instant::now();
    for number in 0..draws {
        tick.tick().await;
        sent[number as usize].store(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        let frame = ClientFrame::Draws { n: number + 1, draws: &batch(number) }.to_bytes();
        out.send(Message::Binary(frame.into())).await?;
        if number % 60 == 0 {
            progress("fanout", number, draws);
        }
    }
    let mut delays = Delays(Vec::new());
    while let Some(read) = reading.join_next().await {
        delays.0.extend(read??);
    }
    let took = drawing.elapsed().as_secs_f64();
    taking.abort();
    let mut costs = processes.costs()?;
    costs.cpu -= before.cpu;
    let deliveries = draws * args.readers as u64;
    report(
        &format!("fanout, {:?}, {} readers", args.store, args.readers),
        &costs,
        took,
        draws,
        deliveries,
        &mut delays,
    );
    Ok(())
}

/// Reads until all draws are there, in order and once, and returns how long each took.
async fn read(
    url: &str,
    sent: &[AtomicU64],
    started: Instant,
    draws: u64,
    joined: &tokio::sync::Semaphore,
) -> Result<Vec<Duration>, Failure> {
    let (mut socket, _) = tokio_tungstenite::connect_async(url).await?;
    socket.send(Message::Binary(ClientFrame::Hello(Hello::default()).to_bytes().into())).await?;
    let mut delays = Vec::new();
    let mut expected = 0;
    while expected < draws {
        let message = tokio::time::timeout(Duration::from_secs(30), socket.next()).await?;
        let Message::Binary(bytes) = message.ok_or("the relay closed the connection")?? else { continue };
        match ServerFrame::decode(&bytes)? {
            ServerFrame::Welcome { .. } => joined.add_permits(1),
            ServerFrame::Records { seq, records } => {
                let now = started.elapsed().as_micros() as u64;
                for (index, record) in records.into_iter().enumerate() {
                    if marked(record)? != expected || seq.get() + index as u64 != expected + 1 {
                        return Err(format!("draw {expected} is missing or out of order").into());
                    }
                    let then = sent[expected as usize].load(Ordering::Relaxed);
                    delays.push(Duration::from_micros(now.saturating_sub(then)));
                    expected += 1;
                }
            }
            _ => {}
        }
    }
    Ok(delays)
}

fn report(what: &str, costs: &Costs, took: f64, draws: u64, deliveries: u64, delays: &mut Delays) {
    progress(what, draws, draws);
    eprintln!();
    println!("{what}");
    println!("  {draws} draws, {deliveries} deliveries, none lost, none twice, in order; {took:.1} s");
    println!(
        "  {:.0} draws a second, {:.0} deliveries a second",
        draws as f64 / took,
        deliveries as f64 / took
    );
    println!(
        "  server: {:.2} s CPU ({:.1} µs a delivery), {:.1} MiB at its peak",
        costs.cpu,
        costs.cpu * 1e6 / deliveries as f64,
        costs.peak_mib
    );
    if let Some(redis) = costs.redis_cpu {
        println!("  Redis: {redis:.2} s CPU");
    }
    println!("  send to receipt: p50 {:.2} ms, p99 {:.2} ms", delays.quantile(0.50), delays.quantile(0.99));
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args = Args::parse();
    if args.scenario != Some(Scenario::Fanout) {
        replay(&args).await?;
    }
    if args.scenario != Some(Scenario::Replay) {
        fanout(&args).await?;
    }
    Ok(())
}
