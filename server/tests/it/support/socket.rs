//! A WebSocket client that shows every frame, and sends whatever it is given.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use inkrelay_protocol::frame::Hello;
use inkrelay_protocol::{
    ClientFrame, ClientId, Draw, Position, Profile, Record, Role, Seq, ServerFrame, SessionLimits, msgpack,
};
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Response;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use super::PATIENCE;

/// An open WebSocket.
pub struct Socket {
    pub stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub client: ClientId,
    pub ticket: String,
    pub welcome: Option<Welcome>,
}

/// What the server said at the start.
#[derive(Clone, Debug)]
pub struct Welcome {
    pub position: Position,
    pub role: Role,
    pub limits: SessionLimits,
}

/// What arrives.
#[derive(Debug, PartialEq, Eq)]
pub enum Got {
    /// A MessagePack frame.
    Frame(Vec<u8>),
    /// A JSON frame.
    Text(String),
    /// The server closed with that code and reason, or 1006 when it just went away.
    Closed(u16, String),
}

impl Socket {
    /// Over a connection that has shaken hands.
    pub fn over(stream: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self { stream, client: ClientId::ANONYMOUS, ticket: String::new(), welcome: None }
    }

    /// Shakes hands, and says nothing yet.
    pub async fn handshake(
        address: SocketAddr,
        room: &str,
        protocol: Option<&str>,
    ) -> Result<(Self, Response), tungstenite::Error> {
        let mut request = format!("ws://{address}/v1/rooms/{room}/ws").into_client_request().unwrap();
        if let Some(protocol) = protocol {
            request.headers_mut().insert("sec-websocket-protocol", protocol.parse().unwrap());
        }
        let (stream, response) = tokio_tungstenite::connect_async(request).await?;
        Ok((Self::over(stream), response))
    }

    /// Opens a session in MessagePack as a new client, from the start.
    pub async fn join(address: SocketAddr, room: &str) -> Self {
        Self::join_as(address, room, Hello::default()).await
    }

    /// Opens a session with that hello.
    pub async fn join_as(address: SocketAddr, room: &str, hello: Hello) -> Self {
        Self::try_join(address, room, &hello).await.unwrap_or_else(|why| panic!("no session: {why}"))
    }

