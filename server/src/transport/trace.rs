//! Request ids: what the log says of one request can be found, also from what the client was told.
//!
//! An id is a field of the span in which a request is answered, and goes back in a header. A WebSocket has the id of the
//! request that opened it: its lines in the log name it, where a span would cost at every frame.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::random;

/// The header in which an id comes and goes.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of an id that a proxy gives, at most.
const ID_CHARS: usize = 64;

/// Tells one request from all others; in each request's extensions.
#[derive(Clone, Debug)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// For the answer's header.
    pub fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

/// Gives ids out: those of this process begin alike, and differ from those of other processes.
#[derive(Debug)]
pub struct RequestIds {
    process: u32,
    given: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        let process = u32::from_be_bytes(random::bytes());
        Self { process, given: AtomicU64::new(0) }
    }
}

impl RequestIds {
    /// The id of a request: the one that a trusted proxy gave, or the next one.
    pub fn id(&self, headers: &HeaderMap, is_trusted: bool) -> RequestId {
        let given = headers.get(REQUEST_ID).filter(|_| is_trusted);
        let is_plain = |id: &&HeaderValue| {
            let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
            (1..=ID_CHARS).contains(&id.len()) && id.as_bytes().iter().all(plain)
        };
        given.filter(is_plain).map_or_else(|| self.next(), |id| RequestId(id.clone()))
    }

    fn next(&self) -> RequestId {
        let number = self.given.fetch_add(1, Ordering::Relaxed);
        let text = format!("{:08x}-{number:x}", self.process);
        RequestId(HeaderValue::try_from(text).expect("digits and a dash"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(given: Option<&str>, is_trusted: bool) -> String {
        let mut headers = HeaderMap::new();
        if let Some(given) = given {
            headers.insert(REQUEST_ID, HeaderValue::try_from(given).unwrap());
        }
        RequestIds { process: 0xabc, given: AtomicU64::new(7) }.id(&headers, is_trusted).to_string()
    }

    #[test]
    fn an_id_is_taken_from_a_trusted_proxy_alone_and_only_if_it_is_plain() {
        assert_eq!(id(Some("proxy-1"), true), "proxy-1");
        assert_eq!(id(Some("proxy-1"), false), "00000abc-7");
        assert_eq!(id(None, true), "00000abc-7");
        for bad in ["", "a b", "a\tb", "\u{e9}", "a\"b", &"x".repeat(ID_CHARS + 1)] {
            assert_eq!(id(Some(bad), true), "00000abc-7", "{bad:?}");
        }
    }
}
