//! What one value alone does not show to be wrong: settings that need or exclude each other, and what no relay could
//! serve with.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::{Config, Limits, OperatorsListen, Times};
use crate::store::RedisStore;

/// No connection is faster than this.
const SHORTEST: Duration = Duration::from_millis(100);
/// Half of it is what a ping has for its way there and back.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);
/// A room that is deleted sooner was hardly meant to be.
const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// Whatever waits for longer does not wait for an answer.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Nobody waits longer for a server to stop.
const LONGEST_END: Duration = Duration::from_secs(3600);
/// For rooms: a hundred years.
const LONGEST_LIFE: Duration = Duration::from_secs(36_525 * 24 * 3600);
/// Batches a second. A nanosecond is all that the clock tells apart.
const FASTEST: u32 = 1_000_000;
/// Of rooms, sessions, connections and draws.
const MOST: usize = 1_000_000_000;

impl Config {
    /// What one value alone does not show to be wrong.
    ///
    /// # Errors
    /// What would be right, in plain words.
    pub fn check(&self) -> Result<(), String> {
        self.check_addresses()?;
        let of_tokens = [self.token_audience.is_some(), self.token_issuer.is_some(), self.revoked.is_some()];
        if !self.has_tokens() && of_tokens.contains(&true) {
            return Err(
                "token-audience, token-issuer and revoked are about tokens, which --token-keys asks for"
                    .to_owned(),
            );
        }
        if self.memory && self.redis.is_some() {
            return Err("memory and redis exclude each other: draws are kept in one place".to_owned());
        }
        if let Some(url) = &self.redis {
            RedisStore::check(url)
                .map_err(|why| format!("redis: {why}; write it like redis://127.0.0.1:6379"))?;
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(
                "tls-cert and tls-key go together: a certificate is nothing without its key".to_owned()
            );
        }
        self.limits.check()?;
        self.times.check()
    }

    fn check_addresses(&self) -> Result<(), String> {
        if !is_own(self.listen) && !self.open && !self.has_tokens() {
            return Err(format!(
                "listen is {}, which others can reach, and nothing says who may come in. With --token-keys FILE \
                 only those come in who have a token that one of your keys signed. With --open (open = true) everyone \
                 who reaches that address can read and draw in every room whose name they know. Without either, listen \
                 on this machine only: --listen 127.0.0.1:{}",
                self.listen,
                self.listen.port()
            ));
        }
        match self.operators_listen {
            OperatorsListen::Off => Ok(()),
            OperatorsListen::At(operators) => check_operators(operators, self.listen),
        }
    }

    /// What is right, and yet may not be what was meant.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(all) = self.trust_forwarded.iter().find(|network| network.prefix_len() == 0) {
            warnings.push(format!(
                "trust-forwarded has {all}, which is everybody: anyone can forge the address that bans and limits are \
                 held to. Name the addresses of your proxies alone, such as 10.0.0.7 or 10.0.0.0/8"
            ));
        }
        if let OperatorsListen::At(address) = self.operators_listen
            && !is_own(address)
        {
            warnings.push(format!(
                "operators-listen is {address}, which others can reach: whoever does looks into every room and deletes \
                 it, without a password"
            ));
        }
        warnings
    }
}

/// Whether only this machine reaches it.
fn is_own(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn check_operators(operators: SocketAddr, public: SocketAddr) -> Result<(), String> {
    let overlap =
        operators.ip() == public.ip() || operators.ip().is_unspecified() || public.ip().is_unspecified();
    if operators.port() != 0 && operators.port() == public.port() && overlap {
        return Err(format!(
            "operators-listen is {operators}, and so operators would be served on the public address {public}: choose \
             another port"
        ));
    }
    if is_public(operators.ip()) {
        return Err(format!(
            "operators-listen is {operators}, which is reached from the whole internet, and whoever reaches the \
             operators' port looks into every room and deletes it without a password: choose an address of this \
             machine, and go there through a tunnel or a proxy that asks who comes"
        ));
    }
    Ok(())
}

/// Whether it is an address that the whole internet reaches. Unspecified ones may be; who listens there is warned.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified() || is_shared)
        }
        IpAddr::V6(ip) => {
            !(ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local())
        }
    }
}

