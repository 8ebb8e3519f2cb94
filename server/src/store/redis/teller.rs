//! Passes ephemeral messages to the other servers: at once or not at all.

use std::sync::Arc;
use std::time::Duration;

use inkrelay_protocol::RoomId;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::link::Link;
use super::message;

/// Messages that wait to be published; what comes on top is dropped.
const QUEUE_MESSAGES: usize = 1024;
/// Messages that go in one write.
const BATCH_MESSAGES: usize = 128;
/// A pointer that is older than this shows nothing that matters.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The queue's near end.
pub(super) struct Teller {
    node: String,
    queue: mpsc::Sender<(String, Vec<u8>)>,
}

impl Teller {
    /// The teller, and the task that publishes for it. The task ends when the teller is dropped.
    pub(super) fn new(node: String, link: Arc<Link>) -> (Self, impl Future<Output = ()>) {
        let (queue, mut waiting) = mpsc::channel(QUEUE_MESSAGES);
        let publish = async move {
            let mut batch = Vec::with_capacity(BATCH_MESSAGES);
            while waiting.recv_many(&mut batch, BATCH_MESSAGES).await > 0 {
                let mut pipe = redis::pipe();
                for (channel, payload) in batch.drain(..) {
                    pipe.cmd("PUBLISH").arg(channel).arg(payload).ignore();
                }
                let sent = async {
                    if let Some(mut connection) = link.connection().await {
                        let _ = pipe.query_async::<()>(&mut connection).await;
                    }
                };
                let _ = timeout(TIMEOUT, sent).await;
            }
        };
        (Self { node, queue }, publish)
    }

    pub(super) fn tell(&self, room: &RoomId, message: &[u8]) {
        let _ = self.queue.try_send((message::channel(room), message::tell(&self.node, message)));
    }
}
