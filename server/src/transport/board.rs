//! The drawing board: the pages, scripts and pictures that this binary carries, and how they are served.

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use inkrelay_protocol::RoomId;

/// One file of the board. `build.rs` writes the list.
struct File {
    /// In addresses, with the first slash.
    path: &'static str,
    /// For `ETag`. A weak one: the same stands for the plain and the compressed bytes.
    tag: &'static str,
    plain: &'static [u8],
    gzip: Option<&'static [u8]>,
}

/// None when the binary was built without the board.
const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/board.rs"));

const PAGE: &str = "/index.html";
const WORKER: &str = "/service-worker.js";
/// The bundler puts a hash of the content into these files' names.
const HASHED: &str = "/assets/";
/// Characters of a host that are let into a header; a name has 253 at most, and a port six.
const HOST_CHARS: usize = 260;

const NOT_BUILT: &str = "This is an Inkrelay server: a relay for live drawing.\n\
    \n\
    It was built without its drawing board. To have the board here, stop this server, install Node.js 20.19 or newer,\n\
    and start the relay with `make run`, which builds the board first.\n\
    \n\
    Without it, draw a line into the room 'hello':\n\
    \x20 curl -H 'content-type: application/json' -d '[[0,0,[0,255,32],0,[160,160,1600,800],true]]' \\\n\
    \x20   ADDRESS/v1/rooms/hello/draws\n\
    Watch what is drawn there:\n\
    \x20 curl -N ADDRESS/v1/rooms/hello/events\n";

/// Whether this binary carries the board.
pub const fn is_built() -> bool {
    !FILES.is_empty()
}

/// The board's addresses.
pub fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    routes_of(FILES)
}

fn routes_of<S: Clone + Send + Sync + 'static>(files: &'static [File]) -> Router<S> {
    let page = files.iter().find(|file| file.path == PAGE);
    let open = move |headers: HeaderMap| async move { answer(page, &headers) };
    let open_room = move |Path(name): Path<String>, headers: HeaderMap| async move {
        let mut response = answer(page, &headers);
        // People read in the page what is wrong with the name; programs see it by the status.
        if name.parse::<RoomId>().is_err() {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    };
    let router = Router::new().route("/", get(open)).route("/b/{room}", get(open_room));
    files.iter().fold(router, |router, file| {
        router.route(file.path, get(move |headers: HeaderMap| async move { answer(Some(file), &headers) }))
    })
}

fn answer(file: Option<&'static File>, asked: &HeaderMap) -> Response {
    let Some(file) = file else {
        return ([(header::CACHE_CONTROL, "no-store")], NOT_BUILT).into_response();
    };
    let mut headers = HeaderMap::new();
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_TYPE, content_type(file.path));
    set(header::ETAG, file.tag);
    set(header::VARY, "accept-encoding");
    let is_hashed = file.path.starts_with(HASHED);
    // A page from yesterday names scripts that are gone, so that it is asked for each time.
    set(header::CACHE_CONTROL, if is_hashed { "public, max-age=31536000, immutable" } else { "no-cache" });
    let gzip = file.gzip.filter(|_| accepts_gzip(asked));
    if gzip.is_some() {
        set(header::CONTENT_ENCODING, "gzip");
    }
    // A worker has the policy of its own file. Other files load nothing, and keep the one that all data has.
    if file.path.ends_with(".html") || file.path == WORKER {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy(asked));
    }
    if knows(asked, file.tag) {
        headers.remove(header::CONTENT_ENCODING);
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, Body::from(gzip.unwrap_or(file.plain))).into_response()
}

pub(crate) fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

/// What the page may load and where it may connect: to this server, and to nothing else.
///
/// Not every Safari takes `'self'` for the WebSocket of the same host, so that the host is named, as the browser
/// knows it. One that could not stand in the header, such as an IPv6 address, is left to `'self'`.
fn policy(asked: &HeaderMap) -> HeaderValue {
    let is_plain = |host: &&str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b':' | b'_');
        (1..=HOST_CHARS).contains(&host.len()) && host.bytes().all(plain)
    };
    let host = asked.get(header::HOST).and_then(|host| host.to_str().ok()).filter(is_plain);
    let sockets = host.map(|host| format!(" ws://{host} wss://{host}")).unwrap_or_default();
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
         connect-src 'self'{sockets}; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    HeaderValue::try_from(policy).expect("a host of letters, digits and four signs")
}

/// Whether `Accept-Encoding` (RFC 9110, section 12.5.3) names gzip with a weight other than 0.
pub(crate) fn accepts_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_gzip && weight.is_none_or(|weight| weight > 0.0)
    })
}

