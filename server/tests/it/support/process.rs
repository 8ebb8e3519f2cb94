//! The relay as a process of its own, as people run it, and what it costs.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

/// A running `inkrelay serve`. Killed when dropped.
pub struct Process {
    pub address: SocketAddr,
    child: Child,
}

impl Process {
    /// `inkrelay serve` on a free loopback port, with draws in memory and whatever else is given.
    pub fn start(arguments: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_inkrelay")), arguments)
    }

    /// The same with that much address space at most.
    pub fn start_within(kib: usize, arguments: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let limited = format!("ulimit -v {kib}; exec \"$@\"");
        shell.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_inkrelay")]);
        Self::run(shell, arguments)
    }

    fn run(mut command: Command, arguments: &[&str]) -> Self {
        command.args(["serve", "--memory", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it can be run");
        let stdout = child.stdout.take().expect("its output is piped");
        let mut lines = BufReader::new(stdout).lines();
        let first = lines.next().expect("it says where it listens").expect("as text");
        let address = first.rsplit("http://").next().and_then(|address| address.trim().parse().ok());
        // What it says later is read, so that it never waits for it to be.
        std::thread::spawn(move || lines.for_each(drop));
        Self { address: address.expect("an address ends the line"), child }
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

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which the test has seen.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
