//! How a record looks on a line of its own.

use std::io::{BufWriter, Write as _};

use bytes::Bytes;
use inkrelay_protocol::{Draw, Malformed, Position, Record, Seq, json};
use serde_json::Value;

use super::End;
use crate::command::CommandError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Summary,
    Json,
    Hex,
}

/// Prints records, up to a number of them.
#[derive(Debug)]
pub(super) struct Printer {
    format: Format,
    left: Option<u64>,
}

impl Printer {
    pub(super) fn new(format: Format, count: Option<u64>) -> Self {
        Self { format, left: count }
    }

    /// Prints that the board begins anew.
    pub(super) fn reset(&mut self, position: Position) -> Result<(), End> {
        let line = match self.format {
            Format::Json => format!("{{\"reset\":\"{position}\"}}"),
            Format::Summary | Format::Hex => format!("reset {position}"),
        };
        self.print([Ok(line)].into_iter())
    }

    /// Prints records; the first has that number, if they have numbers.
    pub(super) fn records(&mut self, first: Option<Seq>, records: &[Bytes]) -> Result<(), End> {
        let (format, taken) = (self.format, self.take(records.len()));
        let lines = records.iter().take(taken).enumerate().map(|(index, bytes)| match format {
            Format::Summary => summary(first.map(|first| first.plus(index)), bytes),
            Format::Json => as_json(bytes),
            Format::Hex => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        });
        self.print(lines)?;
        self.check_count()
    }

    /// Prints records that came as JSON.
    pub(super) fn texts(&mut self, first: Option<Seq>, records: &[&str]) -> Result<(), End> {
        let (format, taken) = (self.format, self.take(records.len()));
        let lines = records.iter().take(taken).enumerate().map(|(index, text)| match format {
            Format::Json => Ok((*text).to_owned()),
            Format::Summary | Format::Hex => {
                let record = from_json(text).ok_or(Malformed("a record in JSON cannot be read"))?;
                summary(first.map(|first| first.plus(index)), &record)
            }
        });
        self.print(lines)?;
        self.check_count()
    }

    /// Nothing came for as long as was agreed.
    pub(super) fn at_quiet(&self) -> End {
        match self.left {
            Some(left) => End::Failed(CommandError(format!("{left} of the records did not come in time"))),
            None => End::Quiet,
        }
    }

    fn take(&mut self, records: usize) -> usize {
        let Some(left) = &mut self.left else { return records };
        let taken = records.min(usize::try_from(*left).unwrap_or(usize::MAX));
        *left -= taken as u64;
        taken
    }

    fn check_count(&self) -> Result<(), End> {
        if self.left == Some(0) { Err(End::Quiet) } else { Ok(()) }
    }

    /// One write for all, and nothing left behind.
    fn print(&self, lines: impl Iterator<Item = Result<String, Malformed>>) -> Result<(), End> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        for line in lines {
            let line = line.map_err(|error| End::Failed(CommandError::new(error)))?;
            writeln!(out, "{line}")?;
        }
        out.flush()?;
        Ok(())
    }
}

fn as_json(record: &[u8]) -> Result<String, Malformed> {
    let mut out = Vec::new();
    json::from_msgpack(record, &mut out)?;
    String::from_utf8(out).map_err(|_| Malformed("a record's text is not valid UTF-8"))
}

/// A record's bytes, from its JSON.
fn from_json(text: &str) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let number = |index: usize| value.get(index)?.as_u64();
    let draws = serde_json::to_vec(&[value.get(3)?]).ok()?;
    let draws = json::to_msgpack(&draws, json::Shape::Draws).ok()?;
    let identity = inkrelay_protocol::Identity {
        author: inkrelay_protocol::ClientId::new(number(0)?)?,
        n: number(1)?,
        at: number(2)?,
    };
    let mut out = Vec::new();
    // An array of one draw has a head of one byte.
    Record { identity, draw: draws.get(1..)? }.encode(&mut out);
    Some(out)
}

fn summary(seq: Option<Seq>, bytes: &[u8]) -> Result<String, Malformed> {
    let record = Record::parse(bytes)?;
    let seq = seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
    let author = match record.identity.author {
        author if author.is_anonymous() => "anonymous".to_owned(),
        author => author.to_string(),
    };
    let what = match Draw::decode(record.draw) {
        Ok(draw) => describe(&draw),
        Err(error) => format!("cannot be read: {error}"),
    };
    Ok(format!("{seq} {author}/{} {what}", record.identity.n))
}

fn describe(draw: &Draw) -> String {
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let ended = |end: bool| if end { ", ends" } else { "" };
    match draw {
        Draw::Begin { stroke, style, channels, points, end } => {
            let tool = match style.tool {
                0 => "pen".to_owned(),
                1 => "highlighter".to_owned(),
                other => format!("tool {other}"),
            };
            let (rgba, width) = (style.rgba, f64::from(style.width) / 16.0);
            let points = count(points.len() / channels.values_per_point(), "point");
            format!("begin {stroke}: {tool} #{rgba:08x} {width} px, {points}{}", ended(*end))
        }
        Draw::Extend { stroke, points, end } => {
            format!("extend {stroke}: {}{}", count(points.len(), "value"), ended(*end))
        }
        Draw::Erase(strokes) => format!("erase {}", count(strokes.len(), "stroke")),
        Draw::Revoke(draws) => format!("revoke {}", count(draws.len(), "draw")),
        Draw::Clear => "clear".to_owned(),
        Draw::Opaque(bytes) => format!("opaque, {}", count(bytes.len(), "byte")),
        Draw::Unknown(kind) => format!("of unknown kind {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use inkrelay_protocol::{ClientId, Identity};

    use super::*;

    fn record(draw: &Draw) -> Vec<u8> {
        let identity = Identity { author: ClientId::new(7).unwrap(), n: 3, at: 1_700_000_000_000 };
        let mut out = Vec::new();
        Record { identity, draw: &draw.to_bytes() }.encode(&mut out);
        out
    }

    #[test]
    fn a_record_is_the_same_from_its_json() {
        for draw in [
            Draw::Clear,
            Draw::Opaque(vec![1, 2, 255]),
            Draw::Extend { stroke: 5, points: vec![-1, 300], end: true },
        ] {
            let bytes = record(&draw);
            assert_eq!(from_json(&as_json(&bytes).unwrap()), Some(bytes));
        }
        assert_eq!(from_json("[1]"), None);
    }

    #[test]
    fn a_summary_says_who_did_what() {
        let extend = record(&Draw::Extend { stroke: 5, points: vec![1, 1], end: true });
        assert_eq!(summary(Seq::new(9), &extend).unwrap(), "9 7/3 extend 5: 2 values, ends");
        assert_eq!(summary(None, &record(&Draw::Clear)).unwrap(), "- 7/3 clear");
    }
}
