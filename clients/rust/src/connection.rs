//! The connection: which transport is used when, and what happens between two of them.

use std::future::pending;
use std::time::Duration;

use inkrelay_protocol::ErrorCode;
use tokio::time::{Instant, sleep_until};

use crate::backoff::{Backoff, random};
use crate::config::{Timing, Transport};
use crate::event::{Event, Stopped};
use crate::http::Endpoint;
use crate::long_poll;
use crate::session::{Ended, Session};
use crate::websocket::{self, Socket};

/// How many times the first wait for another socket grows at most.
const SOCKET_AGAIN_GROWTH: u32 = 16;

/// Whether sockets work here. Some proxies refuse them, and some accept them and cut them at once.
#[derive(Debug)]
struct Choice {
    transport: Transport,
    timing: Timing,
    young_deaths: u32,
    wait: Duration,
    again_at: Option<Instant>,
}

impl Choice {
    fn new(transport: Transport, timing: Timing) -> Self {
        Self { transport, timing, young_deaths: 0, wait: timing.socket_again, again_at: None }
    }

    fn uses_sockets(&self) -> bool {
        match self.transport {
            Transport::WebSocket => true,
            Transport::LongPoll => false,
            Transport::Auto => self.again_at.is_none(),
        }
    }

    /// A socket that lived that long ended, or could not be opened.
    fn on_socket_ended(&mut self, lived: Duration, blame: bool, now: Instant) {
        if lived >= self.timing.young {
            self.young_deaths = 0;
            self.wait = self.timing.socket_again;
            self.again_at = None;
        } else if blame {
            self.young_deaths = self.young_deaths.saturating_add(1);
        }
        if self.transport == Transport::Auto && self.young_deaths >= self.timing.young_deaths {
            self.again_at = Some(now + self.wait);
            self.wait = (self.wait * 2).min(self.timing.socket_again * SOCKET_AGAIN_GROWTH);
        }
    }

    /// When a long poll is to look for a socket again; `None` for never.
    fn socket_due(&self) -> Option<Instant> {
        self.again_at
    }
}

/// Runs a client until it is closed or told to stop.
pub(crate) async fn run(mut session: Session, transport: Transport, timing: Timing) {
    let stopped = keep_connected(&mut session, transport, timing).await;
    session.shared.status.send_modify(|status| status.stopped = Some(stopped.clone()));
    session.queued.push_back(Event::Stopped(stopped));
    let events = session.events.clone();
    let shared = session.shared.clone();
    while !session.queued.is_empty() {
        tokio::select! {
            biased;
            permit = events.reserve() => session.deliver(permit),
            // The client is gone; whoever still holds the events takes them, or never will.
            () = shared.closed() => break,
        }
    }
}

