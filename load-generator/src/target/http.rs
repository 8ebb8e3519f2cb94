//! Plain HTTP/1.1, one connection at a time: posts and long polls.

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use inkrelay_protocol::msgpack::{self, Reader as Msgpack};
use inkrelay_protocol::{ClientId, Malformed, Record};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::measure::{Answers, Outcome};
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, CONNECT_TIMEOUT, Drawer, Reader, Take};

/// Seconds that a poll waits for news.
const POLL_WAIT_S: u64 = 20;
const MSGPACK: &str = "application/msgpack";

/// Where a server is.
#[derive(Clone, Debug)]
pub struct Address {
    /// `host:port`.
    pub authority: String,
    /// Below which path, without a slash at its end.
    pub path: String,
}

impl Address {
    /// Of `http://host:port/path`.
    ///
    /// # Errors
    /// When it is no such address.
    pub fn parse(server: &str) -> Result<Self, Broken> {
        let invalid =
            || Broken::new(format!("{server:?} is no address; one looks like http://127.0.0.1:8080"));
        let uri: Uri = server.parse().map_err(|_| invalid())?;
        if uri.scheme_str() != Some("http") {
            return Err(invalid());
        }
        let authority = uri.authority().ok_or_else(invalid)?;
        let authority = match authority.port_u16() {
            Some(_) => authority.to_string(),
            None => format!("{authority}:80"),
        };
        Ok(Self { authority, path: uri.path().trim_end_matches('/').to_owned() })
    }

    /// A TCP connection to it.
    ///
    /// # Errors
    /// When there is none in time.
    pub async fn connect(&self) -> Result<TcpStream, Broken> {
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(&self.authority)).await;
        let stream = connecting.map_err(|_| Broken::new("no connection in time"))??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// What is no HTTP is malformed.
pub fn broken_by(error: &hyper::Error) -> Broken {
    if error.is_parse() { Broken::malformed(error) } else { Broken::new(error) }
}

/// One keep-alive connection, made when it is needed.
#[derive(Debug)]
pub struct Connection {
    address: Address,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    /// Not yet connected.
    pub const fn new(address: Address) -> Self {
        Self { address, sender: None }
    }

    /// Connects, unless it is connected.
    ///
    /// # Errors
    /// When it cannot.
    pub async fn connect(&mut self) -> Result<(), Broken> {
        if self.sender.as_ref().is_some_and(|sender| !sender.is_closed()) {
            return Ok(());
        }
        let stream = self.address.connect().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(Broken::new)?;
        // Ends with the sender, and says nothing that the request's own error does not.
        tokio::spawn(connection);
        self.sender = Some(sender);
        Ok(())
    }

    /// Sends a request and returns the head of its answer.
    ///
    /// # Errors
    /// When the connection breaks; the next call makes another.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(hyper::header::HeaderName, &str)],
        body: Bytes,
    ) -> Result<Response<Incoming>, Broken> {
        self.connect().await?;
        let mut sender = self.sender.take().ok_or_else(|| Broken::new("not connected"))?;
        sender.ready().await.map_err(Broken::new)?;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.address.path))
            .header(HOST, &self.address.authority);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Full::new(body)).map_err(Broken::new)?;
        let response = sender.send_request(request).await.map_err(|error| broken_by(&error))?;
        self.sender = Some(sender);
        Ok(response)
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// As [`Connection::send`], and when there is no answer within `within`.
    pub async fn fetch(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(hyper::header::HeaderName, &str)],
        body: Bytes,
        within: std::time::Duration,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Broken> {
        let answer = async {
            let response = self.send(method, path, headers, body).await?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| broken_by(&error))?.to_bytes();
            Ok::<_, Broken>((head.status, head.headers, body))
        };
        let answer = timeout(within, answer).await;
        let result = answer.unwrap_or_else(|_| Err(Broken::new("no answer in time")));
        if result.is_err() {
            self.sender = None;
        }
        result
    }
}

