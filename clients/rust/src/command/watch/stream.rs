//! Watching by server-sent events.

use std::time::Duration;

use inkrelay_protocol::{Position, Seq};
use serde_json::value::RawValue;
use tokio::time::sleep;

use super::print::Printer;
use super::{End, Quiet, tell_disconnected};
use crate::backoff::{Backoff, random};
use crate::command::{CommandError, Place};
use crate::http::{EVENT_STREAM, Http, HttpError, send};
use crate::sse::{SseEvent, SseParser};

/// Nothing received for that long, and the stream is dead; servers keep it alive more often.
const SILENCE: Duration = Duration::from_secs(45);
const BACKOFF_FIRST: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(15);

/// Reads the stream, again and again from where it broke off.
pub(super) async fn watch(
    place: &Place,
    after: Option<Position>,
    printer: &mut Printer,
    wait: Option<Duration>,
) -> End {
    let http = match place.http() {
        Ok(http) => http,
        Err(error) => return End::Failed(error),
    };
    let mut last_id = after.map(|position| position.to_string());
    let mut quiet = Quiet::new(wait);
    let mut backoff = Backoff::new(BACKOFF_FIRST, BACKOFF_MAX);
    loop {
        let before = last_id.clone();
        let broken = match read(place, &http, &mut last_id, printer, &mut quiet).await {
            Ok(why) => why,
            Err(end) => return end,
        };
        if before != last_id {
            backoff.reset();
        }
        let retry_in = backoff.next(random());
        tell_disconnected(&broken, retry_in);
        tokio::select! {
            () = sleep(retry_in) => {}
            () = quiet.over() => return printer.at_quiet(),
        }
    }
}

/// Reads one stream until it breaks; returns why.
async fn read(
    place: &Place,
    http: &Http,
    last_id: &mut Option<String>,
    printer: &mut Printer,
    quiet: &mut Quiet,
) -> Result<String, End> {
    let mut request = place.authorize(http.request(reqwest::Method::GET, "events", EVENT_STREAM, &[]));
    if let Some(id) = last_id {
        request = request.header("Last-Event-ID", id.as_str());
    }
    let opened = tokio::select! {
        opened = send(request) => opened,
        () = quiet.over() => return Err(printer.at_quiet()),
    };
    let mut response = match opened {
        Ok(response) => response,
        Err(HttpError::Problem(problem)) if problem.status < 500 && problem.status != 429 => {
            return Err(End::Failed(place.explain(&HttpError::Problem(problem))));
        }
        Err(error) => return Ok(error.to_string()),
    };
    let mut parser = SseParser::default();
    let mut parts = Vec::new();
    loop {
        let chunk = tokio::select! {
            chunk = response.chunk() => chunk,
            () = sleep(SILENCE) => return Ok("nothing came from the server for too long".to_owned()),
            () = quiet.over() => return Err(printer.at_quiet()),
        };
        let bytes = match chunk {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok("the server closed the connection".to_owned()),
            Err(error) => return Ok(HttpError::from(error).to_string()),
        };
        for event in parser.push(&bytes).map_err(|why| End::Failed(CommandError::new(why)))? {
            quiet.reset();
            take(&event, &mut parts, printer)?;
            if !event.id.is_empty() {
                *last_id = Some(event.id);
            }
        }
    }
}

/// What an event tells; records as the text that came, so that a record's line is the same whichever way it
/// took.
#[derive(Debug, PartialEq, Eq)]
enum Told<'a> {
    Record(Option<Seq>, &'a str),
    /// A part of a reset that another one follows. It has no position yet.
    Part(Vec<&'a str>),
    /// The last part.
    Reset(Position, Vec<&'a str>),
}

impl<'a> Told<'a> {
    /// `None` for what cannot be read.
    fn parse(event: &'a SseEvent) -> Option<Self> {
        let position = event.id.parse::<Position>();
        if event.event != "reset" {
            return Some(Self::Record(position.ok().map(|position| position.seq), &event.data));
        }
        // Elements that a later version puts at the end are left alone.
        let parts: Vec<&RawValue> = serde_json::from_str(&event.data).ok()?;
        let records: Vec<&RawValue> = serde_json::from_str(parts.get(2)?.get()).ok()?;
        let records = records.iter().map(|record| record.get()).collect();
        match parts.get(3)?.get() {
            "true" => Some(Self::Part(records)),
            _ => Some(Self::Reset(position.ok()?, records)),
        }
    }
}

/// Takes one event. The parts of a reset are held back until it is whole: one that breaks off starts over.
fn take(event: &SseEvent, parts: &mut Vec<String>, printer: &mut Printer) -> Result<(), End> {
    match Told::parse(event) {
        Some(Told::Record(seq, record)) => printer.texts(seq, &[record]),
        Some(Told::Part(records)) => {
            parts.extend(records.into_iter().map(str::to_owned));
            Ok(())
        }
        Some(Told::Reset(position, records)) => {
            let whole = std::mem::take(parts);
            let whole: Vec<&str> = whole.iter().map(String::as_str).chain(records).collect();
            printer.reset(position)?;
            printer.texts(None, &whole)
        }
        None => Err(End::Failed(CommandError::new("the server sent a reset that cannot be read"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: &str, id: &str, data: &str) -> SseEvent {
        SseEvent { event: event.to_owned(), id: id.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn records_and_resets_are_told_apart() {
        let record = event("", "9.3.7.1.5", "[7,1,5,[4]]");
        assert_eq!(Told::parse(&record), Some(Told::Record(Seq::new(3), "[7,1,5,[4]]")));
        let reset = event("reset", "9.2.7.1.5", r#"[9,2,[[7,1,5,[9,{"b":1.0,"a":2}]]],false]"#);
        let position = "9.2.7.1.5".parse().unwrap();
        assert_eq!(Told::parse(&reset), Some(Told::Reset(position, vec![r#"[7,1,5,[9,{"b":1.0,"a":2}]]"#])));
        // To an empty log: a position too, though it is the start.
        let start = event("reset", "1.0.0.0.0", "[1,0,[],false]");
        assert_eq!(Told::parse(&start), Some(Told::Reset("1.0.0.0.0".parse().unwrap(), vec![])));
        assert_eq!(Told::parse(&event("reset", "1.0.0.0.0", "[1,0]")), None);
        let part = event("reset", "", "[9,2,[[7,1,5,[4]]],true]");
        assert_eq!(Told::parse(&part), Some(Told::Part(vec!["[7,1,5,[4]]"])));
    }
}
