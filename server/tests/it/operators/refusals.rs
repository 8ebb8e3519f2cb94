//! Each refusal is counted once, by its code, whichever way it is told; and a client that is gone is none.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{ClientFrame, Role};
use inkrelay_server::config::Config;
use inkrelay_server::transport::Certificates;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::{ANY, request, values};
use crate::access::{Keys, hello, sign, token};
use crate::bad_input::{masked, raw_websocket};
use crate::support::certificates::Authority;
use crate::support::eventually;
use crate::support::relay::Relay;
use crate::support::requests::{JSON, MESSAGE_PACK, answer, raw, raw_bytes};
use crate::support::socket::{Socket, batch, mark};

/// Has a relay refuse once, and sees that this was counted once and by that code alone.
async fn once(what: &str, code: &str, set: impl FnOnce(&mut Config), refuse: impl AsyncFnOnce(&Relay)) {
    let relay = Relay::start(|config| {
        config.operators_listen = ANY;
        set(config);
    })
    .await;
    refuse(&relay).await;
    counted(what, code, &relay).await;
}

async fn counted(what: &str, code: &str, relay: &Relay) {
    let operators = relay.operators.unwrap();
    let refused = async || {
        let values = values(operators).await.into_iter();
        let refused = values.filter_map(|(name, count)| {
            let code = name.strip_prefix("inkrelay_refused_total{code=\"")?.strip_suffix("\"}")?;
            (count > 0.0).then(|| (code.to_owned(), count))
        });
        refused.collect::<Vec<_>>()
    };
    eventually(what, async || !refused().await.is_empty()).await;
    assert_eq!(refused().await, [(code.to_owned(), 1.0)], "{what}");
    let state: serde_json::Value = answer(request(operators, Method::GET, "/api/state")).await.json();
    assert_eq!(state["refused"], json!({ code: 1 }), "{what}: operators are told the same, by name");
}

