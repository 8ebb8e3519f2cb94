//! Debian's nginx with the configuration of `deploy/nginx`, on a free loopback port, ended with the test.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::PATIENCE;

/// Ports that are tried before giving up: another process may take one between the search and the start.
const PORTS_TRIED: usize = 10;

/// Lines of what it logged that a test which fails shows.
const LINES_SHOWN: usize = 40;

/// The relays that stand in the configuration, also of Caddy.
pub const RELAYS: [&str; 2] = ["127.0.0.1:8081", "127.0.0.1:8082"];

/// A running nginx. Ended when dropped.
pub struct Nginx {
    pub address: SocketAddr,
    folder: Folder,
    child: Child,
}

/// What nginx is started from: the files of `deploy/nginx`, at the places that they name.
struct Folder(TempDir);

impl Folder {
    /// With other addresses instead of those in the files.
    fn new(listen: SocketAddr, relays: [SocketAddr; 2]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a temporary directory"));
        let path = folder.path();
        for name in ["conf.d", "snippets", "temp", "log"] {
            fs::create_dir(path.join(name)).expect("a folder in one's own");
        }
        let log = path.join("log").display().to_string();
        let conf = deployed("inkrelay.conf");
        let conf = replace(&conf, "listen 80 ", &format!("listen {listen} "));
        folder.write("conf.d/inkrelay.conf", &replace(&conf, "/var/log/nginx", &log));
        let mut upstream = deployed("inkrelay-upstream.conf");
        for (usual, relay) in RELAYS.iter().zip(relays) {
            upstream = replace(&upstream, &format!("server {usual} "), &format!("server {relay} "));
        }
        folder.write("snippets/inkrelay-upstream.conf", &upstream);
        folder.write("snippets/inkrelay-locations.conf", &deployed("inkrelay-locations.conf"));
        folder.write("nginx.conf", &main_conf(path));
        folder
    }

    /// With TLS beside it, and a certificate of one's own.
    fn add_tls(&self, listen: SocketAddr, certificate: &Path, key: &Path) {
        let conf = deployed("inkrelay.tls.conf");
        let conf = replace(&conf, "listen 443 ", &format!("listen {listen} "));
        let conf = replace(&conf, "/etc/ssl/certs/inkrelay.pem", &certificate.display().to_string());
        let conf = replace(&conf, "/etc/ssl/private/inkrelay.key", &key.display().to_string());
        let log = self.path().join("log").display().to_string();
        self.write("conf.d/inkrelay.tls.conf", &replace(&conf, "/var/log/nginx", &log));
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("a file in one's own folder");
    }

    fn command(&self) -> Command {
        let mut command = Command::new(program());
        command.arg("-p").arg(self.path()).arg("-c").arg(self.path().join("nginx.conf"));
        command.arg("-e").arg(self.path().join("error.log"));
        command.stdin(Stdio::null());
        command
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path().join("error.log")).unwrap_or_default()
    }
}

/// Where Debian puts it, which is not on everyone's path.
fn program() -> PathBuf {
    let usual = PathBuf::from("/usr/sbin/nginx");
    if usual.exists() { usual } else { "nginx".into() }
}

fn deployed(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/nginx").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is to be replaced has to be there: otherwise something else would be tested than what is deployed.
pub fn replace(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "the configuration no longer says {old:?}");
    text.replace(old, new)
}

/// What Debian's own nginx.conf does, for a folder of one's own.
fn main_conf(folder: &Path) -> String {
    let folder = folder.display();
    // The workers of a root would be another user, who may not read a test's folder.
    let is_root =
        Path::new("/proc/self").metadata().is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let user = if is_root { "user root;" } else { "" };
    let temp = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {folder}/temp/{name};"))
        .join("\n    ");
    format!(
        "daemon off;\nworker_processes 2;\n{user}\npid {folder}/pid;\nerror_log {folder}/error.log;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n    {temp}\n    gzip on;\n    include conf.d/*.conf;\n}}\n"
    )
}

impl Nginx {
    /// In front of relays at these addresses.
    pub fn start(relays: [SocketAddr; 2]) -> Self {
        for _ in 0..PORTS_TRIED {
            let address = free_address();
            let folder = Folder::new(address, relays);
            let child = folder.command().stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut child = child.unwrap_or_else(|error| {
                panic!("these tests start their own nginx (`apt-get install nginx-light`): {error}")
            });
            let until = Instant::now() + PATIENCE;
            while Instant::now() < until {
                if child.try_wait().expect("one's own child can be asked").is_some() {
                    break;
                }
                // It listens before it writes its id, so that whoever connects then reaches this one.
                let is_up =
                    fs::read_to_string(folder.path().join("pid")).is_ok_and(|pid| !pid.trim().is_empty());
                if is_up && std::net::TcpStream::connect(address).is_ok() {
                    return Self { address, folder, child };
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            let log = folder.log();
            end(&mut child);
            assert!(log.contains("already in use"), "nginx did not start:\n{log}");
        }
        panic!("nginx found no free port");
    }

    /// `nginx -t`, with TLS where there is a certificate: whether the configuration is sound, and what it says.
    pub fn check(tls: Option<(&Path, &Path)>) -> Output {
        let folder = Folder::new(free_address(), [free_address(), free_address()]);
        if let Some((certificate, key)) = tls {
            folder.add_tls(free_address(), certificate, key);
        }
        folder.command().arg("-t").output().expect("nginx can be run")
    }

    /// What it has logged of requests: a line each.
    pub fn access_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log/access.log")).unwrap_or_default()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        end(&mut self.child);
        if std::thread::panicking() {
            let log = self.access_log();
            let odd = log.lines().filter(|line| !line.contains(" 200 ") && !line.contains(" 101 "));
            odd.take(LINES_SHOWN).for_each(|line| eprintln!("nginx: {line}"));
            self.folder.log().lines().take(LINES_SHOWN).for_each(|line| eprintln!("nginx: {line}"));
        }
    }
}

/// Asks it to end at once, with its workers; a master that is killed leaves them behind.
fn end(child: &mut Child) {
    let pid = child.id().to_string();
    drop(Command::new("kill").args(["-TERM", &pid]).stderr(Stdio::null()).status());
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        if child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(child.kill());
    drop(child.wait());
}

/// A port of loopback that is free now.
pub fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
    listener.local_addr().expect("a bound listener has an address")
}
