//! Rates: how often a client, or an address, may do what.
//!
//! Each is a bucket that fills evenly: who was quiet may do much at once, and then as much as flows in.

use std::borrow::Cow;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
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
    clock: DefaultClock,
}

type Bucket<K> = Option<DefaultKeyedRateLimiter<K>>;

/// The limits that rates come from: others need no new ones.
pub const fn numbers(limits: &Limits) -> [u32; 4] {
    [limits.max_rate, limits.max_address_sessions, limits.max_address_rooms, limits.max_address_strangers]
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
        let batches = || {
            let rate = NonZeroU32::new(limits.max_rate)?;
            Some(Quota::per_second(rate).allow_burst(rate.saturating_mul(TWO)))
        };
        let a_minute = |most| {
            let quota = NonZeroU32::new(most).map(Quota::per_minute);
            quota.map(RateLimiter::dashmap)
        };
        Self {
            clients: batches().map(RateLimiter::dashmap),
            anonymous: batches().map(RateLimiter::dashmap),
            sessions: a_minute(limits.max_address_sessions),
            rooms: a_minute(limits.max_address_rooms),
            strangers: a_minute(limits.max_address_strangers),
            clock: DefaultClock::default(),
        }
    }

    /// Forgets those who have not come for a while.
    pub fn forget_old(&self) {
        if let Some(clients) = &self.clients {
            clients.retain_recent();
            clients.shrink_to_fit();
        }
        for addresses in [&self.anonymous, &self.sessions, &self.rooms, &self.strangers].into_iter().flatten()
        {
            addresses.retain_recent();
            addresses.shrink_to_fit();
        }
    }

    /// Counts one batch against its author's rate, or without a ticket against the address's.
    ///
    /// # Errors
    /// When it comes too fast, with the time after which it would not. So do the others.
    pub fn batch(&self, author: ClientId, address: IpAddr) -> Result<(), Refused> {
        const WHY: &str = "batches come faster than allowed";
        if author.is_anonymous() {
            self.check(&self.anonymous, &limited_as(address), WHY)
        } else {
            self.check(&self.clients, &author, WHY)
        }
    }

    /// Counts a session that an address opens.
    pub fn session(&self, address: IpAddr) -> Result<(), Refused> {
        self.check(&self.sessions, &limited_as(address), "this address opens sessions faster than allowed")
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
        for count in [Rates::session, Rates::room, Rates::stranger] {
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
        });
        for _ in 0..10_000 {
            let address = ip("203.0.113.1");
            let counted = [rates.session(address), rates.room(address), rates.stranger(address)];
            assert!(counted.iter().all(Result::is_ok) && rates.batch(ClientId::ANONYMOUS, address).is_ok());
        }
    }

    #[test]
    fn the_addresses_of_one_network_of_ipv6_count_as_one() {
        assert_eq!(limited_as(ip("2001:db8:1:2:3:4:5:6")), ip("2001:db8:1:2::"));
        assert_ne!(limited_as(ip("2001:db8:1:2::")), limited_as(ip("2001:db8:1:3::")));
        assert_eq!(limited_as(ip("::ffff:203.0.113.1")), ip("203.0.113.1"));
        assert_eq!(limited_as(ip("203.0.113.1")), ip("203.0.113.1"));
    }
}
