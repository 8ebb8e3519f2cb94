//! Nchan, the module of nginx: draws by POST, out by long polling or WebSocket. Nothing is numbered.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use hyper::header::{ETAG, HeaderMap, HeaderName, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use hyper::{Method, StatusCode};
use inkrelay_protocol::Malformed;
use inkrelay_protocol::msgpack::{Reader as Msgpack, Token};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::measure::Answers;
use crate::target::http::{Address, Connection};
use crate::target::plain::{Encoding, Poster};
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Drawer, Reader, Take, Target, Transport};

/// Seconds after which a poll is answered without news (`nchan_subscriber_timeout`).
const POLL_WAIT_S: u64 = 55;

/// nginx with the configuration of `load-generator/baselines/nchan`.
#[derive(Debug)]
pub struct Nchan {
    address: Address,
    is_socket: bool,
}

impl Nchan {
    /// At `http://host:port`.
    ///
    /// # Errors
    /// When the address is none, or the transport is one for which there is no reader.
    pub fn new(server: &str, transport: Transport) -> Result<Self, Broken> {
        let is_socket = match transport {
            Transport::Ws => true,
            Transport::Poll => false,
            Transport::Sse => return Err(Broken::new("nchan is read with --transport ws or poll")),
        };
        Ok(Self { address: Address::parse(server)?, is_socket })
    }
}

#[async_trait]
impl Target for Nchan {
    fn name(&self) -> String {
        format!("nchan {}", if self.is_socket { "ws" } else { "poll" })
    }

    /// Only the newest draws of a room.
    fn keeps_log(&self) -> bool {
        false
    }

    async fn reader(&self, room: &str, place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        let path = format!("/rooms/{room}/draws");
        if self.is_socket {
            let url = format!("ws://{}{}{path}", self.address.authority, self.address.path);
            let stream = self.address.connect().await?;
            let opening = tokio_tungstenite::client_async(url, stream);
            let opened = timeout(ANSWER_TIMEOUT, opening).await;
            let (socket, _) =
                opened.map_err(|_| Broken::new("no WebSocket in time"))?.map_err(Broken::new)?;
            return Ok(Box::new(SocketReader { socket, bytes: 0 }));
        }
        let place = place.and_then(|place| place.split_once(' '));
        let place = place.map(|(etag, modified)| (etag.to_owned(), modified.to_owned()));
        Ok(Box::new(Poller { connection: Connection::new(self.address.clone()), path, place, bytes: 0 }))
    }

    async fn drawer(&self, room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken> {
        let path = format!("/rooms/{room}/draws");
        Ok(Box::new(Poster::new(self.address.clone(), path, Encoding::Msgpack, answers)))
    }
}

struct Poller {
    connection: Connection,
    path: String,
    /// `ETag` and `Last-Modified` of the last message; together they are its number.
    place: Option<(String, String)>,
    bytes: u64,
}

#[async_trait]
impl Reader for Poller {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        let mut asked: Vec<(HeaderName, &str)> = Vec::with_capacity(2);
        if let Some((etag, modified)) = &self.place {
            asked.extend([(IF_NONE_MATCH, etag.as_str()), (IF_MODIFIED_SINCE, modified.as_str())]);
        }
        let within = ANSWER_TIMEOUT + Duration::from_secs(POLL_WAIT_S);
        let answer = self.connection.fetch(Method::GET, &self.path, &asked, Bytes::new(), within);
        let (status, headers, body) = answer.await?;
        match status {
            StatusCode::OK => {}
            StatusCode::REQUEST_TIMEOUT | StatusCode::NOT_MODIFIED => return Ok(()),
            other => return Err(Broken::new(format!("a poll was answered with {other}"))),
        }
        self.bytes += body.len() as u64;
        let value = |headers: &HeaderMap, name| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.map(str::to_owned).ok_or_else(|| Broken::new("an answer without ETag or Last-Modified"))
        };
        self.place = Some((value(&headers, ETAG)?, value(&headers, LAST_MODIFIED)?));
        Ok(take_lines(&body, take)?)
    }

    fn place(&self) -> Option<String> {
        self.place.as_ref().map(|(etag, modified)| format!("{etag} {modified}"))
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Reads draws with a line feed behind each but perhaps the last; to MessagePack a line feed is the number 10.
fn take_lines(body: &[u8], take: &mut Take<'_>) -> Result<(), Malformed> {
    let mut reader = Msgpack::new(body);
    while !reader.is_at_end() {
        take(Arrived { seq: None, author: None, draw: reader.raw()? });
        if !reader.is_at_end() && reader.token()? != Token::Uint(u64::from(b'\n')) {
            return Err(Malformed("there is no line feed between two draws"));
        }
    }
    Ok(())
}

struct SocketReader {
    socket: WebSocketStream<TcpStream>,
    bytes: u64,
}

#[async_trait]
impl Reader for SocketReader {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        match self.socket.next().await {
            Some(Ok(Message::Binary(draw))) => {
                self.bytes += draw.len() as u64;
                take(Arrived { seq: None, author: None, draw: &draw });
                Ok(())
            }
            Some(Ok(Message::Close(_))) | None => Err(Broken::new("the server closed the connection")),
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(Broken::new(error)),
        }
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_told_apart() {
        let mut taken = Vec::new();
        let body = [0x92, 10, 10, b'\n', 0x91, 3, b'\n'];
        take_lines(&body, &mut |arrived| taken.push(arrived.draw.to_vec())).unwrap();
        assert_eq!(taken, [vec![0x92, 10, 10], vec![0x91, 3]]);
        assert!(take_lines(&[0x91, 3, 0x91, 3], &mut |_| {}).is_err());
    }
}
