//! The pacer: says when draws are due, whatever becomes of those before.
//!
//! One thread sleeps until the next draw of any lane is due and releases it. The runtime's own timers are as coarse
//! as a millisecond, which is longer than a relay takes. Whoever takes a draw late, since the draw before waited
//! for its answer, still counts from when it was due: a server that stalls cannot hide.
