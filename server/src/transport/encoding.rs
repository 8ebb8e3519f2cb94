//! MessagePack or JSON, as each side asks.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header};
use inkrelay_protocol::json;

/// How draws and records are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Stored bytes go out unchanged.
    MessagePack,
    /// Costs a transcode.
    Json,
}

const MESSAGE_PACK: &str = "application/msgpack";
const JSON: &str = "application/json";

impl Encoding {
    /// What `Accept` (RFC 9110, section 12.5.1) asks for: the one of both with the greater weight, the first of
    /// equals, and JSON when it names neither.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let mut best = (Self::Json, 0.0);
        for range in values.flat_map(|value| value.split(',')) {
            let weight = range.split(';').find_map(|part| part.trim().strip_prefix("q=")?.parse().ok());
            match (Self::of(range), weight.unwrap_or(1.0_f32)) {
                (Some(encoding), weight) if weight > best.1 => best = (encoding, weight),
                _ => {}
            }
        }
        best.0
    }

    /// What `Content-Type` says a body is, as a whole and once: what cannot be read to its end may be something else to
    /// others who read it.
    pub fn of_body(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(header::CONTENT_TYPE).iter();
        let value = values.next().filter(|_| values.next().is_none())?;
        let text = value.to_str().ok()?;
        // Looked at apart: the library takes no space before the semicolon, which is allowed.
        let is_whole =
            |(_, parameters): (&str, &str)| format!("a/b;{parameters}").parse::<mime::Mime>().is_ok();
        Self::of(text).filter(|_| text.split_once(';').is_none_or(is_whole))
    }

    fn of(media_type: &str) -> Option<Self> {
        let name = media_type.split(';').next().unwrap_or_default().trim();
        if name.eq_ignore_ascii_case(MESSAGE_PACK) {
            Some(Self::MessagePack)
        } else if name.eq_ignore_ascii_case(JSON) {
            Some(Self::Json)
        } else {
            None
        }
    }

    /// For `Content-Type`.
    pub const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::MessagePack => MESSAGE_PACK,
            Self::Json => JSON,
        })
    }

    /// MessagePack that this server made, in this encoding.
    pub fn encode(self, message_pack: Bytes) -> Bytes {
        match self {
            Self::MessagePack => message_pack,
            Self::Json => {
                let mut text = Vec::with_capacity(message_pack.len() * 2);
                if let Err(error) = json::from_msgpack(&message_pack, &mut text) {
                    // Frames and records are well-formed; a stored draw that is not came past the door.
                    tracing::error!(%error, "something stored cannot be told in JSON");
                    return Bytes::from_static(b"null");
                }
                text.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_type_is_read_to_its_end() {
        let of = |value: &'static str| {
            Encoding::of_body(&HeaderMap::from_iter([(
                header::CONTENT_TYPE,
                HeaderValue::from_static(value),
            )]))
        };
        for json in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;a=\"b;c\"",
        ] {
            assert_eq!(of(json), Some(Encoding::Json), "{json}");
        }
        assert_eq!(of("application/msgpack;v=1"), Some(Encoding::MessagePack));
        for other in [
            "",
            "text/plain",
            "application/json;x",
            "application/json; charset",
            "application/json;=x",
            "application/json;a=\"b",
            "application/json, text/plain",
            "application/json text/plain",
            "application/json+x",
            "application/jsonx",
            "text/plain; application/json",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn the_weightier_of_both_is_accepted() {
        let accepted = |value: &'static str| {
            Encoding::accepted(&HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(value))]))
        };
        assert_eq!(Encoding::accepted(&HeaderMap::new()), Encoding::Json);
        for json in ["*/*", "text/html", "application/json, application/msgpack", "application/msgpack;q=0"] {
            assert_eq!(accepted(json), Encoding::Json, "{json}");
        }
        for packed in ["application/msgpack", "application/json;q=0.5, Application/MsgPack; q=0.9"] {
            assert_eq!(accepted(packed), Encoding::MessagePack, "{packed}");
        }
    }
}
