//! The greeting: what the relay says when it starts, and where to reach it.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use qrcode::{Color, EcLevel, QrCode};

/// What there is to tell.
pub struct Greeting<'a> {
    pub listens_on: SocketAddr,
    /// The store, in its own words.
    pub store: &'a str,
    /// Whether it speaks TLS.
    pub is_encrypted: bool,
    pub has_board: bool,
    pub is_unlimited: bool,
    /// Where operators are served.
    pub operators: Option<SocketAddr>,
    /// Whether people need a token to get in.
    pub has_tokens: bool,
    /// Where others reach this machine, the likeliest first. See [`reachable`].
    pub addresses: &'a [IpAddr],
    /// Whether a terminal shows it, which can draw a QR code.
    pub is_terminal: bool,
}

impl Greeting<'_> {
    /// The text. Its first line ends with the address that is listened on, which programs read.
    pub fn text(&self) -> String {
        let mut text =
            format!("Inkrelay listens on {}://{}\n  {}\n", self.scheme(), self.listens_on, self.store);
        if !self.has_board {
            text.push_str("  built without the drawing board: `make run` builds and starts both\n");
        }
        if self.is_unlimited {
            text.push_str("  limits of rate and count are lifted: one client can exhaust this server\n");
        }
        if let Some(address) = self.operators {
            let _ = writeln!(text, "  for operators: http://{address}");
        }
        if self.listens_on.ip().is_loopback() {
            if self.has_board {
                text.push_str("  open the address above in a browser to draw; Ctrl-C stops the relay\n");
            }
        } else {
            self.tell_others(&mut text);
        }
        text
    }

    /// The same as one line of the log.
    pub fn log(&self) {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            address = format!("{}://{}", self.scheme(), self.listens_on),
            store = self.store,
            operators = self.operators.map(|address| format!("http://{address}")),
            tokens = self.has_tokens,
            unlimited = self.is_unlimited,
            "Inkrelay listens"
        );
    }

    const fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// How others get here, and what that means.
    fn tell_others(&self, text: &mut String) {
        let port = self.listens_on.port();
        let urls: Vec<_> =
            self.addresses.iter().map(|ip| url(self.scheme(), SocketAddr::new(*ip, port))).collect();
        match &urls[..] {
            [] => text.push_str("  this machine has no address that others could reach\n"),
            [first, others @ ..] => {
                let _ = write!(
                    text,
                    "\n  On an iPad or another machine in this network, open\n\n      {first}\n\n"
                );
                if self.is_terminal {
                    text.push_str(&qr(first));
                }
                if !others.is_empty() {
                    text.push_str("  or, where that one does not answer:\n");
                    for other in others {
                        let _ = writeln!(text, "      {other}");
                    }
                    text.push('\n');
                }
            }
        }
        text.push_str(if self.has_tokens {
            "  Only those with a token can get in.\n"
        } else {
            "  The relay is open (--open): everyone in this network can read and draw in every room whose name they know.\n"
        });
        if !self.is_encrypted {
            text.push_str("  Plain http is not encrypted: others in the network could listen in.\n");
        }
        text.push_str("  Ctrl-C stops the relay.\n");
    }
}

fn url(scheme: &str, address: SocketAddr) -> String {
    // Browsers leave out the usual port, and so does whoever types it.
    match (scheme, address.port(), address.ip()) {
        ("http", 80, IpAddr::V4(ip)) | ("https", 443, IpAddr::V4(ip)) => format!("{scheme}://{ip}"),
        ("http", 80, IpAddr::V6(ip)) | ("https", 443, IpAddr::V6(ip)) => format!("{scheme}://[{ip}]"),
        _ => format!("{scheme}://{address}"),
    }
}

/// The addresses under which others reach a server that listens there: the one through which this machine reaches
/// the world first, and IPv4 before IPv6.
pub fn reachable(listens_on: IpAddr) -> Vec<IpAddr> {
    if !listens_on.is_unspecified() {
        return vec![listens_on];
    }
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list this machine's addresses");
        Vec::new()
    });
    let all = interfaces.into_iter().map(|interface| interface.ip()).collect();
    choose(all, listens_on.is_ipv4(), outward())
}

fn choose(mut all: Vec<IpAddr>, only_ipv4: bool, outward: Option<IpAddr>) -> Vec<IpAddr> {
    // A link-local address says nothing without the name of an interface, which browsers do not take.
    all.retain(|ip| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !only_ipv4 && !ip.is_loopback() && !ip.is_unicast_link_local(),
    });
    all.sort_by_key(|ip| (Some(*ip) != outward, ip.is_ipv6()));
    all.dedup();
    all
}

