//! The reading half: takes frames, and gives draws to the store.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::StreamExt;
use inkrelay_protocol::{ClientFrame, CloseCode, ErrorCode, Role, ServerFrame};
use tokio::time::{Instant, Sleep, sleep};

use super::answers::Answers;
use super::writing::Outgoing;
use super::{End, Incoming, Session, frame_bytes};
use crate::access::Grant;
use crate::room::ANSWER_TIME;
use crate::session::{Refused, spread_retry};

/// Batches of one connection that wait for the store; then its frames are no longer read.
const IN_FLIGHT: usize = 64;
/// Answers that wait for a client which does not read; then its frames are no longer read either. Until then a client
/// that sends much before it reads is not held up.
const ANSWERS: usize = 64;

/// The reading half.
pub(super) struct Reading<'s> {
    session: &'s Session<'s>,
    out: &'s Outgoing,
    answers: Arc<Answers>,
    /// What the client may do now.
    grant: Grant,
    /// Ready when the grant is over.
    ended: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Wakes when the first batch in flight may be too late; one timer for all, since each of them has as long.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl<'s> Reading<'s> {
    pub(super) fn new(session: &'s Session<'s>, out: &'s Outgoing) -> Self {
        let answers =
            Arc::new(Answers::new(out.outlet(), Arc::clone(&session.reading), Arc::clone(session.peer)));
        let grant = session.grant.clone();
        Self { session, out, answers, ended: end_of(&grant), grant, overdue: None }
    }

    /// Reads until there is a reason to end.
    pub(super) async fn run(&mut self, incoming: &mut Incoming) -> End {
        let Err(end) = self.read_all(incoming).await;
        end
    }

    /// Reads until the connection ends: also because the server drains or the grant is over, and then once what was begun
    /// is answered.
    async fn read_all(&mut self, incoming: &mut Incoming) -> Result<Infallible, End> {
        let encoding = self.out.encoding();
        let idle_time = self.session.relay.config().times.idle_time;
        let answers = Arc::clone(&self.answers);
        let mut draining = self.session.relay.draining();
        let mut draining = pin!(draining.begun());
        let mut is_draining = false;
        let mut is_over = false;
        let mut sign_at = Instant::now();
        let mut idle = pin!(sleep(idle_time));
        loop {
            if self.out.answers() >= ANSWERS {
                self.out.flush().await?;
            }
            let in_flight = answers.in_flight(if is_draining || is_over { 1 } else { IN_FLIGHT })?;
            if is_draining && in_flight == 0 {
                let retry_ms = u64::try_from(spread_retry().as_millis()).unwrap_or(u64::MAX);
                let reason = "the server is going away: come back in a moment".to_owned();
                // The close that follows sends it, and has a time of its own.
                self.out.add(&ServerFrame::GoAway { reason, retry_ms });
                return Err(End::close(CloseCode::GoingAway, "the server is going away"));
            }
            if is_over && in_flight == 0 {
                return Err(Refused::token_ended().into());
            }
            let may_read = !is_draining && !is_over && in_flight < IN_FLIGHT;
            tokio::select! {
                biased;
                () = answers.called() => {}
                () = draining.as_mut(), if !is_draining => is_draining = true,
                () = elapsed(&mut self.ended), if !is_over => is_over = true,
                () = elapsed(&mut self.overdue) => match answers.expire() {
                    Some(until) => self.overdue.iter_mut().for_each(|timer| timer.as_mut().reset(until)),
                    None => self.overdue = None,
                },
                message = incoming.next(), if may_read => {
                    sign_at = Instant::now();
                    if let Some(bytes) = frame_bytes(message, encoding)? {
                        self.take(&bytes)?;
                    }
                }
                () = idle.as_mut(), if may_read => {
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
    fn take(&mut self, bytes: &[u8]) -> Result<(), End> {
        let (room, client) = (&self.session.reading, self.session.who.client);
        match ClientFrame::decode(bytes).map_err(|error| End::malformed(error.to_string()))? {
            ClientFrame::Hello(_) => return Err(End::malformed("a hello comes once")),
            ClientFrame::Draws { n, draws } => return self.take_draws(n, draws),
            // Viewers look on: nothing is seen of their pens.
            ClientFrame::Pointer { .. } if self.grant.role == Role::Viewer => {}
            ClientFrame::Pointer { x, y } => room.point(client, x, y),
            ClientFrame::Profile(profile) => room.rename(client, self.grant.profile(profile)),
            ClientFrame::Token(token) => self.take_token(&token),
            ClientFrame::Unknown(_) => {}
        }
        Ok(())
    }

    /// Takes a fresh token: of the same room, and made out to the same subject. One that is refused changes nothing; the
    /// old one stays until it is over.
    fn take_token(&mut self, token: &str) {
        let Session { relay, reading, who, peer, .. } = self.session;
        let fresh = relay.check_rate(who.client, &self.grant, peer.address).and_then(|()| {
            let fresh = relay.admit(reading.id(), Some(token))?;
            if fresh.subject == self.grant.subject { Ok(fresh) } else { Err(Refused::another_subject()) }
        });
        match fresh {
            Ok(fresh) => (self.ended, self.grant) = (end_of(&fresh), fresh),
            Err(refused) => self.answers.tell_apart(refused),
        }
    }

    fn take_draws(&mut self, n: u64, draws: &[u8]) -> Result<(), End> {
        let Some(refusals) = self.answers.begin(n) else { return Ok(()) };
        let Session { relay, reading, who, peer, .. } = self.session;
        let checked = relay.check_rate(who.client, &self.grant, peer.address);
        match checked.and_then(|()| relay.stamp(self.grant.role, who.client, n, draws)) {
            Ok(batch) => {
                reading.append(batch, self.grant.role, self.answers.expect(n, refusals));
                self.overdue.get_or_insert_with(|| Box::pin(sleep(ANSWER_TIME)));
                Ok(())
            }
            Err(refused) if refused.code == ErrorCode::Malformed => Err(End::malformed(refused.message)),
            Err(refused) => {
                // Nothing of the batch is kept, so that it is its first draw which is to come again.
                let first_refused = n + refused.index.unwrap_or(0) as u64;
                self.answers.refuse(refused, first_refused);
                Ok(())
            }
        }
    }
}

/// Ready when the grant is over; none for a grant that cannot end, as most idle connections have where anyone may come in.
fn end_of(grant: &Grant) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
    let grant = grant.can_end().then(|| grant.clone())?;
    Some(Box::pin(async move { grant.ended().await }))
}

/// Waits for a timer; for ever where there is none.
async fn elapsed<T: Future<Output = ()> + ?Sized>(timer: &mut Option<Pin<Box<T>>>) {
    poll_fn(|context| timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))).await;
}
