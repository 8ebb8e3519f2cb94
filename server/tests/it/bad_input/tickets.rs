//! Tickets that are not of this room and server: refused, and never a new id in silence (S-3).

use http::{HeaderValue, Method};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientFrame, msgpack};

use crate::support::relay::Relay;
use crate::support::requests::{MESSAGE_PACK, answer};
use crate::support::socket::Socket;

/// With what each is called.
async fn wrong_tickets(relay: &Relay) -> Vec<(&'static str, Vec<u8>)> {
    let (_, own) = relay.session("a").await;
    let (_, other_room) = relay.session("b").await;
    let (_, other_case) = relay.session("A").await;
    let other_server =
        Relay::start(|config| config.secret = Some("another server's secret".to_owned())).await;
    let (_, foreign) = other_server.session("a").await;
    let mut flipped = own.clone().into_bytes();
    flipped[3] = if flipped[3] == b'A' { b'B' } else { b'A' };
    vec![
        ("of another room", other_room.into_bytes()),
        ("of a room whose name differs in case", other_case.into_bytes()),
        ("of another server", foreign.into_bytes()),
        ("cut", own.as_bytes()[..own.len() - 1].to_vec()),
        ("extended", format!("{own}A").into_bytes()),
        ("of another client", flipped),
        ("empty", vec![]),
        ("a word", b"ticket".to_vec()),
        ("not ASCII", "tickët".as_bytes().to_vec()),
        ("of 8 KiB", vec![b'A'; 8 * 1024]),
    ]
}

/// C-3.
#[tokio::test]
async fn on_a_websocket_they_close_with_4401() {
    let relay = Relay::start(|_| {}).await;
    for (name, ticket) in wrong_tickets(&relay).await {
        let hello = Hello { ticket: Some(String::from_utf8(ticket).unwrap()), ..Hello::default() };
        let (mut socket, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        socket.send(&ClientFrame::Hello(hello)).await;
        assert_eq!(socket.closed().await, 4401, "{name}");
    }
    // F-17, F-16: these are no frames.
    for ticket in [vec![b'A'; 10 * 1024], vec![0xff]] {
        let mut hello = vec![0x92, 1];
        rmp_str(&mut hello, &ticket);
        let (mut socket, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        socket.send_bytes(hello).await;
        assert_eq!(socket.closed().await, 4400);
    }
    relay.still_works().await;
}

/// A string of MessagePack, of whatever bytes.
fn rmp_str(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut head = Vec::new();
    msgpack::write_str(&mut head, &"A".repeat(bytes.len()));
    head.truncate(head.len() - bytes.len());
    out.extend_from_slice(&head);
    out.extend_from_slice(bytes);
}

#[tokio::test]
async fn over_http_they_are_401_wherever_they_are_sent() {
    let relay = Relay::start(|_| {}).await;
    let mut tickets = wrong_tickets(&relay).await;
    tickets.push(("of 10 KiB", vec![b'A'; 10 * 1024]));
    tickets.push(("of bytes", vec![0xff, 0xfe]));
    for (name, ticket) in tickets {
        let ticket = HeaderValue::from_bytes(&ticket).unwrap();
        for (method, path) in [
            (Method::POST, "/v1/rooms/a/sessions"),
            (Method::POST, "/v1/rooms/a/draws"),
            (Method::GET, "/v1/rooms/a/draws?wait=0"),
            (Method::GET, "/v1/rooms/a/events"),
        ] {
            let mut request = relay.request(method.clone(), path).header("inkrelay-ticket", &ticket);
            if path.ends_with("/draws") {
                request = request.header("inkrelay-n", 1).header("content-type", MESSAGE_PACK);
                request = request.body(vec![0x91, 0x91, 4]);
            }
            let got = answer(request).await;
            assert_eq!(got.problem(), (401, "invalid_ticket".to_owned()), "{name}: {method} {path}");
        }
    }
    let room = relay.get("/v1/rooms/a").await.json();
    assert_eq!((room["records"].as_u64(), room["participants"].as_array().unwrap().len()), (Some(0), 1));
}
