//! The codes by which a server says what went wrong, and what a client does about each.

/// The stable `code` of an HTTP problem and of error frame 72.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Bytes, a header or an address that cannot be read.
    Malformed,
    /// The ticket is not of this room and server.
    InvalidTicket,
    /// A token is needed, or the one given is wrong or expired.
    InvalidToken,
    /// The role does not allow it.
    Forbidden,
    /// The room is locked: only moderators draw.
    RoomLocked,
    /// A moderator ended the session. It may be opened again.
    Kicked,
    /// Moderators keep the client, or its token's subject, out of the room.
    Banned,
    /// The page's origin is not one that may connect.
    OriginRefused,
    /// There is no such address.
    NotFound,
    /// The address takes other methods.
    MethodNotAllowed,
    /// `n` leaves a gap.
    Gap,
    /// The position is not, or no longer, one of the log.
    PositionGone,
    /// A draw, batch, message or body is larger than the limit.
    TooLarge,
    /// The request did not arrive whole in time.
    TooSlow,
    /// The content type is unknown or missing.
    UnsupportedMediaType,
    /// A draw breaks a rule.
    InvalidDraw,
    /// The room holds as many bytes as it may.
    RoomFull,
    /// Faster than allowed.
    RateLimited,
    /// The room has as many participants as it may.
    RoomCrowded,
    /// As many rooms are live as may be.
    TooManyRooms,
    /// The address has as many connections as it may.
    TooManyConnections,
    /// The store has no space left, and kept nothing of the batch.
    StoreFull,
    /// The store gave no answer; the draws may or may not be stored.
    StoreUnavailable,
    /// The server is going away.
    Draining,
    /// A fault of the server's own.
    Internal,
}

/// What a client does about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Send the same again, with the same `n`, after the retry time.
    Retry,
    /// Do not send that draw again; go on with the next under the same `n`.
    Drop,
    /// Send from the `n` that the error names.
    Renumber,
    /// Forget the board and take the snapshot.
    Reset,
    /// Take a new session; what is not acked goes with new numbers.
    NewSession,
    /// Tell the user; nothing that the client can do by itself will help.
    GiveUp,
}

macro_rules! error_codes {
    ($($variant:ident => $text:literal, $status:literal, $remedy:ident;)*) => {
        impl ErrorCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The string on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The HTTP status that goes with it (RFC 9110, section 15).
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status),* }
            }

            /// What a client does about it.
            pub const fn remedy(self) -> Remedy {
                match self { $(Self::$variant => Remedy::$remedy),* }
            }

            /// The code of that string; `None` for one that a later version knows.
            pub fn from_wire(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

error_codes! {
    Malformed => "malformed", 400, GiveUp;
    InvalidTicket => "invalid_ticket", 401, NewSession;
    InvalidToken => "invalid_token", 401, GiveUp;
    Forbidden => "forbidden", 403, Drop;
    RoomLocked => "room_locked", 403, Drop;
    Kicked => "kicked", 403, GiveUp;
    Banned => "banned", 403, GiveUp;
    OriginRefused => "origin_refused", 403, GiveUp;
    NotFound => "not_found", 404, GiveUp;
    MethodNotAllowed => "method_not_allowed", 405, GiveUp;
    TooSlow => "too_slow", 408, Retry;
    Gap => "gap", 409, Renumber;
    PositionGone => "position_gone", 410, Reset;
    TooLarge => "too_large", 413, Drop;
    RoomFull => "room_full", 413, GiveUp;
    UnsupportedMediaType => "unsupported_media_type", 415, GiveUp;
    InvalidDraw => "invalid_draw", 422, Drop;
    RateLimited => "rate_limited", 429, Retry;
    Internal => "internal", 500, Retry;
    RoomCrowded => "room_crowded", 503, Retry;
    TooManyRooms => "too_many_rooms", 503, Retry;
    TooManyConnections => "too_many_connections", 503, Retry;
    StoreFull => "store_full", 503, Retry;
    StoreUnavailable => "store_unavailable", 503, Retry;
    Draining => "draining", 503, Retry;
}

/// Why a WebSocket is closed (RFC 6455, section 7.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCode {
    /// The client is done.
    Done,
    /// The server is going away: reconnect after the time that `go away` named.
    GoingAway,
    /// Origin or role refused.
    Refused,
    /// A message is over the limit.
    TooLarge,
    /// Try again later: too many participants, rooms or connections, or no store.
    TryAgainLater,
    /// A frame that cannot be read, or in the wrong place.
    Malformed,
    /// A ticket or token is needed, wrong or expired.
    Unauthorized,
    /// Too slow or idle.
    TooSlow,
    /// A gap in `n`.
    OutOfStep,
    /// A newer connection has the same ticket.
    Replaced,
}

impl CloseCode {
    /// Every code.
    pub const ALL: &'static [Self] = &[
        Self::Done,
        Self::GoingAway,
        Self::Refused,
        Self::TooLarge,
        Self::TryAgainLater,
        Self::Malformed,
        Self::Unauthorized,
        Self::TooSlow,
        Self::OutOfStep,
        Self::Replaced,
    ];

    /// The number on the wire.
    pub const fn number(self) -> u16 {
        match self {
            Self::Done => 1000,
            Self::GoingAway => 1001,
            Self::Refused => 1008,
            Self::TooLarge => 1009,
            Self::TryAgainLater => 1013,
            Self::Malformed => 4400,
            Self::Unauthorized => 4401,
            Self::TooSlow => 4408,
            Self::OutOfStep => 4409,
            Self::Replaced => 4410,
        }
    }

    /// The code of that number; `None` for one that this protocol does not use.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.number() == number)
    }

    /// What a client does about it.
    pub const fn remedy(self) -> Remedy {
        match self {
            Self::GoingAway | Self::TryAgainLater | Self::TooSlow | Self::OutOfStep => Remedy::Retry,
            Self::Unauthorized => Remedy::NewSession,
            Self::Done | Self::Refused | Self::TooLarge | Self::Malformed | Self::Replaced => Remedy::GiveUp,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(code.as_str()), Some(*code));
        }
        for code in CloseCode::ALL {
            assert_eq!(CloseCode::from_number(code.number()), Some(*code));
        }
    }
}
