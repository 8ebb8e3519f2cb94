//! Watching by server-sent events.

use std::time::Duration;

use inkrelay_protocol::{After, Position};
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
            take(&event, printer)?;
            if !event.id.is_empty() {
                *last_id = Some(event.id);
            }
        }
    }
}

fn take(event: &SseEvent, printer: &mut Printer) -> Result<(), End> {
    let position = match event.id.parse::<After>() {
        Ok(After::Position(position)) => Some(position),
        _ => None,
    };
    if event.event != "reset" {
        return printer.texts(position.map(|position| position.seq), &[&event.data]);
    }
    let unreadable = || End::Failed(CommandError::new("the server sent a reset that cannot be read"));
    // Each as the text that came, so that a record's line is the same whichever way it took. Elements that a
    // later version puts at the end are left alone.
    let parts: Vec<&RawValue> = serde_json::from_str(&event.data).map_err(|_| unreadable())?;
    let records = parts.get(2).ok_or_else(unreadable)?.get();
    let records: Vec<&RawValue> = serde_json::from_str(records).map_err(|_| unreadable())?;
    if let Some(position) = position {
        printer.reset(position)?;
    }
    printer.texts(None, &records.iter().map(|record| record.get()).collect::<Vec<_>>())
}
