//! The small API of the baselines, which `load-generator/baselines/README.md` describes: a draw to a post, a list of
//! draws to a poll, in JSON or in MessagePack.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use hyper::header::CONTENT_TYPE;
use hyper::{Method, StatusCode};
use inkrelay_protocol::Malformed;
use inkrelay_protocol::json::{self, Shape};
use inkrelay_protocol::msgpack::{Reader as Msgpack, Token};

use crate::measure::{Answers, Outcome};
use crate::target::http::{Address, Connection};
use crate::target::{ANSWER_TIMEOUT, Arrived, Broken, Drawer, Reader, Take, Target};

/// Seconds that a poll waits for news.
const POLL_WAIT_S: u64 = 20;

/// What draws are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `node-json`. Readers get objects that hold the draw.
    Json,
    /// `erlang-binary`. Readers get the bytes that were posted.
    Msgpack,
}

/// A server with the small API.
#[derive(Debug)]
pub struct Plain {
    name: &'static str,
    address: Address,
    encoding: Encoding,
}

impl Plain {
    /// At `http://host:port`.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(name: &'static str, server: &str, encoding: Encoding) -> Result<Self, Broken> {
        Ok(Self { name, address: Address::parse(server)?, encoding })
    }
}

#[async_trait]
impl Target for Plain {
    fn name(&self) -> String {
        format!("{} poll", self.name)
    }

    async fn reader(&self, room: &str, place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        let seq = place.unwrap_or("0").parse().map_err(|_| Broken::new("a place is a number"))?;
        let connection = Connection::new(self.address.clone());
        Ok(Box::new(Poller { connection, encoding: self.encoding, path: path(room), seq, bytes: 0 }))
    }

    async fn drawer(&self, room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken> {
        Ok(Box::new(Poster::new(self.address.clone(), path(room), self.encoding, answers)))
    }
}

fn path(room: &str) -> String {
    format!("/rooms/{room}/draws")
}

/// Draws by POST, one draw to a request, one after the other.
pub struct Poster {
    connection: Connection,
    path: String,
    encoding: Encoding,
    answers: Answers,
}

impl Poster {
    /// To that path.
    pub const fn new(address: Address, path: String, encoding: Encoding, answers: Answers) -> Self {
        Self { connection: Connection::new(address), path, encoding, answers }
    }
}

#[async_trait]
impl Drawer for Poster {
    async fn ready(&mut self) -> Result<(), Broken> {
        self.connection.connect().await
    }

    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken> {
        let (kind, body) = match self.encoding {
            // Bytes and no more: by this type Nchan knows that a WebSocket must not take them for text.
            Encoding::Msgpack => ("application/octet-stream", draw.to_vec()),
            Encoding::Json => {
                let mut text = Vec::with_capacity(draw.len() * 3);
                json::from_msgpack(draw, &mut text).map_err(Broken::new)?;
                ("application/json", text)
            }
        };
        let headers = [(CONTENT_TYPE, kind)];
        let answer = self.connection.fetch(Method::POST, &self.path, &headers, body.into(), ANSWER_TIMEOUT);
        let (status, ..) = answer.await?;
        let outcome = match status.as_u16() {
            200..=299 => Outcome::Stored,
            400..=499 => Outcome::Refused,
            _ => Outcome::Unknown,
        };
        self.answers.answered(number, outcome);
        Ok(())
    }

    async fn settle(&mut self, _unanswered_max: usize, _within: Duration) {}
}

/// Reads by long polling.
struct Poller {
    connection: Connection,
    encoding: Encoding,
    path: String,
    /// The last that it has.
    seq: u64,
    bytes: u64,
}

#[async_trait]
impl Reader for Poller {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        let path = format!("{}?after={}&wait={POLL_WAIT_S}", self.path, self.seq);
        let within = ANSWER_TIMEOUT + Duration::from_secs(POLL_WAIT_S);
        let (status, _, body) = self.connection.fetch(Method::GET, &path, &[], Bytes::new(), within).await?;
        if status != StatusCode::OK {
            return Err(Broken::new(format!("a poll was answered with {status}")));
        }
        self.bytes += body.len() as u64;
        let last = match self.encoding {
            Encoding::Msgpack => take_msgpack(&body, take)?,
            // As an array of draws: only a draw of kind 5 has strings that are binary, and none stands outside.
            Encoding::Json => {
                let same = json::to_msgpack(&body, Shape::Draws).map_err(Broken::malformed)?;
                take_objects(&same, take)?
            }
        };
        self.seq = last.unwrap_or(self.seq);
        Ok(())
    }

    fn place(&self) -> Option<String> {
        Some(self.seq.to_string())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Reads `[first seq, [draw, …]]` and returns the last one's number.
fn take_msgpack(body: &[u8], take: &mut Take<'_>) -> Result<Option<u64>, Malformed> {
    let mut reader = Msgpack::new(body);
    reader.array()?;
    let first = reader.uint()?;
    let draws = u64::from(reader.array()?);
    for seq in first..first.saturating_add(draws) {
        take(Arrived { seq: Some(seq), author: None, draw: reader.raw()? });
    }
    reader.finish()?;
    Ok(draws.checked_sub(1).map(|others| first + others))
}

/// Reads `[first seq, [{"seq": 1, "draw": […], …}, …]]`, which was JSON, and returns the last one's number.
fn take_objects(body: &[u8], take: &mut Take<'_>) -> Result<Option<u64>, Malformed> {
    let mut reader = Msgpack::new(body);
    reader.array()?;
    reader.skip()?;
    let mut last = None;
    for _ in 0..reader.array()? {
        let Token::Map(fields) = reader.token()? else { return Err(Malformed("a record is an object")) };
        let (mut seq, mut draw) = (None, None);
        for _ in 0..fields {
            match reader.str()? {
                "seq" => seq = Some(reader.uint()?),
                "draw" => draw = Some(reader.raw()?),
                _ => reader.skip()?,
            }
        }
        take(Arrived { seq, author: None, draw: draw.ok_or(Malformed("a record holds a draw"))? });
        last = seq.or(last);
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_are_read_alike() {
        let draws = [[0x92, 1, 2], [0x92, 3, 4]];
        let mut binary = vec![0x92, 7, 0x92];
        binary.extend(draws.concat());
        let text = br#"[7,[{"seq":7,"age":3,"at":1,"draw":[1,2]},{"seq":8,"age":0,"at":4,"draw":[3,4]}]]"#;
        let objects = json::to_msgpack(text, Shape::Draws).unwrap();
        for (body, read) in [(binary, take_msgpack as fn(&[u8], &mut Take<'_>) -> _), (objects, take_objects)]
        {
            let mut taken = Vec::new();
            let last = read(&body, &mut |arrived| taken.push((arrived.seq, arrived.draw.to_vec())));
            assert_eq!(last, Ok(Some(8)));
            assert_eq!(taken, [(Some(7), draws[0].to_vec()), (Some(8), draws[1].to_vec())]);
        }
    }

    #[test]
    fn an_empty_answer_leaves_the_place_as_it_is() {
        assert_eq!(take_msgpack(&[0x92, 4, 0x90], &mut |_| panic!("nothing is there")), Ok(None));
    }
}
