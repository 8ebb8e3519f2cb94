//! Whom a request comes from: the other end of its connection, or whom a trusted proxy speaks for.
//!
//! Each proxy adds the address that it was called from at the right end of `X-Forwarded-For`, or as an element of
//! `Forwarded` (RFC 7239). So the header is read from the right: past those that are trusted themselves, up to the
//! first that is not. Whatever stands to the left of it was written by a client, who can write anything.

use std::net::{IpAddr, SocketAddr};

use http::Request;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use inkrelay_protocol::ErrorCode;
use ipnet::IpNet;

use super::problem::Problem;
use super::request::PeerAddress;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Who asks, and by which address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Where from.
    pub address: IpAddr,
    /// The host that the client named, where a proxy tells another than it names itself.
    pub host: Option<HeaderValue>,
    /// Whether the client came over TLS; `None` when nobody says.
    pub is_tls: Option<bool>,
}

/// One proxy's word: whom it was called by, and how.
#[derive(Default)]
struct Hop<'h> {
    client: Option<IpAddr>,
    host: Option<&'h str>,
    proto: Option<&'h str>,
}

/// The scheme by which a client came, in a request's extensions where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameByTls(pub bool);

/// Has a request tell by itself whom it comes from, and which host its client named: what reads it then needs to know
/// nothing of proxies.
///
/// # Errors
/// As [`caller`].
pub fn introduce<B>(
    request: &mut Request<B>,
    peer: IpAddr,
    is_encrypted: bool,
    trusted: &[IpNet],
) -> Result<(), Problem> {
    let Caller { address, host, is_tls } = caller(peer, request.headers(), trusted)?;
    let is_proxied = is_within(trusted, peer);
    if let Some(host) = host {
        request.headers_mut().insert(header::HOST, host);
    }
    request.extensions_mut().insert(PeerAddress(address));
    // Without TLS here, it may have ended at a trusted proxy that does not say so.
    if let Some(is_tls) = is_tls.or((is_encrypted || !is_proxied).then_some(is_encrypted)) {
        request.extensions_mut().insert(CameByTls(is_tls));
    }
    Ok(())
}

/// Whether an address is one of these networks.
pub fn is_within(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Who asks, given the other end of the connection and the networks of trusted proxies.
///
/// # Errors
/// When the two headers name different clients, or one cannot be read: a proxy writes one of them and passes on what the
/// client wrote into the other.
pub fn caller(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> Result<Caller, Problem> {
    if trusted.is_empty() || !is_within(trusted, peer) {
        return Ok(Caller { address: peer, host: None, is_tls: None });
    }
    let by_element = forwarded(headers)?;
    let by_list = x_forwarded(headers);
    let (hops, others) = if by_element.is_empty() { (by_list, by_element) } else { (by_element, by_list) };
    let (address, hop) = outermost(peer, hops, trusted);
    if !others.is_empty() && outermost(peer, others, trusted).0 != address {
        return Err(malformed(
            "Forwarded and X-Forwarded-For name different clients: the proxy is to remove one of them",
        ));
    }
    let is_tls = hop.proto.and_then(|proto| match proto {
        _ if proto.eq_ignore_ascii_case("https") || proto.eq_ignore_ascii_case("wss") => Some(true),
        _ if proto.eq_ignore_ascii_case("http") || proto.eq_ignore_ascii_case("ws") => Some(false),
        _ => None,
    });
    Ok(Caller { address, host: hop.host.and_then(|host| HeaderValue::from_str(host).ok()), is_tls })
}

/// The first address from the right that is no trusted proxy's, and the word of the proxy that it called.
fn outermost<'h>(peer: IpAddr, hops: Vec<Hop<'h>>, trusted: &[IpNet]) -> (IpAddr, Hop<'h>) {
    let (mut address, mut outermost) = (peer, Hop::default());
    for hop in hops.into_iter().rev() {
        let client = hop.client;
        outermost = hop;
        match client {
            Some(client) => address = client,
            // It does not say by whom it was called: all that is known is the proxy.
            None => break,
        }
        if !is_within(trusted, address) {
            break;
        }
    }
    (address, outermost)
}

/// `X-Forwarded-For`, with what the other two say. These have one value for each hop, or one for all.
fn x_forwarded(headers: &HeaderMap) -> Vec<Hop<'_>> {
    let (hosts, protos) = (list(headers, &FORWARDED_HOST), list(headers, &FORWARDED_PROTO));
    let clients = list(headers, &FORWARDED_FOR);
    let count = clients.len();
    let beside = |values: &[&'_ str], from_right: usize| -> Option<usize> {
        (!values.is_empty()).then(|| values.len() - 1 - from_right.min(values.len() - 1))
    };
    let hop = |(index, client): (usize, &str)| {
        let from_right = count - 1 - index;
        Hop {
            client: address(client),
            host: beside(&hosts, from_right).map(|at| hosts[at]),
            proto: beside(&protos, from_right).map(|at| protos[at]),
        }
    };
    clients.iter().copied().enumerate().map(hop).collect()
}

