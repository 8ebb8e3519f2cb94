//! Hosts: by which name a server is asked for.
//!
//! A page whose own name was made to lead here (DNS rebinding) is of this server's origin to its browser, which lets it
//! ask for everything and read it. Only the name tells: such a page has one in the public DNS, and nothing else.

use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, header};

/// What `Host` (RFC 9110, section 7.2) names, without the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host<'h> {
    /// An IP address.
    Address,
    /// A name, in whatever case it came.
    Name(&'h str),
}

/// There are two `Host` headers, or one that cannot be read: whoever looks at another part of them than this server
/// would see another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl<'h> Host<'h> {
    /// The host that a request names, if it names one: browsers always do.
    ///
    /// # Errors
    /// When it cannot be told which.
    pub fn of(headers: &'h HeaderMap) -> Result<Option<Self>, Unreadable> {
        let mut values = headers.get_all(header::HOST).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let host = value.to_str().ok().and_then(Self::parse);
        host.filter(|_| values.next().is_none()).map(Some).ok_or(Unreadable)
    }

    /// Reads `HOST` or `HOST:PORT`.
    pub fn parse(authority: &'h str) -> Option<Self> {
        let is_port = |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
        if let Some(bracketed) = authority.strip_prefix('[') {
            let (address, port) = bracketed.split_once(']')?;
            let is_whole = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
            return (is_whole && address.parse::<Ipv6Addr>().is_ok()).then_some(Self::Address);
        }
        let (name, port) =
            authority.split_once(':').map_or((authority, None), |(name, port)| (name, Some(port)));
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if name.is_empty() || !name.bytes().all(is_plain) || !port.is_none_or(is_port) {
            return None;
        }
        Some(if name.parse::<Ipv4Addr>().is_ok() { Self::Address } else { Self::Name(name) })
    }

    /// Whether it is an address, or this machine's name for itself.
    pub fn is_plain(self) -> bool {
        match self {
            Self::Address => true,
            Self::Name(name) => name.eq_ignore_ascii_case("localhost"),
        }
    }

    /// Whether the public DNS can have no page under it: an address, a name of this machine or of its network, or one
    /// without a dot, as containers have.
    pub fn is_private(self) -> bool {
        match self {
            Self::Address => true,
            Self::Name(name) => {
                let name = name.to_ascii_lowercase();
                !name.contains('.') || name.ends_with(".localhost") || name.ends_with(".local")
            }
        }
    }

    /// Whether it is that name.
    pub fn is_named(self, name: &str) -> bool {
        matches!(self, Self::Name(own) if own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_is_no_host_is_not_taken_for_one() {
        for address in ["127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:8080", "[fd00::7]:80", "0.0.0.0:1"] {
            assert_eq!(Host::parse(address), Some(Host::Address), "{address}");
        }
        for (authority, name) in [
            ("localhost:8080", "localhost"),
            ("Draw.Example", "Draw.Example"),
            ("127.0.0.1.evil.example:80", "127.0.0.1.evil.example"),
            ("2130706433", "2130706433"),
        ] {
            assert_eq!(Host::parse(authority), Some(Host::Name(name)));
        }
        for wrong in [
            "",
            ":80",
            "[::1",
            "[::1].evil.example",
            "[::1]evil.example",
            "[::1]:",
            "[::1]:80.evil.example",
            "[127.0.0.1]",
            "[evil.example]",
            "::1",
            "localhost:",
            "localhost:80:80",
            "localhost:+80",
            "localhost:65536",
            "localhost:80@evil.example",
            "evil.example/localhost",
            "evil.example, localhost",
            "evil.example#localhost",
            "user@localhost",
            "local host",
            "gооd.example",
        ] {
            assert_eq!(Host::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn two_hosts_are_none() {
        let headers = |hosts: &[&'static str]| {
            let of = |host: &&'static str| (header::HOST, HeaderValue::from_static(host));
            hosts.iter().map(of).collect::<HeaderMap>()
        };
        assert_eq!(Host::of(&headers(&[])), Ok(None));
        assert_eq!(Host::of(&headers(&["a.example"])), Ok(Some(Host::Name("a.example"))));
        assert_eq!(Host::of(&headers(&[""])), Err(Unreadable));
        let mut two = headers(&["localhost"]);
        for second in ["localhost", "evil.example"] {
            two.append(header::HOST, HeaderValue::from_static(second));
            assert_eq!(Host::of(&two), Err(Unreadable));
        }
    }

    #[test]
    fn names_that_the_public_dns_gives_are_not_private() {
        let is_private = |host| Host::parse(host).unwrap().is_private();
        for private in
            ["10.1.2.3", "[::1]", "localhost", "LOCALHOST", "draw.localhost", "Anns-iPad.local", "relay-1"]
        {
            assert!(is_private(private), "{private}");
        }
        for public in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.1.2.3.nip.example",
            "evillocal.example",
            "xlocal.com",
            "local.",
            "localhost.",
            "evil.",
            "0x7f.1",
        ] {
            assert!(!is_private(public), "{public}");
        }
    }
}
