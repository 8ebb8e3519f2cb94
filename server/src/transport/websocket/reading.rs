//! The reading half: takes frames, gives draws to the store, and says what came of them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use futures_util::{FutureExt, StreamExt};
use inkrelay_protocol::{ClientFrame, CloseCode, ErrorCode, ServerFrame};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use super::writing::Outgoing;
use super::{End, Incoming, Session, frame_bytes};
use crate::room::{ANSWER_TIME, Answer, NotStored};
use crate::session::{Refused, Submitted, spread_retry};

/// Batches of one connection that wait for the store; then its frames are no longer read.
const IN_FLIGHT: usize = 64;
/// Answers that wait for a client which does not read; then its frames are no longer read either. Until then a client
/// that sends much before it reads is not held up.
const ANSWERS: usize = 64;

/// The reading half.
pub(super) struct Reading<'s> {
    session: &'s Session<'s>,
    out: &'s Outgoing,
    /// Answers that are not sent yet, as far as is known.
    answers: usize,
    /// The first number of a refused batch: what has higher numbers was on its way, and is dropped.
    refused: Option<u64>,
    /// How many refusals there were. What was given to the store before the newest one was on its way.
    refusals: u64,
    /// The number that the newest refusal named, also when it has come again since.
    named: u64,
}

/// A batch that was given to the store, and what came of it.
struct Answered {
    n: u64,
    /// How many refusals there were when it was given.
    refusals: u64,
    result: Answer,
}

/// Batches that were given to the store, in their order. The first of them has so long to be answered.
#[derive(Default)]
struct InFlight {
    batches: VecDeque<Batch>,
    /// Wakes when the first may be too late; one timer for all, since each of them has as long.
    timer: Option<Pin<Box<Sleep>>>,
}

struct Batch {
    n: u64,
    refusals: u64,
    submitted: Submitted,
    until: Instant,
}

impl InFlight {
    fn push(&mut self, n: u64, refusals: u64, submitted: Submitted) {
        self.batches.push_back(Batch { n, refusals, submitted, until: Instant::now() + ANSWER_TIME });
    }

    /// What came of the first; never ready when there is none.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Answered> {
        let Some(first) = self.batches.front_mut() else { return Poll::Pending };
        let result = match Pin::new(&mut first.submitted).poll(context) {
            Poll::Ready(result) => result,
            Poll::Pending => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(first.until)));
                loop {
                    ready!(timer.as_mut().poll(context));
                    if Instant::now() >= first.until {
                        break Err(NotStored::Unknown);
                    }
                    timer.as_mut().reset(first.until);
                }
            }
        };
        let (n, refusals) = (first.n, first.refusals);
        self.batches.pop_front();
        Poll::Ready(Answered { n, refusals, result })
    }

    async fn next(&mut self) -> Answered {
        poll_fn(|context| self.poll_next(context)).await
    }
}

impl<'s> Reading<'s> {
    pub(super) const fn new(session: &'s Session<'s>, out: &'s Outgoing) -> Self {
        Self { session, out, answers: 0, refused: None, refusals: 0, named: 0 }
    }

    /// Reads until there is a reason to end.
    pub(super) async fn run(mut self, incoming: &mut Incoming) -> End {
        match self.read_all(incoming).await {
            Ok(()) => End::close(CloseCode::GoingAway, "the server is going away"),
            Err(end) => end,
        }
    }

    /// Reads until the connection ends, or the server drains and what was begun is answered.
    async fn read_all(&mut self, incoming: &mut Incoming) -> Result<(), End> {
        let encoding = self.out.encoding();
        let idle_time = self.session.relay.config.times.idle_time;
        let mut draining = self.session.relay.draining();
        let mut draining = pin!(draining.begun());
        let mut in_flight = InFlight::default();
        let mut sign_at = Instant::now();
        let mut idle = pin!(sleep(idle_time));
        loop {
            while let Some(answered) = in_flight.next().now_or_never() {
                self.answer(answered)?;
            }
            self.send_answers().await?;
            let has_room = in_flight.batches.len() < IN_FLIGHT;
            tokio::select! {
                biased;
                answered = in_flight.next() => self.answer(answered)?,
                () = draining.as_mut() => {
                    while !in_flight.batches.is_empty() {
                        let answered = in_flight.next().await;
                        self.answer(answered)?;
                    }
                    let retry_ms = u64::try_from(spread_retry().as_millis()).unwrap_or(u64::MAX);
                    let reason = "the server is going away: come back in a moment".to_owned();
                    // The close that follows sends it, and has a time of its own.
                    self.send(&ServerFrame::GoAway { reason, retry_ms });
                    return Ok(());
                }
                message = incoming.next(), if has_room => {
                    sign_at = Instant::now();
                    if let Some(bytes) = frame_bytes(message, encoding)? {
                        self.take(&bytes, &mut in_flight)?;
                    }
                }
                () = idle.as_mut(), if has_room => {
                    if self.out.client_took() {
                        sign_at = Instant::now();
                    }
                    if sign_at.elapsed() >= idle_time {
                        return Err(End::close(CloseCode::TooSlow, "there was no sign of life"));
                    }
                    idle.as_mut().reset(sign_at + idle_time);
                }
            }
        }
    }

