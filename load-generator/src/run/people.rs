//! The people of a run: who reads, who draws, and who does both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::measure::mark::{Ink, Mark};
use crate::measure::pacer::{Lane, Lanes};
use crate::measure::{Answers, Checker};
use crate::run::{Failure, Plan, Shared};
use crate::sampler::Live;
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Drawer, Reader};

/// How long somebody waits before connecting again.
pub(super) const RECONNECT_WAIT: Duration = Duration::from_millis(100);
/// How long a drawer tries to reach a server that is gone.
const GONE: Duration = Duration::from_secs(30);

/// Everyone who reads, until they have their checkers back.
pub(super) type Reading = JoinSet<Result<Checker, Failure>>;

/// A drawer, with what it is to draw.
type Opened = (Box<dyn Drawer>, Drawing);

/// One reader's part.
struct Seat {
    index: usize,
    room: String,
    checker: Checker,
    /// Of somebody who draws too: what, and where the drawer goes when it is open.
    pen: Option<(Drawing, mpsc::Sender<Opened>)>,
}

/// Whether somebody has lost the server.
#[derive(Default)]
struct Away {
    since: Option<Instant>,
}

impl Away {
    /// A connection that broke. What fails until the server is back belongs to it.
    fn on_broken(&mut self, live: &Live, broken: &Broken) {
        if self.since.is_none() {
            self.since = Some(Instant::now());
            live.on_broken(broken);
        }
    }

    fn is_gone(&self) -> bool {
        self.since.is_some_and(|since| since.elapsed() >= GONE)
    }
}

/// One drawer's part.
pub(super) struct Drawing {
    room: String,
    answers: Answers,
    lane: Arc<Lane>,
    ink: Arc<Vec<Ink>>,
    first_ink: usize,
}

/// Opens everyone, and returns when each reader can get its first record, with all drawers.
pub(super) async fn open(
    shared: &Arc<Shared>,
    plan: &Plan,
    lanes: &Lanes,
    ink: &Arc<Vec<Ink>>,
) -> Result<(Reading, Vec<Opened>), Failure> {
    let (mut reading, mut opening) = (JoinSet::new(), JoinSet::new());
    let opened = Arc::new(Semaphore::new(0));
    let people = plan.rooms.iter().map(|room| room.people.len()).sum::<usize>();
    let (pens, mut opened_pens) = mpsc::channel(people.max(1));
    let mut lanes = lanes.lanes.iter();
    for (room, seats) in plan.rooms.iter().zip(&shared.rooms) {
        let (mut writers, mut readers) = (seats.writers.clone(), seats.readers.clone());
        let mut drawing = |lane: &Arc<Lane>| {
            let writer = writers.next().ok_or("each drawer has a place")?;
            let live = &shared.live;
            Ok::<_, Failure>(Drawing {
                room: room.name.clone(),
                answers: Answers::new(shared.ledger.clone(), writer, live.ack.clone(), live.clock),
                lane: lane.clone(),
                ink: ink.clone(),
                // Neighbours draw different ink.
                first_ink: usize::from(writer) * 7,
            })
        };
        let seat = |index: usize, pen| {
            let name = format!("reader {}", index + 1);
            let checker =
                Checker::new(name, seats.room.clone(), shared.ledger.clone(), seats.writers.clone());
            Seat { index, room: seats.room.clone(), checker, pen }
        };
        for (_, drawers) in &room.drawing {
            let lane = lanes.next().ok_or("each pace has a lane")?;
            for _ in 0..*drawers {
                opening.spawn(open_drawer(shared.clone(), drawing(lane)?));
            }
        }
        for (_, index) in room.people.iter().zip(readers.by_ref()) {
            let lane = lanes.next().ok_or("each pace has a lane")?;
            let pen = Some((drawing(lane)?, pens.clone()));
            reading.spawn(read(shared.clone(), seat(index, pen), opened.clone()));
        }
        for index in readers {
            reading.spawn(read(shared.clone(), seat(index, None), opened.clone()));
        }
    }
    let readers = u32::try_from(shared.fresh.len())?;
    tokio::select! {
        all = opened.acquire_many(readers) => drop(all?),
        Some(ended) = reading.join_next(), if readers > 0 => {
            ended??;
            return Err("a reader ended before anything was drawn".into());
        }
    }
    let mut drawers = Vec::new();
    while let Some(drawer) = opening.join_next().await {
        drawers.push(drawer?.map_err(|broken| format!("no drawer can connect: {broken}"))?);
    }
    // All who read and draw have sent theirs, since they have opened.
    drop(pens);
    while let Some(drawer) = opened_pens.recv().await {
        drawers.push(drawer);
    }
    Ok((reading, drawers))
}

/// Opens a reader; the drawer of somebody who also draws goes to whoever lets it draw.
async fn take_seat(shared: &Shared, seat: &mut Seat) -> Result<Box<dyn Reader>, Broken> {
    let Some((drawing, opened)) = seat.pen.take() else { return shared.open_reader(&seat.room, None).await };
    let _connecting = shared.connecting.acquire().await.map_err(Broken::new)?;
    let (reader, drawer) = shared.target.participant(&seat.room, drawing.answers.clone()).await?;
    opened.send((drawer, drawing)).await.map_err(|_| Broken::new("the run has failed to begin"))?;
    Ok(reader)
}