/// The answer to a post, as far as it is looked at.
#[derive(serde::Deserialize)]
struct Stored {
    /// Of the first draw; null where it is not known any more.
    #[serde(deserialize_with = "Option::deserialize")]
    seq: Option<u64>,
}

/// Draws by POST, one after the other, as the anonymous author.
pub struct Poster {
    connection: Connection,
    path: String,
    answers: Answers,
}

impl Poster {
    /// Into a room.
    pub fn new(address: Address, room: &str, answers: Answers) -> Self {
        let path = format!("/v1/rooms/{room}/draws");
        answers.draws_as(ClientId::ANONYMOUS.get());
        Self { connection: Connection::new(address), path, answers }
    }
}

#[async_trait]
impl Drawer for Poster {
    async fn ready(&mut self) -> Result<(), Broken> {
        self.connection.connect().await
    }

    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken> {
        let mut body = Vec::with_capacity(draw.len() + 1);
        msgpack::write_array(&mut body, 1);
        body.extend_from_slice(draw);
        let headers = [(CONTENT_TYPE, MSGPACK)];
        let (status, _, body) =
            self.connection.fetch(Method::POST, &self.path, &headers, body.into(), ANSWER_TIMEOUT).await?;
        // What a proxy or a full store says with 5xx leaves open whether the draw was kept.
        let outcome = match status.as_u16() {
            200..=299 => Outcome::Stored,
            400..=499 => Outcome::Refused,
            _ => Outcome::Unknown,
        };
        if outcome == Outcome::Stored {
            let answer: Stored = serde_json::from_slice(&body).map_err(Broken::malformed)?;
            if let Some(seq) = answer.seq {
                self.answers.placed(number, seq);
            }
        }
        self.answers.answered(number, outcome);
        Ok(())
    }

    async fn settle(&mut self, _unanswered_max: usize, _within: std::time::Duration) {}
}

/// Reads by long polling.
pub struct Poller {
    connection: Connection,
    room: String,
    place: String,
    bytes: u64,
}

impl Poller {
    /// From a place on, or from the start.
    pub fn new(address: Address, room: &str, place: Option<&str>) -> Self {
        let place = place.unwrap_or("0").to_owned();
        Self { connection: Connection::new(address), room: room.to_owned(), place, bytes: 0 }
    }
}

#[async_trait]
impl Reader for Poller {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        let path = format!("/v1/rooms/{}/draws?after={}&wait={POLL_WAIT_S}", self.room, self.place);
        let within = ANSWER_TIMEOUT + std::time::Duration::from_secs(POLL_WAIT_S);
        let headers = [(ACCEPT, MSGPACK)];
        let (status, headers, body) =
            self.connection.fetch(Method::GET, &path, &headers, Bytes::new(), within).await?;
        if status != StatusCode::OK {
            let said = String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
            return Err(Broken::new(format!("a poll was answered with {status}: {said}")));
        }
        self.bytes += body.len() as u64;
        if let Some(place) = headers.get("inkrelay-position").and_then(|value| value.to_str().ok()) {
            place.clone_into(&mut self.place);
        }
        Ok(take_poll(&body, take)?)
    }

    fn place(&self) -> Option<String> {
        Some(self.place.clone())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Reads `[epoch, first seq, [record, …]]`.
fn take_poll(body: &[u8], take: &mut Take<'_>) -> Result<(), Malformed> {
    let mut reader = Msgpack::new(body);
    reader.array()?;
    reader.uint()?;
    let first = reader.uint()?;
    let records = reader.array()?;
    for index in 0..u64::from(records) {
        let record = Record::read(&mut reader)?;
        let seq = first.checked_add(index).ok_or(Malformed("a seq is at most 2^53 - 1"))?;
        take(Arrived { seq: Some(seq), author: Some(record.identity.author.get()), draw: record.draw });
    }
    reader.finish()
}
