//! Refusals: each is counted once by its code, and told in the log with whom it was for.
//!
//! A flood of them fills no disk: of each code, few lines are written in a while, and the next one says how many were
//! left out.

use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use inkrelay_protocol::{ErrorCode, RoomId};

use super::{Each, index};
use crate::lock::lock;

/// Lines of one code in one period, at most.
const LINES: u32 = 5;
/// See [`LINES`].
const PERIOD: Duration = Duration::from_secs(10);

/// Whom something was refused. What was asked is no part of it: it may be a secret, or ink.
#[derive(Clone, Copy)]
pub struct Caller<'c> {
    /// Where from.
    pub address: IpAddr,
    /// The room that it was about, where that is known.
    pub room: Option<&'c RoomId>,
    /// The request's id, unless the span of the log has it.
    pub request: Option<&'c dyn Display>,
}

impl Caller<'_> {
    /// From that address, and nothing else is known.
    pub const fn at(address: IpAddr) -> Self {
        Self { address, room: None, request: None }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    counts: Each<{ ErrorCode::ALL.len() }>,
    told: Mutex<[Told; ErrorCode::ALL.len()]>,
}

impl Refusals {
    /// Something was refused.
    pub(super) fn refuse(&self, code: ErrorCode, caller: Caller<'_>) {
        self.counts.0[index(ErrorCode::ALL, code)].inc();
        let is_of_people = is_of_people(code);
        let is_wanted = if is_of_people {
            tracing::enabled!(tracing::Level::INFO)
        } else {
            tracing::enabled!(tracing::Level::DEBUG)
        };
        if !is_wanted {
            return;
        }
        let told = lock(&self.told)[index(ErrorCode::ALL, code)].tell(Instant::now());
        let Some(left_out) = told else { return };
        let Caller { address, room, request } = caller;
        let (code, room) = (code.as_str(), room.map(RoomId::as_str));
        let request = request.map(tracing::field::display);
        // Where none were left out, that is no news.
        let left_out = (left_out > 0).then_some(left_out);
        if is_of_people {
            tracing::info!(code, %address, room, request, left_out, "refused");
        } else {
            tracing::debug!(code, %address, room, request, left_out, "refused");
        }
    }

    /// How often something was refused for that.
    pub(super) fn count(&self, code: ErrorCode) -> u64 {
        self.counts.0[index(ErrorCode::ALL, code)].get()
    }
}

/// Whether it is of interest who they are, or how many: what an operator acts on. The others are the clients' own errors.
const fn is_of_people(code: ErrorCode) -> bool {
    match code {
        ErrorCode::InvalidTicket
        | ErrorCode::InvalidToken
        | ErrorCode::Forbidden
        | ErrorCode::Kicked
        | ErrorCode::Banned
        | ErrorCode::OriginRefused
        | ErrorCode::RoomFull
        | ErrorCode::StoreFull
        | ErrorCode::RateLimited
        | ErrorCode::RoomCrowded
        | ErrorCode::TooManyRooms
        | ErrorCode::TooManyConnections => true,
        ErrorCode::Malformed
        | ErrorCode::RoomLocked
        | ErrorCode::NotFound
        | ErrorCode::MethodNotAllowed
        | ErrorCode::Gap
        | ErrorCode::PositionGone
        | ErrorCode::TooLarge
        | ErrorCode::TooSlow
        | ErrorCode::UnsupportedMediaType
        | ErrorCode::InvalidDraw
        | ErrorCode::StoreUnavailable
        | ErrorCode::Draining
        | ErrorCode::Internal => false,
    }
}

/// What the log was told of one code.
#[derive(Debug, Default)]
struct Told {
    /// When the period began.
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl Told {
    /// Whether one more is to be told; then how many were left out before it.
    fn tell(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= PERIOD) {
            (self.since, self.lines) = (Some(now), 0);
        }
        if self.lines == LINES {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_in_few_lines_which_say_how_much_they_left_out() {
        let (mut told, begin) = (Told::default(), Instant::now());
        let flood =
            |told: &mut Told, at: Instant| (0..1000).filter_map(|_| told.tell(at)).collect::<Vec<_>>();
        assert_eq!(flood(&mut told, begin), [0; 5]);
        assert!(flood(&mut told, begin + PERIOD / 2).is_empty());
        assert_eq!(flood(&mut told, begin + PERIOD), [1995, 0, 0, 0, 0]);
        assert_eq!(flood(&mut told, begin + 9 * PERIOD), [995, 0, 0, 0, 0]);
    }

    #[test]
    fn every_code_has_a_count_of_its_own() {
        let refusals = Refusals::default();
        for code in ErrorCode::ALL {
            refusals.refuse(*code, Caller::at([127, 0, 0, 1].into()));
        }
        assert!(ErrorCode::ALL.iter().all(|code| refusals.count(*code) == 1));
    }
}
