//! Which strokes of one author still show, found in a log that is read part by part.
//!
//! Pure. A [`inkrelay_protocol::Board`] would hold all that anyone drew; this holds numbers of one author's strokes, and
//! so many at most. What is beyond is left to another pass over the log. What hides them is the board's own to say.

use std::collections::HashMap;

use inkrelay_protocol::board::Hiding;
use inkrelay_protocol::msgpack::Reader;
use inkrelay_protocol::{Board, ClientId, Draw, Record};

/// Strokes of one pass.
const STROKES: usize = 1 << 18;
/// Erases, clears and revokes that matter to them, and the names in these.
const NAMES: usize = 1 << 18;

/// See the module's documentation.
pub struct Strokes {
    author: ClientId,
    limits: (usize, usize),
    /// Begins of the author that earlier passes have dealt with.
    to_pass: u64,
    /// Begins that this pass has met.
    met: u64,
    /// How many came before the first stroke that is left to another pass.
    more_from: Option<u64>,
    /// The strokes' numbers, in the order of their begins.
    numbers: Vec<u64>,
    places: HashMap<u64, usize>,
    /// What hides these strokes or undoes that.
    hiding: Hiding,
    /// Operations, and names in them. When there are too many, nobody knows any more what is hidden.
    names: usize,
}

impl Strokes {
    /// Of that author, behind the begins that earlier passes have dealt with.
    pub fn new(author: ClientId, passed: u64) -> Self {
        Self::within(author, passed, (STROKES, NAMES))
    }

    fn within(author: ClientId, to_pass: u64, limits: (usize, usize)) -> Self {
        let (numbers, places, hiding) = (Vec::new(), HashMap::new(), Hiding::default());
        Self { author, limits, to_pass, met: 0, more_from: None, numbers, places, hiding, names: 0 }
    }

    /// Takes the next record of the log.
    pub fn apply(&mut self, record: &Record<'_>) {
        let mut reader = Reader::new(record.draw);
        let Ok(kind) = reader.array().and_then(|_| reader.uint()) else { return };
        match kind {
            0 if record.identity.author == self.author => self.begin(record),
            2..=4 => self.operate(record),
            _ => {}
        }
    }

    fn begin(&mut self, record: &Record<'_>) {
        // The board itself says whether it is one, and what it is called.
        let mut board = Board::new();
        board.apply(record);
        let Some(number) = board.strokes().next().map(|stroke| stroke.number) else { return };
        self.met += 1;
        if self.met <= self.to_pass || self.places.contains_key(&number) {
            return;
        }
        if self.numbers.len() >= self.limits.0 {
            // The next pass begins with the first of them.
            self.more_from.get_or_insert(self.met - 1);
            return;
        }
        self.places.insert(number, self.numbers.len());
        self.numbers.push(number);
    }

    fn operate(&mut self, record: &Record<'_>) {
        if self.is_lost() {
            return;
        }
        let place = |(author, number): &(ClientId, u64)| {
            self.places.get(number).copied().filter(|_| *author == self.author)
        };
        let Ok(draw) = Draw::decode(record.draw) else { return };
        let operation = self.hiding.operation(&draw, self.numbers.len(), place);
        let Some(operation) = operation.filter(|operation| operation.names() > 0) else { return };
        self.names += 1 + operation.names();
        if self.is_lost() {
            self.hiding = Hiding::default();
        } else {
            self.hiding.push(record.identity, operation);
        }
    }

    fn is_lost(&self) -> bool {
        self.names > self.limits.1
    }

    /// The numbers of this pass's strokes that show, or, where more hides and shows than can be kept in mind, of all of
    /// them: to hide what is hidden does no harm.
    pub fn shown(&self) -> Vec<u64> {
        self.hiding.shown(self.numbers.len()).map(|place| self.numbers[place]).collect()
    }

