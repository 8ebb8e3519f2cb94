//! What the page asks: how the relay is, its rooms, and one room with its board.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use inkrelay_protocol::{ErrorCode, RoomId, Seq};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Operators;
use super::process::{self, Process};
use super::sampler::{RoomRates, Sample};
use crate::hub::RoomHandle;
use crate::metrics::histogram::{Bounds, Histogram};
use crate::metrics::{Metrics, Transport};
use crate::room::Room;
use crate::session::moderation::Action;
use crate::store::Rules;
use crate::transport::{Problem, laid_down, moderation_answer, read_action, snapshot_of};

/// Rooms in one answer at most, and without being asked for a number.
const ROOMS_MAX: usize = 500;
const ROOMS_DEFAULT: usize = 20;

/// The addresses.
pub(super) fn routes() -> Router<Operators> {
    Router::new()
        .route("/api/state", get(state))
        .route("/api/rooms", get(rooms))
        .route("/api/rooms/{room}", get(room).delete(delete))
        .route("/api/rooms/{room}/snapshot", get(snapshot))
        .route("/api/rooms/{room}/moderation", get(rules).post(moderate))
        .route("/api/rooms/{room}/close", post(close))
}

/// The room of an address.
struct Named(RoomId);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(name) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| Problem::new(ErrorCode::Malformed, "the room's name is no valid text"))?;
        name.parse().map(Self).map_err(|error: inkrelay_protocol::id::InvalidRoomId| {
            Problem::new(ErrorCode::Malformed, error.to_string())
        })
    }
}

/// A room that is live here, or that somebody has drawn in or ruled. To look at a name brings no room to life, and
/// counts as none.
async fn existing(operators: &Operators, id: &RoomId) -> Result<RoomHandle, Problem> {
    let room = operators.relay.visit(id).await?;
    let is_stored = room.head().seq > Seq::START || *room.rules() != Rules::default();
    if is_stored || operators.relay.hub.is_live(id) {
        return Ok(room);
    }
    let detail =
        "there is no such room: nobody is in it here, has drawn in it, or has laid down rules for it";
    Err(Problem::new(ErrorCode::NotFound, detail))
}

/// One sample. What grows is told as it is now: whoever asks twice knows the rate.
async fn state(State(operators): State<Operators>) -> Json<Value> {
    let process = process::read().await;
    let sample = operators.sampler.latest();
    let (relay, hub) = (&operators.relay, &operators.relay.hub);
    let metrics = hub.metrics();
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3;
    let sessions: Map<String, Value> = Transport::ALL
        .into_iter()
        .map(|transport| (transport.as_str().to_owned(), metrics.sessions(transport).into()))
        .collect();
    let refused: Map<String, Value> = ErrorCode::ALL
        .iter()
        .map(|code| (code.as_str().to_owned(), metrics.refused(*code)))
        .filter(|(_, count)| *count > 0)
        .map(|(code, count)| (code, count.into()))
        .collect();
    Json(json!({
        "at_ms": at_ms.round(),
        "version": env!("CARGO_PKG_VERSION"),
        "is_draining": relay.is_draining(),
        "connections": metrics.connections.get(),
        "sessions": sessions,
        "rooms": hub.live_rooms(),
        "tail_bytes": hub.tail_bytes(),
        "draws": metrics.draws.get(),
        "received_bytes": metrics.received_bytes.get(),
        "records_sent": metrics.records_sent.get(),
        "sent_bytes": metrics.sent_bytes.get(),
        "resumes": metrics.resumes.get(),
        "resets": metrics.resets.get(),
        "gaps_healed": metrics.gaps_healed.get(),
        "slow_readers_closed": metrics.slow_readers_closed.get(),
        "refused": refused,
        "append": counts(&metrics.append),
        "delivery": delivery(metrics),
        "store": store(&operators, &sample),
        "workers": sample.busy,
        "queue_depth": sample.queue_depth,
        "process": process.as_ref().map(process_json),
    }))
}

/// `[[bound, count], …]` with the bound in the unit, `null` for what is above all.
fn counts<B: Bounds>(histogram: &Histogram<B>) -> Vec<(f64, u64)> {
    histogram.buckets()
}

/// The same over all transports.
fn delivery(metrics: &Metrics) -> Vec<(f64, u64)> {
    let each = Transport::ALL.map(|transport| counts(metrics.delivery(transport)));
    each.into_iter()
        .reduce(|sum, more| {
            sum.into_iter().zip(more).map(|((bound, count), (_, more))| (bound, count + more)).collect()
        })
        .unwrap_or_default()
}

fn store(operators: &Operators, sample: &Sample) -> Value {
    let store = operators.relay.hub.store();
    json!({
        "description": store.describe(),
        "is_up": sample.store_roundtrip.is_some(),
        "roundtrip_ms": sample.store_roundtrip.map(|took| took.as_secs_f64() * 1e3),
        "reconnects": store.reconnects(),
    })
}

fn process_json(process: &Process) -> Value {
    json!({
        "cpu_s": process.cpu_s,
        "resident_bytes": process.resident_bytes,
        "open_files": process.open_files,
        "max_open_files": process.max_open_files,
        "threads": process.threads,
        "started_at_s": process.started_at_s,
        "cores": process.cores,
        "memory_bytes": process.memory_bytes,
        "available_bytes": process.available_bytes,
    })
}

