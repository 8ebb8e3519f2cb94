//! The long-poll transport: plain HTTP, for networks that let no WebSocket through.
//!
//! A session begins as on a socket: `POST sessions` tells role, limits and the last `n` stored. Then one GET
//! waits for records while at most one POST sends draws. Numbers, ticket and position are the same as
//! on a socket, so a client goes from one to the other and back without losing or doubling anything.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use inkrelay_protocol::code::Remedy;
use inkrelay_protocol::limits::POLL_WAIT_MAX_S;
use inkrelay_protocol::msgpack::Reader;
use inkrelay_protocol::{
    ClientId, Epoch, ErrorCode, Identity, Malformed, Position, Record, Role, Seq, SessionLimits,
};
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::config::{Timing, Transport};
use crate::event::Welcome;
use crate::http::{Http, HttpError, JSON, MSGPACK, REQUEST_TIMEOUT, fetch};
use crate::outbox::{Batch, Next};
use crate::session::{Ended, Session};

/// The pause after a poll that came back empty sooner than it should: a proxy may answer for the server.
const EMPTY_PAUSE: Duration = Duration::from_millis(250);

/// Some records, or a whole board, as HTTP tells them.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// The next records.
    Records { epoch: Epoch, first: Seq, records: Vec<Bytes>, head: Option<Seq> },
    /// Instead of all that came before.
    Reset { position: Position, records: Vec<Bytes> },
}

type Slot<T> = Option<BoxFuture<'static, T>>;

