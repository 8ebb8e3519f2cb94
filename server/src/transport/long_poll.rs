//! The long poll: answers as soon as there is something after a position, or after a time with nothing.

use std::pin::pin;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Uri, header};
use inkrelay_protocol::frame::write_records;
use inkrelay_protocol::limits::{POLL_RECORDS_MAX, POLL_WAIT_DEFAULT_S, POLL_WAIT_MAX_S};
use inkrelay_protocol::{After, ClientId, ErrorCode, Seq, msgpack};
use tokio::time::Instant;

use super::encoding::Encoding;
use super::problem::Problem;
use super::request::{Admitted, HEAD, POSITION, Shared, admit, after, ticket};
use crate::metrics::Transport;
use crate::room::Next;
use crate::room::cursor::Cursor;
use crate::session::{Refused, in_time};
use crate::store::ReadLimit;

/// Bytes of one answer at most, unless a single record is longer.
const ANSWER_BYTES: usize = 512 * 1024;

/// What a poll asks for.
struct Asked {
    after: After,
    wait: Duration,
    limit: usize,
}

/// Answers a poll.
pub async fn poll(
    State(relay): Shared,
    Admitted { room, grant }: Admitted,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let asked = Asked::read(&uri)?;
    let who = ticket(&headers)?.map(|ticket| relay.identify(&room, &grant, Some(ticket))).transpose()?;
    let client = who.as_ref().map_or(ClientId::ANONYMOUS, |who| who.client);
    let _socket = relay.open_socket(&grant)?;
    let (reading, mut cursor, stay) = in_time(async {
        let reading = relay.enter(&room).await?.read().ok_or_else(Refused::crowded)?;
        let stay = admit(&reading, client, &grant)?;
        if let Some(who) = &who
            && !reading.polled(who.client, None)
        {
            return Err(Problem::from(Refused::crowded()));
        }
        let cursor = reading.cursor(asked.after).await?.ok_or_else(|| Problem::position_gone(&room))?;
        Ok((reading, cursor, stay))
    })
    .await?;
    let _counted = reading.metrics().session(Transport::LongPoll);
    let mut draining = relay.draining();
    let mut changes = reading.changes();
    let until = Instant::now() + asked.wait;
    let mut ended = pin!(stay.ended());
    let mut came_at: Option<std::time::Instant> = None;
    let limit = ReadLimit { records: asked.limit, bytes: ANSWER_BYTES };
    let records = loop {
        changes.borrow_and_update();
        match reading.next(&mut cursor, limit).await? {
            Next::Records { records, .. } => {
                if let Some(came_at) = came_at {
                    reading.count_delivery(Transport::LongPoll, came_at.elapsed());
                }
                break records;
            }
            Next::Reset => return Err(Problem::position_gone(&room)),
            Next::UpToDate => {}
        }
        let is_over = tokio::select! {
            changed = changes.changed() => {
                came_at = *changes.borrow();
                changed.is_err()
            }
            () = tokio::time::sleep_until(until) => true,
            () = draining.begun() => true,
            () = grant.ended() => return Err(Refused::token_ended().into()),
            ending = ended.as_mut() => {
                // Told now, and not once more with the next call.
                reading.was_kicked(client);
                return Err(Refused::from(ending).into());
            }
        };
        if is_over {
            break Vec::new();
        }
    };
    if let Some(who) = &who {
        reading.polled(who.client, None);
    }
    let head = reading.head().seq.max(cursor.position().seq);
    Ok(answer(Encoding::accepted(&headers), &cursor, head, &records))
}

fn answer(encoding: Encoding, cursor: &Cursor, head: Seq, records: &[Bytes]) -> Response {
    let position = cursor.position();
    let first = position.seq.get() + 1 - records.len() as u64;
    let mut body = Vec::with_capacity(32 + records.iter().map(Bytes::len).sum::<usize>());
    msgpack::write_array(&mut body, 3);
    msgpack::write_uint(&mut body, position.epoch.get());
    msgpack::write_uint(&mut body, first);
    write_records(&mut body, records);
    let position = HeaderValue::try_from(position.to_string()).expect("a position is digits and dots");
    let headers = [
        (header::CONTENT_TYPE, encoding.content_type()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (POSITION, position),
        (HEAD, head.get().into()),
    ];
    (headers, encoding.encode(body.into())).into_response()
}

impl Asked {
    fn read(uri: &Uri) -> Result<Self, Problem> {
        let query = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|_| malformed("the query cannot be read"))?;
        let find = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let wait = brought_into_range(find("wait"), POLL_WAIT_DEFAULT_S, 0, POLL_WAIT_MAX_S)
            .ok_or_else(|| malformed("wait is a whole number of seconds"))?;
        let limit = brought_into_range(find("limit"), POLL_RECORDS_MAX, 1, POLL_RECORDS_MAX)
            .ok_or_else(|| malformed("limit is a whole number of records"))?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(Self { after: after(find("after"))?, wait: Duration::from_secs(wait), limit })
    }
}

fn malformed(detail: &'static str) -> Problem {
    Problem::new(ErrorCode::Malformed, detail)
}

/// `None` for what is no whole number. Numbers of any length are taken: those beyond the range end at its edge.
fn brought_into_range(text: Option<&str>, default: u64, min: u64, max: u64) -> Option<u64> {
    let Some(text) = text else { return Some(default) };
    let (is_negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value = if is_negative { 0 } else { digits.parse().unwrap_or(u64::MAX) };
    Some(value.clamp(min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_brought_into_range_and_others_refused() {
        let wait = |text| brought_into_range(text, 25, 0, 55);
        assert_eq!(wait(None), Some(25));
        assert_eq!(wait(Some("7")), Some(7));
        assert_eq!(wait(Some("-1")), Some(0));
        assert_eq!(wait(Some("1000000000")), Some(55));
        assert_eq!(wait(Some("99999999999999999999999999")), Some(55));
        for bad in ["", "-", "1.5", "abc", "+1", " 1", "1e3", "NaN"] {
            assert_eq!(wait(Some(bad)), None, "{bad:?}");
        }
        assert_eq!(brought_into_range(Some("0"), 9, 1, 9), Some(1));
    }
}
