//! The board against a model that is as slow and as plain as the rules (B-1 to B-20 of `SPEC.md`), on random logs.

use inkrelay_protocol::board::{Point, Stroke};
use inkrelay_protocol::{Board, Channels, ClientId, Draw, Identity, Record, Style};
use proptest::prelude::*;

use crate::cases;

/// A log to apply: each record's identity and its draw's bytes.
type Log = Vec<(Identity, Vec<u8>)>;

fn board_of(log: &Log) -> Board {
    let mut board = Board::new();
    for (identity, draw) in log {
        board.apply(&Record { identity: *identity, draw });
    }
    board
}

fn shown(board: &Board) -> Vec<Stroke> {
    board.strokes().cloned().collect()
}

/// What the model says of one stroke.
#[derive(Debug, PartialEq)]
struct Line {
    author: ClientId,
    number: u64,
    style: Style,
    points: Vec<Point>,
    closed: bool,
}

fn line(stroke: &Stroke) -> Line {
    Line {
        author: stroke.author,
        number: stroke.number,
        style: stroke.style,
        points: stroke.points().collect(),
        closed: stroke.closed,
    }
}

/// The rules, read from the log anew for every question.
struct Model<'a> {
    log: Vec<(&'a Identity, Option<Draw>)>,
}

impl<'a> Model<'a> {
    fn new(log: &'a Log) -> Self {
        Self { log: log.iter().map(|(identity, draw)| (identity, Draw::decode(draw).ok())).collect() }
    }

    /// The stroke that the record at this place begins, if the record has its effect.
    fn begun_at(&self, place: usize) -> Option<(ClientId, u64)> {
        let (identity, Some(Draw::Begin { stroke, points, channels, end, .. })) = &self.log[place] else {
            return None;
        };
        let anonymous = identity.author.is_anonymous();
        let name = (identity.author, if anonymous { identity.n } else { *stroke });
        let allowed = !anonymous || (*stroke == 0 && *end);
        let fits = absolute(&[], points, *channels).is_some();
        let first = (0..place).all(|earlier| self.begun_at(earlier) != Some(name));
        (allowed && fits && first).then_some(name)
    }

    fn line(&self, place: usize) -> Line {
        let (_, Some(Draw::Begin { style, channels, points, end, .. })) = &self.log[place] else {
            panic!("no begin at {place}")
        };
        let (author, number) = self.begun_at(place).unwrap();
        let mut closed = *end;
        let mut values = absolute(&[], points, *channels).unwrap();
        for (identity, draw) in &self.log[place + 1..] {
            let Some(Draw::Extend { stroke, points, end }) = draw else { continue };
            if identity.author != author || author.is_anonymous() || *stroke != number || closed {
                continue;
            }
            if let Some(longer) = absolute(&values, points, *channels) {
                values = longer;
                closed = *end;
            }
        }
        let points = values.chunks(channels.values_per_point()).map(|v| point(v, *channels)).collect();
        Line { author, number, style: *style, points, closed }
    }

    fn is_operation(&self, place: usize) -> bool {
        matches!(self.log[place].1, Some(Draw::Erase(_) | Draw::Revoke(_) | Draw::Clear))
    }

    fn is_first_of_its_name(&self, place: usize) -> bool {
        let same = |other: usize| {
            let (a, b) = (self.log[other].0, self.log[place].0);
            (a.author, a.n) == (b.author, b.n)
        };
        (0..place).all(|other| !self.is_operation(other) || !same(other))
    }

    fn counts(&self, place: usize) -> bool {
        let name = (self.log[place].0.author, self.log[place].0.n);
        let first = self.is_first_of_its_name(place);
        self.is_operation(place)
            && !(place + 1..self.log.len()).any(|later| match &self.log[later].1 {
                Some(Draw::Revoke(names)) => first && names.contains(&name) && self.counts(later),
                _ => false,
            })
    }

    fn shows(&self, place: usize) -> bool {
        let Some(name) = self.begun_at(place) else { return false };
        !(place + 1..self.log.len()).any(|later| match &self.log[later].1 {
            Some(Draw::Erase(names)) => names.contains(&name) && self.counts(later),
            Some(Draw::Clear) => self.counts(later),
            _ => false,
        })
    }

    fn lines(&self) -> Vec<Line> {
        (0..self.log.len()).filter(|place| self.shows(*place)).map(|place| self.line(place)).collect()
    }
}

/// The values with these points after them, or `None` where they are not whole or leave the range.
fn absolute(before: &[i32], points: &[i32], channels: Channels) -> Option<Vec<i32>> {
    let size = channels.values_per_point();
    let mut values: Vec<i64> = before.iter().map(|value| i64::from(*value)).collect();
    if !points.len().is_multiple_of(size) {
        return None;
    }
    for (index, value) in points.iter().enumerate() {
        let base = if index % size < 2 && values.len() >= size { values[values.len() - size] } else { 0 };
        values.push(base + i64::from(*value));
        if index % size < 2 && values[values.len() - 1].abs() > 1 << 30 {
            return None;
        }
    }
    Some(values.into_iter().map(|value| value as i32).collect())
}