/// Waits for what is in the slot, for ever if there is nothing.
async fn ready<T>(slot: &mut Slot<T>) -> T {
    match slot {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// Runs a session by long-polling until it ends.
pub(crate) async fn run(session: &mut Session, timing: Timing) -> Ended {
    let Err(ended) = keep_polling(session, timing).await;
    ended
}

async fn keep_polling(session: &mut Session, timing: Timing) -> Result<Infallible, Ended> {
    let (welcome, ticket) = open(session).await?;
    session.on_welcome(Transport::LongPoll, welcome, ticket, Instant::now())?;
    let shared = session.shared.clone();
    let events = session.events.clone();
    let mut poll: Slot<Result<Fetched, HttpError>> = None;
    let mut polled_at = Instant::now();
    let mut poll_at = polled_at;
    let mut post: Slot<Result<Option<Seq>, HttpError>> = None;
    let mut posted: Option<Batch> = None;
    loop {
        let now = Instant::now();
        let mut wake_at = now + timing.poll + REQUEST_TIMEOUT;
        if poll.is_none() && session.queued.is_empty() {
            if now >= poll_at {
                poll = Some(start_poll(session, timing.poll).boxed());
                polled_at = now;
            } else {
                wake_at = wake_at.min(poll_at);
            }
        }
        if posted.is_none() {
            let next = shared.outbox().next(now.into_std());
            match next {
                Next::Batch(batch) => {
                    post = Some(start_post(session, &batch).boxed());
                    posted = Some(batch);
                }
                Next::Wait(at) => wake_at = wake_at.min(Instant::from_std(at)),
                Next::Idle => {}
            }
        }
        tokio::select! {
            permit = events.reserve(), if !session.queued.is_empty() => session.deliver(permit),
            result = ready(&mut poll) => {
                poll = None;
                let fetched = match result {
                    Err(HttpError::Problem(problem)) if problem.remedy() == Some(Remedy::Retry) => {
                        poll_at = Instant::now() + session.retry_after(problem.retry_ms);
                        continue;
                    }
                    result => result.map_err(ended)?,
                };
                match fetched {
                    Fetched::Records { records, .. } if records.is_empty() => {
                        let now = Instant::now();
                        poll_at = if now < polled_at + EMPTY_PAUSE { now + EMPTY_PAUSE } else { now };
                    }
                    Fetched::Records { epoch, first, records, .. } => session.on_polled(epoch, first, records)?,
                    Fetched::Reset { position, records } => session.on_reset(position, records, false)?,
                }
            }
            result = ready(&mut post) => {
                post = None;
                if let Some(batch) = posted.take() {
                    on_answer(session, &batch, result)?;
                }
            }
            () = shared.wake.notified() => {}
            () = sleep_until(wake_at) => {}
        }
    }
}

/// What an error means for a whole session.
fn ended(error: HttpError) -> Ended {
    match error {
        HttpError::Problem(problem) => match problem.remedy() {
            Some(remedy) => Ended::by_remedy(remedy, &problem.code, &problem.message, problem.retry_ms),
            None => Ended::retry(problem.message, problem.retry_ms),
        },
        HttpError::NoAnswer(why) => Ended::retry(format!("the server cannot be reached: {why}"), None),
        error @ HttpError::Malformed(_) => Ended::retry(error.to_string(), None),
    }
}

/// Takes the answer to a batch.
fn on_answer(
    session: &mut Session,
    batch: &Batch,
    result: Result<Option<Seq>, HttpError>,
) -> Result<(), Ended> {
    let now = Instant::now();
    let problem = match result {
        Ok(seq) => {
            session.on_ack(batch.last_n(), seq, now);
            return Ok(());
        }
        // Nothing is wrong with the draws.
        Err(HttpError::Problem(problem)) if problem.code == ErrorCode::InvalidToken.as_str() => {
            return Err(ended(HttpError::Problem(problem)));
        }
        Err(HttpError::Problem(problem)) => problem,
        Err(error) => return Err(ended(error)),
    };
    let remedy = match problem.remedy() {
        None if problem.status == 413 => Some(Remedy::Drop),
        remedy => remedy,
    };
    let code = match problem.code.as_str() {
        "" => ErrorCode::TooLarge.as_str(),
        code => code,
    };
    let n = match remedy {
        Some(Remedy::Renumber) => problem.expected,
        Some(Remedy::Drop | Remedy::GiveUp) => match (problem.index, batch.draws.len()) {
            (Some(index), _) => Some(batch.n + index),
            (None, 1) => Some(batch.n),
            (None, _) => {
                session.shared.outbox().on_refused_somewhere(batch.last_n());
                return Ok(());
            }
        },
        Some(Remedy::Retry) => Some(batch.n),
        Some(Remedy::NewSession | Remedy::Reset) | None => return Err(ended(HttpError::Problem(problem))),
    };
    session.on_error(code, &problem.message, problem.retry_ms, n, now)
}

/// What is wrong, the ticket or the token, or neither any more, where a fresh token came meanwhile: over HTTP the server
/// says it.
pub(crate) async fn what_is_wrong(session: &Session, why: String) -> Ended {
    match open(session).await {
        Ok(_) => Ended::retry(why, None),
        Err(ended) => ended,
    }
}

/// `POST sessions`: resumes the ticket's client, or makes a new one without a ticket.
async fn open(session: &Session) -> Result<(Welcome, String), Ended> {
    #[derive(Deserialize)]
    struct Answer {
        client: u64,
        ticket: String,
        position: Vec<u64>,
        role: u64,
        limits: Vec<u64>,
    }
    let profile = session.shared.extras().profile.clone();
    let profile = profile.map(|profile| json!([profile.name, profile.rgba]));
    let request = with_session(session, session.http.request(Method::POST, "sessions", JSON, &[]))
        .header(CONTENT_TYPE, JSON)
        .body(json!({ "profile": profile }).to_string())
        .timeout(REQUEST_TIMEOUT);
    let (_, body) = fetch(request).await.map_err(ended)?;
    let malformed = |why: String| ended(HttpError::Malformed(why));
    let answer: Answer = serde_json::from_slice(&body).map_err(|error| malformed(error.to_string()))?;
    let read = || {
        let limits: [u64; 5] = answer.limits.get(..5)?.try_into().ok()?;
        Some(Welcome {
            client: ClientId::new(answer.client)?,
            role: Role::from_number(answer.role)?,
            limits: SessionLimits::from_array(limits),
            head: position_of(&answer.position)?,
        })
    };
    let welcome = read().ok_or_else(|| malformed("it opens no session".to_owned()))?;
    Ok((welcome, answer.ticket))
}

/// `[epoch, seq, author, n, at]` as JSON tells it.
pub(crate) fn position_of(values: &[u64]) -> Option<Position> {
    let [epoch, seq, author, n, at] = *values.first_chunk()?;
    let identity = Identity { author: ClientId::new(author)?, n, at };
    Some(Position { epoch: Epoch::new(epoch)?, seq: Seq::new(seq)?, identity })
}

/// `POST draws`: resolves to the seq of the batch's last draw, if the server said.
fn start_post(
    session: &Session,
    batch: &Batch,
) -> impl Future<Output = Result<Option<Seq>, HttpError>> + use<> {
    #[derive(Deserialize)]
    struct Answer {
        seq: Option<u64>,
        stored: u64,
    }
    let request = with_session(session, session.http.request(Method::POST, "draws", JSON, &[]))
        .header("Inkrelay-N", batch.n)
        .header(CONTENT_TYPE, MSGPACK)
        .body(batch.body())
        .timeout(REQUEST_TIMEOUT);
    async move {
        let (_, body) = fetch(request).await?;
        let answer: Answer =
            serde_json::from_slice(&body).map_err(|error| HttpError::Malformed(error.to_string()))?;
        // Draws of one batch stand next to each other, unless some were stored by an earlier attempt.
        let last = |first: u64| Seq::new(first + answer.stored.saturating_sub(1));
        Ok(answer.seq.filter(|_| answer.stored > 0).and_then(last))
    }
}

fn start_poll(session: &Session, wait: Duration) -> impl Future<Output = Result<Fetched, HttpError>> + use<> {
    let wait_s = wait.as_secs().min(POLL_WAIT_MAX_S);
    let request = poll_request(&session.http, session.position(), wait_s);
    let request = with_session(session, request);
    let snapshot = with_session(session, snapshot_request(&session.http));
    async move { poll_or_snapshot(request, snapshot).await }
}

fn with_session(session: &Session, mut request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    let extras = session.shared.extras();
    if let Some(ticket) = &extras.ticket {
        request = request.header("Inkrelay-Ticket", ticket);
    }
    match &extras.token {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// `GET draws`, waiting that many seconds for the first record.
pub(crate) fn poll_request(http: &Http, after: Option<Position>, wait_s: u64) -> reqwest::RequestBuilder {
    let after = after.map_or_else(|| "0".to_owned(), |position| position.to_string());
    let query = [("after", after.as_str()), ("wait", &wait_s.to_string())];
    http.request(Method::GET, "draws", MSGPACK, &query).timeout(Duration::from_secs(wait_s) + REQUEST_TIMEOUT)
}

/// `GET snapshot`.
pub(crate) fn snapshot_request(http: &Http) -> reqwest::RequestBuilder {
    // A long board takes its time on a slow line.
    http.request(Method::GET, "snapshot", MSGPACK, &[]).timeout(REQUEST_TIMEOUT * 8)
}

/// Polls; where the position is gone, fetches the snapshot instead.
pub(crate) async fn poll_or_snapshot(
    poll: reqwest::RequestBuilder,
    snapshot: reqwest::RequestBuilder,
) -> Result<Fetched, HttpError> {
    match fetch(poll).await {
        Ok((headers, body)) => {
            let head = headers.get("inkrelay-head").and_then(|head| head.to_str().ok()?.parse().ok());
            read_records(&body, head.and_then(Seq::new)).map_err(malformed)
        }
        Err(HttpError::Problem(problem)) if problem.remedy() == Some(Remedy::Reset) => {
            fetch_snapshot(snapshot).await
        }
        Err(error) => Err(error),
    }
}

/// Fetches a snapshot.
pub(crate) async fn fetch_snapshot(request: reqwest::RequestBuilder) -> Result<Fetched, HttpError> {
    let (_, body) = fetch(request).await?;
    read_snapshot(&body).map_err(malformed)
}

fn malformed(error: Malformed) -> HttpError {
    HttpError::Malformed(error.to_string())
}

/// `[epoch, first seq, [record, …]]`
fn read_records(body: &Bytes, head: Option<Seq>) -> Result<Fetched, Malformed> {
    let mut reader = Reader::new(body);
    let fields = reader.array()?;
    if fields < 3 {
        return Err(Malformed("an answer has epoch, first seq and records"));
    }
    let (epoch, first) = read_place(&mut reader)?;
    let records = read_list(&mut reader, body)?;
    reader.skip_rest(fields - 3)?;
    reader.finish()?;
    Ok(Fetched::Records { epoch, first, records, head })
}

/// `[epoch, seq, [record, …], author, n, at]`
fn read_snapshot(body: &Bytes) -> Result<Fetched, Malformed> {
    let mut reader = Reader::new(body);
    let fields = reader.array()?;
    if fields < 6 {
        return Err(Malformed("a snapshot has epoch, seq, records, author, n and at"));
    }
    let (epoch, seq) = read_place(&mut reader)?;
    let records = read_list(&mut reader, body)?;
    let author = ClientId::new(reader.uint()?).ok_or(Malformed("a client is at most 2^48 - 1"))?;
    let identity = Identity { author, n: reader.uint()?, at: reader.uint()? };
    reader.skip_rest(fields - 6)?;
    reader.finish()?;
    Ok(Fetched::Reset { position: Position { epoch, seq, identity }, records })
}

fn read_place(reader: &mut Reader<'_>) -> Result<(Epoch, Seq), Malformed> {
    let epoch = Epoch::new(reader.uint()?).ok_or(Malformed("an epoch is 1 to 2^53 - 1"))?;
    let seq = Seq::new(reader.uint()?).ok_or(Malformed("a seq is at most 2^53 - 1"))?;
    Ok((epoch, seq))
}

fn read_list(reader: &mut Reader<'_>, body: &Bytes) -> Result<Vec<Bytes>, Malformed> {
    let len = reader.array()?;
    let one = |_| {
        let record = reader.raw()?;
        Record::parse(record).map(|_| body.slice_ref(record))
    };
    (0..len).map(one).collect()
}
