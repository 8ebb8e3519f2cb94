//! The outbox against a model of the server, and its single rules.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn draw(id: u64) -> Bytes {
    Bytes::copy_from_slice(&id.to_be_bytes())
}

fn filled(draws: u64) -> Outbox {
    let mut outbox = Outbox::new(4);
    for id in 1..=draws {
        outbox.push(draw(id)).unwrap();
    }
    outbox
}

fn batch(outbox: &mut Outbox, now: Instant) -> (u64, Vec<u64>) {
    match outbox.next(now) {
        Next::Batch(batch) => {
            let ids = batch.draws.iter().map(|draw| u64::from_be_bytes(draw[..].try_into().unwrap()));
            (batch.n, ids.collect())
        }
        other => panic!("no batch but {other:?}"),
    }
}

fn limits(last_n: u64) -> SessionLimits {
    SessionLimits { last_n, ..SessionLimits::default() }
}

#[test]
fn a_refused_draw_gives_its_number_to_the_next() {
    let now = Instant::now();
    let mut outbox = filled(5);
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2, 3, 4, 5]));
    assert_eq!(outbox.on_refused(3), Some(DrawId(3)));
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2, 4, 5]));
    assert_eq!(outbox.on_ack(4, now), Some(DrawId(5)));
    assert_eq!((outbox.pending(), outbox.settled()), (0, DrawId(5)));
    assert_eq!(outbox.on_refused(4), None, "what is stored cannot be refused");
}

#[test]
fn a_lower_last_n_brings_the_lost_draws_back_with_their_numbers() {
    let now = Instant::now();
    let mut outbox = filled(5);
    batch(&mut outbox, now);
    outbox.on_ack(5, now);
    outbox.on_disconnected();
    outbox.push(draw(6)).unwrap();
    assert_eq!(outbox.on_welcome(limits(3), now), Ok(vec![]));
    assert_eq!(outbox.settled(), DrawId(3));
    assert_eq!(batch(&mut outbox, now), (4, vec![4, 5, 6]));
}

#[test]
fn after_a_minute_a_loss_takes_a_new_client() {
    let start = Instant::now();
    let mut outbox = filled(2);
    batch(&mut outbox, start);
    outbox.on_ack(2, start);
    let late = start + KEEP;
    outbox.push(draw(3)).unwrap();
    assert_eq!(batch(&mut outbox, late), (3, vec![3]));
    outbox.on_ack(3, late);
    outbox.push(draw(4)).unwrap();
    assert_eq!(outbox.on_welcome(limits(1), late), Err(NumberingLost));
    outbox.on_new_client(true);
    assert_eq!(outbox.on_welcome(limits(0), late), Ok(vec![]));
    assert_eq!(batch(&mut outbox, late), (1, vec![3, 4]));
}

#[test]
fn a_new_session_renumbers_what_is_not_acked_and_forgets_the_rest() {
    let now = Instant::now();
    let mut outbox = filled(4);
    batch(&mut outbox, now);
    outbox.on_ack(2, now);
    outbox.on_new_client(false);
    assert_eq!(outbox.on_welcome(limits(0), now), Ok(vec![]));
    assert_eq!(batch(&mut outbox, now), (1, vec![3, 4]));
}

#[test]
fn a_resumed_ticket_goes_on_behind_what_an_earlier_run_drew() {
    let now = Instant::now();
    let mut outbox = filled(2);
    assert_eq!(outbox.on_welcome(limits(57), now), Ok(vec![]));
    assert_eq!(batch(&mut outbox, now), (58, vec![1, 2]));
    assert_eq!(outbox.on_ack(59, now), Some(DrawId(2)));
}

#[test]
fn what_is_kept_is_offered_again_from_its_first() {
    let now = Instant::now();
    let mut outbox = filled(3);
    batch(&mut outbox, now);
    outbox.on_ack(3, now);
    outbox.offer_kept();
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2, 3]));
}

#[test]
fn what_is_kept_is_offered_when_what_is_in_flight_is_answered() {
    let now = Instant::now();
    let mut outbox = filled(2);
    batch(&mut outbox, now);
    outbox.on_ack(2, now);
    outbox.push(draw(3)).unwrap();
    outbox.push(draw(4)).unwrap();
    assert_eq!(batch(&mut outbox, now), (3, vec![3, 4]));
    outbox.offer_kept();
    assert_eq!(outbox.next(now), Next::Idle, "draw 3 is in flight, and would be refused twice");
    assert_eq!(outbox.on_refused(3).map(DrawId::get), Some(3));
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2, 4]));
}

