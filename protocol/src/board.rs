//! The board: what a log looks like when drawn.
//!
//! It is a total function of the log: whatever the records hold, every reader that applied the same records
//! in the same order sees the same strokes. A draw that cannot have its effect changes nothing; it is never an
//! error, since a reader has nobody left to refuse it to. The rules are B-1 to B-20 of `SPEC.md`.
//!
//! Applying costs what the draw's own bytes cost. What is hidden is worked out when the strokes are asked for,
//! in one pass over the erases, clears and revokes: kept up to date on every append instead, a chain of revokes
//! that each revoke the one before would cost the square of its length.

mod hiding;

use std::collections::HashMap;

pub use hiding::{Hiding, Operation};

use crate::draw::{Channels, Draw, Style};
use crate::id::ClientId;
use crate::limits::COORDINATE_MAX;
use crate::record::Record;

/// What a log looks like when drawn: apply its records in order, then ask for the strokes.
#[derive(Clone, Debug, Default)]
pub struct Board {
    /// All strokes, shown or not, in the order of their begins.
    strokes: Vec<Stroke>,
    /// From author and stroke number to a place in `strokes`.
    stroke_index: HashMap<(ClientId, u64), usize>,
    hiding: Hiding,
}

/// One stroke of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stroke {
    /// Who drew it.
    pub author: ClientId,
    /// The author's own number for it; for the anonymous author, the `n` of its record.
    pub number: u64,
    /// What it is drawn with.
    pub style: Style,
    /// Which values its points carry.
    pub channels: Channels,
    /// Whether it is whole, so that no more points can follow.
    pub closed: bool,
    /// Flat as on the wire, but with absolute coordinates: eight bytes for a plain point instead of thirty-two.
    values: Vec<i32>,
}

/// One point of a stroke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// To the right, in sixteenths of a CSS pixel, within ±2^30.
    pub x: i32,
    /// Down, in sixteenths of a CSS pixel, within ±2^30.
    pub y: i32,
    /// Brought into 0 to 255, if the stroke has the channel.
    pub pressure: Option<u8>,
    /// Milliseconds since the previous point as they were sent, if the stroke has the channel.
    pub time_ms: Option<i32>,
    /// Degrees along x and y as they were sent, if the stroke has the channel.
    pub tilt: Option<(i32, i32)>,
}

impl Board {
    /// The board of a log without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything, as a reader does before a reset's records.
    pub fn reset(&mut self) {
        *self = Self::new();
    }

    /// Takes the next record of the log. One whose draw cannot be read or cannot have its effect changes nothing.
    pub fn apply(&mut self, record: &Record<'_>) {
        let author = record.identity.author;
        let Ok(draw) = Draw::decode(record.draw) else { return };
        match draw {
            Draw::Begin { stroke, style, channels, points, end } => {
                let number = match author.is_anonymous() {
                    false => stroke,
                    // The door takes no other from the anonymous author. So none of its strokes is ever open.
                    true if stroke == 0 && end => record.identity.n,
                    true => return,
                };
                let begun = Stroke { author, number, style, channels, closed: end, values: Vec::new() };
                self.begin(begun, points);
            }
            Draw::Extend { stroke, points, end } => {
                if let Some(place) = self.stroke_index.get(&(author, stroke)) {
                    self.strokes[*place].extend(points, end);
                }
            }
            Draw::Opaque(_) | Draw::Unknown(_) => {}
            draw => {
                let place = |name: &_| self.stroke_index.get(name).copied();
                if let Some(operation) = self.hiding.operation(&draw, self.strokes.len(), place) {
                    self.hiding.push(record.identity, operation);
                }
            }
        }
    }

    /// The strokes that show, in the order of their begins.
    pub fn strokes(&self) -> impl Iterator<Item = &Stroke> {
        self.hiding.shown(self.strokes.len()).map(|place| &self.strokes[place])
    }

    fn begin(&mut self, mut stroke: Stroke, points: Vec<i32>) {
        let name = (stroke.author, stroke.number);
        if !self.stroke_index.contains_key(&name) && stroke.push_points(points) {
            self.stroke_index.insert(name, self.strokes.len());
            self.strokes.push(stroke);
        }
    }
}

impl Stroke {
    /// Its points; at least one.
    pub fn points(&self) -> impl ExactSizeIterator<Item = Point> {
        let channels = self.channels;
        self.values.chunks_exact(channels.values_per_point()).map(move |values| {
            let mut carried = values[2..].iter().copied();
            let mut next = |channel| if channels.contains(channel) { carried.next() } else { None };
            let pressure = next(Channels::PRESSURE).map(|value| value.clamp(0, 255) as u8);
            let time_ms = next(Channels::TIME);
            let tilt = next(Channels::TILT).zip(next(Channels::TILT));
            Point { x: values[0], y: values[1], pressure, time_ms, tilt }
        })
    }

    fn extend(&mut self, points: Vec<i32>, end: bool) {
        if !self.closed && self.push_points(points) {
            self.closed = end;
        }
    }

    /// Turns differences into coordinates and keeps them all, or none and returns `false`.
    fn push_points(&mut self, mut points: Vec<i32>) -> bool {
        let size = self.channels.values_per_point();
        if !points.len().is_multiple_of(size) {
            return false;
        }
        let last = self.values.rchunks_exact(size).next();
        let (mut x, mut y) = last.map_or((0, 0), |last| (i64::from(last[0]), i64::from(last[1])));
        for point in points.chunks_exact_mut(size) {
            x += i64::from(point[0]);
            y += i64::from(point[1]);
            match (coordinate(x), coordinate(y)) {
                (Some(x), Some(y)) => (point[0], point[1]) = (x, y),
                _ => return false,
            }
        }
        // A stroke that never grows takes over the draw's own allocation.
        if self.values.is_empty() {
            self.values = points;
        } else {
            self.values.append(&mut points);
        }
        true
    }
}

fn coordinate(value: i64) -> Option<i32> {
    i32::try_from(value).ok().filter(|_| value.abs() <= COORDINATE_MAX)
}
