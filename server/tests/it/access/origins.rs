//! Origins that look like one that is allowed (S-15): at the WebSocket's handshake, at every other call, and for CORS.

use http::Method;

use super::{CALLS, call};
use crate::support::relay::Relay;
use crate::support::requests::{Answer, answer};

/// Opens a WebSocket as a page of that origin would.
async fn handshake(relay: &Relay, origin: &str) -> u16 {
    let request = relay.request(Method::GET, "/v1/rooms/a/ws").header("origin", origin);
    let request = request.header("connection", "upgrade").header("upgrade", "websocket");
    let request =
        request.header("sec-websocket-version", "13").header("sec-websocket-key", "MDEyMzQ1Njc4OWFiY2RlZg==");
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test]
async fn origins_that_look_like_an_allowed_one_stay_out() {
    let relay =
        Relay::start(|config| config.allow_origin = vec!["https://draw.example:8443".to_owned()]).await;
    let own = relay.address;
    let tricks = [
        "null".to_owned(),
        "NULL".to_owned(),
        String::new(),
        "*".to_owned(),
        "https://draw.example".to_owned(),
        "https://draw.example:443".to_owned(),
        "https://draw.example:8444".to_owned(),
        "https://draw.example:08443".to_owned(),
        "http://draw.example:8443".to_owned(),
        "ws://draw.example:8443".to_owned(),
        "wss://draw.example:8443".to_owned(),
        "file://draw.example:8443".to_owned(),
        "//draw.example:8443".to_owned(),
        "draw.example:8443".to_owned(),
        "https:draw.example:8443".to_owned(),
        "https://draw.example:8443.evil.example".to_owned(),
        "https://draw.example.evil.example:8443".to_owned(),
        "https://evildraw.example:8443".to_owned(),
        "https://evil.draw.example:8443".to_owned(),
        "https://evil.example/https://draw.example:8443".to_owned(),
        "https://draw.example:8443@evil.example".to_owned(),
        "https://draw.example:8443:8443".to_owned(),
        "https://user@draw.example:8443".to_owned(),
        "https://draw.example.:8443".to_owned(),
        "https://Draw.example:8443".to_owned(),
        "HTTPS://draw.example:8443".to_owned(),
        "https://draw.example:8443/".to_owned(),
        "https://draw.example:8443/path".to_owned(),
        "https://draw.example:8443?".to_owned(),
        "https://draw.example:8443#".to_owned(),
        "https://draw.example:8443 https://evil.example".to_owned(),
        "https://draw.example:8443, https://evil.example".to_owned(),
        format!("http://{own}.evil.example"),
        format!("http://{own}/"),
        format!("http://user@{own}"),
        format!("ws://{own}"),
        format!("http://{}", own.ip()),
        format!("http://{}:{}", own.ip(), own.port() ^ 1),
        format!("http://localhost:{}", own.port()),
        "chrome-extension://abcdefgh".to_owned(),
    ];
    for origin in &tricks {
        assert_eq!(handshake(&relay, origin).await, 403, "{origin:?}");
        for each in &CALLS {
            let got: Answer = answer(call(&relay, "a", each).header("origin", origin)).await;
            assert_eq!(got.problem(), (403, "origin_refused".to_owned()), "{origin:?}");
            assert_eq!(got.header("access-control-allow-origin"), None, "{origin:?}");
        }
        let preflight = relay.request(Method::OPTIONS, "/v1/rooms/a/draws").header("origin", origin);
        let preflight = answer(preflight.header("access-control-request-method", "POST")).await;
        assert_eq!(preflight.header("access-control-allow-origin"), None, "{origin:?}");
    }
    for origin in ["https://draw.example:8443".to_owned(), format!("http://{own}")] {
        assert_eq!(handshake(&relay, &origin).await, 101, "{origin}");
    }
}
