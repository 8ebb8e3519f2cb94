//! Answers: what became of a connection's batches, told in their order as soon as the store has answered.
//!
//! The room tells it, and no task of the connection wakes for it: an answer is put into the outlet, and leaves with the
//! records that the room is about to hand over.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use inkrelay_protocol::{CloseCode, ServerFrame};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::outlet::Outlet;
use super::{End, Peer};
use crate::lock::lock;
use crate::rest;
use crate::room::{ANSWER_TIME, Answer, NotStored, Reply, Room};
use crate::session::Refused;

/// See the module's documentation.
pub(super) struct Answers {
    outlet: Arc<Outlet>,
    room: Arc<Room>,
    peer: Arc<Peer>,
    state: Mutex<State>,
    /// Wakes the reading half: see [`Answers::called`].
    call: Notify,
}

#[derive(Default)]
struct State {
    /// Batches that were given to the store and are not answered yet.
    batches: VecDeque<InFlight>,
    /// How many came before these.
    answered: u64,
    /// The first number of a refused batch: what has higher numbers was on its way, and is dropped.
    refused: Option<u64>,
    /// How many refusals there were. What was given to the store before the newest one was on its way.
    refusals: u64,
    /// The number that the newest refusal named, also when it has come again since.
    named: u64,
    /// Why the connection is to end.
    end: Option<End>,
    /// The reading half is called when fewer batches than that are in flight.
    called_below: usize,
}

/// A batch that was given to the store.
struct InFlight {
    n: u64,
    /// How many refusals there were when it was given.
    refusals: u64,
    until: Instant,
    /// What came of it, while those before it are not answered.
    answer: Option<Answer>,
}

impl Answers {
    pub(super) fn new(outlet: Arc<Outlet>, room: Arc<Room>, peer: Arc<Peer>) -> Self {
        Self { outlet, room, peer, state: Mutex::default(), call: Notify::new() }
    }

