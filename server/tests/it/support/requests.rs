//! HTTP as clients speak it, and raw bytes where no client would send them.

use std::net::SocketAddr;

use http::{HeaderMap, Method, header};
use inkrelay_protocol::Draw;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::PATIENCE;
use super::relay::Relay;
use super::socket::{Socket, batch, mark};

pub const MESSAGE_PACK: &str = "application/msgpack";
pub const JSON: &str = "application/json";

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    /// The body, read as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The status and the `code` of a problem.
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status);
        (self.status, body["code"].as_str().expect("a code").to_owned())
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no whole header: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            let name = header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, value.trim().parse().unwrap());
        }
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }
}

/// A client over plain HTTP, with connections of its own. It looks for no authorities on the machine, which would take
/// milliseconds for each.
pub fn client() -> reqwest::Client {
    builder().build().unwrap()
}

/// As [`client`], to be set up further.
pub fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_certs_only([])
}

/// The answer to a request, which came in time.
pub async fn answer(request: reqwest::RequestBuilder) -> Answer {
    try_answer(request).await.unwrap()
}

/// As [`answer`], where the connection may break.
pub async fn try_answer(request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
    let response = request.timeout(PATIENCE).send().await?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Ok(Answer { status, headers, body: response.bytes().await?.to_vec() })
}

impl Relay {
    /// A request to a path.
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        client().request(method, self.url(path))
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, content_type: &str, body: impl Into<reqwest::Body>) -> Answer {
        answer(self.request(Method::POST, path).header("content-type", content_type).body(body)).await
    }

    /// Opens a session over HTTP: the client id and its ticket.
    pub async fn session(&self, room: &str) -> (u64, String) {
        let answer = answer(self.request(Method::POST, &format!("/v1/rooms/{room}/sessions"))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let body = answer.json();
        (body["client"].as_u64().unwrap(), body["ticket"].as_str().unwrap().to_owned())
    }

    /// Posts a batch, as the client of that ticket.
    pub async fn post_as(&self, room: &str, ticket: &str, n: u64, draws: &[Draw]) -> Answer {
        let request = self
            .request(Method::POST, &format!("/v1/rooms/{room}/draws"))
            .header("content-type", MESSAGE_PACK)
            .header("inkrelay-ticket", ticket)
            .header("inkrelay-n", n);
        answer(request.body(batch(draws))).await
    }

    /// Posts marks without a ticket.
    pub async fn post_marks(&self, room: &str, marks: std::ops::RangeInclusive<u64>) -> Answer {
        let draws: Vec<_> = marks.map(mark).collect();
        self.post(&format!("/v1/rooms/{room}/draws"), MESSAGE_PACK, batch(&draws)).await
    }

    /// See [`still_works`].
    pub async fn still_works(&self) {
        still_works(self.address).await;
    }
}

/// Sees that everything still works for others: draws over both ways in, and reads over the ways out.
pub async fn still_works(address: SocketAddr) {
    let room = format!("works-{}", inkrelay_server::random::u64());
    let url = format!("http://{address}/v1/rooms/{room}/draws");
    let mut reader = Socket::join(address, &room).await;
    let mut drawer = Socket::join(address, &room).await;
    drawer.draw(1, &[mark(1)]).await;
    drawer.acked(1).await;
    let http = client();
    let post = http.post(&url).header("content-type", MESSAGE_PACK).body(batch(&[mark(2)]));
    assert_eq!(answer(post).await.status, 200);
    reader.records(1, 2).await;
    let polled = answer(http.get(format!("{url}?wait=0"))).await;
    assert_eq!(polled.json()[2].as_array().unwrap().len(), 2);
}

/// Sends bytes as they are, and reads until the server closes.
pub async fn raw_bytes(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The server may answer and close before it has taken all.
    let _ = stream.write_all(request).await;
    until_closed(&mut stream).await
}

/// All that the server still sends.
pub async fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // A reset also ends a connection; what came before it counts.
    let _ = read.expect("the server closes in time");
    answer
}

/// Sends a request as it is, with `connection: close`, and parses the answer.
pub async fn raw(address: SocketAddr, line: &str, headers: &[&str], body: &[u8]) -> Answer {
    let mut request = format!("{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").into_bytes();
    for header in headers {
        request.extend_from_slice(header.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request.extend_from_slice(body);
    Answer::parse(&raw_bytes(address, &request).await)
}
