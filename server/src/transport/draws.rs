//! `POST draws`: draws in over plain HTTP.

use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use bytes::Bytes;
use http::HeaderMap;
use inkrelay_protocol::json::{Shape, to_msgpack};
use inkrelay_protocol::limits::SAFE_INTEGER_MAX;
use inkrelay_protocol::{ClientId, ErrorCode};
use serde_json::{Value, json};

use super::encoding::Encoding;
use super::position_array;
use super::problem::Problem;
use super::request::PeerAddress;
use super::request::{Admitted, N, Shared, admit, body, ticket};
use crate::session::{Refused, in_time};

/// Stores a batch and answers where it stands.
pub async fn post(
    State(relay): Shared,
    Admitted { room, grant }: Admitted,
    Extension(PeerAddress(address)): Extension<PeerAddress>,
    headers: HeaderMap,
    request_body: Body,
) -> Result<Json<Value>, Problem> {
    if relay.is_draining() {
        return Err(Refused::draining().into());
    }
    let encoding = Encoding::of_body(&headers).ok_or_else(|| {
        let detail = "send content-type application/msgpack or application/json";
        Problem::new(ErrorCode::UnsupportedMediaType, detail)
    })?;
    let (author, n) = match (ticket(&headers)?, first_n(&headers)?) {
        (Some(ticket), Some(n)) => (relay.identify(&room, &grant, Some(ticket))?.client, n),
        (None, None) => (ClientId::ANONYMOUS, 1),
        _ => return Err(malformed("send both Inkrelay-Ticket and Inkrelay-N, or neither")),
    };
    relay.check_rate(author, &grant, address)?;
    let sent = body(&relay, &headers, request_body).await?;
    // The body may have been long in coming.
    relay.still_admits(&grant)?;
    let draws = match encoding {
        Encoding::MessagePack => sent,
        Encoding::Json => Bytes::from(
            to_msgpack(&sent, Shape::Draws)
                .map_err(|error| malformed(format!("no JSON that is taken: {error}")))?,
        ),
    };
    let (stored, head) = in_time(async {
        let handle = relay.enter(&room).await?;
        admit(&handle, author, &grant)?;
        let batch = relay.stamp(grant.role, author, n, &draws)?;
        handle.append_and_wait(batch, grant.role).await.map_err(Refused::from)
    })
    .await?;
    Ok(Json(json!({
        "seq": stored.first_seq.map(inkrelay_protocol::Seq::get),
        "position": position_array(&head),
        "stored": stored.new,
    })))
}

fn malformed(detail: impl Into<std::borrow::Cow<'static, str>>) -> Problem {
    Problem::new(ErrorCode::Malformed, detail)
}

fn first_n(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(value) = headers.get(N) else { return Ok(None) };
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits
        .and_then(|digits| digits.parse().ok())
        .filter(|n| (1..=SAFE_INTEGER_MAX).contains(n))
        .map(Some)
        .ok_or_else(|| malformed("Inkrelay-N is a whole number from 1 to 2^53 - 1"))
}
