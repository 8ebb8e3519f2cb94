//! How values are written: sizes, times, origins, networks.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

use inkrelay_protocol::Role;
use inkrelay_protocol::limits::SAFE_INTEGER_MAX;
use ipnet::IpNet;
use tracing_subscriber::EnvFilter;

use super::OperatorsListen;

/// An origin as browsers send it, so that comparing is comparing bytes: lower case, and no port where it is the
/// scheme's own.
pub fn origin(text: &str) -> Result<String, String> {
    const HOW: &str = "write it like https://draw.example, without a path, or *";
    if text == "*" {
        return Ok(text.to_owned());
    }
    let lower = text.to_ascii_lowercase();
    let (authority, usual_port) = match (lower.strip_prefix("https://"), lower.strip_prefix("http://")) {
        (Some(authority), _) => (authority, ":443"),
        (None, Some(authority)) => (authority, ":80"),
        (None, None) => return Err(HOW.to_owned()),
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_' | b':' | b'[' | b']');
    if authority.is_empty() || !authority.bytes().all(is_plain) {
        return Err(HOW.to_owned());
    }
    if let Some(host) = authority.strip_suffix(usual_port).filter(|host| !host.ends_with(':')) {
        let scheme = &lower[..lower.len() - authority.len()];
        return Err(format!("write it as browsers do, without the usual port: {scheme}{host}"));
    }
    Ok(lower)
}

/// An address and a port. A name stands for the first of its addresses, and for the first of IPv4 if it has one:
/// `localhost` is `127.0.0.1` on a machine that has both.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    const HOW: &str = "write it like 127.0.0.1:8080, [::1]:8080 or localhost:8080";
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let parts = text.rsplit_once(':').and_then(|(name, port)| Some((host(name).ok()?, port.parse().ok()?)));
    let (name, port): (_, u16) = parts.ok_or_else(|| format!("it is no address with a port; {HOW}"))?;
    let found = (name.as_str(), port).to_socket_addrs();
    let found: Vec<_> = found.map_err(|error| format!("nobody knows {name}: {error}; {HOW}"))?.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| format!("{name} has no address; {HOW}"))
}

/// The name of a machine, or its address of IPv4.
pub fn host(text: &str) -> Result<String, String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if text.is_empty() || !text.bytes().all(is_plain) {
        return Err("write it like ops.example, without a scheme, a port or a path".to_owned());
    }
    Ok(text.to_owned())
}

/// Where operators are served.
pub fn operators_listen(text: &str) -> Result<OperatorsListen, String> {
    match text {
        "off" => Ok(OperatorsListen::Off),
        text => address(text).map(OperatorsListen::At).map_err(|why| format!("{why}, or off")),
    }
}

/// What people may do.
pub fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(str::to_owned)
}

/// A time with its unit.
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| format!("{error}; write it like 500ms, 5s or 2min"))
}

/// A number of bytes, with a unit or without.
pub fn bytes(text: &str) -> Result<u64, String> {
    let size: bytesize::ByteSize =
        text.parse().map_err(|error| format!("{error}; write it like 65536, 64KiB or 1MB"))?;
    // What is beyond any number is the largest one here.
    if size.as_u64() > SAFE_INTEGER_MAX {
        return Err("that is more than any machine has, 8 PiB; 0 lifts a limit".to_owned());
    }
    Ok(size.as_u64())
}

/// How many.
pub fn number<N: FromStr<Err: fmt::Display>>(text: &str) -> Result<N, String> {
    text.parse().map_err(|error| format!("{error}; write a whole number, like 120"))
}

/// A network, or one address.
pub fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from).ok();
    let network = text.parse().ok().or_else(address);
    network.ok_or_else(|| "write it like 10.0.0.0/8, fd00::/8 or 127.0.0.1".to_owned())
}