    /// A batch whose first number is `n` has come. `None` when it was on its way while an earlier one was refused, so that
    /// it is to be dropped; else how many refusals there were, and the client goes on from what was refused.
    pub(super) fn begin(&self, n: u64) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.refused.is_some_and(|refused| n > refused) {
            return None;
        }
        state.refused = None;
        Some(state.refusals)
    }

    /// A batch whose first number is `n` is about to be given to the room: returns the reply that tells what became of it.
    /// `refusals` is what [`Answers::begin`] returned for it: the room may have refused another meanwhile.
    pub(super) fn expect(self: &Arc<Self>, n: u64, refusals: u64) -> Reply {
        let mut state = lock(&self.state);
        let index = state.answered + state.batches.len() as u64;
        let until = Instant::now() + ANSWER_TIME;
        state.batches.push_back(InFlight { n, refusals, until, answer: None });
        // A connection that is gone does not linger for its answers.
        let answers = Arc::downgrade(self);
        Reply::new(move |answer| {
            if let Some(answers) = Weak::upgrade(&answers) {
                answers.take(index, answer);
            }
        })
    }

    /// Tells that a batch was refused at the door.
    pub(super) fn refuse(&self, refused: Refused, named: u64) {
        self.refuse_in(&mut lock(&self.state), refused, named);
        self.send();
    }

    /// Tells that something else than a batch was refused.
    pub(super) fn tell_apart(&self, refused: Refused) {
        self.room.metrics().refuse(refused.code, self.peer.caller());
        self.outlet.add_answer(&error_frame(refused, None));
        self.send();
    }

    /// How many batches are in flight; [`Answers::called`] returns when there are fewer than `below`.
    ///
    /// # Errors
    /// When the connection is to end.
    pub(super) fn in_flight(&self, below: usize) -> Result<usize, End> {
        let mut state = lock(&self.state);
        if let Some(end) = state.end.take() {
            return Err(end);
        }
        state.called_below = if state.batches.len() < below { 0 } else { below };
        Ok(state.batches.len())
    }

    /// Waits until [`Answers::in_flight`] is worth another look.
    pub(super) async fn called(&self) {
        self.call.notified().await;
    }

    /// Tells of batches that waited too long that their fate is unknown. Returns until when the next may wait.
    pub(super) fn expire(&self) -> Option<Instant> {
        let mut state = lock(&self.state);
        let now = Instant::now();
        while let Some(first) = state.batches.front_mut() {
            if first.until > now {
                break;
            }
            first.answer = Some(Err(NotStored::Unknown));
            self.tell(&mut state);
        }
        let next = state.batches.front().map(|first| first.until);
        drop(state);
        self.send();
        next
    }

    fn take(&self, index: u64, answer: Answer) {
        let mut state = lock(&self.state);
        // One that is gone was told as unknown, which stays true.
        let place = index.checked_sub(state.answered).and_then(|place| usize::try_from(place).ok());
        let Some(batch) = place.and_then(|place| state.batches.get_mut(place)) else { return };
        batch.answer = Some(answer);
        self.tell(&mut state);
        drop(state);
        self.send();
    }

    /// Tells what is known of the first batches.
    fn tell(&self, state: &mut State) {
        while let Some(answer) = state.batches.front_mut().and_then(|first| first.answer.take()) {
            let Some(InFlight { n, refusals, .. }) = state.batches.pop_front() else { return };
            state.answered += 1;
            if state.end.is_none() {
                self.say(state, n, refusals, answer);
            }
        }
        if state.end.is_some() || state.batches.len() < state.called_below {
            self.call.notify_one();
        }
    }

    fn say(&self, state: &mut State, n: u64, refusals: u64, answer: Answer) {
        match answer {
            Ok((stored, _)) => {
                // What was told as unknown is stored after all, and nothing more is to come again.
                state.refused = state.refused.filter(|refused| *refused > stored.last_n);
                self.outlet.add_answer(&ServerFrame::Ack { n: stored.last_n, seq: stored.last_seq });
            }
            // It was on its way when an earlier number was refused: a gap is no fault of the client's, and whatever
            // else became of it, it is to come again without being named.
            Err(NotStored::Gap(_)) if refusals < state.refusals => {}
            Err(_) if refusals < state.refusals && n > state.named => {}
            Err(NotStored::Gap(gap)) => {
                let refused = Refused::from(NotStored::Gap(gap));
                let reason = refused.message.to_string();
                self.refuse_in(state, refused, gap.expected);
                state.end = Some(End::close(CloseCode::OutOfStep, reason));
            }
            Err(why) => {
                let refused = Refused::from(why);
                let named = n + refused.index.unwrap_or(0) as u64;
                self.refuse_in(state, refused, named);
            }
        }
    }

    /// Tells that a batch is refused, or that its fate is unknown. From then on batches with numbers above the
    /// one named are dropped until it comes again.
    fn refuse_in(&self, state: &mut State, refused: Refused, named: u64) {
        self.room.metrics().refuse(refused.code, self.peer.caller());
        state.refused = Some(state.refused.map_or(named, |earlier| earlier.min(named)));
        (state.refusals, state.named) = (state.refusals + 1, named);
        self.outlet.add_answer(&error_frame(refused, Some(named)));
    }

    /// Sends what was answered, unless the room's next records take it along in a moment.
    fn send(&self) {
        if self.outlet.is_seated() && self.room.is_beat_due() {
            rest::count_waiting();
        } else {
            self.outlet.send();
        }
    }
}

