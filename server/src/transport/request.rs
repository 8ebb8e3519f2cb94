//! What a request carries, read alike for all addresses.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Path, State};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use inkrelay_protocol::position::InvalidPosition;
use inkrelay_protocol::{After, ClientId, ErrorCode, RoomId};

use super::address::CameByTls;
use super::encoding::Encoding;
use super::problem::Problem;
use crate::access::Grant;
use crate::room::{Ending, Room, Stay};
use crate::session::{Refused, Relay};

/// What the state of every handler is.
pub type Shared = State<Arc<Relay>>;

/// The header with a client's ticket.
pub const TICKET: HeaderName = HeaderName::from_static("inkrelay-ticket");
/// The header with the number of a batch's first draw.
pub const N: HeaderName = HeaderName::from_static("inkrelay-n");
/// The header with the position behind an answer.
pub const POSITION: HeaderName = HeaderName::from_static("inkrelay-position");
/// The header with the newest sequence number.
pub const HEAD: HeaderName = HeaderName::from_static("inkrelay-head");

/// The address of whoever asks, also behind a trusted proxy; in each request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct PeerAddress(pub IpAddr);

/// A room with whoever was admitted to it. There is no other way to the room that an address names, so that no call
/// forgets to ask whether its caller may be there.
pub struct Admitted {
    /// Which room.
    pub room: RoomId,
    /// What its caller may do there.
    pub grant: Grant,
}

impl FromRequestParts<Arc<Relay>> for Admitted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, relay: &Arc<Relay>) -> Result<Self, Problem> {
        Ok(Door::from_request_parts(parts, relay).await?.open(relay, None)?)
    }
}

/// The door of the room that an address names, and the token that the request's header carries: for calls whose token
/// may also come later.
///
/// It is there for all but pages of foreign origins: these are kept from doing anything, where CORS alone would only
/// keep them from reading.
pub struct Door {
    room: RoomId,
    address: IpAddr,
    token: Option<String>,
}

impl Door {
    /// Admits whoever carries that token, or else the header's.
    ///
    /// # Errors
    /// As [`Relay::admit`], and when the address has brought too many rooms to life.
    pub fn open(self, relay: &Relay, token: Option<&str>) -> Result<Admitted, Refused> {
        let grant = relay.admit(&self.room, token.or(self.token.as_deref()));
        let grant = grant.map_err(|refused| relay.refuse(self.address, refused))?;
        relay.check_room(&self.room, self.address)?;
        Ok(Admitted { room: self.room, grant })
    }

    /// Which room.
    pub const fn room(&self) -> &RoomId {
        &self.room
    }

    /// With a token that was carried elsewhere, where the header has none.
    pub fn with_token(self, token: Option<String>) -> Self {
        Self { token: self.token.or(token), ..self }
    }
}

/// The room that a path names, for the log: only a name that can be one is written there.
pub fn room_of(path: &str) -> Option<RoomId> {
    path.strip_prefix("/v1/rooms/")?.split('/').next()?.parse().ok()
}

/// The token of `Authorization: Bearer TOKEN` (RFC 6750, section 2.1). What is there and is none stands for a token
/// that nobody signed: it is refused where tokens are asked for, and ignored where they are not.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?;
    let is_alone = values.next().is_none();
    let read = || {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer") && is_alone;
        is_bearer.then(|| token.trim_start_matches(' ').to_owned())
    };
    Some(read().unwrap_or_default())
}

impl FromRequestParts<Arc<Relay>> for Door {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, relay: &Arc<Relay>) -> Result<Self, Problem> {
        check_origin(parts, relay)?;
        let Path(name) = Path::<String>::from_request_parts(parts, relay)
            .await
            .map_err(|_| Problem::new(ErrorCode::Malformed, "the room's name is no valid text"))?;
        let room = name.parse().map_err(|error: inkrelay_protocol::id::InvalidRoomId| {
            Problem::new(ErrorCode::Malformed, error.to_string())
        })?;
        let PeerAddress(address) = *parts
            .extensions
            .get()
            .ok_or_else(|| Problem::new(ErrorCode::Internal, "the request comes from nowhere"))?;
        Ok(Self { room, address, token: bearer(&parts.headers) })
    }
}

/// Lets in programs, which send no origin, and pages of the origins that may connect.
fn check_origin(parts: &Parts, relay: &Relay) -> Result<(), Problem> {
    fn text(value: &HeaderValue) -> &str {
        value.to_str().unwrap_or("?")
    }
    let host = parts.headers.get(header::HOST).map(text);
    let is_tls = parts.extensions.get().map(|CameByTls(is_tls)| *is_tls);
    let origins = relay.origins();
    // No browser sends two; one of them being right is not enough.
    let mut sent = parts.headers.get_all(header::ORIGIN).iter();
    if sent.all(|origin| origins.admit(text(origin), host, is_tls)) {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::OriginRefused, "pages of this origin may not connect here"))
}

/// The ticket that a request carries.
///
/// # Errors
/// When it cannot be one.
pub fn ticket(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    headers
        .get(TICKET)
        .map(|value| {
            value.to_str().map_err(|_| Problem::new(ErrorCode::InvalidTicket, "the ticket is no plain text"))
        })
        .transpose()
}

/// A request's body, whole, within its size and its time.
///
/// # Errors
/// When it is too large, does not end in time, or breaks off.
pub async fn body(relay: &Relay, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return Err(Problem::new(
            ErrorCode::UnsupportedMediaType,
            "send the body as it is, without a content-encoding",
        ));
    }
    let max = relay.config().limits.message_bytes();
    let too_large = || Problem::new(ErrorCode::TooLarge, format!("a body has at most {max} bytes"));
    let length = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length.and_then(|length| length.parse::<usize>().ok()).is_some_and(|length| length > max) {
        return Err(too_large());
    }
    match tokio::time::timeout(relay.config().times.body_time, to_bytes(body, max)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) => {
            let is_too_large = std::error::Error::source(&error)
                .is_some_and(|source| source.is::<http_body_util::LengthLimitError>());
            Err(if is_too_large {
                too_large()
            } else {
                Problem::new(ErrorCode::Malformed, "the body broke off")
            })
        }
        Err(_) => Err(Problem::new(ErrorCode::TooSlow, "the body did not end in time")),
    }
}

/// Where a query asks to go on from.
///
/// # Errors
/// When it is no position.
pub fn after(text: Option<&str>) -> Result<After, Problem> {
    match text {
        None | Some("") => Ok(After::Start),
        Some(text) => text
            .parse()
            .map_err(|error: InvalidPosition| Problem::new(ErrorCode::Malformed, error.to_string())),
    }
}

/// Lets a client call, or the anonymous one, and stay as long as the call takes. Whoever was kicked since its last call
/// is told so, once.
///
/// # Errors
/// That the client or its token's subject is banned, or was kicked.
pub fn admit(room: &Room, client: ClientId, grant: &Grant) -> Result<Stay, Refused> {
    let stay = room.stay(client, grant.subject.clone())?;
    if room.was_kicked(client) { Err(Ending::Kicked.into()) } else { Ok(stay) }
}

/// Whether the body says that it is JSON.
///
/// # Errors
/// That it does not.
pub fn is_json(headers: &HeaderMap) -> Result<(), Problem> {
    if Encoding::of_body(headers) == Some(Encoding::Json) {
        return Ok(());
    }
    let detail = "the body is JSON: send content-type application/json";
    Err(Problem::new(ErrorCode::UnsupportedMediaType, detail))
}
