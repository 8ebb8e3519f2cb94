//! A client over plain HTTP: posts draws, and polls.

use std::net::SocketAddr;
use std::time::Duration;

use inkrelay_protocol::Record;
use inkrelay_protocol::msgpack::Reader;
use serde_json::Value;

/// A room over HTTP.
#[derive(Clone)]
pub struct Http {
    client: reqwest::Client,
    address: SocketAddr,
    room: String,
}

/// What a poll or a snapshot tells.
#[derive(Clone, Debug)]
pub struct Polled {
    /// The number of the first record; of an empty answer, the next one's.
    pub first: u64,
    pub records: Vec<Vec<u8>>,
    /// What to send as `after` next.
    pub position: String,
}

/// A problem's status, and what it says.
pub type Problem = (u16, Value);

impl Http {
    /// With connections of its own.
    pub fn new(address: SocketAddr, room: &str) -> Self {
        let client = super::requests::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Self { client, address, room: room.to_owned() }
    }

    /// The same connections to another room.
    pub fn room(&self, room: &str) -> Self {
        Self { room: room.to_owned(), ..self.clone() }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/v1/rooms/{}{path}", self.address, self.room)
    }

    /// Posts `[draw, …]`, with a ticket and the first one's `n` or without. `Err` when there is no answer.
    pub async fn post(&self, draws: Vec<u8>, as_whom: Option<(&str, u64)>) -> reqwest::Result<(u16, Value)> {
        let mut request = self.client.post(self.url("/draws")).header("content-type", "application/msgpack");
        if let Some((ticket, n)) = as_whom {
            request = request.header("inkrelay-ticket", ticket).header("inkrelay-n", n.to_string());
        }
        let response = request.body(draws).send().await?;
        let status = response.status().as_u16();
        Ok((status, serde_json::from_str(&response.text().await?).unwrap()))
    }

    /// Opens a session, and returns its answer.
    pub async fn session(&self) -> Result<Value, Problem> {
        let response = self.client.post(self.url("/sessions")).send().await.unwrap();
        let status = response.status().as_u16();
        let answer = serde_json::from_str(&response.text().await.unwrap()).unwrap();
        if status == 200 { Ok(answer) } else { Err((status, answer)) }
    }

    /// Polls behind a position; empty is the start.
    pub async fn poll(&self, after: &str, wait_s: u64) -> Result<Polled, Problem> {
        self.get(&format!("/draws?after={after}&wait={wait_s}")).await
    }

    /// The snapshot; its `first` is the number of its last record.
    pub async fn snapshot(&self) -> Result<Polled, Problem> {
        self.get("/snapshot").await
    }

    async fn get(&self, path: &str) -> Result<Polled, Problem> {
        self.try_get(path).await.unwrap()
    }

    /// What a path tells in MessagePack. The outer `Err` when there is no answer.
    pub async fn try_get(&self, path: &str) -> reqwest::Result<Result<Polled, Problem>> {
        let request = self.client.get(self.url(path)).header("accept", "application/msgpack");
        let response = request.send().await?;
        let status = response.status().as_u16();
        if status != 200 {
            return Ok(Err((status, serde_json::from_str(&response.text().await?).unwrap())));
        }
        let position = response.headers()["inkrelay-position"].to_str().unwrap().to_owned();
        let body = response.bytes().await?;
        let mut reader = Reader::new(&body);
        reader.array().unwrap();
        reader.uint().unwrap();
        let first = reader.uint().unwrap();
        let records = reader.array().unwrap();
        let records = (0..records).map(|_| reader.raw().unwrap().to_vec()).collect::<Vec<_>>();
        assert!(records.iter().all(|record| Record::parse(record).is_ok()));
        Ok(Ok(Polled { first, records, position }))
    }

    /// What the room says of itself.
    pub async fn info(&self) -> Value {
        let response = self.client.get(self.url("")).send().await.unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }

    /// How many are present in the room.
    pub async fn participants(&self) -> usize {
        self.info().await["participants"].as_array().expect("a list").len()
    }
}
