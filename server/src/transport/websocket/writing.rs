//! The writing half: answers, what is new about the people here, and what the cursor lacks.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use bytes::Bytes;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use inkrelay_protocol::frame::write_records;
use inkrelay_protocol::{ClientId, CloseCode, Seq, ServerFrame, msgpack};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::{End, Incoming, Session};
use crate::room::Room;
use crate::room::feed::{Fed, Feed};
use crate::transport::MESSAGE;
use crate::transport::encoding::Encoding;

/// A store that did not answer a reader is asked again after this time.
const STORE_RETRY: Duration = Duration::from_millis(500);

impl Session<'_> {
    /// The writing half: ends when no more answers can come, or the client does not take what it is sent.
    pub(super) async fn write(&self, out: &mut Outgoing, feed: Feed, answers: mpsc::Receiver<Bytes>) -> End {
        match self.write_all(out, feed, answers).await {
            Ok(()) => End::Peer,
            Err(end) => end,
        }
    }

    async fn write_all(
        &self,
        out: &mut Outgoing,
        mut feed: Feed,
        mut answers: mpsc::Receiver<Bytes>,
    ) -> Result<(), End> {
        let room: &Arc<Room> = &self.reading;
        let times = &self.relay.config.times;
        let mut changes = room.changes();
        // Where pens hovered before is nothing to those who come now.
        let mut people = SeenPeople { list: None, moves: room.shown_moves() };
        let mut ping_at = Instant::now() + times.idle_time / 2;
        loop {
            // Marked as seen before it is looked at: a change meanwhile wakes again.
            changes.borrow_and_update();
            while let Ok(answer) = answers.try_recv() {
                out.feed(answer).await?;
            }
            people.feed(room, self.who.client, out).await?;
            if Instant::now() >= ping_at {
                out.ping().await?;
                ping_at = Instant::now() + times.idle_time / 2;
            }
            let mut wake_at = ping_at;
            match feed.next(room, MESSAGE).await {
                Ok(Fed::Records { first, records, .. }) => {
                    out.feed(records_frame(first, &records)).await?;
                    continue;
                }
                Ok(Fed::Reset { until, records, more }) => {
                    let records = records.iter().map(|record| &record[..]).collect();
                    out.feed(ServerFrame::Reset { position: until, records, more }.to_bytes().into()).await?;
                    continue;
                }
                Ok(Fed::UpToDate) => {}
                Err(error) => {
                    tracing::warn!(room = %room.id(), %error, "a reader waits for the store");
                    wake_at = wake_at.min(Instant::now() + STORE_RETRY);
                }
            }
            if out.sent_at.elapsed() >= times.heartbeat {
                out.feed(ServerFrame::Heartbeat(room.head()).to_bytes().into()).await?;
            }
            out.flush().await?;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                answer = answers.recv() => match answer {
                    Some(answer) => out.feed(answer).await?,
                    None => return Ok(()),
                },
                () = sleep_until(wake_at.min(out.sent_at + times.heartbeat)) => {}
            }
        }
    }
}

fn records_frame(first: Seq, records: &[Bytes]) -> Bytes {
    let mut frame = Vec::with_capacity(16 + records.iter().map(Bytes::len).sum::<usize>());
    msgpack::write_array(&mut frame, 3);
    msgpack::write_uint(&mut frame, 66);
    msgpack::write_uint(&mut frame, first.get());
    write_records(&mut frame, records);
    frame.into()
}

/// What of presence a reader was told.
struct SeenPeople {
    list: Option<u64>,
    moves: u64,
}

impl SeenPeople {
    async fn feed(&mut self, room: &Room, own: ClientId, out: &mut Outgoing) -> Result<(), End> {
        if self.list.is_none_or(|seen| room.shown_participants() > seen) {
            let (version, frame) = room.participants_frame();
            self.list = Some(version);
            out.feed(frame).await?;
        }
        if room.shown_moves() > self.moves {
            let (moves, pointers) = room.pointers_since(self.moves);
            self.moves = moves;
            for (client, x, y) in pointers.into_iter().filter(|(client, ..)| *client != own) {
                out.feed(ServerFrame::Pointer { client, x, y }.to_bytes().into()).await?;
            }
        }
        Ok(())
    }
}

/// The way out, in the client's encoding.
pub(super) struct Outgoing {
    sink: SplitSink<WebSocket, Message>,
    encoding: Encoding,
    /// How long a client may take nothing.
    stall: Duration,
    /// When something was last sent, for the heartbeat.
    sent_at: Instant,
    /// Whether the client took something that it was waited for to take.
    took: Arc<AtomicBool>,
}

impl Outgoing {
    pub(super) fn new(sink: SplitSink<WebSocket, Message>, encoding: Encoding, stall: Duration) -> Self {
        Self { sink, encoding, stall, sent_at: Instant::now(), took: Arc::default() }
    }

    /// Set whenever the client took something that it was waited for to take: a sign of life.
    pub(super) fn took(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.took)
    }

    pub(super) const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Gathers a frame; what is gathered goes out at the next flush at the latest.
    pub(super) async fn feed(&mut self, frame: Bytes) -> Result<(), End> {
        self.sent_at = Instant::now();
        let encoded = self.encoding.encode(frame);
        let message = match self.encoding {
            Encoding::MessagePack => Message::Binary(encoded),
            Encoding::Json => Message::Text(Utf8Bytes::try_from(encoded).map_err(|_| End::Peer)?),
        };
        stalled(self.stall, &self.took, self.sink.feed(message)).await
    }

    async fn flush(&mut self) -> Result<(), End> {
        stalled(self.stall, &self.took, self.sink.flush()).await
    }

    async fn ping(&mut self) -> Result<(), End> {
        stalled(self.stall, &self.took, self.sink.feed(Message::Ping(Bytes::new()))).await
    }

    /// Answers the close of a client that is still there.
    pub(super) async fn finish(&mut self) {
        // What was gathered cannot be sent after a close and fails; only then comes the close's own turn. The
        // client may also be gone, and then nobody needs the answer.
        let _ = self.sink.flush().await;
        let _ = self.sink.close().await;
    }

    /// Closes, and waits until the client has closed too.
    pub(super) async fn close(&mut self, code: CloseCode, reason: String, incoming: &mut Incoming) {
        // RFC 6455, section 5.5: a control frame holds 125 bytes, two of which are the code.
        let end = reason.floor_char_boundary(123);
        let frame = CloseFrame { code: code.number(), reason: reason[..end].into() };
        if self.sink.send(Message::Close(Some(frame))).await.is_ok() {
            while let Some(Ok(_)) = incoming.next().await {}
        }
    }
}

/// Waits for a write. `took` is set when the client had to take something before it was done: it lives, also when
/// it is so far behind that its pongs are not due yet.
async fn stalled(
    within: Duration,
    took: &AtomicBool,
    write: impl Future<Output = Result<(), axum::Error>>,
) -> Result<(), End> {
    let mut write = pin!(write);
    let mut waited = false;
    let write = std::future::poll_fn(|cx| {
        let polled = write.as_mut().poll(cx);
        waited |= polled.is_pending();
        polled
    });
    match timeout(within, write).await {
        Ok(Ok(())) => {
            took.fetch_or(waited, Ordering::Relaxed);
            Ok(())
        }
        Ok(Err(_)) => Err(End::Peer),
        Err(_) => Err(End::close(CloseCode::TooSlow, "what is sent is not taken")),
    }
}
