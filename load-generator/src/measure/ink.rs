//! The ink that is sent: generated handwriting, or a recording.

use std::path::Path;

use inkrelay_client::ink::{InkError, read_file};
use inkrelay_protocol::{Channels, Draw, Style};

use crate::measure::mark::Ink;

/// Different strokes in generated handwriting.
const STROKES: usize = 64;
/// Points in each: what a pen that is sampled 240 times a second gives in 50 ms.
const POINTS: usize = 12;
/// Points of one draw at most when a recording is cut up.
const POINTS_MAX: usize = 24;

/// Loops and zigzags as in handwriting, each about as many bytes as live ink: 12 points with pressure and time.
pub fn handwriting() -> Vec<Ink> {
    let stroke = |index: usize| {
        let phase = index as f64 * 0.7;
        let at = |point: usize| {
            let t = phase + point as f64 * 0.45;
            let x = 800.0 + (index % 8) as f64 * 900.0 + point as f64 * 22.0 + 70.0 * t.sin();
            let y = 600.0 + (index / 8) as f64 * 500.0 + 90.0 * (t * 1.3).cos();
            (x as i32, y as i32)
        };
        let mut points = Vec::with_capacity(POINTS * 4);
        let mut last = (0, 0);
        for point in 0..POINTS {
            let (x, y) = at(point);
            let pressure = 40 + ((phase + point as f64 * 0.5).sin().abs() * 80.0) as i32;
            points.extend([x - last.0, y - last.1, pressure, if point == 0 { 0 } else { 4 }]);
            last = (x, y);
        }
        whole(points, Channels::PRESSURE.with(Channels::TIME))
    };
    (0..STROKES).map(stroke).collect()
}

/// The strokes of a recorded file, cut into draws of at most 24 points. Looks and times are not kept: the schedule
/// has its own.
///
/// # Errors
/// When the file cannot be read or holds no ink.
pub fn recording(path: &Path) -> Result<Vec<Ink>, InkError> {
    let mut draws = Vec::new();
    for stroke in read_file(path)? {
        for piece in stroke.points.chunks(POINTS_MAX) {
            let mut points = Vec::with_capacity(piece.len() * 3);
            let mut last = (0, 0);
            for point in piece {
                points.extend([point.x - last.0, point.y - last.1, point.pressure.unwrap_or(128).into()]);
                last = (point.x, point.y);
            }
            draws.push(whole(points, Channels::PRESSURE));
        }
    }
    if draws.is_empty() {
        let why = "it holds no stroke".to_owned();
        return Err(InkError::File { file: path.display().to_string(), why });
    }
    Ok(draws)
}

/// A whole stroke, with the number 0 that the anonymous author has to give.
fn whole(points: Vec<i32>, channels: Channels) -> Ink {
    let style = Style { tool: 0, rgba: 0x1f4e_79ff, width: 40 };
    let bytes = Draw::Begin { stroke: 0, style, channels, points, end: true }.to_bytes();
    // The array's head, of six elements, is one byte.
    Ink::new(&bytes[1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::mark::{self, Mark};

    #[test]
    fn generated_ink_is_as_long_as_live_ink() {
        for ink in handwriting() {
            let mut draw = Vec::new();
            ink.mark(Mark { writer: 1, number: 1, due_us: 1 }, &mut draw);
            assert!((70..160).contains(&draw.len()), "{} bytes", draw.len());
        }
    }

    #[test]
    fn a_recording_becomes_draws() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let points: Vec<String> = (0..50).map(|x| format!("[{x}, {x}, 0.5, {x}]")).collect();
        std::fs::write(file.path(), format!("[{}]", points.join(","))).unwrap();
        let draws = recording(file.path()).unwrap();
        assert_eq!(draws.len(), 3);
        let mut draw = Vec::new();
        draws[1].mark(Mark { writer: 1, number: 2, due_us: 3 }, &mut draw);
        assert_eq!(mark::read(&draw).unwrap().number, 2);
    }
}