async fn open_drawer(shared: Arc<Shared>, drawing: Drawing) -> Result<Opened, Broken> {
    let _connecting = shared.connecting.acquire().await.map_err(Broken::new)?;
    let drawer = shared.target.drawer(&drawing.room, drawing.answers.clone()).await?;
    Ok((drawer, drawing))
}

async fn read(shared: Arc<Shared>, mut seat: Seat, opened: Arc<Semaphore>) -> Result<Checker, Failure> {
    let mut stop = shared.stop.subscribe();
    let mut storm = shared.storm.subscribe();
    let opening = take_seat(&shared, &mut seat).await;
    let mut reader = opening.map_err(|broken| format!("no reader can connect: {broken}"))?;
    opened.add_permits(1);
    let mut latencies = Vec::new();
    let mut kicked_us = None;
    let mut away = Away::default();
    loop {
        let live = &shared.live;
        let mut now_us = 0;
        let mut take = |arrived: Arrived<'_>| {
            if let Some(mark) = seat.checker.take(arrived) {
                // One look at the clock for all that came in one piece.
                if now_us == 0 {
                    now_us = live.clock.now_us();
                }
                latencies.push(now_us.saturating_sub(mark.due_us));
            }
        };
        let result = tokio::select! {
            biased;
            result = reader.next(&mut take) => result,
            _ = stop.changed() => return Ok(seat.checker),
            Ok(()) = storm.changed() => {
                kicked_us = Some(live.clock.now_us());
                Err(Broken::new("reconnecting"))
            }
        };
        if !latencies.is_empty() {
            live.on_records(seat.index, &latencies, now_us);
            latencies.clear();
            shared.fresh[seat.index].store(seat.checker.fresh(), Ordering::Relaxed);
            if let Some(kicked_us) = kicked_us.take() {
                live.reconnect.record(seat.index, &[now_us.saturating_sub(kicked_us)]);
            }
        }
        let Err(broken) = result else {
            away.since = None;
            continue;
        };
        if broken.is_malformed {
            seat.checker.malformed(&broken);
        }
        let mut wait = kicked_us.is_none();
        if wait {
            away.on_broken(live, &broken);
        }
        let place = reader.place();
        drop(reader);
        reader = loop {
            if wait {
                tokio::select! {
                    () = sleep(RECONNECT_WAIT) => {}
                    _ = stop.changed() => return Ok(seat.checker),
                }
            }
            match shared.open_reader(&seat.room, place.as_deref()).await {
                Ok(reader) => break reader,
                Err(broken) => away.on_broken(live, &broken),
            }
            wait = true;
        };
    }
}

/// Draws what its lane gives it, and returns the drawer, still connected.
///
/// # Errors
/// When the server could not be reached for so long that it is gone.
pub(super) async fn draw(
    shared: Arc<Shared>,
    mut drawer: Box<dyn Drawer>,
    drawing: Drawing,
) -> Result<Box<dyn Drawer>, Broken> {
    let live = &shared.live;
    let mut draws: Vec<Vec<u8>> = vec![Vec::new(); drawing.lane.batch()];
    let mut next_ink = drawing.first_ink;
    let mut away = Away::default();
    while let Some(due_us) = drawing.lane.next(live.clock).await {
        live.first_us.fetch_min(due_us, Ordering::Relaxed);
        // A draw that cannot leave is kept, and its latency goes on counting: a server that is away cannot hide.
        while let Err(broken) = drawer.ready().await {
            away.on_broken(live, &broken);
            if away.is_gone() || drawing.lane.is_stopped() {
                return Err(broken);
            }
            sleep(RECONNECT_WAIT).await;
        }
        live.late.record(drawing.first_ink, &[live.clock.now_us().saturating_sub(due_us)]);
        let first = drawing.answers.sending(due_us, draws.len());
        for (number, draw) in (first..).zip(&mut draws) {
            let ink = &drawing.ink[next_ink % drawing.ink.len()];
            next_ink += 1;
            ink.mark(Mark { writer: drawing.answers.writer_id(), number, due_us }, draw);
        }
        live.sent.fetch_add(draws.len() as u64, Ordering::Relaxed);
        let Err(broken) = drawer.draw_batch(first, &draws).await else {
            if let Some(since) = away.since.take() {
                live.on_back(since.elapsed());
            }
            if let Some(unanswered_max) = drawing.lane.unanswered_max() {
                drawer.settle(unanswered_max, ANSWER_TIMEOUT).await;
            }
            continue;
        };
        if broken.is_malformed {
            drawing.answers.malformed(&broken);
        }
        away.on_broken(live, &broken);
        if away.is_gone() {
            return Err(broken);
        }
        sleep(RECONNECT_WAIT).await;
    }
    drawer.settle(0, ANSWER_TIMEOUT).await;
    Ok(drawer)
}
