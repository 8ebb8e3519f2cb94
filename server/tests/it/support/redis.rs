//! A Redis server of a test's own: on a free loopback port, in a directory of its own, ended with the test.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to answer, in a test run that keeps the machine busy.
const START_DEADLINE: Duration = Duration::from_secs(20);
/// Ports that are tried before giving up: another process may take one between the search and the start.
const PORTS_TRIED: usize = 10;

/// A running `redis-server`. Killed when dropped.
pub struct RedisServer {
    port: u16,
    dir: TempDir,
    options: Vec<String>,
    child: Option<Child>,
}

impl RedisServer {
    /// Keeps nothing on disk: what it held is gone after a restart.
    pub fn start() -> Self {
        Self::with_options(&["--save", "", "--appendonly", "no"])
    }

    /// Syncs its append-only file before every answer.
    pub fn durable() -> Self {
        Self::with_options(&["--save", "", "--appendonly", "yes", "--appendfsync", "always"])
    }

    /// Takes `redis-server`'s own options, as `["--maxmemory", "1mb"]`.
    pub fn with_options(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { port: 0, dir, options, child: None };
        for _ in 0..PORTS_TRIED {
            let free = TcpListener::bind("127.0.0.1:0").expect("a free loopback port");
            server.port = free.local_addr().expect("a bound listener has an address").port();
            drop(free);
            if server.spawn() {
                return server;
            }
        }
        panic!("redis-server found no free port; its log:\n{}", server.log());
    }

    /// `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// The loopback port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A blocking connection for commands.
    pub fn connection(&self) -> redis::Connection {
        self.try_connection().expect("the test's Redis takes connections")
    }

    /// Runs one command, as `["CONFIG", "SET", "timeout", "1"]`, on a connection of its own.
    pub fn command(&self, words: &[&str]) -> redis::Value {
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query(&mut self.connection()).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// `kill -9`: no time to write anything.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("one's own child can be killed");
            child.wait().expect("a killed child can be waited for");
        }
    }

    /// `SHUTDOWN NOSAVE`, as an operator does; returns when it is gone.
    pub fn shut_down(&mut self) {
        // It ends instead of answering.
        drop(redis::cmd("SHUTDOWN").arg("NOSAVE").query::<redis::Value>(&mut self.connection()));
        if let Some(mut child) = self.child.take() {
            child.wait().expect("a child that ends can be waited for");
        }
    }

    /// Starts again on the same port and directory, after killing what still runs.
    pub fn restart(&mut self) {
        self.kill();
        assert!(self.spawn(), "redis-server did not start again; its log:\n{}", self.log());
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT: it goes on with what has come meanwhile.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("the server runs").id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().expect("kill can be run");
        assert!(status.success(), "kill {signal} {pid} failed");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Starts the process and waits until it answers. `false` when it ended by itself.
    fn spawn(&mut self) -> bool {
        let mut command = Command::new("redis-server");
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
        command.args(["--dir", &self.dir.path().to_string_lossy(), "--logfile", "log"]);
        command.args(&self.options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!(
                "these tests start their own Redis, and `redis-server` could not be run ({error}). \
                 Install it: `apt-get install redis-server`, `brew install redis`, or put one on the PATH"
            )
        });
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            if child.try_wait().expect("a child can be asked").is_some() {
                return false;
            }
            if self.answering_pid() == Some(child.id()) {
                self.child = Some(child);
                return true;
            }
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                panic!("redis-server did not answer in {START_DEADLINE:?}; its log:\n{}", self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Who answers on the port: another test's Redis may have taken it.
    fn answering_pid(&self) -> Option<u32> {
        let mut connection = self.try_connection().ok()?;
        redis::cmd("PING").query::<String>(&mut connection).ok()?;
        let info: String = redis::cmd("INFO").arg("server").query(&mut connection).ok()?;
        info.lines().find_map(|line| line.strip_prefix("process_id:"))?.trim().parse().ok()
    }

    fn try_connection(&self) -> redis::RedisResult<redis::Connection> {
        let connection =
            redis::Client::open(self.url())?.get_connection_with_timeout(Duration::from_secs(2))?;
        connection.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(connection)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