/// Says hello, and is closed.
async fn closed(relay: &Relay, room: &str, said: &Hello) -> u16 {
    let (mut socket, _) = Socket::handshake(relay.address, room, None).await.unwrap();
    socket.send(&ClientFrame::Hello(said.clone())).await;
    socket.closed().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_place_is_counted_over_every_transport() {
    fn one_person(config: &mut Config) {
        config.limits.max_sessions = 1;
    }
    fn one_room(config: &mut Config) {
        config.limits.max_rooms = 1;
    }
    once("room_crowded, by a close", "room_crowded", one_person, async |relay| {
        let _here = Socket::join(relay.address, "a").await;
        assert_eq!(closed(relay, "a", &Hello::default()).await, 1013);
    })
    .await;
    for (method, path) in
        [(Method::GET, "/draws?wait=0"), (Method::GET, "/events"), (Method::POST, "/sessions")]
    {
        once(path, "room_crowded", one_person, async |relay| {
            let _here = Socket::join(relay.address, "a").await;
            let got = answer(relay.request(method, &format!("/v1/rooms/a{path}"))).await;
            assert_eq!(got.problem().0, 503);
        })
        .await;
    }
    once("too_many_rooms, by a close", "too_many_rooms", one_room, async |relay| {
        let _here = Socket::join(relay.address, "a").await;
        assert_eq!(closed(relay, "b", &Hello::default()).await, 1013);
    })
    .await;
    once("too_many_rooms, over HTTP", "too_many_rooms", one_room, async |relay| {
        let _here = Socket::join(relay.address, "a").await;
        assert_eq!(relay.get("/v1/rooms/b").await.problem().0, 503);
    })
    .await;
    let one_connection = |config: &mut Config| config.limits.max_connections = 1;
    once("too_many_connections", "too_many_connections", one_connection, async |relay| {
        let _here = TcpStream::connect(relay.address).await.unwrap();
        assert_eq!(raw(relay.address, "GET /healthz", &[], b"").await.problem().0, 503);
    })
    .await;
    once(
        "too_many_connections, of a client behind a proxy",
        "too_many_connections",
        |config| {
            config.limits.max_connections = 1;
            config.trust_forwarded = vec!["127.0.0.0/8".parse().unwrap()];
        },
        async |relay| {
            let opening = [
                "connection: upgrade",
                "upgrade: websocket",
                "sec-websocket-version: 13",
                "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
                "x-forwarded-for: 203.0.113.9",
            ];
            let mut first = TcpStream::connect(relay.address).await.unwrap();
            let head = format!("GET /v1/rooms/a/ws HTTP/1.1\r\nhost: x\r\n{}\r\n\r\n", opening.join("\r\n"));
            first.write_all(head.as_bytes()).await.unwrap();
            let mut answered = [0; 12];
            tokio::io::AsyncReadExt::read_exact(&mut first, &mut answered).await.unwrap();
            assert_eq!(&answered, b"HTTP/1.1 101");
            assert!(
                raw_bytes(
                    relay.address,
                    head.replace("connection: upgrade", "connection: upgrade, close").as_bytes()
                )
                .await
                .starts_with(b"HTTP/1.1 503")
            );
        },
    )
    .await;
    let short = |config: &mut Config| config.times.first_frame_time = Duration::from_millis(50);
    once("too_slow, by a close", "too_slow", short, async |relay| {
        let (mut silent, _) = Socket::handshake(relay.address, "a", None).await.unwrap();
        assert_eq!(silent.closed().await, 4408);
    })
    .await;
    once(
        "rate_limited, by a close",
        "rate_limited",
        |config| config.limits.max_address_sessions = 1,
        async |relay| {
            let _here = Socket::join(relay.address, "a").await;
            loop {
                // A minute's worth may come at once.
                match Socket::try_join(relay.address, "a", &Hello::default()).await {
                    Ok(_) => {}
                    Err(why) => break assert!(why.contains("1013"), "{why}"),
                }
            }
        },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_draws_is_counted_over_every_transport() {
    let path = "/v1/rooms/a/draws";
    once(
        "gap, by an error and a close",
        "gap",
        |_| {},
        async |relay| {
            let mut socket = Socket::join(relay.address, "a").await;
            socket.draw(7, &[mark(7)]).await;
            assert_eq!(socket.closed().await, 4409);
        },
    )
    .await;
    once(
        "gap, over HTTP",
        "gap",
        |_| {},
        async |relay| {
            let (_, ticket) = relay.session("a").await;
            assert_eq!(relay.post_as("a", &ticket, 7, &[mark(7)]).await.problem().0, 409);
        },
    )
    .await;
    for (code, set, draws) in [
        ("forbidden", (|config| config.role = Role::Viewer) as fn(&mut Config), batch(&[mark(1)])),
        ("too_large", |config| config.limits.max_draw = 4, batch(&[mark(1)])),
        ("room_full", |config| config.limits.max_room = 4, batch(&[mark(1)])),
        ("invalid_draw", |_| {}, vec![0x91, 0x92, 2, 0x90]),
    ] {
        once(&format!("{code}, by an error"), code, set, async |relay| {
            let mut socket = Socket::join(relay.address, "a").await;
            socket.send(&ClientFrame::Draws { n: 1, draws: &draws }).await;
            assert_eq!(socket.refused().await.0, code);
            // On its way when the first was refused: dropped, and no refusal of its own.
            socket.send(&ClientFrame::Draws { n: 2, draws: &draws }).await;
        })
        .await;
        once(&format!("{code}, over HTTP"), code, set, async |relay| {
            assert_eq!(relay.post(path, MESSAGE_PACK, draws.clone()).await.problem().1, code);
        })
        .await;
    }
    once(
        "malformed, by a close",
        "malformed",
        |_| {},
        async |relay| {
            let mut socket = Socket::join(relay.address, "a").await;
            socket.send_bytes(vec![0xc1]).await;
            assert_eq!(socket.closed().await, 4400);
        },
    )
    .await;
    once(
        "malformed draws, by a close",
        "malformed",
        |_| {},
        async |relay| {
            let mut socket = Socket::join(relay.address, "a").await;
            socket.send_bytes(vec![0x93, 2, 1, 0x90]).await;
            assert_eq!(socket.closed().await, 4400);
        },
    )
    .await;
    once(
        "malformed, by the protocol's rules",
        "malformed",
        |_| {},
        async |relay| {
            let mut socket = raw_websocket(relay.address, "a").await;
            // Of an opcode that nobody has.
            socket.write_all(&masked(0x83, b"")).await.unwrap();
            crate::support::requests::until_closed(&mut socket).await;
        },
    )
    .await;
    once(
        "malformed, over HTTP",
        "malformed",
        |_| {},
        async |relay| {
            assert_eq!(relay.post(path, JSON, "[").await.problem().0, 400);
        },
    )
    .await;
    once(
        "malformed, before there is a request",
        "malformed",
        |_| {},
        async |relay| {
            assert!(
                raw_bytes(relay.address, b"\x16\x03\x01\x02\x00\r\n\r\n").await.starts_with(b"HTTP/1.1 400")
            );
        },
    )
    .await;
    once(
        "too_large, before there is a request",
        "too_large",
        |_| {},
        async |relay| {
            let head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(32 * 1024));
            assert!(raw_bytes(relay.address, head.as_bytes()).await.starts_with(b"HTTP/1.1 431"));
        },
    )
    .await;
    once(
        "too_large, by a close",
        "too_large",
        |config| config.limits.max_message = 2000,
        async |relay| {
            let mut socket = Socket::join(relay.address, "a").await;
            socket.send_bytes(vec![0xc0; 5000]).await;
            assert_eq!(socket.closed().await, 1009);
        },
    )
    .await;
    once(
        "not_found",
        "not_found",
        |_| {},
        async |relay| {
            assert_eq!(relay.get("/v1/nothing").await.problem().0, 404);
        },
    )
    .await;
    once(
        "method_not_allowed",
        "method_not_allowed",
        |_| {},
        async |relay| {
            assert_eq!(answer(relay.request(Method::DELETE, "/v1/rooms/a")).await.problem().0, 405);
        },
    )
    .await;
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let certificates = Arc::new(Certificates::load(&chain, &key).unwrap());
    let relay = Relay::encrypted(certificates, |config| config.operators_listen = ANY);
    assert_eq!(raw(relay.address, "GET /healthz", &[], b"").await.problem().0, 400);
    counted("plain HTTP where TLS is spoken", "malformed", &relay).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_who_are_turned_away_are_counted_over_every_transport() {
    let keys = Keys::new();
    let asks_for_tokens = |config: &mut Config| config.token_keys = vec![keys.file()];
    once("invalid_token, by a close", "invalid_token", asks_for_tokens, async |relay| {
        assert_eq!(closed(relay, "a", &hello("nobody.signed.this")).await, 4401);
    })
    .await;
    once("invalid_token, over HTTP", "invalid_token", asks_for_tokens, async |relay| {
        assert_eq!(relay.get("/v1/rooms/a").await.problem().0, 401);
    })
    .await;
    once("invalid_token, by an error", "invalid_token", asks_for_tokens, async |relay| {
        let mut socket = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
        socket.send(&ClientFrame::Token(token("b", "drawer"))).await;
        assert_eq!(socket.refused().await.0, "invalid_token");
    })
    .await;
    once("invalid_token, when it is over", "invalid_token", asks_for_tokens, async |relay| {
        let short = sign(
            &json!({"room": "a", "role": "drawer", "exp": crate::access::over_in(Duration::from_secs(1))}),
        );
        let mut socket = Socket::join_as(relay.address, "a", hello(&short)).await;
        assert_eq!(socket.closed().await, 4401);
    })
    .await;
    once(
        "invalid_ticket, by a close",
        "invalid_ticket",
        |_| {},
        async |relay| {
            let said = Hello { ticket: Some("of-nobody".to_owned()), ..Hello::default() };
            assert_eq!(closed(relay, "a", &said).await, 4401);
        },
    )
    .await;
    once(
        "invalid_ticket, over HTTP",
        "invalid_ticket",
        |_| {},
        async |relay| {
            assert_eq!(relay.post_as("a", "of-nobody", 1, &[mark(1)]).await.problem().0, 401);
        },
    )
    .await;
    for path in ["/v1/rooms/a", "/v1/rooms/a/ws", "/v1/rooms/a/events"] {
        once(
            path,
            "origin_refused",
            |_| {},
            async |relay| {
                let foreign = relay.request(Method::GET, path).header("origin", "https://evil.example");
                assert_eq!(answer(foreign).await.problem().0, 403);
            },
        )
        .await;
    }
    let moderator = |config: &mut Config| config.role = Role::Moderator;
    for (action, code) in [("kick", "kicked"), ("ban", "banned")] {
        once(&format!("{code}, by an error and a close"), code, moderator, async |relay| {
            let mut socket = Socket::join(relay.address, "a").await;
            let action = json!({"action": action, "client": socket.client.get()}).to_string();
            assert_eq!(relay.post("/v1/rooms/a/moderation", JSON, action).await.status, 200);
            assert_eq!(socket.refused().await.0, code);
            assert_eq!(socket.closed().await, 1008);
        })
        .await;
    }
}

/// A tablet out of reach, a tab that was killed: no fault of the client's, and no refusal.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_gone_without_a_close_sent_nothing_malformed() {
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let certificates = Arc::new(Certificates::load(&chain, &key).unwrap());
    let set = |config: &mut Config| config.operators_listen = ANY;
    let (plain, encrypted) = (Relay::start(set).await, Relay::encrypted(certificates, set));
    let left = |how: &str| format!("inkrelay_websockets_left_total{{how=\"{how}\"}}");
    for (relay, is_encrypted) in [(&plain, false), (&encrypted, true)] {
        let join = async || {
            if is_encrypted {
                authority.join(relay.address, "a").await
            } else {
                Socket::join(relay.address, "a").await
            }
        };
        let mut whole = join().await;
        whole.stream.close(None).await.unwrap();
        whole.closed().await;
        // The end of the stream; over TLS without its own goodbye.
        drop(join().await);
        // And a reset.
        let reset = join().await;
        let tcp = match reset.stream.get_ref() {
            tokio_tungstenite::MaybeTlsStream::Plain(tcp) => tcp,
            tokio_tungstenite::MaybeTlsStream::Rustls(tls) => tls.get_ref().0,
            _ => unreachable!("there is no other kind"),
        };
        tcp.set_zero_linger().unwrap();
        drop(reset);
        // In the middle of a frame.
        if !is_encrypted {
            let mut half = raw_websocket(relay.address, "a").await;
            half.write_all(&masked(0x82, &[0xc0; 100])[..20]).await.unwrap();
        }
        let gone = if is_encrypted { 2.0 } else { 3.0 };
        let operators = relay.operators.unwrap();
        eventually("all are told as gone", async || values(operators).await[&left("gone")] == gone).await;
        let values = values(operators).await;
        assert_eq!(values[&left("closed")], 1.0);
        for (name, count) in values {
            let is_of_ends =
                name.starts_with("inkrelay_refused_total") || name.starts_with("inkrelay_closed_total");
            assert!(!is_of_ends || count == 0.0, "{name} {count}");
        }
    }
}
