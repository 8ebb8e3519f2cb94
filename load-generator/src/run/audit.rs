//! The end of a run: waits for what is on its way, and compares what there is with the ledger.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::measure::{Breaches, Checker};
use crate::report::Report;
use crate::run::people::RECONNECT_WAIT;
use crate::run::{Seats, Shared};
use crate::target::{Arrived, Broken};

/// Rooms that are read again at the same time at the end.
const AUDITS_MAX: usize = 16;
/// Between looks at whether all is there.
const LOOK: Duration = Duration::from_millis(20);
/// How long nothing may come for what is unknown or refused to count as not coming.
const QUIET: Duration = Duration::from_secs(1);
/// How long readers that have everything wait for what should not come.
const AFTERMATH: Duration = Duration::from_millis(200);

/// Waits until every reader has what was stored, or nothing more comes.
pub(super) async fn drain(shared: &Shared, patience: Duration) {
    let (mut newest, mut quiet_since) = (0, Instant::now());
    loop {
        let has_all = |seats: &Seats| {
            let stored = shared.ledger.tally(seats.writers.clone()).stored;
            seats.readers.clone().all(|reader| shared.fresh[reader].load(Ordering::Relaxed) >= stored)
        };
        let tally = shared.ledger.tally(0..shared.ledger.writers());
        // Whatever came of these was counted for some that are stored.
        let unsure = tally.unknown + tally.refused > 0;
        let aftermath = if unsure { QUIET } else { AFTERMATH };
        let delivered = shared.live.delivered.load(Ordering::Relaxed);
        if delivered != newest {
            (newest, quiet_since) = (delivered, Instant::now());
        }
        let quiet = quiet_since.elapsed();
        if quiet >= patience || quiet >= aftermath && shared.rooms.iter().all(has_all) {
            return;
        }
        sleep(LOOK).await;
    }
}

/// Reads every room again from its start, and compares with the ledger.
pub(super) async fn audit(shared: &Arc<Shared>, patience: Duration, report: &mut Report) {
    if !shared.target.keeps_log() {
        return;
    }
    let mut audits: JoinSet<Result<Breaches, Broken>> = JoinSet::new();
    let mut rooms = shared.rooms.iter().filter(|seats| !seats.writers.is_empty());
    loop {
        while audits.len() < AUDITS_MAX {
            let Some(Seats { room, writers, .. }) = rooms.next() else { break };
            audits.spawn(audit_room(shared.clone(), (room.clone(), writers.clone()), patience));
        }
        match audits.join_next().await {
            None => return,
            Some(Ok(Ok(breaches))) => report.breaches.merge(breaches),
            Some(Ok(Err(broken))) => {
                report.failures.push(format!("a fresh reader at the end failed: {broken}"));
            }
            Some(Err(error)) => report.failures.push(format!("a fresh reader at the end failed: {error}")),
        }
    }
}

/// Reads a room from its start; again, if the connection breaks and the server may come back.
async fn audit_room(
    shared: Arc<Shared>,
    seats: (String, Range<u16>),
    patience: Duration,
) -> Result<Breaches, Broken> {
    let since = Instant::now();
    loop {
        match read_again(&shared, &seats, patience).await {
            Err(_) if since.elapsed() < patience => sleep(RECONNECT_WAIT).await,
            ended => return ended,
        }
    }
}

async fn read_again(
    shared: &Shared,
    (room, writers): &(String, Range<u16>),
    patience: Duration,
) -> Result<Breaches, Broken> {
    let name = "a fresh reader".to_owned();
    let checker = Checker::new(name, room.clone(), shared.ledger.clone(), writers.clone());
    let mut checker = checker.with_memory();
    let expected = shared.ledger.tally(writers.clone()).stored;
    let mut reader = shared.open_reader(room, None).await?;
    let (mut fresh, mut since) = (0, Instant::now());
    loop {
        if checker.fresh() != fresh {
            (fresh, since) = (checker.fresh(), Instant::now());
        }
        let wait = if fresh < expected { patience } else { AFTERMATH };
        let mut take = |arrived: Arrived<'_>| {
            checker.take(arrived);
        };
        match timeout_at(since + wait, reader.next(&mut take)).await {
            Ok(Ok(())) => {}
            Ok(Err(broken)) if broken.is_malformed => {
                checker.malformed(broken);
                return Ok(checker.finish());
            }
            Ok(Err(broken)) => return Err(broken),
            // What is lacking now is lost; the checker says what it is.
            Err(_) => return Ok(checker.finish()),
        }
    }
}