/// Tells of a refusal; `n` is the number that it names.
pub(super) fn error_frame(refused: Refused, n: Option<u64>) -> ServerFrame<'static> {
    let retry_ms = refused.retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX));
    let (code, message) = (refused.code.as_str().to_owned(), refused.message.into_owned());
    ServerFrame::Error { code, message, retry_ms, n }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use inkrelay_protocol::{Epoch, Position, Seq};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::room::{Node, RoomLimits};
    use crate::store::{Gap, MemoryStore, Stored};
    use crate::transport::encoding::Encoding;

    fn room() -> Arc<Room> {
        let limits = RoomLimits {
            tail_bytes: 1 << 16,
            room_bytes: 0,
            sessions: 0,
            flush_time: Duration::ZERO,
            idle_time: Duration::from_secs(40),
        };
        let node = Node::new(Arc::new(MemoryStore::new()), limits);
        Arc::new(Room::new("a".parse().unwrap(), Arc::new(node)))
    }

    /// Answers to a connection, and the other end of it.
    async fn answers() -> (Arc<Answers>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (_, write) = listener.accept().await.unwrap().0.into_split();
        let outlet = Arc::new(Outlet::new(write, None, Encoding::MessagePack));
        let peer = Peer { address: [127, 0, 0, 1].into(), room: "a".parse().unwrap(), id: None };
        (Arc::new(Answers::new(outlet, room(), Arc::new(peer))), client)
    }

    fn stored(n: u64) -> Answer {
        let last_seq = Seq::new(n).unwrap();
        let stored = Stored { new: 1, first_seq: Some(last_seq), last_n: n, last_seq };
        Ok((stored, Position::start(Epoch::EMPTY)))
    }

    /// The next `bytes` bytes that the client gets.
    async fn next(client: &mut TcpStream, bytes: usize) -> Vec<u8> {
        let mut buffer = vec![0; bytes];
        tokio::io::AsyncReadExt::read_exact(client, &mut buffer).await.unwrap();
        buffer
    }

    /// P-2: acks come in order, also when the store is not asked about some.
    #[tokio::test]
    async fn answers_come_in_the_order_of_the_batches() {
        let (answers, mut client) = answers().await;
        let [first, second] = [answers.expect(1, 0), answers.expect(2, 0)];
        second.give(stored(2));
        assert_eq!((answers.in_flight(9).unwrap(), answers.outlet.waiting()), (2, 0));
        first.give(stored(1));
        assert_eq!(answers.in_flight(9).unwrap(), 0);
        let ack = |n: u8| [0x82, 4, 0x93, 67, n, n];
        assert_eq!(next(&mut client, 12).await, [ack(1), ack(2)].concat());
    }

    #[tokio::test]
    async fn after_a_refusal_what_was_on_its_way_is_not_told_again() {
        let (answers, mut client) = answers().await;
        let [first, second] = [answers.expect(1, 0), answers.expect(2, 0)];
        first.give(Err(NotStored::StoreFull));
        second.give(Err(NotStored::Gap(Gap { expected: 1 })));
        assert_eq!(answers.in_flight(9).unwrap(), 0);
        assert_eq!(answers.begin(3), None);
        assert_eq!(answers.begin(1), Some(1));
        answers.expect(1, 1).give(stored(1));
        let header = next(&mut client, 2).await;
        let error = next(&mut client, header[1].into()).await;
        assert_eq!((header[0], &error[..2]), (0x82, &[0x95, 72][..]));
        assert_eq!(next(&mut client, 6).await, [0x82, 4, 0x93, 67, 1, 1]);
    }

    /// P-7: the room may refuse a batch while the next is looked at.
    #[tokio::test]
    async fn what_came_before_a_refusal_is_no_gap_however_late_it_is_given_to_the_room() {
        let (answers, mut client) = answers().await;
        let first = answers.expect(1, answers.begin(1).unwrap());
        let refusals = answers.begin(2).unwrap();
        first.give(Err(NotStored::Unknown));
        answers.expect(2, refusals).give(Err(NotStored::Gap(Gap { expected: 1 })));
        assert_eq!(answers.in_flight(9).unwrap(), 0);
        answers.expect(1, answers.begin(1).unwrap()).give(stored(1));
        let header = next(&mut client, 2).await;
        assert_eq!(next(&mut client, header[1].into()).await[..2], [0x95, 72]);
        assert_eq!(next(&mut client, 6).await, [0x82, 4, 0x93, 67, 1, 1]);
    }

    /// A gap that nothing explains ends the connection.
    #[tokio::test]
    async fn a_gap_calls_the_reading_half_to_an_end() {
        let (answers, _client) = answers().await;
        answers.expect(5, 0).give(Err(NotStored::Gap(Gap { expected: 1 })));
        answers.called().await;
        assert!(matches!(answers.in_flight(9), Err(End::Close(CloseCode::OutOfStep, _))));
    }

    #[tokio::test]
    async fn the_reading_half_is_called_when_it_may_go_on() {
        let (answers, _client) = answers().await;
        let replies = [answers.expect(1, 0), answers.expect(2, 0)];
        assert_eq!(answers.in_flight(1).unwrap(), 2);
        for (n, reply) in (1..).zip(replies) {
            reply.give(stored(n));
        }
        answers.called().await;
        assert_eq!(answers.in_flight(1).unwrap(), 0);
    }

    #[tokio::test]
    async fn an_answer_after_the_time_is_not_told_a_second_time() {
        let (answers, mut client) = answers().await;
        let late = answers.expect(1, 0);
        lock(&answers.state).batches[0].until = Instant::now();
        assert_eq!(answers.expire(), None);
        late.give(stored(1));
        answers.expect(1, 1).give(stored(1));
        let header = next(&mut client, 2).await;
        let error = next(&mut client, header[1].into()).await;
        assert_eq!(&error[..2], &[0x95, 72]);
        assert_eq!(next(&mut client, 6).await, [0x82, 4, 0x93, 67, 1, 1]);
    }
}