/// The address from which this machine would send to the world. Nothing is sent: the kernel only looks up the route.
fn outward() -> Option<IpAddr> {
    // An address for documentation (RFC 5737), which nobody has.
    const SOMEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(SOMEWHERE).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// A QR code in half blocks, two modules above each other in one character. Its colours are set, since readers want
/// dark on light, which not every terminal is; and from the fixed part of the palette, which no theme changes.
fn qr(text: &str) -> String {
    /// Light modules around the code, without which it is not found.
    const MARGIN: usize = 4;
    let Ok(code) = QrCode::with_error_correction_level(text, EcLevel::L) else { return String::new() };
    let width = code.width();
    let is_dark = |x: usize, y: usize| {
        let inside = |at: usize| at.checked_sub(MARGIN).filter(|at| *at < width);
        inside(x).zip(inside(y)).is_some_and(|at| code[at] == Color::Dark)
    };
    let side = width + 2 * MARGIN;
    let mut out = String::new();
    for y in (0..side).step_by(2) {
        out.push_str("      \x1b[38;5;16;48;5;231m");
        out.extend((0..side).map(|x| match (is_dark(x, y), is_dark(x, y + 1)) {
            (false, false) => ' ',
            (true, false) => '▀',
            (false, true) => '▄',
            (true, true) => '█',
        }));
        out.push_str("\x1b[0m\n");
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn greeting(listens_on: &str, addresses: &[&str], is_terminal: bool) -> String {
        Greeting { is_terminal, ..plain(listens_on, &ips(addresses)) }.text()
    }

    fn plain<'a>(listens_on: &str, addresses: &'a [IpAddr]) -> Greeting<'a> {
        let listens_on = listens_on.parse().unwrap();
        Greeting {
            listens_on,
            store: "draws are kept in memory",
            is_encrypted: false,
            has_board: true,
            is_unlimited: false,
            operators: None,
            has_tokens: false,
            addresses,
            is_terminal: false,
        }
    }

    #[test]
    fn the_first_line_ends_with_the_address() {
        for listens_on in ["127.0.0.1:8080", "0.0.0.0:8080", "[::]:80"] {
            let text = greeting(listens_on, &[], false);
            assert!(text.lines().next().unwrap().ends_with(&format!("http://{listens_on}")), "{text}");
        }
    }

    #[test]
    fn whoever_listens_for_others_is_told_what_that_means_and_where() {
        let text = greeting("0.0.0.0:8080", &["192.168.1.5", "10.0.0.1"], false);
        assert!(
            text.contains("http://192.168.1.5:8080\n") && text.contains("http://10.0.0.1:8080\n"),
            "{text}"
        );
        assert!(
            text.contains("(--open): everyone in this network") && text.contains("not encrypted"),
            "{text}"
        );
        assert!(text.contains("Ctrl-C") && text.is_ascii(), "{text}");
        assert!(greeting("[::]:80", &["fd00::1"], false).contains("      http://[fd00::1]\n"));
        assert!(greeting("0.0.0.0:80", &[], false).contains("no address that others could reach"));
        let alone = greeting("127.0.0.1:8080", &[], true);
        assert!(!alone.contains("in this network") && alone.is_ascii(), "{alone}");
    }

    #[test]
    fn whoever_has_a_certificate_is_told_encrypted_addresses() {
        let addresses = ips(&["192.168.1.5"]);
        let told = |listens_on| Greeting { is_encrypted: true, ..plain(listens_on, &addresses) }.text();
        let text = told("0.0.0.0:8443");
        assert!(text.lines().next().unwrap().ends_with("https://0.0.0.0:8443"), "{text}");
        assert!(text.contains("      https://192.168.1.5:8443\n") && text.contains("everyone"), "{text}");
        assert!(!text.contains("http://") && !text.contains("not encrypted"), "{text}");
        assert!(told("0.0.0.0:443").contains("      https://192.168.1.5\n"));
    }

    #[test]
    fn a_terminal_shows_a_code_of_the_first_address() {
        let text = greeting("0.0.0.0:8080", &["192.168.1.5", "10.0.0.1"], true);
        let rows: Vec<_> = text.lines().filter(|line| line.contains("\x1b[38;5;16;48;5;231m")).collect();
        // Version 2 has 25 modules on a side, and four light ones on each: 33 in 17 rows.
        assert_eq!(rows.len(), 17);
        let modules = |row: &str| row.split('m').nth(1).unwrap().chars().take_while(|c| *c != '\x1b').count();
        assert!(rows.iter().all(|row| modules(row) == 33 && row.ends_with("\x1b[0m")), "{text}");
        assert!(text.contains(&qr("http://192.168.1.5:8080")), "{text}");
    }

    #[test]
    fn addresses_that_others_cannot_use_are_left_out_and_the_outward_one_comes_first() {
        let all = ["127.0.0.1", "172.17.0.1", "fe80::1", "2001:db8::5", "169.254.3.4", "::1", "192.168.1.5"];
        let outward = "192.168.1.5".parse().ok();
        assert_eq!(choose(ips(&all), true, outward), ips(&["192.168.1.5", "172.17.0.1"]));
        assert_eq!(choose(ips(&all), false, outward), ips(&["192.168.1.5", "172.17.0.1", "2001:db8::5"]));
        assert_eq!(choose(ips(&all), true, None), ips(&["172.17.0.1", "192.168.1.5"]));
        assert_eq!(reachable("192.168.1.9".parse().unwrap()), ips(&["192.168.1.9"]));
    }
}
