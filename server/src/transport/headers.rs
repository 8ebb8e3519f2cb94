//! Security headers, which every answer carries, whatever made it.
//!
//! Pages and workers bring a policy of their own, which lets them do what they are for; see `board.rs`. All else is
//! data: it loads nothing, is shown in no frame, and is what its content type says.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const CROSS_ORIGIN_OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

/// A browser that came over TLS once comes over nothing else for a year.
const ONLY_TLS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Adds to an answer what it does not say itself.
pub fn secure(headers: &mut HeaderMap, is_tls: bool) {
    let mut set = |name: HeaderName, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    // Who knows a room's name can draw in it: the name stays here when a link leads elsewhere.
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
    // Pages of listed origins ask by CORS, to which this does not apply; others cannot even embed it.
    set(CROSS_ORIGIN_RESOURCE_POLICY, "same-origin");
    if is_tls {
        // Over plain http browsers ignore it, and say so in every page.
        headers.insert(CROSS_ORIGIN_OPENER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(header::STRICT_TRANSPORT_SECURITY, ONLY_TLS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_says_itself_stays() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'self'"));
        secure(&mut headers, false);
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], "default-src 'self'");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert_eq!(headers[header::REFERRER_POLICY], "no-referrer");
        assert_eq!(headers[CROSS_ORIGIN_RESOURCE_POLICY], "same-origin");
        assert!(!headers.contains_key(header::STRICT_TRANSPORT_SECURITY), "this would shut out plain http");
        assert!(!headers.contains_key(CROSS_ORIGIN_OPENER_POLICY), "browsers would complain in every page");
    }

    #[test]
    fn over_tls_browsers_are_told_to_stay_with_it() {
        let mut headers = HeaderMap::new();
        secure(&mut headers, true);
        assert_eq!(headers[header::STRICT_TRANSPORT_SECURITY], "max-age=31536000");
        assert_eq!(headers[CROSS_ORIGIN_OPENER_POLICY], "same-origin");
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], "default-src 'none'; frame-ancestors 'none'");
    }
}
