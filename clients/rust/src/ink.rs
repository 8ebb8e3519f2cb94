//! Recorded ink: strokes that somebody drew with another program, and how a live pen would send them.
//!
//! Two kinds of files are read: JSON arrays of points ([`json`]) and W3C InkML ([`inkml`]). Lengths become
//! sixteenths of a CSS pixel, of which 96 make an inch.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use inkrelay_protocol::limits::COORDINATE_MAX;
use inkrelay_protocol::{Channels, Draw, Style};

pub mod inkml;
pub mod json;

/// Bytes of one file at most.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What a live pen gathers before it sends.
const GATHER: Duration = Duration::from_millis(16);
/// Between points whose time was not recorded: 60 a second.
const POINT_INTERVAL_US: u64 = 1_000_000 / 60;
/// Between strokes whose time was not recorded.
const STROKE_PAUSE_US: u64 = 150_000;
/// Points of one draw at most, so that it fits any sensible limit on bytes.
const POINTS_PER_DRAW: usize = 1024;
/// The latest time of a point within its stroke, in milliseconds: a day.
const TIME_MAX_MS: f64 = 86_400_000.0;

/// Why ink cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum InkError {
    /// The file cannot be opened, or is too long.
    #[error("{file}: {why}")]
    File {
        /// Its name.
        file: String,
        /// In plain words.
        why: String,
    },
    /// What stands in the file is no ink.
    #[error("{file}: {place}: {why}")]
    Content {
        /// Its name.
        file: String,
        /// Where in the file, in plain words.
        place: String,
        /// In plain words.
        why: String,
    },
}

/// What is wrong, and where in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where in the file, in plain words.
    pub place: String,
    /// In plain words.
    pub why: String,
}

impl Fault {
    pub(crate) fn new(place: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self { place: place.to_string(), why: why.to_string() }
    }
}

/// One recorded point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InkPoint {
    /// To the right, in sixteenths of a CSS pixel.
    pub x: i32,
    /// Down, in sixteenths of a CSS pixel.
    pub y: i32,
    /// 0 to 255.
    pub pressure: Option<u8>,
    /// Milliseconds since the stroke's first point.
    pub time_ms: Option<u32>,
    /// Degrees along x and y, −90 to 90.
    pub tilt: Option<(i16, i16)>,
}

/// What the file says of a stroke's looks; `None` where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InkStyle {
    /// As in [`Style`].
    pub tool: Option<u64>,
    /// As in [`Style`].
    pub rgba: Option<u32>,
    /// Sixteenths of a CSS pixel.
    pub width: Option<u16>,
}

/// One recorded stroke.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InkStroke {
    /// Its name, in files where strokes have names.
    pub name: Option<String>,
    /// Its looks.
    pub style: InkStyle,
    /// When it began, in milliseconds since the recording did.
    pub start_ms: Option<u64>,
    /// At least one.
    pub points: Vec<InkPoint>,
}

/// Reads the strokes of a file, whichever kind it is.
///
/// # Errors
/// When the file cannot be read, or holds something else than ink, with the place.
pub fn read_file(path: &Path) -> Result<Vec<InkStroke>, InkError> {
    let file = path.display().to_string();
    let fail = |why: String| InkError::File { file: file.clone(), why };
    let length = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(fail(format!("it has {length} bytes, and {FILE_BYTES_MAX} are read at most")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    let strokes = if text.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        inkml::parse(&text)
    } else {
        json::parse(&text)
    };
    strokes.map_err(|Fault { place, why }| InkError::Content { file, place, why })
}

/// A length in CSS pixels as sixteenths.
pub(crate) fn coordinate(pixels: f64) -> Result<i32, &'static str> {
    let sixteenths = (pixels * 16.0).round();
    if !sixteenths.is_finite() || sixteenths.abs() > COORDINATE_MAX as f64 {
        return Err("a coordinate is further than 67,108,864 pixels from the origin");
    }
    Ok(sixteenths as i32)
}

/// Milliseconds within a stroke.
pub(crate) fn time(ms: f64) -> Result<u32, &'static str> {
    if !(0.0..=TIME_MAX_MS).contains(&ms) {
        return Err("a time is not within 0 and a day of milliseconds");
    }
    Ok(ms.round() as u32)
}

/// A draw, and when a live pen would have sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Since the beginning.
    pub at: Duration,
    /// What is sent.
    pub draw: Draw,
}

/// How recorded strokes are drawn again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Takes the place of the recorded looks where it says something.
    pub style: InkStyle,
    /// Added to every point, in sixteenths of a CSS pixel.
    pub offset: (i32, i32),
}

/// The draws of strokes, one stroke after the other, with the recorded times or 60 points a second.
///
/// # Errors
/// When the offset moves a point out of range; names the stroke, from 1.
pub fn replay(strokes: &[InkStroke], how: Replay) -> Result<Vec<Step>, Fault> {
    let mut steps = Vec::new();
    let mut clock_us = 0;
    for (index, stroke) in strokes.iter().enumerate() {
        if index > 0 {
            clock_us += STROKE_PAUSE_US;
        }
        clock_us = clock_us.max(stroke.start_ms.unwrap_or(0).saturating_mul(1000));
        let points = moved(&stroke.points, how.offset)
            .map_err(|why| Fault::new(format_args!("stroke {}", index + 1), why))?;
        clock_us = replay_stroke(&mut steps, index as u64, stroke, &points, how.style, clock_us);
    }
    Ok(steps)
}

