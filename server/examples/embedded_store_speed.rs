//! Measures the embedded store: `cargo run --release --example embedded_store_speed -- FOLDER`.
//!
//! FOLDER has to be new, on the disk that is of interest. Each append is one record of about 64 bytes, to one of
//! 100 rooms, by an author of its own; "at once" is how many appends wait for their answer at the same time.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use inkrelay_protocol::{ClientId, Identity, Record, RoomId, Seq};
use inkrelay_server::store::{Batch, EmbeddedStore, ReadLimit, Store, SyncPolicy};

const ROOMS: usize = 100;
const RUN: Duration = Duration::from_secs(3);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or("name a new folder")?);
    for policy in [SyncPolicy::Always, SyncPolicy::Interval] {
        let folder = folder.join(format!("{policy:?}"));
        let store = Arc::new(EmbeddedStore::open(&folder, policy)?);
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

async fn measure(
    store: &Arc<EmbeddedStore>,
    policy: SyncPolicy,
    at_once: usize,
) -> Result<(), Box<dyn Error>> {
    let end = Instant::now() + RUN;
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
    let mut took: Vec<Duration> = tasks.join_all().await.concat();
    took.sort_unstable();
    let at = |part: usize| took.get(took.len() * part / 1000).copied().unwrap_or_default();
    println!(
        "{policy:?}, {at_once} at once: {:.0} appends/s, p50 {:?}, p99 {:?}, p99.9 {:?}",
        took.len() as f64 / RUN.as_secs_f64(),
        at(500),
        at(990),
        at(999)
    );
    Ok(())
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
