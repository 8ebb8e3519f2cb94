//! The server under load: one that runs already, or one that is started for this run and ends with it.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::run::Failure;

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of the line with a server's address at most.
const LINE_BYTES_MAX: u64 = 4096;
/// How long a server may take to end before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(3);
/// Between looks at whether it has.
const LOOK: Duration = Duration::from_millis(20);

/// Where a relay that is started keeps draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// Nowhere.
    Memory,
    /// In a file, synced before each ack.
    Embedded,
    /// In a Redis that is started too, with `appendonly yes`.
    Redis,
}

/// A server, and what was started for it. Whatever was is ended with this.
///
/// Each is the head of a process group, so that Ctrl-C reaches the generator alone, which stops drawing and still
/// needs the server for its last comparison.
#[derive(Debug, Default)]
pub struct Server {
    /// `http://host:port`.
    pub url: String,
    /// What to watch: names and ids.
    pub processes: Vec<(String, u32)>,
    children: Vec<Child>,
    _folder: Option<tempfile::TempDir>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server goes before its Redis, which was started first.
        for child in self.children.iter_mut().rev() {
            end(child);
        }
    }
}

/// Asks a process to end, and kills it and what it started when it does not.
fn end(child: &mut Child) {
    let id = i32::try_from(child.id()).map(Pid::from_raw).ok();
    let is_asked = id.is_some_and(|id| kill(id, Signal::SIGTERM).is_ok());
    let until = Instant::now() + END_TIMEOUT;
    while is_asked && Instant::now() < until {
        if child.try_wait().is_ok_and(|ended| ended.is_some()) {
            return;
        }
        std::thread::sleep(LOOK);
    }
    // It may have ended by itself. nginx's workers outlive their master, and a busy one keeps a core.
    let _ = id.map(|id| killpg(id, Signal::SIGKILL));
    let _ = child.kill();
    let _ = child.wait();
}

impl Server {
    /// One that runs already.
    pub fn running(url: String) -> Self {
        let mut server = Self::default();
        server.url = url;
        server
    }

    /// Watches a server that runs already, and other processes, by their ids.
    pub fn watch(&mut self, pid: Option<u32>, also: &[u32]) {
        self.processes.extend(pid.map(|pid| ("server".to_owned(), pid)));
        for pid in also {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            let name = name.map_or_else(|_| format!("process {pid}"), |name| name.trim().to_owned());
            self.processes.push((name, *pid));
        }
    }

    /// Starts a command, whose words are separated by spaces, and waits until it listens: at `url`, or at the
    /// address that its first line names. `{port}` in the command is a free port, and `{redis}` the address of a Redis
    /// that is started for it as for [`Store::Redis`].
    ///
    /// # Errors
    /// When it does not start in time.
    pub fn spawn(command: &str, url: Option<String>) -> Result<Self, Failure> {
        let mut server = Self::default();
        let mut command = command.to_owned();
        if command.contains("{redis}") {
            let folder = tempfile::tempdir()?;
            let port = server.start_redis(folder.path())?;
            server._folder = Some(folder);
            command = command.replace("{redis}", &format!("redis://127.0.0.1:{port}"));
        }
        if command.contains("{port}") {
            command = command.replace("{port}", &free_port()?.to_string());
        }
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("--spawn is empty")?;
        let redis = server.processes.len();
        server.start(Command::new(program).args(words), url)?;
        // The server comes first in every report.
        server.processes.rotate_left(redis);
        Ok(server)
    }

    /// Starts the relay that was built beside this program, without limits of rate and count, and with more options,
    /// separated by spaces.
    ///
    /// # Errors
    /// When there is none, or it does not start in time.
    pub fn beside(store: Store, options: &str) -> Result<Self, Failure> {
        let relay = relay_beside()?;
        let folder = tempfile::tempdir()?;
        let mut server = Self::default();
        let mut command = Command::new(relay);
        command.args(["serve", "--listen", "127.0.0.1:0", "--unlimited"]);
        command.env("INKRELAY_OPERATORS_LISTEN", "off");
        match store {
            Store::Memory => drop(command.arg("--memory")),
            Store::Embedded => drop(command.arg("--data").arg(folder.path().join("data"))),
            Store::Redis => {
                let port = server.start_redis(folder.path())?;
                command.arg("--redis").arg(format!("redis://127.0.0.1:{port}"));
            }
        }
        let redis = server.processes.len();
        let started = server.start(command.args(options.split_whitespace()), None);
        match options {
            "" => started?,
            _ => started.map_err(|error| format!("{error}; its options were {options}"))?,
        }
        // The server comes first in every report.
        server.processes.rotate_left(redis);
        server._folder = Some(folder);
        Ok(server)
    }

