//! Bad input: whatever anyone sends gets its documented answer, and everything goes on for the others.
//!
//! Numbers such as F-6 are those of `protocol/SPEC.md`.

mod draws;
mod frames;
mod hostile;
mod messages;
mod requests;
mod tickets;

use std::net::SocketAddr;

use inkrelay_protocol::{Draw, draw::Channels, draw::Style, msgpack};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::socket::{Got, Socket};

/// What is sent for a length that lies, or nests too deep. None of it is MessagePack.
fn lies() -> Vec<(&'static str, Vec<u8>)> {
    let after = |head: &[u8], rest: &[u8]| [head, rest].concat();
    vec![
        ("an array of 4 Gi elements", after(&[0xdd], &[0xff; 4])),
        ("a map of 4 Gi pairs", after(&[0xdf], &[0xff; 4])),
        ("4 GiB of binary", after(&[0xc6], &[0xff; 4])),
        ("4 GiB of text", after(&[0xdb], &[0xff; 4])),
        ("4 GiB of an extension", after(&[0xc9], &[0xff, 0xff, 0xff, 0xff, 1])),
        ("24,000 arrays of 64 Ki elements", [0xdc, 0xff, 0xff].repeat(24_000)),
        ("arrays in arrays, 10,000 deep", after(&vec![0x91; 10_000], &[0xc0])),
        ("arrays in arrays, 100,000 deep", after(&vec![0x91; 100_000], &[0xc0])),
        ("arrays in arrays without an end", vec![0x91; 100_000]),
        ("maps in maps, 200 deep", after(&[0x81, 0xa1, b'a'].repeat(200), &[0xc0])),
        ("the byte that is never used", vec![0xc1]),
        ("nothing", vec![]),
    ]
}

/// The same in JSON.
fn lies_in_json() -> Vec<(&'static str, String)> {
    vec![
        ("arrays in arrays, 100,000 deep", "[".repeat(100_000)),
        ("closed arrays in arrays, 10,000 deep", "[".repeat(10_000) + &"]".repeat(10_000)),
        ("objects in objects, 10,000 deep", "{\"a\":".repeat(10_000)),
        ("NaN", "[[9,NaN]]".to_owned()),
        ("Infinity", "[[9,-Infinity]]".to_owned()),
        ("a number that no double holds", "[[9,1e999]]".to_owned()),
        ("a lone surrogate", "[[9,\"\\ud800\"]]".to_owned()),
        ("an open string", "[[9,\"".to_owned()),
        ("a comma too many", "[[4],]".to_owned()),
        ("two texts", "[[4]] [[4]]".to_owned()),
        ("a zero byte", "[[4]]\0".to_owned()),
        ("nothing", String::new()),
    ]
}

/// One of each kind, so that cutting them meets every form.
fn all_kinds() -> Vec<u8> {
    let style = Style { tool: 0, rgba: 0xff, width: 300 };
    let channels = Channels::PRESSURE;
    let draws = [
        Draw::Begin { stroke: 1, style, channels, points: vec![5, -70_000, 200, 1, 2, 3], end: false },
        Draw::Extend { stroke: 1, points: vec![1, -300, 7], end: true },
        Draw::Clear,
        Draw::Opaque(vec![7; 40]),
    ];
    let mut out = Vec::new();
    msgpack::write_array(&mut out, draws.len() + 1);
    draws.iter().for_each(|draw| draw.encode(&mut out));
    // Of an unknown kind, with a map, a float and text.
    msgpack::write_array(&mut out, 3);
    msgpack::write_uint(&mut out, 99);
    msgpack::write_map(&mut out, 1);
    msgpack::write_str(&mut out, "a key");
    msgpack::write_f64(&mut out, 0.5);
    msgpack::write_nil(&mut out);
    out
}

/// `[2, n, BATCH]`
fn draws_frame(n: u64, batch: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    msgpack::write_array(&mut out, 3);
    msgpack::write_uint(&mut out, 2);
    msgpack::write_uint(&mut out, n);
    out.extend_from_slice(batch);
    out
}

const JSON_PROTOCOL: Option<&str> = Some("v1.json.inkrelay");

/// A session in JSON; the welcome has been read.
async fn join_json(address: SocketAddr, room: &str) -> Socket {
    let (mut socket, _) = Socket::handshake(address, room, JSON_PROTOCOL).await.unwrap();
    socket.send_text("[1]").await;
    next_of(&mut socket, 65).await.unwrap();
    socket
}

/// The next JSON frame of that tag, or the code with which the server closes before.
async fn next_of(socket: &mut Socket, tag: u64) -> Result<Value, u16> {
    loop {
        match socket.next().await {
            Got::Text(text) => {
                let frame: Value = serde_json::from_str(&text).unwrap();
                if frame[0] == tag {
                    return Ok(frame);
                }
            }
            Got::Closed(code, _) => return Err(code),
            Got::Frame(_) => panic!("a binary message in the JSON subprotocol"),
        }
    }
}

/// A WebSocket after the handshake, as bare bytes.
pub async fn raw_websocket(address: SocketAddr, room: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /v1/rooms/{room}/ws HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream
}

/// The code of the close frame (RFC 6455, section 5.5.1) among frames from a server, once it is there.
pub fn close_code(mut bytes: &[u8]) -> Option<u16> {
    while let [first, len, rest @ ..] = bytes {
        let (len, rest) = match len {
            126 => (usize::from(u16::from_be_bytes(*rest.first_chunk()?)), &rest[2..]),
            127 => panic!("a longer frame than any that is expected"),
            len => (usize::from(*len), rest),
        };
        if first & 0x0f == 8 {
            return Some(u16::from_be_bytes(*rest.first_chunk()?));
        }
        bytes = rest.get(len..)?;
    }
    None
}

/// A frame from a client, masked with zeroes.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match u16::try_from(payload.len()) {
        Ok(len @ 0..126) => frame.push(0x80 | len as u8),
        Ok(len) => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&len.to_be_bytes());
        }
        Err(_) => {
            frame.push(0x80 | 127);
            frame.extend_from_slice(&(payload.len() as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(payload);
    frame
}
