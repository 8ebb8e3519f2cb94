//! Debian's Caddy with the Caddyfile of `deploy/caddy`, on a free loopback port, ended with the test.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::PATIENCE;
use super::nginx::{RELAYS, free_address, replace};

/// A running Caddy. Ended when dropped.
pub struct Caddy {
    pub address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Caddy {
    /// In front of relays at these addresses.
    pub fn start(relays: [SocketAddr; 2]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let address = free_address();
        let deployed = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/caddy/Caddyfile");
        let deployed = fs::read_to_string(deployed).expect("the Caddyfile");
        let site = format!("\n:{} {{\n\tbind {}\n", address.port(), address.ip());
        let mut file = replace(&deployed, "\n:80 {\n", &site);
        for (usual, relay) in RELAYS.iter().zip(relays) {
            file = replace(&file, usual, &relay.to_string());
        }
        let path = folder.path().join("Caddyfile");
        // Without the port for its own administration, which is a fixed one.
        fs::write(&path, format!("{{\n\tadmin off\n}}\n{file}")).expect("a file in one's own folder");
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&path);
        for home in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(home, folder.path());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("these tests start their own Caddy (`apt-get install caddy`): {error}")
        });
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(address).is_err() {
            let ended = child.try_wait().expect("one's own child can be asked");
            assert!(ended.is_none() && Instant::now() < until, "Caddy did not start: {ended:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { address, child, _folder: folder }
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