    /// With how many begins dealt with the next pass is to begin; `None` when this was the last.
    pub const fn passed(&self) -> Option<u64> {
        self.more_from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkrelay_protocol::Identity;
    use inkrelay_protocol::draw::{Channels, Style};

    use crate::random;

    fn id(number: u64) -> ClientId {
        ClientId::new(number).unwrap()
    }

    /// A log of a few people who draw, erase, clear, undo and do nonsense.
    fn some_log(dice: &mut impl FnMut(u64) -> u64) -> Vec<(Identity, Vec<u8>)> {
        let mut log: Vec<(Identity, Vec<u8>)> = Vec::new();
        for n in 1..=120 {
            let author = id(dice(3));
            let some = |dice: &mut dyn FnMut(u64) -> u64| (id(dice(3)), 1 + dice(n));
            let draw = match dice(10) {
                0..=4 => {
                    let is_whole = author.is_anonymous() || dice(2) == 0;
                    let stroke = if author.is_anonymous() && dice(4) > 0 { 0 } else { dice(40) };
                    // Some leave the range, and have not begun.
                    let points = if dice(5) == 0 { vec![1 << 30, 0, 1, 0] } else { vec![1, 2] };
                    let style = Style { tool: 0, rgba: 0, width: 16 };
                    let channels = Channels::new(0).unwrap();
                    Draw::Begin { stroke, style, channels, points, end: is_whole }
                }
                5 | 6 => Draw::Erase((0..1 + dice(4)).map(|_| (id(dice(3)), dice(n + 1))).collect()),
                7 if dice(3) == 0 => Draw::Clear,
                _ => Draw::Revoke((0..1 + dice(3)).map(|_| some(dice)).collect()),
            };
            log.push((Identity { author, n, at: n }, draw.to_bytes()));
        }
        log
    }

    fn board(log: &[(Identity, Vec<u8>)]) -> Board {
        let mut board = Board::new();
        log.iter().for_each(|(identity, draw)| board.apply(&Record { identity: *identity, draw }));
        board
    }

    fn of(board: &Board, author: ClientId) -> Vec<u64> {
        board.strokes().filter(|stroke| stroke.author == author).map(|stroke| stroke.number).collect()
    }

    fn read(log: &[(Identity, Vec<u8>)], mut strokes: Strokes) -> Strokes {
        log.iter().for_each(|(identity, draw)| strokes.apply(&Record { identity: *identity, draw }));
        strokes
    }

    /// M-8, and the board's rules.
    #[test]
    fn finds_what_the_board_shows_in_as_many_passes_as_it_takes() {
        let seed = std::env::var("INKRELAY_TEST_SEED").ok().map_or_else(random::u64, |s| s.parse().unwrap());
        println!("run again with INKRELAY_TEST_SEED={seed}");
        let mut state = seed | 1;
        let mut dice = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for _ in 0..200 {
            let log = some_log(&mut dice);
            let board_before = board(&log);
            for author in (0..3).map(id) {
                let shown = of(&board_before, author);
                assert_eq!(read(&log, Strokes::new(author, 0)).shown(), shown);
                // With little memory: what is found is hidden, and then nothing of the author's shows.
                for limits in [(1, 1000), (3, 1000), (7, 3), (1000, 0)] {
                    let (mut erased, mut passed, mut passes) = (log.clone(), 0, 0);
                    loop {
                        let strokes = read(&erased, Strokes::within(author, passed, limits));
                        let pairs: Vec<_> =
                            strokes.shown().into_iter().map(|stroke| (author, stroke)).collect();
                        if !pairs.is_empty() {
                            let n = 1000 + erased.len() as u64;
                            let identity = Identity { author: ClientId::ANONYMOUS, n, at: n };
                            erased.push((identity, Draw::Erase(pairs).to_bytes()));
                        }
                        passes += 1;
                        assert!(passes <= 121, "each pass deals with a stroke");
                        match strokes.passed() {
                            Some(so_far) => passed = so_far,
                            None => break,
                        }
                    }
                    let after = board(&erased);
                    assert!(of(&after, author).is_empty());
                    for other in (0..3).map(id).filter(|other| *other != author) {
                        assert_eq!(of(&after, other), of(&board_before, other));
                    }
                }
            }
        }
    }

    #[test]
    fn a_log_of_others_holds_nothing() {
        let draw = Draw::Clear.to_bytes();
        let identity = Identity { author: id(1), n: 1, at: 1 };
        let strokes = read(&[(identity, draw)], Strokes::new(id(2), 0));
        assert!(strokes.shown().is_empty() && strokes.hiding.is_empty() && strokes.passed().is_none());
    }
}
