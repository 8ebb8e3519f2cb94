//! Server-sent events (WHATWG HTML, section 9.2): one record each, its position as the id.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use inkrelay_protocol::frame::write_records;
use inkrelay_protocol::{After, ClientId, ErrorCode, Position, Seq, msgpack};
use tokio::sync::watch;

use super::MESSAGE;
use super::encoding::Encoding;
use super::problem::Problem;
use super::request::{Admitted, Shared, admit, after, ticket};
use crate::access::Grant;
use crate::hub::ReaderHandle;
use crate::metrics::{InSession, Transport};
use crate::room::Stay;
use crate::room::feed::{Fed, Feed};
use crate::session::sockets::OpenSocket;
use crate::session::{Draining, Refused, Relay, spread_retry};
use crate::store::identity_of;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A comment, which readers ignore and proxies count as a sign of life.
const COMMENT: &[u8] = b":\n\n";
/// A store that did not answer is asked again after this time.
const STORE_RETRY: Duration = Duration::from_millis(500);

/// Streams a room's records.
pub async fn stream(
    State(relay): Shared,
    Admitted { room, grant }: Admitted,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let query = Query::<Vec<(String, String)>>::try_from_uri(&uri)
        .map_err(|_| Problem::new(ErrorCode::Malformed, "the query cannot be read"))?;
    let asked = query.iter().find(|(key, _)| key == "after").map(|(_, value)| value.as_str());
    let last_id =
        headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?")).filter(|id| !id.is_empty());
    let after: After = after(last_id.or(asked))?;
    let who = ticket(&headers)?.map(|ticket| relay.identify(&room, &grant, Some(ticket))).transpose()?;
    let socket = relay.open_socket(&grant)?;
    let reading = relay.enter(&room).await?.read().ok_or_else(Refused::crowded)?;
    let client = who.map(|who| who.client);
    let stay = admit(&reading, client.unwrap_or(ClientId::ANONYMOUS), &grant)?;
    if client.is_some_and(|client| !reading.polled(client, None)) {
        return Err(Refused::crowded().into());
    }
    let feed = Feed::open(&reading, after).await?;
    let (changes, draining) = (reading.changes(), relay.draining());
    let counted = reading.metrics().session(Transport::Events);
    let state = Events {
        relay,
        grant,
        reading,
        client,
        stay,
        feed,
        changes,
        came_at: None,
        draining,
        _counted: counted,
        _socket: socket,
        ready: VecDeque::from([greeting()]),
    };
    let body = Body::from_stream(futures_util::stream::unfold(state, |mut state| async {
        let chunk = state.next().await?;
        Some((Ok::<_, Infallible>(chunk), state))
    }));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // nginx would otherwise hold events back until its buffer is full.
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    Ok((headers, body).into_response())
}

/// The first bytes of a stream. Browsers come back when it ends after a time that is their own and the same for all of
/// them, unless the stream names another one.
fn greeting() -> Bytes {
    format!("retry: {}\n:\n\n", spread_retry().as_millis()).into()
}

struct Events {
    relay: Arc<Relay>,
    grant: Grant,
    reading: ReaderHandle,
    /// Whoever sent a ticket along is present as long as the stream lasts.
    client: Option<ClientId>,
    stay: Stay,
    feed: Feed,
    changes: watch::Receiver<Option<Instant>>,
    /// When the first of the records came that it was woken for.
    came_at: Option<Instant>,
    draining: Draining,
    _counted: InSession,
    _socket: Option<OpenSocket>,
    ready: VecDeque<Bytes>,
}

impl Events {
    /// The next bytes; `None` ends the stream, and the reader comes back with its last id. One that was kicked or banned
    /// is told so then.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Some(ready);
            }
            if self.draining.has_begun() || self.grant.has_ended() || self.stay.has_ended() {
                return None;
            }
            if let Err(error) = self.step().await {
                tracing::warn!(%error, "events wait for the store");
                tokio::time::sleep(STORE_RETRY).await;
            }
        }
    }

    async fn step(&mut self) -> Result<(), crate::store::StoreError> {
        self.changes.borrow_and_update();
        match self.feed.next(&self.reading, MESSAGE).await? {
            Fed::Records { first, records, position } => {
                if let Some(came_at) = self.came_at.take() {
                    self.reading.count_delivery(Transport::Events, came_at.elapsed());
                }
                self.ready.push_back(record_events(first, &position, &records));
            }
            Fed::Reset { until, records, more } => self.ready.push_back(reset_event(&until, &records, more)),
            Fed::UpToDate => {
                if let Some(client) = self.client {
                    self.reading.polled(client, None);
                }
                let quiet = tokio::time::sleep(self.relay.config().times.heartbeat);
                tokio::select! {
                    _ = self.changes.changed() => self.came_at = *self.changes.borrow(),
                    () = self.draining.begun() => {}
                    () = self.grant.ended() => {}
                    _ = self.stay.ended() => {}
                    () = quiet => self.ready.push_back(Bytes::from_static(COMMENT)),
                }
            }
        }
        Ok(())
    }
}

fn record_events(first: Seq, last: &Position, records: &[Bytes]) -> Bytes {
    let mut out = Vec::new();
    for (index, record) in records.iter().enumerate() {
        let id = Position { epoch: last.epoch, seq: first.plus(index), identity: identity_of(record) };
        write_event(&mut out, None, Some(&id), &Encoding::Json.encode(record.clone()));
    }
    out.into()
}

fn reset_event(until: &Position, records: &[Bytes], more: bool) -> Bytes {
    let mut data = Vec::new();
    msgpack::write_array(&mut data, 4);
    msgpack::write_uint(&mut data, until.epoch.get());
    msgpack::write_uint(&mut data, until.seq.get());
    write_records(&mut data, records);
    msgpack::write_bool(&mut data, more);
    let mut out = Vec::new();
    // The last part alone has an id: a reader that comes back with the id of an earlier part would be taken for one
    // that has them all.
    let id = (!more).then_some(until);
    write_event(&mut out, Some("reset"), id, &Encoding::Json.encode(data.into()));
    out.into()
}

/// JSON as it is written here has no line breaks, so that one data line holds it.
fn write_event(out: &mut Vec<u8>, name: Option<&str>, id: Option<&Position>, json: &[u8]) {
    if let Some(name) = name {
        out.extend_from_slice(format!("event: {name}\n").as_bytes());
    }
    if let Some(id) = id {
        out.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(json);
    out.extend_from_slice(b"\n\n");
}
