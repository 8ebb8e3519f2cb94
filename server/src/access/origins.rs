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

    /// Whether a request with that `Origin` and that `Host` is let in. Programs other than browsers send none.
    pub fn admit(&self, origin: Option<&str>, host: Option<&str>) -> bool {
        let Some(origin) = origin else { return true };
        let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        let is_own = authority.is_some_and(|authority| Some(authority) == host);
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
        for admitted in [None, Some("https://good.example"), Some("http://relay.example:8080")] {
            assert!(origins.admit(admitted, host), "{admitted:?}");
        }
        for refused in [
            "null",
            "https://good.example.evil",
            "http://good.example",
            "https://evil",
            "",
            "http://relay.example",
        ] {
            assert!(!origins.admit(Some(refused), host), "{refused}");
        }
        assert!(!origins.admit(Some("https://"), Some("x")));
        assert!(Origins::new(vec!["*".to_owned()]).admit(Some("null"), host));
    }
}
