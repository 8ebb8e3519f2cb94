//! The writing half: what is new about the people here, and what the cursor lacks.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use inkrelay_protocol::{ClientId, CloseCode, ServerFrame};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::outlet::Outlet;
use super::{End, Incoming, Session, records_frame};
use crate::room::Room;
use crate::room::cursor::Cursor;
use crate::room::feed::{Fed, Feed};
use crate::room::row::{Seat, Subscriber};
use crate::transport::MESSAGE;
use crate::transport::encoding::Encoding;

/// A store that did not answer a reader is asked again after this time.
const STORE_RETRY: Duration = Duration::from_millis(500);

/// Bytes gathered before they are sent.
const GATHERED_BYTES: usize = 4 * 1024;

impl Session<'_> {
    /// The writing half: ends when the client is gone or does not take what it is sent.
    pub(super) async fn write(&self, out: &Outgoing, feed: &mut Feed) -> End {
        let mut seat = None;
        let Err(end) = self.write_all(out, feed, &mut seat).await;
        end
    }

    async fn write_all(
        &self,
        out: &Outgoing,
        feed: &mut Feed,
        seat: &mut Option<Seat>,
    ) -> Result<std::convert::Infallible, End> {
        let room: &Arc<Room> = &self.reading;
        let config = self.relay.config();
        let times = &config.times;
        let (mut changes, mut news) = (room.changes(), room.news_of_people());
        // Where pens hovered before is nothing to those who come now.
        let mut people = SeenPeople { list: None, moves: room.shown_moves(), is_locked: false };
        let mut ping_at = Instant::now() + times.idle_time / 2;
        let mut timer = pin!(sleep_until(ping_at));
        loop {
            // Marked as seen before they are looked at: a change meanwhile wakes again.
            changes.borrow_and_update();
            news.borrow_and_update();
            people.feed(room, self.who.client, out).await?;
            if Instant::now() >= ping_at {
                out.outlet.add_ping();
                ping_at = Instant::now() + times.idle_time / 2;
            }
            let mut wake_at = ping_at;
            if let Some(position) = seat.as_ref().and_then(Seat::left_at) {
                *seat = None;
                // Answers do not wait while the store is read: no row sends them along any more.
                out.outlet.set_seated(false);
                out.outlet.send();
                *feed = Feed::at(Cursor::at(position));
            }
            if seat.is_none() {
                match feed.next(room, MESSAGE).await {
                    Ok(Fed::Records { first, records, .. }) => {
                        out.feed(records_frame(first, &records)).await?;
                        continue;
                    }
                    Ok(Fed::Reset { until, records, more }) => {
                        let records = records.iter().map(|record| &record[..]).collect();
                        out.feed(ServerFrame::Reset { position: until, records, more }.to_bytes().into())
                            .await?;
                        continue;
                    }
                    Ok(Fed::UpToDate) => {
                        out.flush().await?;
                        let before = feed.position();
                        *seat = room.seat(feed, Arc::clone(&out.outlet) as Arc<dyn Subscriber>);
                        if seat.is_none() && feed.position() != before {
                            continue;
                        }
                    }
                    Err(error) => {
                        tracing::warn!(room = %room.id(), %error, "a reader waits for the store");
                        wake_at = wake_at.min(Instant::now() + STORE_RETRY);
                    }
                }
            }
            out.outlet.set_seated(seat.is_some());
            if out.outlet.sent_at().elapsed() >= times.heartbeat {
                out.add(&ServerFrame::Heartbeat(room.head()));
            }
            out.flush().await?;
            wake_at = wake_at.min(out.outlet.sent_at() + times.heartbeat);
            if timer.is_elapsed() || wake_at < timer.deadline() {
                // When it is later, the timer is left: it wakes too early, and is set anew.
                timer.as_mut().reset(wake_at);
            }
            tokio::select! {
                _ = news.changed() => {}
                _ = changes.changed(), if seat.is_none() => {}
                () = out.outlet.called() => {}
                () = timer.as_mut() => {}
            }
        }
    }
}

