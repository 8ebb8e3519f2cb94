//! Rates: how often a client, an address, or whoever tokens are made out to may do what.
//!
//! Each is a bucket that fills evenly: who was quiet may do much at once, and then as much as flows in.

use std::borrow::Cow;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use inkrelay_protocol::{ClientId, ErrorCode};

use super::Refused;
use crate::config::Limits;

const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// What is counted. `None` is no limit.
pub struct Rates {
    /// Batches of those who have tickets.
    clients: Bucket<ClientId>,
    /// Batches of those who have none.
    anonymous: Bucket<IpAddr>,
    sessions: Bucket<IpAddr>,
    rooms: Bucket<IpAddr>,
    strangers: Bucket<IpAddr>,
    /// Batches of a token's subject, over all its sessions and addresses.
    subjects: Bucket<Arc<str>>,
    subject_sessions: Bucket<Arc<str>>,
    clock: DefaultClock,
}

type Bucket<K> = Option<DefaultKeyedRateLimiter<K>>;

/// The limits that rates come from: others need no new ones.
pub const fn numbers(limits: &Limits) -> [u32; 6] {
    [
        limits.max_rate,
        limits.max_address_sessions,
        limits.max_address_rooms,
        limits.max_address_strangers,
        limits.max_subject_rate,
        limits.max_subject_sessions,
    ]
}

/// Whom an address counts as. Whoever has one address of IPv6 has 2^64 beside it.
pub fn limited_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

impl Rates {
    /// With nothing counted yet.
    pub fn new(limits: &Limits) -> Self {
        let batches = |rate| {
            let rate = NonZeroU32::new(rate)?;
            Some(Quota::per_second(rate).allow_burst(rate.saturating_mul(TWO)))
        };
        let a_minute = |most| NonZeroU32::new(most).map(Quota::per_minute);
        Self {
            clients: batches(limits.max_rate).map(RateLimiter::dashmap),
            anonymous: batches(limits.max_rate).map(RateLimiter::dashmap),
            sessions: a_minute(limits.max_address_sessions).map(RateLimiter::dashmap),
            rooms: a_minute(limits.max_address_rooms).map(RateLimiter::dashmap),
            strangers: a_minute(limits.max_address_strangers).map(RateLimiter::dashmap),
            subjects: batches(limits.max_subject_rate).map(RateLimiter::dashmap),
            subject_sessions: a_minute(limits.max_subject_sessions).map(RateLimiter::dashmap),
            clock: DefaultClock::default(),
        }
    }

    /// Forgets those who have not come for a while.
    pub fn forget_old(&self) {
        forget(&self.clients);
        for addresses in [&self.anonymous, &self.sessions, &self.rooms, &self.strangers] {
            forget(addresses);
        }
        for subjects in [&self.subjects, &self.subject_sessions] {
            forget(subjects);
        }
    }

    /// Counts one batch against its author's rate, or without a ticket against the address's; and against the rate of
    /// its token's subject, where that names one.
    ///
    /// # Errors
    /// When it comes too fast, with the time after which it would not. So do the others.
    pub fn batch(
        &self,
        author: ClientId,
        subject: Option<&Arc<str>>,
        address: IpAddr,
    ) -> Result<(), Refused> {
        const WHY: &str = "batches come faster than allowed";
        if author.is_anonymous() {
            self.check(&self.anonymous, &limited_as(address), WHY)?;
        } else {
            self.check(&self.clients, &author, WHY)?;
        }
        let Some(subject) = subject else { return Ok(()) };
        self.check(&self.subjects, subject, "batches of this token's subject come faster than allowed")
    }

    /// Counts a session that an address opens, with a token of that subject.
    pub fn session(&self, address: IpAddr, subject: Option<&Arc<str>>) -> Result<(), Refused> {
        const WHY: &str = "this address opens sessions faster than allowed";
        self.check(&self.sessions, &limited_as(address), WHY)?;
        let Some(subject) = subject else { return Ok(()) };
        self.check(&self.subject_sessions, subject, "this token's subject opens sessions faster than allowed")
    }

    /// Counts a room that an address brings to life.
    pub fn room(&self, address: IpAddr) -> Result<(), Refused> {
        self.check(&self.rooms, &limited_as(address), "this address brings rooms to life faster than allowed")
    }

    /// Counts a call of an address that has no token, or one that is not taken.
    pub fn stranger(&self, address: IpAddr) -> Result<(), Refused> {
        self.check(
            &self.strangers,
            &limited_as(address),
            "this address comes without a valid token too often",
        )
    }