#[test]
fn a_batch_that_got_no_answer_comes_again_from_its_first_even_if_that_is_acked_since() {
    let now = Instant::now();
    let mut outbox = filled(2);
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2]));
    outbox.on_retry(1, now);
    // Of an earlier attempt. The server drops what begins later than at 1 all the same.
    outbox.on_ack(2, now);
    assert_eq!(outbox.next(now), Next::Idle);
    outbox.push(draw(3)).unwrap();
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2, 3]));
    outbox.push(draw(4)).unwrap();
    assert_eq!(batch(&mut outbox, now), (4, vec![4]));
}

#[test]
fn batches_keep_to_the_announced_limits() {
    let now = Instant::now();
    let mut outbox = filled(9);
    let announced = SessionLimits {
        bytes_per_draw: 8,
        draws_per_batch: 4,
        bytes_per_message: (FRAME_BYTES + 3 * 8) as u64,
        batches_per_second: 10,
        last_n: 0,
    };
    outbox.on_welcome(announced, now).unwrap();
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 2, 3]));
    let later = now + Duration::from_millis(100);
    assert_eq!(outbox.next(now), Next::Wait(later));
    assert_eq!(batch(&mut outbox, later), (4, vec![4, 5, 6]));
    let refused = outbox.push(Bytes::from_static(&[0; 9])).unwrap_err();
    assert!(refused.to_string().contains("bytes per draw allows 8"), "{refused}");
}

#[test]
fn a_welcome_refuses_what_was_drawn_before_its_limits_were_known() {
    let now = Instant::now();
    let mut outbox = filled(1);
    outbox.push(Bytes::from_static(&[0; 100])).unwrap();
    outbox.push(draw(3)).unwrap();
    let announced = SessionLimits { bytes_per_message: 64, ..limits(0) };
    let refused = outbox.on_welcome(announced, now).unwrap();
    assert_eq!(refused, [(DrawId(2), TooLarge { bytes: 100, max: 48, limit: "bytes per message" })]);
    assert_eq!(batch(&mut outbox, now), (1, vec![1, 3]));
}

#[test]
fn the_outbox_is_bounded() {
    let mut outbox = Outbox::new(1);
    for _ in 0..16 {
        outbox.push(Bytes::from(vec![0; PENDING_BYTES_MAX / 16])).unwrap();
    }
    assert_eq!(
        outbox.push(Bytes::from_static(&[0])),
        Err(PushError::Full { draws: 16, bytes: PENDING_BYTES_MAX })
    );
}

#[test]
fn a_refusal_that_names_no_draw_is_tracked_down_one_by_one() {
    let now = Instant::now();
    let mut outbox = filled(3);
    batch(&mut outbox, now);
    outbox.on_refused_somewhere(3);
    assert_eq!(batch(&mut outbox, now), (1, vec![1]));
    assert_eq!(batch(&mut outbox, now), (2, vec![2]));
    outbox.on_ack(1, now);
    assert_eq!(outbox.on_refused(2), Some(DrawId(2)));
    assert_eq!(batch(&mut outbox, now), (2, vec![3]));
}

/// A server as the protocol describes it, with one client's log.
#[derive(Default)]
struct Server {
    log: Vec<u64>,
    /// Batches that passed the door and whose append is not done.
    appending: VecDeque<(u64, Vec<u64>)>,
    /// The number that was refused, until it comes again.
    refused: Option<u64>,
}

enum Reply {
    Ack(u64),
    Refused(u64),
    Unavailable(u64),
    Gap(u64),
    /// The log is another incarnation.
    Reset,
}

impl Server {
    fn receive(&mut self, n: u64, draws: Vec<u64>) -> Option<Reply> {
        if self.refused.is_some_and(|refused| n > refused) {
            return None;
        }
        self.refused = None;
        if let Some(index) = draws.iter().position(|id| is_bad(*id)) {
            self.refused = Some(n + index as u64);
            return Some(Reply::Refused(n + index as u64));
        }
        self.appending.push_back((n, draws));
        None
    }

    fn append(&mut self, fail: bool, keep: bool) -> Option<Reply> {
        let (n, draws) = self.appending.pop_front()?;
        let expected = self.log.len() as u64 + 1;
        if n > expected {
            return Some(Reply::Gap(expected));
        }
        if !fail || keep {
            self.log.extend(draws.iter().skip((expected - n) as usize));
        }
        if fail {
            self.appending.clear();
            self.refused = Some(n);
            return Some(Reply::Unavailable(n));
        }
        Some(Reply::Ack(self.log.len() as u64))
    }
}