fn knows(asked: &HeaderMap, tag: &str) -> bool {
    let values = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|known| known.trim() == tag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;
    use http::{Method, Request};
    use tower::ServiceExt;

    static BUILT: &[File] = &[
        File { path: "/index.html", tag: "W/\"1\"", plain: b"<!doctype html>", gzip: Some(b"zipped") },
        File { path: "/assets/a-0f.js", tag: "W/\"2\"", plain: b"0", gzip: None },
        File { path: "/service-worker.js", tag: "W/\"4\"", plain: b"0", gzip: None },
        File { path: "/manifest.webmanifest", tag: "W/\"3\"", plain: b"{}", gzip: None },
    ];

    struct Answer {
        status: u16,
        headers: HeaderMap,
        body: String,
    }

    impl Answer {
        fn header(&self, name: &str) -> &str {
            self.headers.get(name).map_or("", |value| value.to_str().unwrap())
        }
    }

    async fn ask(files: &'static [File], method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = routes_of::<()>(files).oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    #[tokio::test]
    async fn every_room_has_the_same_page_and_a_bad_name_shows_in_the_status() {
        for (path, status) in [("/", 200), ("/b/hello", 200), ("/b/a%20b", 400), ("/b/.a", 400)] {
            let page = ask(BUILT, Method::GET, path, &[]).await;
            assert_eq!((page.status, &*page.body), (status, "<!doctype html>"), "{path}");
            assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
            assert_eq!(page.header("cache-control"), "no-cache");
        }
        for path in ["/b", "/b/", "/b/a/b", "/assets/", "/assets/none.js"] {
            assert_eq!(ask(BUILT, Method::GET, path, &[]).await.status, 404, "{path}");
        }
    }

    #[tokio::test]
    async fn hashed_files_are_kept_for_good_and_the_others_are_asked_for() {
        let script = ask(BUILT, Method::GET, "/assets/a-0f.js", &[]).await;
        assert_eq!(script.header("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
        assert_eq!(script.header("content-security-policy"), "");
        let worker = ask(BUILT, Method::GET, "/service-worker.js", &[]).await;
        assert!(worker.header("content-security-policy").contains("connect-src 'self'"));
        let manifest = ask(BUILT, Method::GET, "/manifest.webmanifest", &[]).await;
        assert_eq!(manifest.header("cache-control"), "no-cache");
        assert_eq!(manifest.header("content-type"), "application/manifest+json");
        let known = ask(BUILT, Method::GET, "/", &[("if-none-match", "W/\"9\", W/\"1\"")]).await;
        assert_eq!((known.status, &*known.body, known.header("etag")), (304, "", "W/\"1\""));
        assert_eq!(ask(BUILT, Method::GET, "/", &[("if-none-match", "W/\"9\"")]).await.status, 200);
    }

    #[tokio::test]
    async fn compressed_bytes_go_to_those_who_take_them() {
        for (accept, is_compressed) in [
            ("gzip, deflate, br", true),
            ("br;q=1.0, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, *", false),
            ("br", false),
            ("identity", false),
        ] {
            let page = ask(BUILT, Method::GET, "/", &[("accept-encoding", accept)]).await;
            assert_eq!(page.header("content-encoding") == "gzip", is_compressed, "{accept}");
            assert_eq!(page.body == "zipped", is_compressed, "{accept}");
            assert_eq!(page.header("vary"), "accept-encoding");
        }
        let script = ask(BUILT, Method::GET, "/assets/a-0f.js", &[("accept-encoding", "gzip")]).await;
        assert_eq!((script.header("content-encoding"), &*script.body), ("", "0"));
    }

    #[tokio::test]
    async fn a_head_has_the_headers_alone_and_other_methods_are_not_taken() {
        let head = ask(BUILT, Method::HEAD, "/b/hello", &[]).await;
        assert_eq!((head.status, &*head.body, head.header("content-length")), (200, "", "15"));
        assert_eq!(ask(BUILT, Method::POST, "/", &[]).await.status, 405);
    }

    #[tokio::test]
    async fn the_page_may_connect_to_its_own_host_only() {
        for host in ["192.168.1.5:8080", "localhost:8080", "draw.example"] {
            let page = ask(BUILT, Method::GET, "/b/hello", &[("host", host)]).await;
            let policy = page.header("content-security-policy");
            let sockets = format!("connect-src 'self' ws://{host} wss://{host};");
            assert!(
                policy.contains(&sockets) && policy.contains("default-src 'none'; script-src 'self';"),
                "{policy}"
            );
        }
        for host in ["[::1]:8080", "a b", "a;script-src *", "", &"x".repeat(HOST_CHARS + 1)] {
            let page = ask(BUILT, Method::GET, "/", &[("host", host)]).await;
            assert!(page.header("content-security-policy").contains("connect-src 'self';"), "{host}");
        }
    }

    #[tokio::test]
    async fn without_the_board_the_page_says_how_to_build_it() {
        for path in ["/", "/b/hello"] {
            let page = ask(&[], Method::GET, path, &[]).await;
            assert!(page.status == 200 && page.body.contains("make run"), "{path}: {}", page.body);
            assert_eq!(page.header("content-type"), "text/plain; charset=utf-8");
        }
        assert_eq!(ask(&[], Method::GET, "/index.html", &[]).await.status, 404);
    }
}