fn point(values: &[i32], channels: Channels) -> Point {
    let mut point = Point { x: values[0], y: values[1], pressure: None, time_ms: None, tilt: None };
    let mut at = 2;
    if channels.bits() & 1 != 0 {
        point.pressure = Some(values[at].clamp(0, 255) as u8);
        at += 1;
    }
    if channels.bits() & 2 != 0 {
        point.time_ms = Some(values[at]);
        at += 1;
    }
    if channels.bits() & 4 != 0 {
        point.tilt = Some((values[at], values[at + 1]));
    }
    point
}

fn value() -> impl Strategy<Value = i32> {
    prop_oneof![
        20 => -300..300i32,
        1 => Just(1 << 30),
        1 => Just(-(1 << 30)),
        1 => Just(i32::MAX),
        1 => Just(i32::MIN),
    ]
}

/// Mostly whole points.
fn points(channels: Channels) -> impl Strategy<Value = Vec<i32>> {
    let size = channels.values_per_point();
    let whole = (0..4usize).prop_flat_map(move |points| prop::collection::vec(value(), points * size));
    prop_oneof![5 => whole, 1 => prop::collection::vec(value(), 0..7)]
}

/// Few names, so that draws meet.
fn names() -> impl Strategy<Value = Vec<(ClientId, u64)>> {
    let author = (0..3u64).prop_map(|id| ClientId::new(id).unwrap());
    prop::collection::vec((author, prop_oneof![9 => 1..9u64, 1 => Just(0)]), 1..4)
}

fn draw() -> impl Strategy<Value = Vec<u8>> {
    let style =
        (0..3u64, any::<u32>(), any::<u16>()).prop_map(|(tool, rgba, width)| Style { tool, rgba, width });
    let channels = prop_oneof![3 => Just(0), 1 => 0..8u64].prop_map(|bits| Channels::new(bits).unwrap());
    let begin = (0..4u64, style, channels, any::<bool>()).prop_flat_map(|(stroke, style, channels, end)| {
        points(channels).prop_map(move |points| Draw::Begin { stroke, style, channels, points, end })
    });
    let extend = (0..4u64, points(Channels::NONE), prop::bool::weighted(0.2))
        .prop_map(|(stroke, points, end)| Draw::Extend { stroke, points, end });
    let draw = prop_oneof![
        4 => begin,
        4 => extend,
        2 => names().prop_map(Draw::Erase),
        4 => names().prop_map(Draw::Revoke),
        1 => Just(Draw::Clear),
        1 => Just(Draw::Opaque(vec![1, 2, 3])),
        1 => Just(Draw::Unknown(9)),
    ];
    prop_oneof![
        30 => draw.prop_map(|draw| draw.to_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

/// Numbered as a store would, except that now and then two records have the same name.
fn log() -> impl Strategy<Value = Log> {
    let record = (0..3u64, draw(), prop::bool::weighted(0.1));
    prop::collection::vec(record, 0..30).prop_map(|records| {
        let mut n = [0; 3];
        records
            .into_iter()
            .map(|(author, draw, again)| {
                let last = &mut n[author as usize];
                *last = (*last + u64::from(!again)).max(1);
                (Identity { author: ClientId::new(author).unwrap(), n: *last, at: 0 }, draw)
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn the_board_is_what_the_rules_say(log in log()) {
        let board = board_of(&log);
        let lines: Vec<Line> = board.strokes().map(line).collect();
        prop_assert_eq!(lines, Model::new(&log).lines());
    }

    // B-1: every log has a board, and the same one each time it is asked for.
    #[test]
    fn every_log_has_a_board(
        log in prop::collection::vec(
            (0..3u64, 1..9u64, prop_oneof![draw(), prop::collection::vec(any::<u8>(), 0..200)]),
            0..40,
        )
    ) {
        let identity = |author, n| Identity { author: ClientId::new(author).unwrap(), n, at: 0 };
        let log: Log = log.into_iter().map(|(author, n, draw)| (identity(author, n), draw)).collect();
        let mut board = board_of(&log);
        prop_assert_eq!(shown(&board), shown(&board_of(&log)));
        board.reset();
        prop_assert_eq!(board.strokes().count(), 0);
    }
}

/// Appends stay cheap where they could be made to cost the square of the log: a stroke of many extends, erases
/// of the same strokes, and a chain in which each revoke undoes the one before.
#[test]
fn a_long_log_is_drawn_in_one_pass() {
    let records = 100_000;
    let author = ClientId::new(1).unwrap();
    let style = Style { tool: 0, rgba: 0, width: 16 };
    let begin = Draw::Begin { stroke: 0, style, channels: Channels::NONE, points: vec![0, 0], end: false };
    let mut board = Board::new();
    for n in 1..=records {
        let draw = match n {
            1 => begin.to_bytes(),
            2 => Draw::Erase(vec![(author, 0)]).to_bytes(),
            n if n % 2 == 0 => Draw::Revoke(vec![(author, n - 2)]).to_bytes(),
            _ => Draw::Extend { stroke: 0, points: vec![1, -1], end: false }.to_bytes(),
        };
        board.apply(&Record { identity: Identity { author, n, at: 0 }, draw: &draw });
    }
    // 49,999 revokes: the last counts, so the one before does not, and so on down to the first, which counts.
    let strokes = shown(&board);
    assert_eq!(strokes.len(), 1);
    assert_eq!(strokes[0].points().len(), records as usize / 2);
}