    /// Opens a session with that hello at the first of the addresses that lets it in.
    ///
    /// # Panics
    /// When none does within [`PATIENCE`].
    pub async fn insist(addresses: &[SocketAddr], room: &str, hello: &Hello) -> Self {
        let until = tokio::time::Instant::now() + PATIENCE;
        for address in addresses.iter().cycle() {
            match Self::try_join(*address, room, hello).await {
                Ok(socket) => return socket,
                Err(why) => assert!(tokio::time::Instant::now() < until, "no session: {why}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("an address is needed")
    }

    /// Opens a session with that hello, or tells why there is none.
    pub async fn try_join(address: SocketAddr, room: &str, hello: &Hello) -> Result<Self, String> {
        let (mut socket, _) =
            Self::handshake(address, room, None).await.map_err(|error| error.to_string())?;
        socket.hello(hello).await?;
        Ok(socket)
    }

    /// Says hello and waits for the welcome, or tells why there is none.
    pub async fn hello(&mut self, hello: &Hello) -> Result<(), String> {
        self.send(&ClientFrame::Hello(hello.clone())).await;
        let frame = match self.next().await {
            Got::Frame(frame) => frame,
            other => return Err(format!("{other:?}")),
        };
        match ServerFrame::decode(&frame).unwrap() {
            ServerFrame::Welcome { client, ticket, position, role, limits } => {
                (self.client, self.ticket) = (client, ticket);
                self.welcome = Some(Welcome { position, role, limits });
                Ok(())
            }
            other => Err(format!("{other:?}")),
        }
    }

    /// Shakes hands over a connection that takes that many bytes before somebody reads them.
    pub async fn handshake_slowly(address: SocketAddr, room: &str, receive_bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(receive_bytes).unwrap();
        let stream = MaybeTlsStream::Plain(socket.connect(address).await.unwrap());
        let url = format!("ws://{address}/v1/rooms/{room}/ws");
        let (stream, _) = tokio_tungstenite::client_async(url, stream).await.expect("a handshake");
        Self::over(stream)
    }

    /// As a named participant.
    pub fn named(name: &str) -> Hello {
        Hello { profile: Some(Profile { name: name.to_owned(), rgba: 0xff }), ..Hello::default() }
    }

    /// The hello with which this client comes back, after that position.
    pub fn resume(&self, position: Option<Position>) -> Hello {
        Hello { ticket: Some(self.ticket.clone()), position, ..Hello::default() }
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &ClientFrame<'_>) {
        self.send_bytes(frame.to_bytes()).await;
    }

    /// Sends a binary message of any bytes.
    pub async fn send_bytes(&mut self, bytes: Vec<u8>) {
        // Whether the server still listens shows in what it answers.
        let _ = self.stream.send(Message::Binary(bytes.into())).await;
    }

    /// Sends a text message.
    pub async fn send_text(&mut self, text: &str) {
        let _ = self.stream.send(Message::Text(text.into())).await;
    }

    /// Sends a batch whose first draw has the number `n`.
    pub async fn draw(&mut self, n: u64, draws: &[Draw]) {
        self.send(&ClientFrame::Draws { n, draws: &batch(draws) }).await;
    }

    /// The next frame or the end, whatever it is.
    pub async fn next(&mut self) -> Got {
        loop {
            let message =
                tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("something arrives in time");
            return match message {
                Some(Ok(Message::Binary(bytes))) => Got::Frame(bytes.to_vec()),
                Some(Ok(Message::Text(text))) => Got::Text(text.to_string()),
                Some(Ok(Message::Close(Some(frame)))) => {
                    Got::Closed(frame.code.into(), frame.reason.to_string())
                }
                Some(Ok(Message::Close(None))) => Got::Closed(1005, String::new()),
                Some(Ok(_)) => continue,
                Some(Err(_)) | None => Got::Closed(1006, String::new()),
            };
        }
    }

    /// The next frame that `wanted` makes something of; the others are dropped.
    pub async fn wait_for<T>(
        &mut self,
        what: &str,
        mut wanted: impl FnMut(ServerFrame<'_>) -> Option<T>,
    ) -> T {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < until, "waited in vain for {what}");
            match self.next().await {
                Got::Frame(frame) => {
                    if let Some(found) = wanted(ServerFrame::decode(&frame).unwrap()) {
                        return found;
                    }
                }
                other => panic!("waited for {what}, and got {other:?}"),
            }
        }
    }

    /// Waits for the ack that covers `n`, and returns the number and the seq that it names.
    pub async fn acked(&mut self, n: u64) -> (u64, Seq) {
        self.wait_for("an ack", |frame| match frame {
            ServerFrame::Ack { n: acked, seq } if acked >= n => Some((acked, seq)),
            _ => None,
        })
        .await
    }

    /// Waits for an error frame: its code and the `n` that it names.
    pub async fn refused(&mut self) -> (String, Option<u64>) {
        self.wait_for("an error", |frame| match frame {
            ServerFrame::Error { code, n, .. } => Some((code, n)),
            _ => None,
        })
        .await
    }

    /// Waits for the close.
    pub async fn closed(&mut self) -> u16 {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < until, "the server does not close");
            if let Got::Closed(code, _) = self.next().await {
                return code;
            }
        }
    }

    /// Waits for a whole reset: its `seq`, and the records of all its parts.
    pub async fn reset(&mut self) -> (u64, Vec<Vec<u8>>) {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            let (seq, records, more) = self
                .wait_for("a reset", |frame| match frame {
                    ServerFrame::Reset { position, records, more } => {
                        let records: Vec<_> = records.into_iter().map(<[u8]>::to_vec).collect();
                        Some((position.seq.get(), records, more))
                    }
                    _ => None,
                })
                .await;
            all.extend(records);
            if !more {
                return (seq, all);
            }
        }
    }

    /// Takes records until there are that many, and checks that they are numbered without gaps from `first`.
    pub async fn records(&mut self, first: u64, count: usize) -> Vec<Vec<u8>> {
        let mut records: Vec<Vec<u8>> = Vec::new();
        while records.len() < count {
            let next = first + records.len() as u64;
            let more = self
                .wait_for("records", |frame| match frame {
                    ServerFrame::Records { seq, records } => {
                        assert_eq!(seq.get(), next, "the next record that the client lacks");
                        Some(records.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>())
                    }
                    _ => None,
                })
                .await;
            records.extend(more);
        }
        records
    }
}

/// `[draw, …]`
pub fn batch(draws: &[Draw]) -> Vec<u8> {
    let mut out = Vec::new();
    msgpack::write_array(&mut out, draws.len());
    draws.iter().for_each(|draw| draw.encode(&mut out));
    out
}

/// A draw that can be told from others by its number.
pub fn mark(number: u64) -> Draw {
    Draw::Opaque(number.to_be_bytes().to_vec())
}

/// The number of a [`mark`] in a record.
pub fn marked(record: &[u8]) -> u64 {
    match Draw::decode(Record::parse(record).unwrap().draw).unwrap() {
        Draw::Opaque(bytes) => u64::from_be_bytes(bytes.try_into().unwrap()),
        other => panic!("not a mark: {other:?}"),
    }
}