/// Every fifth draw is one that the door refuses.
fn is_bad(id: u64) -> bool {
    id.is_multiple_of(5)
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    Send,
    Receive,
    Append { fail: bool, keep: bool },
    Answer,
    Disconnect,
    Lose(usize),
    LoseAndReset(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Push),
        6 => Just(Step::Send),
        6 => Just(Step::Receive),
        6 => prop_oneof![4 => Just((false, false)), 1 => Just((true, false)), 1 => Just((true, true))]
            .prop_map(|(fail, keep)| Step::Append { fail, keep }),
        6 => Just(Step::Answer),
        1 => Just(Step::Disconnect),
        1 => (1..6_usize).prop_map(Step::Lose),
        1 => (1..6_usize).prop_map(Step::LoseAndReset),
        2 => (1..100_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..300)
}

struct World {
    outbox: Outbox,
    server: Server,
    up: VecDeque<(u64, Vec<u64>)>,
    down: VecDeque<Reply>,
    now: Instant,
    pushed: u64,
    refused: HashSet<u64>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            outbox: Outbox::new(3),
            server: Server::default(),
            up: VecDeque::new(),
            down: VecDeque::new(),
            now: Instant::now(),
            pushed: 0,
            refused: HashSet::new(),
        };
        world.connect();
        world
    }

    /// All that is on its way is lost; appends that the server has begun may still be done.
    fn connect(&mut self) {
        self.up.clear();
        self.down.clear();
        self.server.refused = None;
        while self.server.append(false, false).is_some() {}
        self.outbox.on_disconnected();
        let last_n = self.server.log.len() as u64;
        let announced = SessionLimits { draws_per_batch: 3, batches_per_second: 50, ..limits(last_n) };
        assert_eq!(self.outbox.on_welcome(announced, self.now), Ok(vec![]));
    }

    fn lose(&mut self, records: usize) {
        let keep = self.server.log.len().saturating_sub(records);
        self.server.log.truncate(keep);
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push => {
                self.pushed += 1;
                self.outbox.push(draw(self.pushed)).unwrap();
            }
            Step::Send => {
                if let Next::Batch(batch) = self.outbox.next(self.now) {
                    assert!((1..=3).contains(&batch.draws.len()));
                    let ids = batch.draws.iter().map(|draw| u64::from_be_bytes(draw[..].try_into().unwrap()));
                    self.up.push_back((batch.n, ids.collect()));
                }
            }
            Step::Receive => {
                if let Some((n, draws)) = self.up.pop_front() {
                    self.down.extend(self.server.receive(n, draws));
                }
            }
            Step::Append { fail, keep } => self.down.extend(self.server.append(fail, keep)),
            Step::Answer => match self.down.pop_front() {
                None => {}
                Some(Reply::Ack(n)) => drop(self.outbox.on_ack(n, self.now)),
                Some(Reply::Refused(n)) => {
                    let id = self.outbox.on_refused(n).expect("what is refused is in the outbox");
                    assert!(is_bad(id.get()), "a good draw was taken for the refused one");
                    assert!(self.refused.insert(id.get()), "refused twice");
                }
                Some(Reply::Unavailable(n)) => {
                    self.outbox.on_retry(n, self.now + Duration::from_millis(20));
                }
                Some(Reply::Gap(expected)) => {
                    self.outbox.on_gap(expected, self.now).unwrap();
                    self.connect();
                }
                Some(Reply::Reset) => self.outbox.offer_kept(),
            },
            Step::Disconnect => self.connect(),
            Step::Lose(records) => {
                self.lose(records);
                self.connect();
            }
            Step::LoseAndReset(records) => {
                self.lose(records);
                self.down.push_back(Reply::Reset);
            }
            Step::Pass(ms) => self.now += Duration::from_millis(ms),
        }
    }
}

proptest! {
    /// Whatever is lost, refused or rolled back on the way: in the end each good draw is stored once and in
    /// order, and each bad one is reported once.
    #[test]
    fn every_draw_is_stored_once_in_order_or_reported(steps in steps()) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.step(step));
        for _ in 0..10_000 {
            if world.outbox.pending() == 0 && world.down.is_empty() {
                break;
            }
            for step in [Step::Send, Step::Receive, Step::Append { fail: false, keep: false }, Step::Answer, Step::Pass(20)] {
                world.step(&step);
            }
        }
        prop_assert_eq!(world.outbox.pending(), 0, "the outbox does not drain");
        let good: Vec<u64> = (1..=world.pushed).filter(|id| !is_bad(*id)).collect();
        prop_assert_eq!(&world.server.log, &good);
        let bad: HashSet<u64> = (1..=world.pushed).filter(|id| is_bad(*id)).collect();
        prop_assert_eq!(&world.refused, &bad);
        prop_assert_eq!(world.outbox.settled().get(), world.pushed);
    }
}