async fn keep_connected(session: &mut Session, transport: Transport, timing: Timing) -> Stopped {
    let mut backoff = Backoff::new(timing.backoff_first, timing.backoff_max);
    let mut choice = Choice::new(transport, timing);
    let shared = session.shared.clone();
    let endpoint = session.http.endpoint.clone();
    let mut socket = None;
    loop {
        let began = Instant::now();
        let had_ticket = session.shared.extras().ticket.is_some();
        let is_socket = socket.is_some() || choice.uses_sockets();
        let ended = if is_socket {
            let opened = match socket.take() {
                Some(socket) => Ok(socket),
                None => tokio::select! {
                    opened = websocket::open(endpoint.clone(), timing) => opened,
                    () = shared.closed() => return Stopped::Closed,
                },
            };
            match opened {
                Ok(socket) => websocket::run(*socket, session, timing).await,
                Err(ended) => ended,
            }
        } else {
            tokio::select! {
                ended = long_poll::run(session, timing) => ended,
                // A draw whose answer is still to come goes again on the socket, and is stored once.
                opened = find_socket(&mut choice, &endpoint, timing) => {
                    socket = Some(opened);
                    session.on_disconnected();
                    backoff.reset();
                    continue;
                }
                () = shared.closed() => return Stopped::Closed,
            }
        };
        let ended = match ended {
            Ended::Unauthorized { why } | Ended::TokenRefused { why } => tokio::select! {
                ended = long_poll::what_is_wrong(session, why) => ended,
                () = shared.closed() => return Stopped::Closed,
            },
            ended => ended,
        };
        session.on_disconnected();
        let (now, lived) = (Instant::now(), began.elapsed());
        if lived >= timing.young {
            backoff.reset();
        }
        if is_socket {
            choice.on_socket_ended(lived, matches!(ended, Ended::Lost { blame: true, .. }), now);
        }
        let (why, retry_ms) = match ended {
            Ended::Closed => return Stopped::Closed,
            Ended::Stopped(stopped) => return stopped,
            Ended::NewClient { why, lost } if lost || had_ticket => {
                session.on_new_client(lost);
                (why, None)
            }
            Ended::TokenRefused { why: message } => {
                return Stopped::Refused { code: ErrorCode::InvalidToken.as_str().to_owned(), message };
            }
            Ended::Unauthorized { why } => (why, None),
            // Without a ticket it was not the ticket.
            Ended::NewClient { why, .. } => {
                return Stopped::Refused { code: "unauthorized".to_owned(), message: why };
            }
            Ended::Lost { why, retry_ms, .. } => (why, retry_ms),
        };
        let retry_in = match retry_ms {
            Some(retry_ms) => Backoff::asked(retry_ms, random()),
            None => backoff.next(random()),
        };
        tracing::debug!(why, ?retry_in, "disconnected");
        session.queued.push_back(Event::Disconnected { why, retry_in });
        if rest(session, now + retry_in).await.is_none() {
            return Stopped::Closed;
        }
    }
}

/// Looks for a socket whenever it is time to; never ends where none is wanted.
async fn find_socket(choice: &mut Choice, endpoint: &Endpoint, timing: Timing) -> Box<Socket> {
    while let Some(due) = choice.socket_due() {
        sleep_until(due).await;
        match websocket::open(endpoint.clone(), timing).await {
            Ok(socket) => return socket,
            Err(_) => choice.on_socket_ended(Duration::ZERO, true, Instant::now()),
        }
    }
    pending().await
}

/// Waits until that time and until all events are handed over, so that their number stays bounded however
/// often the connection is lost. `None` when the client is closed meanwhile.
async fn rest(session: &mut Session, until: Instant) -> Option<()> {
    let shared = session.shared.clone();
    let events = session.events.clone();
    loop {
        tokio::select! {
            () = shared.closed() => return None,
            permit = events.reserve(), if !session.queued.is_empty() => session.deliver(permit),
            () = sleep_until(until), if session.queued.is_empty() => return Some(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_young_deaths_turn_to_polling_and_a_long_life_turns_back() {
        let now = Instant::now();
        let timing = Timing::default();
        let mut choice = Choice::new(Transport::Auto, timing);
        choice.on_socket_ended(Duration::ZERO, false, now);
        choice.on_socket_ended(Duration::ZERO, true, now);
        assert!(choice.uses_sockets());
        choice.on_socket_ended(Duration::from_secs(1), true, now);
        assert!(!choice.uses_sockets());
        assert_eq!(choice.socket_due(), Some(now + timing.socket_again));
        for _ in 0..10 {
            choice.on_socket_ended(Duration::ZERO, true, now);
        }
        assert_eq!(choice.socket_due(), Some(now + timing.socket_again * SOCKET_AGAIN_GROWTH));
        choice.on_socket_ended(timing.young, true, now);
        assert!(choice.uses_sockets());
        choice.on_socket_ended(Duration::ZERO, true, now);
        assert!(choice.uses_sockets());
    }

    #[test]
    fn a_wish_for_one_transport_is_kept() {
        for (transport, sockets) in [(Transport::WebSocket, true), (Transport::LongPoll, false)] {
            let mut choice = Choice::new(transport, Timing::default());
            for _ in 0..5 {
                choice.on_socket_ended(Duration::ZERO, true, Instant::now());
            }
            assert_eq!(choice.uses_sockets(), sockets);
        }
    }
}