fn list<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Vec<&'h str> {
    // What is no text is no address either, and holds its place.
    let lines = headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("?"));
    lines.flat_map(|line| line.split(',')).map(str::trim).collect()
}

fn forwarded(headers: &HeaderMap) -> Result<Vec<Hop<'_>>, Problem> {
    let mut hops = Vec::new();
    for line in headers.get_all(header::FORWARDED) {
        let line = line.to_str().map_err(|_| malformed("Forwarded is no plain text"))?;
        for element in split(line, ',')? {
            let mut hop = Hop::default();
            for pair in split(element, ';')? {
                let Some((name, value)) = pair.split_once('=') else { continue };
                let value = value.trim().trim_matches('"');
                match name.trim() {
                    name if name.eq_ignore_ascii_case("for") => hop.client = address(value),
                    name if name.eq_ignore_ascii_case("host") => hop.host = Some(value),
                    name if name.eq_ignore_ascii_case("proto") => hop.proto = Some(value),
                    _ => {}
                }
            }
            hops.push(hop);
        }
    }
    Ok(hops)
}

/// The parts of a line between separators outside of quotation marks. A mark that is not closed would hide what a proxy
/// added behind it.
fn split(line: &str, separator: char) -> Result<Vec<&str>, Problem> {
    let mut is_quoted = false;
    let parts: Vec<_> = line
        .split(|c: char| {
            is_quoted ^= c == '"';
            c == separator && !is_quoted
        })
        .map(str::trim)
        .collect();
    // No address, host or scheme has a backslash, and with one a mark need not be one.
    if is_quoted || line.contains('\\') {
        return Err(malformed("Forwarded cannot be read"));
    }
    Ok(parts)
}

/// An address, with a port or without, as both headers have it.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    bare.parse::<IpAddr>().or_else(|_| with_port()).map(|address| address.to_canonical()).ok()
}

