//! The HTTP side: addresses, requests and answers, and what a problem says.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use inkrelay_protocol::code::Remedy;
use inkrelay_protocol::{ErrorCode, RoomId};
use reqwest::header::{ACCEPT, HeaderMap};
use reqwest::{Method, RequestBuilder, Response, Url};
use rustls::ClientConfig as TlsConfig;
use serde::Deserialize;

use crate::tls;

/// Bytes of one answer at most; a snapshot is the longest.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Bytes of a problem at most.
const PROBLEM_BYTES_MAX: usize = 64 * 1024;
/// How long a connection may take to be made.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take that need not wait for anything. A server answers within 5 s.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) const MSGPACK: &str = "application/msgpack";
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// Why an address cannot be a server's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidServer {
    /// It cannot be read as an address.
    #[error("{0:?} is no address of a server; one looks like http://127.0.0.1:8080")]
    NotAnAddress(String),
    /// It asks for encryption, and nobody is there who could vouch for a server.
    #[error("{0}")]
    NoAuthorities(String),
}

/// A room on a server, and who vouches for that.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    base: Url,
    room: RoomId,
    tls: Arc<TlsConfig>,
}

impl Endpoint {
    /// With a PEM file, its authorities are trusted instead of this machine's.
    pub(crate) fn new(server: &str, room: RoomId, authorities: Option<&Path>) -> Result<Self, InvalidServer> {
        let invalid = || InvalidServer::NotAnAddress(server.to_owned());
        let mut base = Url::parse(server).map_err(|_| invalid())?;
        let (scheme, is_encrypted) = match base.scheme() {
            "http" | "ws" => ("http", false),
            "https" | "wss" => ("https", true),
            _ => return Err(invalid()),
        };
        base.set_scheme(scheme).map_err(|()| invalid())?;
        base.set_query(None);
        base.set_fragment(None);
        let tls = if is_encrypted {
            tls::config(authorities).map_err(InvalidServer::NoAuthorities)?
        } else {
            tls::none()
        };
        Ok(Self { base, room, tls })
    }

    /// What connections to it are encrypted with, if they are.
    pub(crate) fn tls(&self) -> &Arc<TlsConfig> {
        &self.tls
    }

    /// `/v1/rooms/{room}/{tail}` below the server's own path; without a tail, the room itself.
    pub(crate) fn url(&self, tail: &str) -> Url {
        let mut url = self.base.clone();
        let path = ["v1", "rooms", self.room.as_str()];
        url.path_segments_mut()
            .expect("an http address has a path")
            .pop_if_empty()
            .extend(path.into_iter().chain((!tail.is_empty()).then_some(tail)));
        url
    }

    pub(crate) fn websocket(&self) -> Url {
        let mut url = self.url("ws");
        let scheme = if url.scheme() == "https" { "wss" } else { "ws" };
        url.set_scheme(scheme).expect("all four are schemes of the web");
        url
    }
}

/// Why a request did not get what it asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// There was no answer, or half of one: whether the request had its effect is unknown.
    #[error("{0}")]
    NoAnswer(String),
    /// The server, or something before it, said no.
    #[error("{}", .0.message)]
    Problem(Problem),
    /// The answer cannot be read.
    #[error("the server's answer cannot be read: {0}")]
    Malformed(String),
}

impl From<reqwest::Error> for HttpError {
    fn from(error: reqwest::Error) -> Self {
        // The outermost text repeats the address; the reason is the innermost.
        let mut reason: &dyn std::error::Error = &error;
        while let Some(source) = reason.source() {
            reason = source;
        }
        Self::NoAnswer(if error.is_timeout() { "no answer in time".to_owned() } else { reason.to_string() })
    }
}

/// What an answer of 400 or more says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// Empty when it is not one of ours.
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) expected: Option<u64>,
    pub(crate) index: Option<u64>,
}

