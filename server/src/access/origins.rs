//! Origins: whose pages may connect.

use super::host::Host;

/// Whose pages may connect: those that this server serves itself, and the listed ones.
///
/// Browsers send `Origin` (RFC 6454) with every WebSocket handshake, and nothing else stops a foreign page from
/// opening one.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    allowed: Vec<String>,
}

impl Origins {
    /// Exact origins such as `https://draw.example`, or `*` for all.
    pub const fn new(allowed: Vec<String>) -> Self {
        Self { allowed }
    }

    /// Whether a listed origin, or any.
    pub fn lists(&self, origin: &str) -> bool {
        self.allowed.iter().any(|allowed| allowed == "*" || allowed == origin)
    }

    /// Whether a request may ask by that host: one that no foreign page can have, or that of a listed origin, by whichever
    /// scheme and port.
    pub fn know(&self, host: Host<'_>) -> bool {
        let names = |origin: &String| {
            let authority = origin.split_once("://").and_then(|(_, authority)| Host::parse(authority));
            matches!(authority, Some(Host::Name(name)) if host.is_named(name))
        };
        host.is_private() || self.allowed.iter().any(|allowed| allowed == "*" || names(allowed))
    }

    /// Whether a request with that `Origin` and that `Host` is let in, which came by TLS or not, where that is known: a
    /// proxy may have unpacked it without a word. Programs other than browsers send no origin.
    pub fn admit(&self, origin: &str, host: Option<&str>, is_tls: Option<bool>) -> bool {
        let encrypted = origin.strip_prefix("https://").filter(|_| is_tls != Some(false));
        let plain = origin.strip_prefix("http://").filter(|_| is_tls != Some(true));
        let is_own = encrypted.or(plain).is_some_and(|authority| Some(authority) == host);
        is_own || self.lists(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_origins_stay_out() {
        let origins = Origins::new(vec!["https://good.example".to_owned()]);
        let host = Some("relay.example:8080");
        for admitted in ["https://good.example", "http://relay.example:8080", "https://relay.example:8080"] {
            assert!(origins.admit(admitted, host, None), "{admitted}");
        }
        assert!(origins.admit("https://relay.example:8080", host, Some(true)));
        assert!(!origins.admit("http://relay.example:8080", host, Some(true)));
        assert!(!origins.admit("https://relay.example:8080", host, Some(false)));
        for refused in [
            "null",
            "https://good.example.evil",
            "http://good.example",
            "https://evil",
            "",
            "http://relay.example",
        ] {
            assert!(!origins.admit(refused, host, None), "{refused}");
        }
        assert!(!origins.admit("https://", Some("x"), None));
        assert!(Origins::new(vec!["*".to_owned()]).admit("null", host, None));
    }

    #[test]
    fn hosts_are_known_by_listed_origins() {
        let knows = |allowed: &[&str], host| {
            Origins::new(allowed.iter().map(ToString::to_string).collect()).know(Host::parse(host).unwrap())
        };
        let listed = ["https://good.example", "http://other.example:8080", "http://10.0.0.7"];
        for known in
            ["good.example", "GOOD.example:8080", "other.example", "localhost:1", "[::1]", "10.1.1.1"]
        {
            assert!(knows(&listed, known), "{known}");
        }
        for unknown in
            ["evil.example", "a.good.example", "good.example.evil.example", "example", "good.example."]
        {
            assert_eq!(knows(&listed, unknown), unknown == "example", "{unknown}");
        }
        assert!(!knows(&[], "good.example") && knows(&["*"], "evil.example"));
    }
}