fn malformed(detail: &'static str) -> Problem {
    Problem::new(ErrorCode::Malformed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn of(peer: &str, headers: &[(&str, &str)]) -> Option<Caller> {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        }
        caller(peer.parse().unwrap(), &map, &trusted).ok()
    }

    fn address_of(peer: &str, headers: &[(&str, &str)]) -> String {
        of(peer, headers).map_or_else(|| "refused".to_owned(), |caller| caller.address.to_string())
    }

    #[test]
    fn a_client_cannot_forge_where_it_is() {
        for (name, peer, headers, expected) in [
            ("from anywhere", "203.0.113.9", &[("x-forwarded-for", "192.0.2.1")][..], "203.0.113.9"),
            ("from anywhere, by element", "203.0.113.9", &[("forwarded", "for=192.0.2.1")], "203.0.113.9"),
            ("as a proxy from anywhere", "203.0.113.9", &[("x-forwarded-for", "10.0.0.1")], "203.0.113.9"),
            (
                "before the proxy's word",
                PROXY,
                &[("x-forwarded-for", "192.0.2.1, 203.0.113.9")],
                "203.0.113.9",
            ),
            (
                "in a line of its own",
                PROXY,
                &[("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "203.0.113.9")],
                "203.0.113.9",
            ),
            ("as a trusted one", PROXY, &[("x-forwarded-for", "10.9.9.9, 203.0.113.9")], "203.0.113.9"),
            ("as loopback", PROXY, &[("x-forwarded-for", "127.0.0.1, 203.0.113.9")], "203.0.113.9"),
            ("as nobody", PROXY, &[("x-forwarded-for", ", , 203.0.113.9")], "203.0.113.9"),
            ("as rubbish", PROXY, &[("x-forwarded-for", "'; DROP TABLE, 203.0.113.9")], "203.0.113.9"),
            (
                "with many hops",
                PROXY,
                &[("x-forwarded-for", "192.0.2.1,192.0.2.2,192.0.2.3,203.0.113.9,10.0.0.2")],
                "203.0.113.9",
            ),
            (
                "by element before the proxy's",
                PROXY,
                &[("forwarded", "for=192.0.2.1, for=203.0.113.9")],
                "203.0.113.9",
            ),
            (
                "by an open quotation mark",
                PROXY,
                &[("forwarded", "for=\"192.0.2.1, for=203.0.113.9")],
                "refused",
            ),
            (
                "by an escaped quotation mark",
                PROXY,
                &[("forwarded", "for=\"\\\", for=203.0.113.9\"")],
                "refused",
            ),
            (
                "by a comma in quotation marks",
                PROXY,
                &[("forwarded", "for=\"x, for=192.0.2.1\", for=203.0.113.9")],
                "203.0.113.9",
            ),
            (
                "by the header that the proxy does not write",
                PROXY,
                &[("forwarded", "for=192.0.2.1"), ("x-forwarded-for", "203.0.113.9")],
                "refused",
            ),
            (
                "by a different name of the header",
                PROXY,
                &[("x-real-ip", "192.0.2.1"), ("x-forwarded-for", "203.0.113.9")],
                "203.0.113.9",
            ),
            (
                "by the client's own header",
                PROXY,
                &[("client-ip", "192.0.2.1"), ("true-client-ip", "192.0.2.1")],
                PROXY,
            ),
        ] {
            assert_eq!(address_of(peer, headers), expected, "{name}: {headers:?}");
        }
    }

    #[test]
    fn a_trusted_proxy_is_believed_whom_it_speaks_for() {
        for (headers, expected) in [
            (&[][..], PROXY),
            (&[("x-forwarded-for", "203.0.113.9")], "203.0.113.9"),
            (&[("x-forwarded-for", "203.0.113.9:4711")], "203.0.113.9"),
            (&[("x-forwarded-for", "2001:db8::1")], "2001:db8::1"),
            (&[("x-forwarded-for", "[2001:db8::1]")], "2001:db8::1"),
            (&[("x-forwarded-for", "[2001:db8::1]:4711")], "2001:db8::1"),
            (&[("x-forwarded-for", "::ffff:203.0.113.9")], "203.0.113.9"),
            (&[("x-forwarded-for", "203.0.113.9, fd00::7")], "203.0.113.9"),
            (&[("x-forwarded-for", "10.1.1.1, 10.0.0.2")], "10.1.1.1"),
            (&[("x-forwarded-for", "203.0.113.9, unknown")], PROXY),
            (&[("x-forwarded-for", "203.0.113.9, unknown, 10.0.0.2")], "10.0.0.2"),
            (&[("forwarded", "for=203.0.113.9;proto=https;by=10.0.0.1")], "203.0.113.9"),
            (&[("forwarded", "FOR=\"[2001:db8::1]:4711\"")], "2001:db8::1"),
            (&[("forwarded", "for=203.0.113.9"), ("forwarded", "for=10.0.0.2")], "203.0.113.9"),
            (&[("forwarded", "for=_hidden")], PROXY),
            (&[("forwarded", "proto=https")], PROXY),
            (&[("forwarded", "for=203.0.113.9"), ("x-forwarded-for", "203.0.113.9")], "203.0.113.9"),
        ] {
            assert_eq!(address_of(PROXY, headers), expected, "{headers:?}");
        }
        assert_eq!(address_of("fd00::1", &[("x-forwarded-for", "203.0.113.9")]), "203.0.113.9");
    }

    #[test]
    fn the_host_and_the_scheme_are_those_of_the_outermost_trusted_proxy() {
        let client = ("x-forwarded-for", "203.0.113.9");
        for (headers, host, is_tls) in [
            (&[client][..], None, None),
            (
                &[client, ("x-forwarded-proto", "https"), ("x-forwarded-host", "draw.example")],
                Some("draw.example"),
                Some(true),
            ),
            (&[client, ("x-forwarded-proto", "HTTP")], None, Some(false)),
            (&[client, ("x-forwarded-proto", "gopher")], None, None),
            (&[client, ("x-forwarded-proto", "https, http")], None, Some(false)),
            (
                &[("x-forwarded-for", "203.0.113.9, 10.0.0.2"), ("x-forwarded-proto", "https, http")],
                None,
                Some(true),
            ),
            (
                &[("x-forwarded-for", "203.0.113.9, 10.0.0.2"), ("x-forwarded-proto", "https")],
                None,
                Some(true),
            ),
            (
                &[(
                    "forwarded",
                    "for=192.0.2.1;host=evil.example, for=203.0.113.9;host=\"draw.example:8443\";proto=https",
                )],
                Some("draw.example:8443"),
                Some(true),
            ),
            (&[("x-forwarded-host", "draw.example")], None, None),
        ] {
            let caller = of(PROXY, headers).unwrap();
            let told = caller.host.as_ref().map(|host| host.to_str().unwrap());
            assert_eq!((told, caller.is_tls), (host, is_tls), "{headers:?}");
        }
        let untrusted =
            of("203.0.113.9", &[("x-forwarded-host", "evil.example"), ("x-forwarded-proto", "https")]);
        assert_eq!(untrusted.unwrap().host, None);
    }
}
