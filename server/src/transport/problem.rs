//! Errors over HTTP: `application/problem+json` (RFC 9457) with a stable `code`.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use inkrelay_protocol::{ErrorCode, RoomId};
use serde_json::json;

use crate::session::Refused;
use crate::store::StoreError;

/// What is wrong with a request.
#[derive(Debug)]
pub struct Problem {
    refused: Refused,
    snapshot: Option<String>,
}

impl Problem {
    /// With a code and a reason in plain words.
    pub fn new(code: ErrorCode, detail: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Refused::new(code, detail).into()
    }

    /// The position is not one of the log: the snapshot is where to start anew.
    pub fn position_gone(room: &RoomId) -> Self {
        let detail = "the log does not have that position: take the snapshot and go on from there";
        let snapshot = Some(format!("/v1/rooms/{room}/snapshot"));
        Self { snapshot, ..Self::new(ErrorCode::PositionGone, detail) }
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        Self { refused, snapshot: None }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Refused::from(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Refused { code, message, retry, index, expected } = self.refused;
        let status = StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut body = json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "code": code.as_str(),
            "detail": message,
        });
        let retry_ms = retry.map(|retry| u64::try_from(retry.as_millis()).unwrap_or(u64::MAX));
        let members = [
            ("retry_ms", retry_ms.map(Into::into)),
            ("index", index.map(Into::into)),
            ("expected", expected.map(Into::into)),
            ("snapshot", self.snapshot.map(serde_json::Value::String)),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                body[name] = value;
            }
        }
        let mut response = (status, Json(body)).into_response();
        // For whoever counts what was refused.
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(ms) = retry_ms {
            headers.insert(header::RETRY_AFTER, ms.div_ceil(1000).into());
        }
        response
    }
}