    fn check<K>(&self, bucket: &Bucket<K>, key: &K, why: &'static str) -> Result<(), Refused>
    where
        K: Clone + Eq + Hash,
    {
        let Some(bucket) = bucket else { return Ok(()) };
        bucket.check_key(key).map(drop).map_err(|until| Refused {
            retry: Some(until.wait_time_from(self.clock.now()).max(Duration::from_millis(1))),
            ..Refused::new(ErrorCode::RateLimited, Cow::Borrowed(why))
        })
    }
}

fn forget<K: Clone + Eq + Hash>(bucket: &Bucket<K>) {
    if let Some(bucket) = bucket {
        bucket.retain_recent();
        bucket.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn rates(set: impl FnOnce(&mut Limits)) -> Rates {
        let mut limits = Config::default().limits;
        set(&mut limits);
        Rates::new(&limits)
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_address_has_its_own_minute_and_is_told_when_to_come_back() {
        let rates = rates(|limits| {
            (limits.max_address_sessions, limits.max_address_rooms, limits.max_address_strangers) = (2, 2, 2);
        });
        let session = |rates: &Rates, address| rates.session(address, None);
        for count in [session, Rates::room, Rates::stranger] {
            for address in ["203.0.113.1", "203.0.113.2"] {
                assert!((0..2).all(|_| count(&rates, ip(address)).is_ok()), "{address}");
                let refused = count(&rates, ip(address)).unwrap_err();
                assert_eq!(refused.code, ErrorCode::RateLimited);
                let retry = refused.retry.unwrap();
                assert!(retry > Duration::from_secs(20) && retry <= Duration::from_secs(30), "{retry:?}");
            }
        }
    }

    #[test]
    fn zero_lifts_a_rate() {
        let rates = rates(|limits| {
            limits.max_rate = 0;
            (limits.max_address_sessions, limits.max_address_rooms, limits.max_address_strangers) = (0, 0, 0);
            (limits.max_subject_rate, limits.max_subject_sessions) = (0, 0);
        });
        for _ in 0..10_000 {
            let address = ip("203.0.113.1");
            let ann = Arc::from("ann");
            let counted = [rates.session(address, Some(&ann)), rates.room(address), rates.stranger(address)];
            assert!(counted.iter().all(Result::is_ok));
            assert!(rates.batch(ClientId::ANONYMOUS, Some(&ann), address).is_ok());
        }
    }

    #[test]
    fn a_subject_has_one_rate_over_all_its_clients_and_addresses() {
        let rates = rates(|limits| (limits.max_subject_rate, limits.max_subject_sessions) = (2, 3));
        let [ann, ben] = ["ann", "ben"].map(Arc::from);
        let batch = |client, subject, address| {
            rates.batch(ClientId::new(client).unwrap(), subject, ip(address)).map_err(|refused| refused.code)
        };
        let limited = Err(ErrorCode::RateLimited);
        for (client, address) in
            [(1, "203.0.113.1"), (2, "203.0.113.2"), (3, "203.0.113.3"), (4, "203.0.113.3")]
        {
            assert_eq!(batch(client, Some(&ann), address), Ok(()), "twice as many at once");
        }
        assert_eq!(batch(5, Some(&ann), "203.0.113.5"), limited);
        assert_eq!(
            rates.batch(ClientId::ANONYMOUS, Some(&ann), ip("203.0.113.6")).map_err(|it| it.code),
            limited
        );
        assert_eq!(batch(5, Some(&ben), "203.0.113.1"), Ok(()));
        assert_eq!(batch(5, None, "203.0.113.1"), Ok(()), "without a subject there is nobody to count");
        let session =
            |subject, address| rates.session(ip(address), subject).map_err(|refused| refused.retry.is_some());
        for address in ["203.0.113.1", "203.0.113.2", "203.0.113.3"] {
            assert_eq!(session(Some(&ann), address), Ok(()));
        }
        assert_eq!(session(Some(&ann), "203.0.113.4"), Err(true));
        assert_eq!(session(Some(&ben), "203.0.113.4"), Ok(()));
        rates.forget_old();
        assert_eq!(session(Some(&ann), "203.0.113.4"), Err(true), "who came lately is not forgotten");
    }

    #[test]
    fn the_addresses_of_one_network_of_ipv6_count_as_one() {
        assert_eq!(limited_as(ip("2001:db8:1:2:3:4:5:6")), ip("2001:db8:1:2::"));
        assert_ne!(limited_as(ip("2001:db8:1:2::")), limited_as(ip("2001:db8:1:3::")));
        assert_eq!(limited_as(ip("::ffff:203.0.113.1")), ip("203.0.113.1"));
        assert_eq!(limited_as(ip("203.0.113.1")), ip("203.0.113.1"));
    }
}
