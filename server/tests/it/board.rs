//! The drawing board as browsers get it from a relay, whether or not it was built before this binary.

use http::{Method, header};
use inkrelay_server::transport::has_board;

use crate::support::relay::Relay;
use crate::support::requests::answer;

/// The addresses of what a page loads by itself, from `src` and `href`.
fn loaded_by(page: &str) -> Vec<&str> {
    let links = ["src=\"/", "href=\"/"].into_iter().flat_map(|start| page.split(start).skip(1));
    links.filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test]
async fn the_page_is_served_with_all_that_it_loads_or_says_how_to_build_it() {
    let relay = Relay::start(|_| {}).await;
    for path in ["/", "/b/hello"] {
        let page = relay.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        let text = String::from_utf8(page.body.clone()).unwrap();
        if !has_board() {
            assert!(text.contains("make run"), "{text}");
            continue;
        }
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.contains(&format!("ws://{}", relay.address)), "{policy}");
        assert!(
            !text.contains("<style") && !text.contains("style=\""),
            "the policy takes no style in the page"
        );
        let links = loaded_by(&text);
        assert!(links.iter().any(|link| link.starts_with("assets/")), "{text}");
        for link in links {
            let plain = relay.get(&format!("/{link}")).await;
            let zipped = relay.request(Method::GET, &format!("/{link}")).header("accept-encoding", "gzip");
            let (plain, zipped) = (plain, answer(zipped).await);
            assert_eq!((plain.status, zipped.status), (200, 200), "{link}");
            assert_ne!(plain.header("content-type"), Some("application/octet-stream"), "{link}");
            if zipped.header("content-encoding") == Some("gzip") {
                let mut unzipped = Vec::new();
                let mut decoder = flate2::read::GzDecoder::new(&zipped.body[..]);
                std::io::Read::read_to_end(&mut decoder, &mut unzipped).unwrap();
                assert_eq!(unzipped, plain.body, "{link}");
            }
            let again = relay.request(Method::GET, &format!("/{link}"));
            let again = answer(again.header(header::IF_NONE_MATCH, plain.header("etag").unwrap())).await;
            assert_eq!((again.status, again.body.len()), (304, 0), "{link}");
        }
    }
}

#[tokio::test]
async fn what_is_neither_board_nor_protocol_stays_a_problem() {
    let relay = Relay::start(|_| {}).await;
    for path in ["/b", "/b/", "/b/a/b", "/assets/none.js", "/../Cargo.toml", "/none.html", "/v1/none"] {
        assert_eq!(relay.get(path).await.problem(), (404, "not_found".to_owned()), "{path}");
    }
    let posted = answer(relay.request(Method::POST, "/")).await;
    assert_eq!(posted.problem(), (405, "method_not_allowed".to_owned()));
}

/// S-15: whichever way a browser came to the page, the page's own socket is let in.
#[tokio::test]
async fn a_page_opens_its_socket_at_the_address_that_it_came_from() {
    let relay = Relay::start(|config| config.allow_origin = vec!["https://draw.example".to_owned()]).await;
    let port = relay.address.port();
    let upgrade = async |host: &str, origin: &str| {
        let request = relay.request(Method::GET, "/v1/rooms/a/ws").header(header::HOST, host);
        let request = request.header(header::ORIGIN, origin).header(header::CONNECTION, "upgrade");
        let request =
            request.header(header::UPGRADE, "websocket").header(header::SEC_WEBSOCKET_VERSION, "13");
        request.header(header::SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ==").send().await.unwrap().status()
    };
    for host in ["localhost", "127.0.0.1", "192.168.1.5", "[fd00::1]", "studio.local"] {
        let host = format!("{host}:{port}");
        assert_eq!(upgrade(&host, &format!("http://{host}")).await, 101, "{host}");
        assert_eq!(upgrade(&host, "http://192.168.1.6:8080").await, 403, "{host}");
    }
    assert_eq!(upgrade("draw.example", "https://draw.example").await, 101, "behind a proxy with TLS");
}
