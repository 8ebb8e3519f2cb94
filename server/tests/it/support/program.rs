//! The program itself, as a process of its own.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::eventually;

/// A running `inkrelay`; it is killed when this is dropped.
pub struct Program {
    child: Child,
    pub address: SocketAddr,
}

impl Program {
    /// Serves from memory on a port of its own. `first` is what the shell does before it becomes the program.
    ///
    /// # Panics
    /// When it does not say where it listens.
    pub fn start(first: &str, flags: &[&str]) -> Self {
        let script = format!("{first} exec \"$0\" serve --memory --listen 127.0.0.1:0 \"$@\"");
        let mut child = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_inkrelay")])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("http://").next().unwrap().parse().expect("where it listens");
        Self { child, address }
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    /// How it ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the program ends", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.expect("it has ended")
    }

    /// Files and sockets that it has open.
    pub fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Kilobytes of memory that it occupies.
    pub fn resident_kb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