    /// Starts `inkrelay-load bare-loop`, which writes what comes within `flush_ms` at once.
    ///
    /// # Errors
    /// When it does not start in time.
    pub fn bare_loop(flush_ms: u64) -> Result<Self, Failure> {
        let mut server = Self::default();
        let mut command = Command::new(std::env::current_exe()?);
        server.start(command.args(["bare-loop", "--flush-ms", &flush_ms.to_string()]), None)?;
        Ok(server)
    }

    fn start_redis(&mut self, folder: &Path) -> Result<u16, Failure> {
        let port = free_port()?;
        let mut command = Command::new("redis-server");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes",
        ]);
        command.arg("--dir").arg(folder).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(|error| format!("redis-server: {error}"))?;
        self.processes.push(("redis".to_owned(), child.id()));
        self.children.push(child);
        wait_for(&format!("127.0.0.1:{port}"))?;
        Ok(port)
    }

    fn start(&mut self, command: &mut Command, url: Option<String>) -> Result<(), Failure> {
        let program = Path::new(command.get_program()).file_name().unwrap_or_default();
        let program = program.to_string_lossy().into_owned();
        let mut child = command
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let output = child.stdout.take();
        self.processes.push(("server".to_owned(), child.id()));
        self.children.push(child);
        let mut output = BufReader::new(output.ok_or("the server has no output")?);
        let (tell, told) = mpsc::channel();
        // A server that logs must not wait for a full pipe. Ends with the server.
        std::thread::spawn(move || {
            let mut line = String::new();
            // Without one it is empty, and nobody waits for it when the address is known.
            let _ = output.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
            let _ = tell.send(line);
            let mut rest = [0; 4096];
            while output.read(&mut rest).is_ok_and(|len| len > 0) {}
        });
        self.url = match url {
            Some(url) => url,
            None => {
                let line = told.recv_timeout(START_TIMEOUT).map_err(|_| {
                    format!("{program} has not said where it listens within {} s", START_TIMEOUT.as_secs())
                })?;
                if line.is_empty() {
                    return Err(format!("{program} ended before it listened").into());
                }
                let address = line.split_whitespace().find(|word| word.starts_with("http://"));
                let address = address.ok_or_else(|| {
                    format!(
                        "{program} does not say in its first line where it listens: give its --server too"
                    )
                })?;
                address.trim_end_matches(['.', ',', '/']).to_owned()
            }
        };
        let is_there = wait_for(self.url.trim_start_matches("http://"));
        // Somebody else may listen there.
        if let Some(status) = self.children.last_mut().map(Child::try_wait).transpose()?.flatten() {
            return Err(format!("{program} ended at its start: {status}").into());
        }
        is_there?;
        self.watch_children();
        Ok(())
    }

    /// Watches what the server itself has started by now, such as nginx's workers.
    fn watch_children(&mut self) {
        let Some(id) = self.children.last().map(Child::id) else { return };
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        let ids = children.split_whitespace().filter_map(|id| id.parse().ok());
        self.processes.extend(ids.map(|id| ("server's child".to_owned(), id)));
    }
}

/// Free a moment ago; a collision shows as a server that does not start.
fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(address: &str) -> Result<(), Failure> {
    let until = Instant::now() + START_TIMEOUT;
    loop {
        match TcpStream::connect(address) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(format!("{address}: {error}").into()),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

/// The relay that was built with this program.
///
/// # Errors
/// When there is none.
pub fn relay_beside() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let relay = own.with_file_name("inkrelay");
    if relay.exists() {
        return Ok(relay);
    }
    Err(format!(
        "there is no relay at {}: build one with `cargo build --release --package inkrelay-server`, or name one with \
         --server or --spawn",
        relay.display()
    )
    .into())
}
