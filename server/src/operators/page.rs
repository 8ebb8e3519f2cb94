//! The operators' page, which this binary carries.

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, header};

use crate::transport::{accepts_gzip, content_type};

/// One file of the page. `build.rs` writes the list.
struct File {
    /// In addresses, with the first slash.
    path: &'static str,
    tag: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
}

/// None when the binary was built without its pages.
const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/operators.rs"));

const NOT_BUILT: &str = "This is the operators' port of an Inkrelay server.\n\
    \n\
    It was built without its pages: install Node.js 20.19 or newer and start the relay with `make run`.\n\
    Without them there are /metrics, /healthz, /readyz and /api/state.\n";

/// Whether the page, or a file of it, is at that path.
pub(super) fn has(path: &str) -> bool {
    path == "/" || FILES.iter().any(|file| file.path == path)
}

/// The page's addresses.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    if FILES.is_empty() {
        return Router::new().route("/", get(|| async { NOT_BUILT }));
    }
    FILES.iter().fold(Router::new(), |router, file| {
        let path = if file.path == "/index.html" { "/" } else { file.path };
        router.route(path, get(move |headers: HeaderMap| async move { answer(file, &headers) }))
    })
}

fn answer(file: &'static File, asked: &HeaderMap) -> Response {
    let gzip = file.gzip.filter(|_| accepts_gzip(asked));
    let is_hashed = file.path.starts_with("/assets/");
    let cached = if is_hashed { "private, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = Body::from(gzip.unwrap_or(file.plain)).into_response();
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, content_type(file.path)),
        (header::ETAG, file.tag),
        (header::VARY, "accept-encoding"),
        (header::CACHE_CONTROL, cached),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if gzip.is_some() {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}
