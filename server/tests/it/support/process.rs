//! The relay as a process of its own, as people run it, and what it costs.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{PATIENCE, eventually};

/// A running `inkrelay serve`. Killed when dropped.
pub struct Process {
    pub address: SocketAddr,
    child: Child,
    arguments: Vec<String>,
}

impl Process {
    /// `inkrelay serve` on a free loopback port, with draws in memory and whatever else is given.
    pub fn start(arguments: &[&str]) -> Self {
        Self::keeping(&[&["--memory"], arguments].concat())
    }

    /// The same with draws kept where the arguments say.
    pub fn keeping(arguments: &[&str]) -> Self {
        Self::run(quiet(env!("CARGO_BIN_EXE_inkrelay")), arguments)
    }

    /// `inkrelay serve` with nothing but this environment, which says where it listens.
    pub fn with_environment(environment: &BTreeMap<String, String>) -> Self {
        let mut command = quiet(env!("CARGO_BIN_EXE_inkrelay"));
        command.arg("serve").env_clear().envs(environment);
        let (child, address) = start(command).expect("it says where it listens");
        Self { address, child, arguments: Vec::new() }
    }

    /// The same with that much address space at most.
    pub fn start_within(kib: usize, arguments: &[&str]) -> Self {
        let mut shell = quiet("sh");
        let limited = format!("ulimit -v {kib}; exec \"$@\"");
        shell.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_inkrelay")]);
        Self::run(shell, &[&["--memory"], arguments].concat())
    }

    /// As [`Process::start`], with its log in that file.
    pub fn start_logged(log: &Path, arguments: &[&str]) -> Self {
        let log = std::fs::File::create(log).expect("the log can be written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
        command.stderr(log);
        Self::run(command, &[&["--memory"], arguments].concat())
    }

    fn run(command: Command, arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let (child, address) = spawn(command, "127.0.0.1:0", &arguments).expect("it says where it listens");
        Self { address, child, arguments }
    }

    /// `kill -9`: no time to finish anything.
    pub fn kill(&mut self) {
        self.child.kill().expect("one's own child can be killed");
        self.child.wait().expect("a killed child can be waited for");
    }

    /// Starts again on the same port, after killing what still runs.
    ///
    /// # Panics
    /// When that does not work within [`PATIENCE`]. Another process may hold the port for a while.
    pub fn restart(&mut self) {
        self.kill();
        let until = Instant::now() + PATIENCE;
        let listen = self.address.to_string();
        loop {
            let command = quiet(env!("CARGO_BIN_EXE_inkrelay"));
            if let Some((child, _)) = spawn(command, &listen, &self.arguments) {
                self.child = child;
                return;
            }
            assert!(Instant::now() < until, "the relay did not start again on {listen}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT: it goes on with what has come meanwhile.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// SIGHUP: it reads its settings again.
    pub fn hang_up(&self) {
        self.signal("-HUP");
    }

    /// SIGTERM: it finishes what it has begun, and ends.
    pub fn terminate(&self) {
        self.signal("-TERM");
    }

    /// Waits for its end; the status, or none when a signal ended it.
    pub async fn ended(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the program ends", async || {
            status = self.child.try_wait().expect("one's own child can be asked");
            status.is_some()
        })
        .await;
        status.and_then(|status| status.code())
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().expect("kill can be run");
        assert!(status.success(), "kill {signal} {pid} failed");
    }

    /// Whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("one's own child can be asked").is_none()
    }

    /// Bytes of memory that are resident.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).expect("it runs");
        let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        pages * 4096
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("it runs").count()
    }
}

fn quiet(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stderr(Stdio::null());
    command
}

/// Starts it, and waits until it says where it listens. `None` when it ended by itself before.
fn spawn(mut command: Command, listen: &str, arguments: &[String]) -> Option<(Child, SocketAddr)> {
    // Arguments are stronger than the environment: a test may still ask for the operators' port.
    command.env("INKRELAY_OPERATORS_LISTEN", "off");
    command.args(["serve", "--listen", listen]).args(arguments);
    start(command)
}

/// The same of a command that is whole.
fn start(mut command: Command) -> Option<(Child, SocketAddr)> {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it can be run");
    let stdout = child.stdout.take().expect("its output is piped");
    let mut lines = BufReader::new(stdout).lines();
    let Some(first) = lines.next() else {
        child.wait().expect("a child that ends can be waited for");
        return None;
    };
    let first = first.expect("as text");
    let address = first.rsplit("://").next().and_then(|address| address.trim().parse().ok());
    // What it says later is read, so that it never waits for it to be.
    std::thread::spawn(move || lines.for_each(drop));
    Some((child, address.expect("an address ends the line")))
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which the test has seen.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