fn moved(points: &[InkPoint], (dx, dy): (i32, i32)) -> Result<Vec<InkPoint>, &'static str> {
    let shift = |value: i32, by: i32| coordinate((f64::from(value) + f64::from(by)) / 16.0);
    points
        .iter()
        .map(|point| Ok(InkPoint { x: shift(point.x, dx)?, y: shift(point.y, dy)?, ..*point }))
        .collect()
}

/// Appends one stroke's draws and returns the time of its last point.
fn replay_stroke(
    steps: &mut Vec<Step>,
    number: u64,
    stroke: &InkStroke,
    points: &[InkPoint],
    style: InkStyle,
    start_us: u64,
) -> u64 {
    let recorded = stroke.style;
    let style = Style {
        tool: style.tool.or(recorded.tool).unwrap_or(0),
        rgba: style.rgba.or(recorded.rgba).unwrap_or(0x0000_00ff),
        width: style.width.or(recorded.width).unwrap_or(64),
    };
    let mut channels = Channels::NONE;
    for (present, channel) in [
        (points.iter().any(|point| point.pressure.is_some()), Channels::PRESSURE),
        (points.iter().any(|point| point.time_ms.is_some()), Channels::TIME),
        (points.iter().any(|point| point.tilt.is_some()), Channels::TILT),
    ] {
        if present {
            channels = channels.with(channel);
        }
    }
    let at_us = |index: usize| match points[index].time_ms {
        Some(ms) => start_us + u64::from(ms) * 1000,
        None => start_us + index as u64 * POINT_INTERVAL_US,
    };
    let gather_us = GATHER.as_micros() as u64;
    let mut from = 0;
    while from < points.len() {
        let window_end = at_us(from) + gather_us;
        let in_window = |index: &usize| *index < points.len() && at_us(*index) < window_end;
        let to = (from..from + POINTS_PER_DRAW).take_while(in_window).last().unwrap_or(from) + 1;
        let values = encode(points, from, to, channels);
        let end = to == points.len();
        let draw = if from == 0 {
            Draw::Begin { stroke: number, style, channels, points: values, end }
        } else {
            Draw::Extend { stroke: number, points: values, end }
        };
        steps.push(Step { at: Duration::from_micros(at_us(to - 1)), draw });
        from = to;
    }
    at_us(points.len() - 1)
}

fn encode(points: &[InkPoint], from: usize, to: usize, channels: Channels) -> Vec<i32> {
    let mut values = Vec::with_capacity((to - from) * channels.values_per_point());
    for index in from..to {
        let point = points[index];
        let before = if index == 0 { InkPoint::default() } else { points[index - 1] };
        values.extend([point.x - before.x, point.y - before.y]);
        if channels.contains(Channels::PRESSURE) {
            values.push(point.pressure.unwrap_or(128).into());
        }
        if channels.contains(Channels::TIME) {
            let since = point.time_ms.unwrap_or(0).saturating_sub(before.time_ms.unwrap_or(0));
            values.push(since as i32);
        }
        if channels.contains(Channels::TILT) {
            let (x, y) = point.tilt.unwrap_or_default();
            values.extend([i32::from(x), i32::from(y)]);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use inkrelay_protocol::{Board, ClientId, Identity, Record};

    use super::*;

    fn stroke(points: Vec<InkPoint>) -> InkStroke {
        InkStroke { points, ..InkStroke::default() }
    }

    #[test]
    fn a_replay_draws_what_was_recorded_at_its_own_pace() {
        let recorded: Vec<InkPoint> = (0..100)
            .map(|i| InkPoint { x: i * 3, y: -i, pressure: Some(9), time_ms: Some(i as u32 * 4), tilt: None })
            .collect();
        let how = Replay { offset: (160, 0), ..Replay::default() };
        let steps = replay(&[stroke(recorded.clone()), stroke(recorded.clone())], how).unwrap();
        assert_eq!(steps.len(), 50, "four points in each 16 ms");
        assert!(steps.is_sorted_by_key(|step| step.at));
        assert_eq!(steps[24].at, Duration::from_millis(396));

        let mut board = Board::new();
        for (n, step) in (1..).zip(&steps) {
            let identity = Identity { author: ClientId::new(1).unwrap(), n, at: 0 };
            board.apply(&Record { identity, draw: &step.draw.to_bytes() });
        }
        let drawn: Vec<_> = board.strokes().collect();
        assert_eq!(drawn.len(), 2);
        assert!(drawn.iter().all(|stroke| stroke.closed));
        let shifted: Vec<_> = recorded.iter().map(|point| (point.x + 160, point.y)).collect();
        assert_eq!(drawn[1].points().map(|point| (point.x, point.y)).collect::<Vec<_>>(), shifted);
    }

    #[test]
    fn points_without_times_go_sixty_a_second() {
        let steps = replay(&[stroke(vec![InkPoint::default(); 61])], Replay::default()).unwrap();
        assert_eq!(steps.len(), 61);
        assert_eq!(steps[60].at.as_millis(), 999);
    }

    #[test]
    fn an_offset_out_of_range_is_an_error() {
        let far = InkPoint { x: 1 << 30, ..InkPoint::default() };
        let how = Replay { offset: (16, 0), ..Replay::default() };
        let fault = replay(&[stroke(vec![far])], how).unwrap_err();
        assert_eq!(fault.place, "stroke 1");
    }
}