/// What of presence a reader was told.
struct SeenPeople {
    list: Option<u64>,
    moves: u64,
    /// Whether the room was locked, as it was last told; it is not, for a reader who was told nothing.
    is_locked: bool,
}

impl SeenPeople {
    async fn feed(&mut self, room: &Room, own: ClientId, out: &Outgoing) -> Result<(), End> {
        // Before the first list, so that whoever has that knows whether the room is locked.
        if room.is_locked() != self.is_locked {
            self.is_locked = !self.is_locked;
            out.feed(ServerFrame::Lock(self.is_locked).to_bytes().into()).await?;
        }
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

/// The way out, for the connection's own task, which can wait.
pub(super) struct Outgoing {
    outlet: Arc<Outlet>,
    /// How long a client may take nothing.
    stall: Duration,
    /// Whether the client took something that it was waited for to take.
    took: AtomicBool,
}

impl Outgoing {
    pub(super) const fn new(outlet: Arc<Outlet>, stall: Duration) -> Self {
        Self { outlet, stall, took: AtomicBool::new(false) }
    }

    /// Whether the client took something that it was waited for to take, since this was last asked: a sign of life.
    pub(super) fn client_took(&self) -> bool {
        self.took.swap(false, Ordering::Relaxed)
    }

    pub(super) fn encoding(&self) -> Encoding {
        self.outlet.encoding()
    }

    /// Gathers a frame; what is gathered goes out at the next flush at the latest.
    pub(super) fn add(&self, frame: &ServerFrame<'_>) {
        self.outlet.add(frame.to_bytes().into());
    }

    /// Answers that are gathered.
    pub(super) fn answers(&self) -> usize {
        self.outlet.answers()
    }

    pub(super) fn outlet(&self) -> Arc<Outlet> {
        Arc::clone(&self.outlet)
    }

    /// Gathers a frame of any size.
    async fn feed(&self, frame: Bytes) -> Result<(), End> {
        self.outlet.add(frame);
        if self.outlet.waiting() >= GATHERED_BYTES { self.flush().await } else { Ok(()) }
    }

    /// Sends what is gathered. Waits while the client does not take it.
    pub(super) async fn flush(&self) -> Result<(), End> {
        stalled(self.stall, &self.took, poll_fn(|context| self.outlet.poll_send(context))).await
    }

    /// Answers the close of a client that is still there.
    pub(super) async fn finish(&self, incoming: &mut Incoming) {
        self.outlet.close();
        // The library writes its answer, and says that the connection is closed, before that is sent. The client may
        // also be gone, and then nobody needs the answer.
        let _ = incoming.flush().await;
        let _ = self.flush().await;
    }

    /// Closes, and waits until the client has closed too.
    pub(super) async fn close(&self, code: CloseCode, reason: &str, incoming: &mut Incoming) {
        self.outlet.close();
        // Pongs that wait in the library may leave no room for the close.
        let _ = incoming.flush().await;
        // RFC 6455, section 5.5: a control frame holds 125 bytes, two of which are the code.
        let end = reason.floor_char_boundary(123);
        let frame = CloseFrame { code: code.number().into(), reason: reason[..end].into() };
        if incoming.close(Some(frame)).await.is_ok() {
            while let Some(Ok(_)) = incoming.next().await {}
        }
    }
}

/// Waits for a write. `took` is set when the client had to take something before it was done: it lives, also when
/// it is so far behind that its pongs are not due yet.
async fn stalled(
    within: Duration,
    took: &AtomicBool,
    write: impl Future<Output = std::io::Result<()>>,
) -> Result<(), End> {
    let mut write = pin!(write);
    // A timer is made only when it has to be waited. Tried with the task's own waker: a socket keeps one, and the other
    // half may wait for the same.
    let result = match poll_fn(|context| Poll::Ready(write.as_mut().poll(context))).await {
        Poll::Ready(result) => result,
        Poll::Pending => match timeout(within, write).await {
            Ok(result) => {
                took.store(true, Ordering::Relaxed);
                result
            }
            Err(_) => return Err(End::close(CloseCode::TooSlow, "what is sent is not taken")),
        },
    };
    result.map_err(|_| End::Vanished)
}