/// What is logged, in the words of `tracing`: a level for all, and parts with levels of their own.
///
/// # Errors
/// What is none of that. `tracing` itself takes a word that is no level for the name of a part, and logs nothing else.
pub fn log_filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let how = || format!("write one of {}, or inkrelay_server::store=debug,info by part", LEVELS.join(", "));
    // Commas also stand between the fields of a span: these are left to `tracing`.
    let is_word = |part: &&str| !part.contains(['=', '[', ']', '{', '}', '"']);
    if let Some(word) = text.split(',').map(str::trim).filter(is_word).find(|word| !is_level(word)) {
        return Err(format!("{word:?} is no level: {}", how()));
    }
    EnvFilter::try_new(text).map_err(|error| format!("{error}; {}", how()))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1000"), Ok(1000));
        for wrong in ["many", "99999999999999999999GB", "18446744073709551615", "1e99", "-1"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert!(duration("5").is_err());
    }

    #[test]
    fn origins_are_kept_as_browsers_send_them() {
        for (written, kept) in [
            ("https://draw.example", "https://draw.example"),
            ("HTTPS://Draw.Example", "https://draw.example"),
            ("http://10.0.0.7:8080", "http://10.0.0.7:8080"),
            ("http://[fd00::1]:8080", "http://[fd00::1]:8080"),
            ("https://draw.example:80", "https://draw.example:80"),
            ("*", "*"),
        ] {
            assert_eq!(origin(written).as_deref(), Ok(kept), "{written}");
        }
        for wrong in [
            "null",
            "",
            "draw.example",
            "https://",
            "https://draw.example/",
            "https://draw.example/b",
            "https://anna@draw.example",
            "https://draw.example?x",
            "https://draw.example#x",
            "https://draw .example",
            "https://*.example",
            "https://draw.example:443",
            "http://draw.example:80",
            "ftp://draw.example",
            "https://a,https://b",
        ] {
            assert!(origin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_have_a_port_and_names_are_looked_up() {
        assert_eq!(address("[::1]:8080"), Ok("[::1]:8080".parse().unwrap()));
        assert_eq!(address("localhost:8080"), Ok("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(operators_listen("localhost:9090"), Ok(OperatorsListen::DEFAULT));
        for wrong in [
            "localhost",
            "8080",
            ":8080",
            "localhost:http",
            "localhost:99999",
            "http://localhost:8080",
            "::1:80",
        ] {
            assert!(address(wrong).unwrap_err().contains("; write it like 127.0.0.1:8080"), "{wrong}");
        }
        assert!(address("nobody.invalid:80").unwrap_err().contains("nobody.invalid"));
        for wrong in ["http://ops.example", "ops.example:9090", "ops.example/", "", "*"] {
            assert!(host(wrong).unwrap_err().contains("write it like ops.example"), "{wrong}");
        }
    }

    #[test]
    fn networks_are_written_with_their_length_or_as_one_address() {
        assert_eq!(network("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(network("127.0.0.1").unwrap().to_string(), "127.0.0.1/32");
        assert_eq!(network("::1").unwrap().to_string(), "::1/128");
        for wrong in ["", "10.0.0.0/33", "10.0.0", "localhost", "*"] {
            assert!(network(wrong).unwrap_err().contains("10.0.0.0/8"), "{wrong}");
        }
    }

    #[test]
    fn a_log_filter_that_cannot_be_read_is_none() {
        assert!(log_filter("info").is_ok() && log_filter("inkrelay_server::store=debug,warn").is_ok());
        for right in
            ["off", "WARN", "trace", "warn,inkrelay_server=debug", "inkrelay_server[request{id=7}]=trace"]
        {
            assert_eq!(log_filter(right).as_deref(), Ok(right));
        }
        for wrong in [
            "warning",
            "verbose",
            "nonsense",
            "",
            "3",
            "info,",
            "info,inkrelay_server",
            "inkrelay_server=loud",
        ] {
            let why = log_filter(wrong).expect_err(wrong);
            assert!(why.contains("write one of off, error, warn, info, debug, trace"), "{wrong}: {why}");
        }
    }
}