impl Limits {
    fn check(&self) -> Result<(), String> {
        if self.max_message != 0 && self.max_message < self.max_draw {
            return Err(format!(
                "max-message is {} bytes and max-draw is {}: a draw that large would be in no message; raise max-message \
                 or lower max-draw",
                self.max_message, self.max_draw
            ));
        }
        if self.max_rate > FASTEST {
            return Err(format!(
                "max-rate is {}: it is {FASTEST} at most, and 0 for no limit",
                self.max_rate
            ));
        }
        let counts = [
            ("max-batch", self.max_batch),
            ("max-sessions", self.max_sessions),
            ("max-rooms", self.max_rooms),
            ("max-connections", self.max_connections),
        ];
        match counts.into_iter().find(|(_, count)| *count > MOST) {
            Some((name, count)) => {
                Err(format!("{name} is {count}: it is {MOST} at most, and 0 for no limit"))
            }
            None => Ok(()),
        }
    }
}

impl Times {
    fn check(&self) -> Result<(), String> {
        for (name, time, least, most) in [
            ("header-time", self.header_time, SHORTEST, LONGEST),
            ("keep-alive", self.keep_alive, SHORTEST, LONGEST),
            ("body-time", self.body_time, SHORTEST, LONGEST),
            ("first-frame-time", self.first_frame_time, SHORTEST, LONGEST),
            ("idle-time", self.idle_time, SHORTEST_IDLE, LONGEST),
            ("heartbeat", self.heartbeat, SHORTEST, LONGEST),
            ("stall-time", self.stall_time, SHORTEST, LONGEST),
            ("room-idle", self.room_idle, SHORTEST, LONGEST),
            ("drain-delay", self.drain_delay, Duration::ZERO, LONGEST_END),
            ("drain-time", self.drain_time, Duration::ZERO, LONGEST_END),
        ] {
            if !(least..=most).contains(&time) {
                return Err(out_of_range(name, time, least, most));
            }
        }
        if !self.room_ttl.is_zero() && !(SHORTEST_LIFE..=LONGEST_LIFE).contains(&self.room_ttl) {
            let why = out_of_range("room-ttl", self.room_ttl, SHORTEST_LIFE, LONGEST_LIFE);
            return Err(format!("{why}, or 0 to keep rooms for ever"));
        }
        Ok(())
    }
}

fn out_of_range(name: &str, time: Duration, least: Duration, most: Duration) -> String {
    let [time, least, most] = [time, least, most].map(humantime::format_duration);
    format!("{name} is {time}: it is from {least} to {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_addresses_than_loopback_need_a_word() {
        let listening =
            |listen: &str, open| Config { listen: listen.parse().unwrap(), open, ..Config::default() };
        for own in ["127.0.0.1:8080", "127.8.9.1:0", "[::1]:8080", "[::ffff:127.0.0.1]:8080"] {
            assert_eq!(listening(own, false).check(), Ok(()), "{own}");
        }
        for others in
            ["0.0.0.0:8080", "192.168.1.5:8080", "[::]:8080", "[::ffff:10.0.0.1]:8080", "[fe80::1]:80"]
        {
            let why = listening(others, false).check().unwrap_err();
            assert!(why.contains("--open") && why.contains("everyone"), "{others}: {why}");
            assert!(why.contains("--token-keys") && why.contains("only those"), "{others}: {why}");
            assert_eq!(listening(others, true).check(), Ok(()), "{others}");
            let with_tokens = Config { token_keys: vec!["keys".into()], ..listening(others, false) };
            assert_eq!(with_tokens.check(), Ok(()), "{others}");
        }
    }

    #[test]
    fn operators_are_never_at_the_public_address_nor_at_one_that_everybody_reaches() {
        let check =
            |address: &str, public: &str| check_operators(address.parse().unwrap(), public.parse().unwrap());
        for (address, public) in [
            ("127.0.0.1:9090", "127.0.0.1:8080"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("10.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0:9090", "0.0.0.0:8080"),
            ("[::1]:9090", "[::]:8080"),
            ("192.168.1.5:9090", "0.0.0.0:8080"),
            ("[fd00::1]:9090", "[::]:8080"),
        ] {
            assert_eq!(check(address, public), Ok(()), "{address}");
        }
        for (address, public) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "0.0.0.0:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080"),
        ] {
            assert!(check(address, public).unwrap_err().contains("public address"), "{address}");
        }
        for address in ["203.0.113.5:9090", "8.8.8.8:9090", "[2001:db8::1]:9090", "[::ffff:8.8.8.8]:9090"] {
            assert!(check(address, "127.0.0.1:1").unwrap_err().contains("without a password"), "{address}");
        }
    }
}
