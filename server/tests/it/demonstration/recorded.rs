//! The recorded ink: what people drew with other programs. It lies beside the project, not in it.

use std::path::{Path, PathBuf};

use inkrelay_client::ink::{self, InkPoint, InkStroke, Replay, Step};
use inkrelay_protocol::Draw;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/ink");

/// The files of that kind, or `None` where there is no recorded ink.
pub fn files(extension: &str) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(Path::new(FOLDER)).ok()?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|kind| kind == extension));
    // The order in which a folder is listed means nothing, and a draw of the demonstration is to be the same anywhere.
    files.sort();
    (!files.is_empty()).then_some(files)
}

/// All strokes of the files.
pub fn strokes(files: &[PathBuf]) -> Vec<InkStroke> {
    files.iter().flat_map(|file| ink::read_file(file).unwrap()).collect()
}

/// Recorded strokes, or some that nobody drew where there are none.
pub fn strokes_or_spirals() -> Vec<InkStroke> {
    match files("inkml") {
        Some(files) => strokes(&files),
        None => (1..=40).map(spiral).collect(),
    }
}

fn spiral(turns: u16) -> InkStroke {
    let point = |step: u16| {
        let angle = f64::from(step) / 8.0;
        let radius = angle * f64::from(turns) * 4.0;
        let at = |value: f64| (8000.0 + radius * value) as i32;
        InkPoint {
            x: at(angle.cos()),
            y: at(angle.sin()),
            time_ms: Some(u32::from(step) * 4),
            ..InkPoint::default()
        }
    };
    InkStroke { points: (0..200).map(point).collect(), ..InkStroke::default() }
}

/// The draws of strokes, again and again, each time with new stroke numbers and a little further down.
pub fn endless(strokes: &[InkStroke], how: Replay) -> impl Iterator<Item = Draw> + use<> {
    let (strokes, count) = (strokes.to_vec(), strokes.len() as u64);
    (0..).flat_map(move |lap: i32| {
        let offset = (how.offset.0, how.offset.1 + lap * 320);
        let steps = ink::replay(&strokes, Replay { offset, ..how }).expect("the board has room for that");
        steps.into_iter().map(move |Step { draw, .. }| in_lap(draw, lap as u64 * count))
    })
}

fn in_lap(draw: Draw, before: u64) -> Draw {
    match draw {
        Draw::Begin { stroke, style, channels, points, end } => {
            Draw::Begin { stroke: stroke + before, style, channels, points, end }
        }
        Draw::Extend { stroke, points, end } => Draw::Extend { stroke: stroke + before, points, end },
        other => other,
    }
}
