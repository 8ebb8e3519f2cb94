//! Measures the embedded store: `cargo run --release --example embedded_store_speed -- FOLDER [steady]`.
//!
//! FOLDER has to be new, on the disk that is of interest; `steady` leaves out all but the steady rates. Each append is one record of about 64 bytes. First at a
//! steady rate, as people draw; then as fast as answers allow, to one of 100 rooms, by an author of its own: "at
//! once" is how many appends wait for their answer at the same time. CPU is of the whole process, and of the
//! writer's thread alone.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inkrelay_protocol::{ClientId, Identity, Record, RoomId, Seq};
use inkrelay_server::store::{Batch, EmbeddedStore, ReadLimit, Store, SyncPolicy};

const ROOMS: usize = 100;
const RUN: Duration = Duration::from_secs(3);
/// How long a steady rate is held.
const STEADY: Duration = Duration::from_secs(6);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name a new folder")?);
    for policy in [SyncPolicy::Always, SyncPolicy::Interval] {
        let folder = folder.join(format!("{policy:?}"));
        let store = Arc::new(EmbeddedStore::open(&folder, policy)?);
        for (rooms, people, rate) in [(1, 1, 55), (50, 8, 30)] {
            steady(&store, policy, rooms, people, rate).await?;
        }
        if std::env::args().nth(2).is_some() {
            store.close().await;
            continue;
        }
        for at_once in [1, 10, 100, 1000] {
            measure(&store, policy, at_once).await?;
        }
        let room = room(0)?;
        let start = Instant::now();
        let limit = ReadLimit { records: 10_000, bytes: 1 << 20 };
        let read = store.read(&room, Seq::START, limit).await?.records.len();
        println!("{policy:?}: read {read} records in {:?}", start.elapsed());
        store.close().await;
        drop(store);
        let start = Instant::now();
        let store = EmbeddedStore::open(&folder, policy)?;
        println!("{policy:?}: opened in {:?}", start.elapsed());
        store.close().await;
    }
    Ok(())
}

/// So many rooms, people in each, and draws a second of each of them.
async fn steady(
    store: &Arc<EmbeddedStore>,
    policy: SyncPolicy,
    rooms: usize,
    people: usize,
    rate: u32,
) -> Result<(), Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), cpu()?);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..rooms * people {
        let (store, room) = (store.clone(), format!("steady-{}-{}", rooms, task % rooms).parse::<RoomId>()?);
        let author = ClientId::new(task as u64 + 1).ok_or("too many people")?;
        let period = Duration::from_secs(1) / rate;
        let first = tokio::time::Instant::now() + period * task as u32 / (rooms * people) as u32;
        tasks.spawn(async move {
            let mut due = tokio::time::interval_at(first, period);
            let mut took = Vec::new();
            while start.elapsed() < STEADY {
                due.tick().await;
                let sent = Instant::now();
                let appended = store.append(&room, &[one(author, took.len() as u64 + 1)]).await;
                if !appended.is_ok_and(|appended| appended.outcomes.iter().all(Result::is_ok)) {
                    break;
                }
                took.push(sent.elapsed());
            }
            took
        });
    }
    let took = tasks.join_all().await.concat();
    report(&format!("{policy:?}, {rooms} rooms of {people} at {rate}/s"), took, start, cpu)
}

/// CPU of all threads, and of the writer's.
fn cpu() -> Result<[Duration; 2], Box<dyn Error>> {
    let (mut all, mut writer) = (0, 0);
    for task in std::fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        let spent: u64 =
            std::fs::read_to_string(path.join("schedstat"))?.split(' ').next().unwrap_or_default().parse()?;
        all += spent;
        if std::fs::read_to_string(path.join("comm"))?.trim() == "store-writer" {
            writer += spent;
        }
    }
    Ok([all, writer].map(Duration::from_nanos))
}

fn report(
    what: &str,
    mut took: Vec<Duration>,
    start: Instant,
    before: [Duration; 2],
) -> Result<(), Box<dyn Error>> {
    let seconds = start.elapsed().as_secs_f64();
    let after = cpu()?;
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 1000).copied().unwrap_or_default();
    let each = |which: usize| (after[which] - before[which]).as_secs_f64() * 1e6 / took.len().max(1) as f64;
    println!(
        "{what}: {:.0} appends/s, p50 {:?}, p99 {:?}, p99.9 {:?}, CPU of each {:.2} µs, the writer's {:.2}",
        took.len() as f64 / seconds,
        at(500),
        at(990),
        at(999),
        each(0),
        each(1)
    );
    Ok(())
}

async fn measure(
    store: &Arc<EmbeddedStore>,
    policy: SyncPolicy,
    at_once: usize,
) -> Result<(), Box<dyn Error>> {
    let (start, cpu) = (Instant::now(), cpu()?);
    let end = start + RUN;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..at_once {
        let (store, room) = (store.clone(), room(task)?);
        let author = ClientId::new((at_once * 10_000 + task) as u64).ok_or("too many at once")?;
        tasks.spawn(async move {
            let mut took = Vec::new();
            while Instant::now() < end {
                let n = took.len() as u64 + 1;
                let start = Instant::now();
                let appended = store.append(&room, &[one(author, n)]).await;
                if !appended.is_ok_and(|appended| appended.outcomes.iter().all(Result::is_ok)) {
                    break;
                }
                took.push(start.elapsed());
            }
            took
        });
    }
    report(&format!("{policy:?}, {at_once} at once"), tasks.join_all().await.concat(), start, cpu)
}

fn room(number: usize) -> Result<RoomId, Box<dyn Error>> {
    Ok(format!("room-{}", number % ROOMS).parse()?)
}

fn one(author: ClientId, n: u64) -> Batch {
    let mut draw = vec![0x92, 5, 0xc4, 40];
    draw.resize(44, 7);
    let mut record = Vec::new();
    Record { identity: Identity { author, n, at: 1_700_000_000_000 }, draw: &draw }.encode(&mut record);
    Batch { author, first_n: n, records: vec![record.into()] }
}
