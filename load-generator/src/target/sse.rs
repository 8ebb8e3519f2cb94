//! Server-sent events: one JSON record each.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::ACCEPT;
use hyper::{Method, StatusCode};
use inkrelay_protocol::Record;
use inkrelay_protocol::json::{self, Shape};
use inkrelay_protocol::msgpack::Reader as Msgpack;
use tokio::time::timeout;

use crate::target::http::{Address, Connection, broken_by};
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Reader, Take};

/// Bytes of one line at most.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Reads events as they come.
pub struct Events {
    body: Incoming,
    line: Vec<u8>,
    /// The position that the next event's data belongs to: the server sends it first.
    id: String,
    place: Option<String>,
    bytes: u64,
}

impl Events {
    /// Opens the stream: from a place on, or from the start.
    ///
    /// # Errors
    /// When the server does not answer with one.
    pub async fn open(address: Address, room: &str, place: Option<&str>) -> Result<Self, Broken> {
        let after = place.map(|place| format!("?after={place}")).unwrap_or_default();
        let path = format!("/v1/rooms/{room}/events{after}");
        let mut connection = Connection::new(address);
        let headers = [(ACCEPT, "text/event-stream")];
        let opening = connection.send(Method::GET, &path, &headers, Bytes::new());
        let response =
            timeout(ANSWER_TIMEOUT, opening).await.map_err(|_| Broken::new("no answer in time"))??;
        if response.status() != StatusCode::OK {
            return Err(Broken::new(format!("the events were answered with {}", response.status())));
        }
        let place = place.map(str::to_owned);
        Ok(Self { body: response.into_body(), line: Vec::new(), id: String::new(), place, bytes: 0 })
    }

    fn end_line(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        let line = std::mem::take(&mut self.line);
        let field =
            |name: &[u8]| line.strip_prefix(name).map(|value| value.strip_prefix(b" ").unwrap_or(value));
        if let Some(id) = field(b"id:") {
            self.id = String::from_utf8_lossy(id).into_owned();
        } else if let Some(event) = field(b"event:") {
            return Err(Broken::new(format!("the server sent an event {}", String::from_utf8_lossy(event))));
        } else if let Some(data) = field(b"data:") {
            // As an array of draws: only a draw of kind 5 has strings that are binary, and it stands inside.
            let record = json::to_msgpack(data, Shape::Draws).map_err(Broken::malformed)?;
            let record = Record::read(&mut Msgpack::new(&record))?;
            let seq = self.id.split('.').nth(1).and_then(|seq| seq.parse().ok());
            take(Arrived { seq, author: Some(record.identity.author.get()), draw: record.draw });
            self.place = Some(self.id.clone());
        }
        Ok(())
    }
}

#[async_trait]
impl Reader for Events {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        let frame = self.body.frame().await.ok_or_else(|| Broken::new("the server ended the stream"))?;
        let Ok(data) = frame.map_err(|error| broken_by(&error))?.into_data() else { return Ok(()) };
        self.bytes += data.len() as u64;
        let mut rest = &data[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&rest[..end]);
            rest = &rest[end + 1..];
            self.end_line(take)?;
        }
        self.line.extend_from_slice(rest);
        if self.line.len() > LINE_BYTES_MAX {
            return Err(Broken::malformed(format!("a line of more than {LINE_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    fn place(&self) -> Option<String> {
        self.place.clone()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
