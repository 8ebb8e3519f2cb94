//! The addresses over HTTP: the routes, and the calls that need no file of their own.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, header};
use inkrelay_protocol::{ClientId, ErrorCode, Profile};
use serde_json::{Value, json};
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::problem::Problem;
use super::request::{
    Admitted, Door, HEAD, N, POSITION, PeerAddress, Shared, TICKET, admit, body, is_json, ticket,
};
use super::{board, draws, events, long_poll, moderation, position_array, snapshot, websocket};
use crate::session::{Refused, Relay, in_time};

/// A store that does not say in this time that it is well is not.
const CHECK_TIME: Duration = Duration::from_secs(2);
/// Browsers ask again whether another origin may call after this time.
const CORS_MAX_AGE: Duration = Duration::from_secs(3600);

/// All addresses.
pub fn router(relay: Arc<Relay>) -> Router {
    // Whole addresses: a nested router would rewrite each request's.
    Router::new()
        .merge(board::routes())
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .route("/v1/rooms/{room}", get(room_info))
        .route("/v1/rooms/{room}/sessions", post(open_session))
        .route("/v1/rooms/{room}/draws", get(long_poll::poll).post(draws::post))
        .route("/v1/rooms/{room}/events", get(events::stream))
        .route("/v1/rooms/{room}/snapshot", get(snapshot::get).layer(CompressionLayer::new().gzip(true)))
        .route("/v1/rooms/{room}/moderation", get(moderation::rules).post(moderation::act))
        .route("/v1/rooms/{room}/ws", get(websocket::upgrade))
        .fallback(|| async { Problem::new(ErrorCode::NotFound, "there is nothing at this address") })
        .method_not_allowed_fallback(|| async {
            Problem::new(ErrorCode::MethodNotAllowed, "this address takes other methods")
        })
        .layer(cors(&relay))
        .with_state(relay)
}

fn cors(relay: &Arc<Relay>) -> CorsLayer {
    let listed = {
        let relay = Arc::clone(relay);
        move |origin: &HeaderValue, _: &Parts| {
            origin.to_str().is_ok_and(|origin| relay.origins().lists(origin))
        }
    };
    CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(listed))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers([header::CONTENT_TYPE, header::ACCEPT, header::AUTHORIZATION, TICKET, N])
        .expose_headers([POSITION, HEAD, header::ETAG, header::RETRY_AFTER])
        .max_age(CORS_MAX_AGE)
}

/// Whether this server takes draws.
///
/// # Errors
/// Why not.
pub async fn ready(State(relay): Shared) -> Result<Json<Value>, Problem> {
    if relay.is_leaving() {
        return Err(Refused::draining().into());
    }
    match tokio::time::timeout(CHECK_TIME, relay.hub.store().check()).await {
        Ok(Ok(())) => Ok(Json(json!({"status": "ready"}))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Problem::new(ErrorCode::StoreUnavailable, "the store gives no answer")),
    }
}

async fn room_info(State(relay): Shared, Admitted { room, grant }: Admitted) -> Result<Json<Value>, Problem> {
    let handle = relay.enter(&room).await?;
    admit(&handle, ClientId::ANONYMOUS, &grant)?;
    let participants: Vec<_> = handle
        .participants()
        .into_iter()
        .map(|participant| {
            json!([participant.client.get(), participant.profile.name, participant.profile.rgba])
        })
        .collect();
    // Asked of the store: a room that nobody reads may not have heard of its newest records.
    let head = handle.stored_head().await?;
    Ok(Json(json!({
        "position": position_array(&head.position),
        "participants": participants,
        "records": head.position.seq.get(),
        "bytes": head.bytes,
        "locked": handle.is_locked(),
    })))
}

async fn open_session(
    State(relay): Shared,
    door: Door,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
    request_body: Body,
) -> Result<Response, Problem> {
    if relay.is_draining() {
        return Err(Refused::draining().into());
    }
    let asked = Asked::read(&headers, &body(&relay, &headers, request_body).await?)?;
    let Admitted { room, grant } = door.open(&relay, asked.token.as_deref())?;
    relay.check_opening(&grant, address)?;
    let who = relay.identify(&room, &grant, ticket(&headers)?)?;
    let (handle, limits) = in_time(async {
        let handle = relay.enter(&room).await?;
        handle.stay(who.client, grant.subject.clone())?;
        // Whoever was kicked comes back by this.
        handle.was_kicked(who.client);
        let limits = relay.limits(&handle, &who).await?;
        Ok::<_, Refused>((handle, limits))
    })
    .await?;
    let profile = asked.profile.or_else(|| grant.name.as_ref().map(|_| Profile::default()));
    if !handle.polled(who.client, profile.map(|profile| grant.profile(profile))) {
        return Err(Refused::crowded().into());
    }
    let answer = Json(json!({
        "client": who.client.get(),
        "ticket": who.ticket,
        "position": position_array(&handle.head()),
        "role": grant.role.number(),
        "limits": limits.to_array(),
    }));
    Ok(([(header::CACHE_CONTROL, "no-store")], answer).into_response())
}

/// What the body of a session call asks for.
#[derive(Default)]
struct Asked {
    token: Option<String>,
    profile: Option<Profile>,
}

impl Asked {
    /// Reads `{token?, profile?}`; an empty body asks for nothing.
    fn read(headers: &HeaderMap, body: &[u8]) -> Result<Self, Problem> {
        const WRONG: &str = "the body is {\"token\": text, \"profile\": [name, rgba]}, each optional";
        if body.is_empty() {
            return Ok(Self::default());
        }
        is_json(headers)?;
        let wrong = || Problem::new(ErrorCode::Malformed, WRONG);
        let asked: Value = serde_json::from_slice(body).map_err(|_| wrong())?;
        let asked = asked.as_object().ok_or_else(wrong)?;
        let token = match asked.get("token") {
            None | Some(Value::Null) => None,
            Some(token) => Some(token.as_str().ok_or_else(wrong)?.to_owned()),
        };
        let profile = match asked.get("profile") {
            None | Some(Value::Null) => None,
            Some(profile) => {
                let name = profile.get(0).and_then(Value::as_str).ok_or_else(wrong)?;
                let rgba = profile.get(1).and_then(Value::as_u64).ok_or_else(wrong)?;
                let rgba = u32::try_from(rgba).map_err(|_| wrong())?;
                let profile = Profile::new(name.to_owned(), rgba);
                Some(profile.map_err(|error| Problem::new(ErrorCode::Malformed, error.to_string()))?)
            }
        };
        Ok(Self { token, profile })
    }
}
