//! Origins: whose pages may connect.

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
}