#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    sort: Sort,
    limit: Option<usize>,
}

/// By what the rooms are sorted: the most first.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sort {
    #[default]
    Draws,
    Sent,
    Participants,
    Readers,
    Lag,
    Bytes,
    Name,
}

/// One of the rooms, as a row of the page's table.
struct Row {
    room: Arc<Room>,
    rates: RoomRates,
    participants: usize,
}

impl Row {
    fn compare(&self, other: &Self, sort: Sort) -> Ordering {
        let by_name = self.room.id().as_str().cmp(other.room.id().as_str());
        match sort {
            Sort::Draws => other.rates.draws_per_s.total_cmp(&self.rates.draws_per_s),
            Sort::Sent => other.rates.records_sent_per_s.total_cmp(&self.rates.records_sent_per_s),
            Sort::Participants => other.participants.cmp(&self.participants),
            Sort::Readers => other.room.readers().cmp(&self.room.readers()),
            Sort::Lag => other.rates.lag.cmp(&self.rates.lag),
            Sort::Bytes => other.room.bytes().cmp(&self.room.bytes()),
            Sort::Name => Ordering::Equal,
        }
        .then(by_name)
    }

    fn json(&self) -> Value {
        json!({
            "room": self.room.id().as_str(),
            "participants": self.participants,
            "readers": self.room.readers(),
            "draws_per_s": self.rates.draws_per_s,
            "records_sent_per_s": self.rates.records_sent_per_s,
            "lag_ms": self.rates.lag.as_secs_f64() * 1e3,
            "records": self.room.head().seq.get(),
            "bytes": self.room.bytes(),
        })
    }
}

/// The rooms that are live here, the busiest first.
async fn rooms(
    State(operators): State<Operators>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let Query(asked) = asked.map_err(|why| Problem::new(ErrorCode::Malformed, why.body_text()))?;
    let sample = operators.sampler.latest_of_rooms();
    let limit = asked.limit.unwrap_or(ROOMS_DEFAULT).min(ROOMS_MAX);
    let mut rows: Vec<_> = operators.relay.hub.live().into_iter().map(|room| row(room, &sample)).collect();
    let live = rows.len();
    rows.sort_unstable_by(|a, b| a.compare(b, asked.sort));
    rows.truncate(limit);
    Ok(Json(json!({ "live": live, "rooms": rows.iter().map(Row::json).collect::<Vec<_>>() })))
}

fn row(room: Arc<Room>, sample: &Sample) -> Row {
    let rates = sample.rooms.get(room.id()).copied().unwrap_or_default();
    Row { rates, participants: room.participant_count(), room }
}

/// One room: how it is, and who is in it; where it is not live here, nobody is told of.
async fn room(State(operators): State<Operators>, Named(id): Named) -> Result<Json<Value>, Problem> {
    let handle = existing(&operators, &id).await?;
    let sample = operators.sampler.latest_of_rooms();
    let mut answer = row(Arc::clone(&handle), &sample).json();
    let participants = handle.participants().into_iter();
    answer["is_live"] = operators.relay.hub.is_live(handle.id()).into();
    answer["is_locked"] = handle.is_locked().into();
    answer["people"] = participants
        .map(|person| json!({"client": person.client.get(), "name": person.profile.name, "rgba": person.profile.rgba}))
        .collect();
    Ok(Json(answer))
}

/// The room's board, as the public address has it.
async fn snapshot(
    State(operators): State<Operators>,
    Named(id): Named,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    snapshot_of(existing(&operators, &id).await?, None, &headers).await
}

/// What is laid down.
async fn rules(State(operators): State<Operators>, Named(id): Named) -> Result<Json<Value>, Problem> {
    Ok(laid_down(&operators.relay, &*existing(&operators, &id).await?).await?)
}

/// What moderators do too, asked and answered as they are. A room may be locked, and somebody banned, before anybody
/// has drawn in it.
async fn moderate(
    State(operators): State<Operators>,
    Named(id): Named,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Value>), Problem> {
    let body = body.map_err(|why| {
        let is_large = why.status() == StatusCode::PAYLOAD_TOO_LARGE;
        let code = if is_large { ErrorCode::TooLarge } else { ErrorCode::Malformed };
        Problem::new(code, why.body_text())
    })?;
    let action = read_action(&body)?;
    if matches!(action, Action::Kick(_) | Action::Erase(_) | Action::Clear) {
        existing(&operators, &id).await?;
    }
    let done = operators.relay.moderate(&id, action).await?;
    Ok(moderation_answer(&done))
}

/// Sends everyone away who is in the room on this server. Its ink stays, and they may come back.
async fn close(State(operators): State<Operators>, Named(id): Named) -> Result<Json<Value>, Problem> {
    let handle = existing(&operators, &id).await?;
    let readers = handle.readers();
    handle.close_sessions();
    tracing::info!(room = %handle.id(), readers, "an operator closed the room");
    Ok(Json(json!({ "readers": readers })))
}

/// Deletes the room with all its ink, for ever, on all servers of the store.
async fn delete(State(operators): State<Operators>, Named(id): Named) -> Result<Json<Value>, Problem> {
    let deleted = operators.relay.delete_room(&id).await?;
    tracing::info!(room = %id, deleted, "an operator deleted the room");
    Ok(Json(json!({ "deleted": deleted })))
}
