//! The guard: what a browser on the operator's machine is made to send by a foreign page is refused.
//!
//! There is no password here, so that three things are looked at. The name that was asked for: a page whose own name was
//! made to lead here (DNS rebinding) is of the same origin to the browser, and only its name tells. Where the request
//! comes from, as browsers say it. And for what changes something, a content type that no form can send.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use inkrelay_protocol::ErrorCode;

use super::page;
use crate::access::Host;
use crate::transport::{Encoding, Problem};

/// Addresses that programs ask by any name, such as that of a container: they tell nothing of any room.
const BY_ANY_NAME: [&str; 3] = ["/metrics", "/healthz", "/readyz"];

/// What the page may do: load its own files, ask this port, and show what it has drawn itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Lets a request in, or answers why not.
pub(super) async fn guard(State(allowed): State<Arc<Vec<String>>>, request: Request, next: Next) -> Response {
    let mut response = match check(request.method(), request.uri().path(), request.headers(), &allowed) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        ("content-security-policy", POLICY),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn check(method: &Method, path: &str, headers: &HeaderMap, allowed: &[String]) -> Result<(), Problem> {
    let refused = |detail: &'static str| Problem::new(ErrorCode::OriginRefused, detail);
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if !BY_ANY_NAME.contains(&path) && !is_known(headers, allowed) {
        return Err(refused(
            "ask for the operators' port by its IP address, as localhost, or by a name that --operators-host lists",
        ));
    }
    if let Some(origin) = text(header::ORIGIN) {
        // Without TLS here, a proxy may have unpacked it.
        let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        if authority.is_none() || authority != text(header::HOST) {
            return Err(refused("pages of other origins may not ask here"));
        }
    }
    let site = text(HeaderName::from_static("sec-fetch-site"));
    // Of all that is here, only the page is for links to lead to.
    let is_link = *method == Method::GET
        && page::has(path)
        && text(HeaderName::from_static("sec-fetch-mode")) == Some("navigate")
        && text(HeaderName::from_static("sec-fetch-dest")) == Some("document");
    if !matches!(site, None | Some("same-origin" | "none")) && !is_link {
        return Err(refused("pages of other sites may not ask here"));
    }
    if *method != Method::GET && *method != Method::HEAD && Encoding::of_body(headers) != Some(Encoding::Json)
    {
        return Err(Problem::new(
            ErrorCode::UnsupportedMediaType,
            "what changes something is sent with content-type application/json",
        ));
    }
    Ok(())
}

/// Whether that is a name which no foreign page can have: an address, this machine's own, or one that was allowed.
fn is_known(headers: &HeaderMap, allowed: &[String]) -> bool {
    let host = Host::of(headers).ok().flatten();
    host.is_some_and(|host| host.is_plain() || allowed.iter().any(|allowed| host.is_named(allowed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: Method, headers: &[(&'static str, &'static str)]) -> Option<u16> {
        code_at("/", method, headers)
    }

    fn code_at(path: &str, method: Method, headers: &[(&'static str, &'static str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        let checked = check(&method, path, &map, &["ops.example".to_owned()]);
        checked.err().map(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn names_that_a_foreign_page_could_have_are_refused() {
        for host in
            ["127.0.0.1:9090", "localhost:9090", "LOCALHOST", "[::1]:9090", "10.1.2.3", "ops.example:9"]
        {
            assert_eq!(code(Method::GET, &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example:9090",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9090",
            "xops.example",
            "[::1",
            "[evil]",
            "[::1].evil.example",
            "[::1]:9090.evil.example",
            "localhost:9090@evil.example",
            "draw.local",
            "relay-1",
            "",
            "2130706433",
            "0x7f.1",
        ] {
            assert_eq!(code(Method::GET, &[("host", host)]), Some(403), "{host}");
        }
        assert_eq!(code(Method::GET, &[]), Some(403));
        let two = [("host", "localhost:9090"), ("host", "evil.example")];
        assert_eq!(code(Method::GET, &two), Some(403));
        assert_eq!(code_at("/metrics", Method::GET, &[("host", "relay-1")]), None, "for Prometheus");
    }

    #[test]
    fn foreign_origins_and_sites_are_refused() {
        let host = ("host", "127.0.0.1:9090");
        for origin in ["http://127.0.0.1:9090", "https://127.0.0.1:9090"] {
            assert_eq!(code(Method::GET, &[host, ("origin", origin)]), None, "{origin}");
        }
        for origin in [
            "null",
            "http://127.0.0.1:8080",
            "http://127.0.0.1",
            "http://evil.example",
            "http://127.0.0.1:9090.evil",
            "",
        ] {
            assert_eq!(code(Method::GET, &[host, ("origin", origin)]), Some(403), "{origin}");
        }
        for (site, status) in
            [("same-origin", None), ("none", None), ("same-site", Some(403)), ("cross-site", Some(403))]
        {
            assert_eq!(code(Method::GET, &[host, ("sec-fetch-site", site)]), status, "{site}");
        }
        let followed = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(code(Method::GET, &[&followed[..], &[("sec-fetch-dest", "document")]].concat()), None);
        assert_eq!(code(Method::GET, &[&followed[..], &[("sec-fetch-dest", "iframe")]].concat()), Some(403));
        for path in ["/api/state", "/api/rooms/a", "/metrics", "/healthz", "/nothing"] {
            let headers = [&followed[..], &[("sec-fetch-dest", "document")]].concat();
            assert_eq!(code_at(path, Method::GET, &headers), Some(403), "{path}");
        }
        assert_eq!(
            code(Method::POST, &[&followed[..], &[("sec-fetch-dest", "document")]].concat()),
            Some(403)
        );
    }

    #[test]
    fn no_form_changes_anything() {
        let host = ("host", "localhost:9090");
        for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=a", ""]
        {
            assert_eq!(code(Method::POST, &[host, ("content-type", kind)]), Some(415), "{kind}");
        }
        for kind in [
            "application/json;x",
            "application/json; a=b c",
            "application/json, text/plain",
            "application/jsonx",
        ] {
            assert_eq!(code(Method::POST, &[host, ("content-type", kind)]), Some(415), "{kind}");
        }
        let two = [host, ("content-type", "application/json"), ("content-type", "text/plain")];
        assert_eq!(code(Method::POST, &two), Some(415));
        for method in [Method::POST, Method::DELETE] {
            assert_eq!(code(method.clone(), &[host]), Some(415));
            assert_eq!(code(method, &[host, ("content-type", "application/json; charset=utf-8")]), None);
        }
    }
}
