//! The snapshot: records that draw the board as of a position. Until there are shorter ones, the log itself.

use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use inkrelay_protocol::{ClientId, Position, msgpack};

use super::encoding::Encoding;
use super::problem::Problem;
use super::request::{Admitted, POSITION, Shared, admit};
use crate::access::Grant;
use crate::hub::RoomHandle;
use crate::room::{LogError, LogReader};
use crate::store::ReadLimit;

/// Read from the store at a time.
const PART: ReadLimit = ReadLimit { records: 4096, bytes: 256 * 1024 };

/// Answers with the whole log, read part by part as the client takes it.
pub async fn get(
    State(relay): Shared,
    Admitted { room, grant }: Admitted,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let handle = relay.enter(&room).await?;
    admit(&handle, ClientId::ANONYMOUS, &grant)?;
    of(handle, Some(grant), &headers).await
}

/// The snapshot of a room that is held, as long as the grant lasts, or for an operator.
///
/// # Errors
/// When the store does not answer.
pub async fn of(handle: RoomHandle, grant: Option<Grant>, headers: &HeaderMap) -> Result<Response, Problem> {
    let log = handle.log().await?;
    let encoding = Encoding::accepted(headers);
    let until = log.until();
    let tag = match encoding {
        Encoding::MessagePack => format!("W/\"{until}-msgpack\""),
        Encoding::Json => format!("W/\"{until}-json\""),
    };
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let is_known = known.is_some_and(|known| known.split(',').any(|known| known.trim() == tag));
    let text = |text: String| HeaderValue::try_from(text).expect("a position is digits and dots");
    let answer_headers = [
        (header::CONTENT_TYPE, encoding.content_type()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::VARY, HeaderValue::from_static("accept")),
        (header::ETAG, text(tag)),
        (POSITION, text(until.to_string())),
    ];
    if is_known {
        return Ok((StatusCode::NOT_MODIFIED, answer_headers).into_response());
    }
    let state = Snapshot { grant, handle, log, encoding, step: Step::Head };
    let parts = futures_util::stream::try_unfold(state, |mut state| async move {
        let part = state.next().await?;
        Ok::<_, std::io::Error>(part.map(|part| (part, state)))
    });
    Ok((answer_headers, Body::from_stream(parts)).into_response())
}

struct Snapshot {
    /// None for operators.
    grant: Option<Grant>,
    handle: RoomHandle,
    log: LogReader,
    encoding: Encoding,
    step: Step,
}

enum Step {
    Head,
    Records { are_first: bool },
    Done,
}

impl Snapshot {
    /// The next part of `[epoch, seq, [record, …], author, n, at]`. A log that changes meanwhile, or a store that
    /// does not answer, breaks the answer off: its chunked coding tells the client that it is not whole.
    async fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        let until = self.log.until();
        match self.step {
            Step::Head => {
                self.step = Step::Records { are_first: true };
                Ok(Some(self.head(&until)))
            }
            Step::Records { .. } if self.log.is_done() => {
                self.step = Step::Done;
                Ok(Some(self.end(&until)))
            }
            Step::Records { .. } if self.grant.as_ref().is_some_and(Grant::has_ended) => {
                Err(std::io::Error::other("the token is over"))
            }
            Step::Records { are_first } => {
                let records =
                    self.handle.read_log(&mut self.log, PART).await.map_err(|error| match error {
                        LogError::Changed => std::io::Error::other("the log changed while it was read"),
                        LogError::Store(error) => std::io::Error::other(error),
                    })?;
                self.step = Step::Records { are_first: false };
                // An operator who looks is no reader.
                if self.grant.is_some() {
                    self.handle.count_read(&records);
                }
                Ok(Some(self.records(&records, are_first)))
            }
            Step::Done => Ok(None),
        }
    }

    fn head(&self, until: &Position) -> Bytes {
        match self.encoding {
            Encoding::MessagePack => {
                let mut out = Vec::new();
                msgpack::write_array(&mut out, 6);
                msgpack::write_uint(&mut out, until.epoch.get());
                msgpack::write_uint(&mut out, until.seq.get());
                msgpack::write_array(&mut out, usize::try_from(until.seq.get()).unwrap_or(usize::MAX));
                out.into()
            }
            Encoding::Json => format!("[{},{},[", until.epoch.get(), until.seq).into(),
        }
    }

    fn records(&self, records: &[Bytes], are_first: bool) -> Bytes {
        let mut out = Vec::new();
        for (index, record) in records.iter().enumerate() {
            if self.encoding == Encoding::Json && !(are_first && index == 0) {
                out.push(b',');
            }
            out.extend_from_slice(&self.encoding.encode(record.clone()));
        }
        out.into()
    }

    fn end(&self, until: &Position) -> Bytes {
        let identity = until.identity;
        match self.encoding {
            Encoding::MessagePack => {
                let mut out = Vec::new();
                msgpack::write_uint(&mut out, identity.author.get());
                msgpack::write_uint(&mut out, identity.n);
                msgpack::write_uint(&mut out, identity.at);
                out.into()
            }
            Encoding::Json => format!("],{},{},{}]", identity.author, identity.n, identity.at).into(),
        }
    }
}
