//! How values are written: sizes, times, origins, networks.

use std::net::IpAddr;
use std::time::Duration;

use inkrelay_protocol::Role;
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

/// Where operators are served.
pub fn operators_listen(text: &str) -> Result<OperatorsListen, String> {
    match text {
        "off" => Ok(OperatorsListen::Off),
        address => address
            .parse()
            .map(OperatorsListen::At)
            .map_err(|_| "write it like 127.0.0.1:9090, or off".to_owned()),
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
    Ok(size.as_u64())
}

/// A network, or one address.
pub fn network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from).ok();
    let network = text.parse().ok().or_else(address);
    network.ok_or_else(|| "write it like 10.0.0.0/8, fd00::/8 or 127.0.0.1".to_owned())
}

/// What is logged, in the words of `tracing`.
pub fn log_filter(text: &str) -> Result<String, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error}; write it like info, debug or inkrelay_server::store=debug,info")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1000"), Ok(1000));
        assert!(bytes("many").is_err());
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
        assert!(log_filter("inkrelay_server=loud").is_err());
    }
}