impl Problem {
    pub(crate) fn parse(status: u16, retry_after_s: Option<u64>, body: &[u8]) -> Self {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Body {
            code: String,
            title: Option<String>,
            detail: Option<String>,
            retry_ms: Option<u64>,
            expected: Option<u64>,
            index: Option<u64>,
        }
        let body: Body = serde_json::from_slice(body).unwrap_or_default();
        let said = body.detail.or(body.title).filter(|text| !text.is_empty());
        Self {
            status,
            code: body.code,
            message: said.unwrap_or_else(|| format!("the server answered with HTTP status {status}")),
            retry_ms: body.retry_ms.or(retry_after_s.map(|s| s.saturating_mul(1000))),
            expected: body.expected,
            index: body.index,
        }
    }

    /// What to do about it; `None` when it is not one of ours, as when a proxy answered.
    pub(crate) fn remedy(&self) -> Option<Remedy> {
        ErrorCode::from_wire(&self.code).map(ErrorCode::remedy)
    }
}

/// A client of one server, with its token.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    pub(crate) endpoint: Endpoint,
    client: reqwest::Client,
}

impl Http {
    pub(crate) fn new(endpoint: Endpoint) -> Result<Self, HttpError> {
        let agent = concat!("inkrelay-client/", env!("CARGO_PKG_VERSION"));
        let client = reqwest::Client::builder()
            .user_agent(agent)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(TlsConfig::clone(endpoint.tls()))
            .build()?;
        Ok(Self { endpoint, client })
    }

    /// A request that takes answers of one content type.
    pub(crate) fn request(
        &self,
        method: Method,
        tail: &str,
        accept: &'static str,
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        let mut url = self.endpoint.url(tail);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.client.request(method, url).header(ACCEPT, accept)
    }
}

/// Sends a request; a refusal is an error.
pub(crate) async fn send(request: RequestBuilder) -> Result<Response, HttpError> {
    let mut response = request.send().await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let retry_after_s =
        response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let body = read(&mut response, PROBLEM_BYTES_MAX).await.unwrap_or_default();
    Err(HttpError::Problem(Problem::parse(status.as_u16(), retry_after_s, &body)))
}

/// Sends a request and reads the whole answer.
pub(crate) async fn fetch(request: RequestBuilder) -> Result<(HeaderMap, Bytes), HttpError> {
    let mut response = send(request).await?;
    let body = read(&mut response, ANSWER_BYTES_MAX).await?;
    Ok((std::mem::take(response.headers_mut()), body))
}

async fn read(response: &mut Response, max_bytes: usize) -> Result<Bytes, HttpError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > max_bytes {
            return Err(HttpError::Malformed(format!("it has more than {max_bytes} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(server: &str) -> Result<Endpoint, InvalidServer> {
        Endpoint::new(server, "a.b".parse().unwrap(), None)
    }

    #[test]
    fn addresses_are_built_below_the_servers_path() {
        let at = |server| endpoint(server).unwrap();
        assert_eq!(at("http://h:1").url("draws").as_str(), "http://h:1/v1/rooms/a.b/draws");
        assert_eq!(at("http://h:1/ink/?x#y").websocket().as_str(), "ws://h:1/ink/v1/rooms/a.b/ws");
        assert_eq!(at("ws://h").url("draws").as_str(), "http://h/v1/rooms/a.b/draws");
    }

    #[test]
    fn what_cannot_be_reached_is_said() {
        let with = |pem: &str| {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), pem).unwrap();
            Endpoint::new("wss://h", "a".parse().unwrap(), Some(file.path())).unwrap_err().to_string()
        };
        assert!(with("").contains("no certificate"), "{}", with(""));
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(with(junk).contains("cannot read the authorities"), "{}", with(junk));
        for bad in ["", "h:1", "ftp://h", "//h", "unix:/a"] {
            assert!(matches!(endpoint(bad), Err(InvalidServer::NotAnAddress(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_problem_is_read_and_a_proxys_page_is_not_one() {
        let problem = Problem::parse(409, None, br#"{"code":"gap","detail":"no","expected":7,"x":[]}"#);
        assert_eq!((problem.remedy(), problem.expected), (Some(Remedy::Renumber), Some(7)));
        let page = Problem::parse(502, Some(2), b"<html>Bad gateway</html>");
        assert_eq!((page.remedy(), page.retry_ms), (None, Some(2000)));
        assert!(page.message.contains("502"));
    }
}