    /// Takes one frame.
    fn take(&mut self, bytes: &[u8], in_flight: &mut InFlight) -> Result<(), End> {
        let (room, client) = (&self.session.reading, self.session.who.client);
        match ClientFrame::decode(bytes).map_err(|error| End::malformed(error.to_string()))? {
            ClientFrame::Hello(_) => return Err(End::malformed("a hello comes once")),
            ClientFrame::Draws { n, draws } => return self.take_draws(n, draws, in_flight),
            ClientFrame::Pointer { x, y } => room.point(client, x, y),
            ClientFrame::Profile(profile) => room.rename(client, profile),
            // Roles do not come from tokens yet, so that a fresh one changes nothing.
            ClientFrame::Token(_) | ClientFrame::Unknown(_) => {}
        }
        Ok(())
    }

    fn take_draws(&mut self, n: u64, draws: &[u8], in_flight: &mut InFlight) -> Result<(), End> {
        if self.refused.is_some_and(|refused| n > refused) {
            return Ok(());
        }
        self.refused = None;
        let Session { relay, reading, who, address, .. } = self.session;
        let checked = relay.check_rate(who.client, *address);
        match checked.and_then(|()| relay.submit(reading, who.client, n, draws)) {
            Ok(submitted) => {
                in_flight.push(n, self.refusals, submitted);
                Ok(())
            }
            Err(refused) if refused.code == ErrorCode::Malformed => Err(End::malformed(refused.message)),
            Err(refused) => {
                // Nothing of the batch is kept, so that it is its first draw which is to come again.
                let first_refused = n + refused.index.unwrap_or(0) as u64;
                self.refuse(refused, first_refused);
                Ok(())
            }
        }
    }

    fn answer(&mut self, answered: Answered) -> Result<(), End> {
        let Answered { n, refusals, result } = answered;
        match result {
            Ok((stored, _)) => {
                // What was told as unknown is stored after all, and nothing more is to come again.
                self.refused = self.refused.filter(|refused| *refused > stored.last_n);
                self.send(&ServerFrame::Ack { n: stored.last_n, seq: stored.last_seq });
                Ok(())
            }
            // It was on its way when an earlier number was refused: a gap is no fault of the client's, and whatever
            // else became of it, it is to come again without being named.
            Err(NotStored::Gap(_)) if refusals < self.refusals => Ok(()),
            Err(_) if refusals < self.refusals && n > self.named => Ok(()),
            Err(NotStored::Gap(gap)) => {
                let refused = Refused::from(NotStored::Gap(gap));
                let reason = refused.message.to_string();
                self.refuse(refused, gap.expected);
                Err(End::close(CloseCode::OutOfStep, reason))
            }
            Err(why) => {
                self.refuse(why.into(), n);
                Ok(())
            }
        }
    }

    /// Tells that a batch is refused, or that its fate is unknown. From then on batches with numbers above the
    /// one named are dropped until it comes again.
    fn refuse(&mut self, refused: Refused, named: u64) {
        self.refused = Some(self.refused.map_or(named, |earlier| earlier.min(named)));
        (self.refusals, self.named) = (self.refusals + 1, named);
        let retry_ms = refused.retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX));
        let code = refused.code.as_str().to_owned();
        let message = refused.message.into_owned();
        self.send(&ServerFrame::Error { code, message, retry_ms, n: Some(named) });
    }

    fn send(&mut self, frame: &ServerFrame<'_>) {
        self.answers = self.out.answer(frame);
    }

    /// Sends what was answered, with the room's next records if these are due. Waits while the client does not read.
    async fn send_answers(&mut self) -> Result<(), End> {
        match std::mem::take(&mut self.answers) {
            0 => return Ok(()),
            ANSWERS.. => return self.out.flush().await,
            _ => {}
        }
        if !(self.session.is_seated() && self.session.reading.is_beat_due()) {
            self.out.send();
        }
        Ok(())
    }
}
