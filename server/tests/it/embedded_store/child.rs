//! A process of its own for the store to die in: this test binary, run again with a role.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use inkrelay_server::store::SyncPolicy;

use super::roles;

/// How long a child may say nothing.
const SILENCE: Duration = Duration::from_secs(60);
const ROLE: &str = "INKRELAY_TEST_ROLE";
const FOLDER: &str = "INKRELAY_TEST_FOLDER";
const POLICY: &str = "INKRELAY_TEST_POLICY";

/// Does nothing when the tests run; plays its role when a test runs it.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = std::env::var(FOLDER).unwrap();
    let policy = match std::env::var(POLICY).unwrap().as_str() {
        "Interval" => SyncPolicy::Interval,
        _ => SyncPolicy::Always,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(roles::play(&role, Path::new(&folder), policy));
    say("done");
}

/// One line to the parent. (The test harness writes lines too: ours are marked.)
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {line}").unwrap();
    out.flush().unwrap();
}

/// A child that is killed when the test is done with it.
pub struct Running {
    child: Child,
    lines: Receiver<String>,
    /// The child may take its end for a signal.
    pub stdin: Option<ChildStdin>,
}

impl Running {
    /// Starts this binary again.
    pub fn start(role: &str, folder: &Path, policy: SyncPolicy) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), role, folder, policy)
    }

    /// Starts this binary again by a shell that runs `setup` first, with mounts of its own, so that it may mount
    /// what no other process sees.
    pub fn start_with_mounts(setup: &str, role: &str, folder: &Path, policy: SyncPolicy) -> Self {
        // As root, or as anyone where the system lets anyone be root of a namespace.
        let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
        let works = |way: &&&[&str]| {
            let tried =
                Command::new("unshare").args(**way).args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
            tried.is_ok_and(|tried| tried.status.success())
        };
        let way = ways.iter().find(works).expect(
            "this test mounts a small disk: it needs `unshare`, and to run as root or where user namespaces are allowed",
        );
        let mut command = Command::new("unshare");
        command.args(*way).args(["sh", "-c", &format!("{setup} && exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        Self::start_by(command, role, folder, policy)
    }

    /// Starts this binary again by a shell that runs `setup` first.
    pub fn start_after(setup: &str, role: &str, folder: &Path, policy: SyncPolicy) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{setup} && exec \"$0\" \"$@\"")]);
        command.arg(std::env::current_exe().unwrap());
        Self::start_by(command, role, folder, policy)
    }

    fn start_by(mut command: Command, role: &str, folder: &Path, policy: SyncPolicy) -> Self {
        command.args(["--exact", "embedded_store::child::child", "--nocapture"]);
        command.env(ROLE, role).env(FOLDER, folder).env(POLICY, format!("{policy:?}"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix("> ") {
                    let _ = sender.send(line.to_owned());
                }
            }
        });
        Self { child, lines, stdin }
    }

    /// The next line; `None` when the child has ended and all its lines are read.
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(SILENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the child has said nothing for {SILENCE:?}"),
        }
    }

    /// Waits for that line.
    pub fn wait_for(&self, expected: &str) {
        while let Some(line) = self.line() {
            if line == expected {
                return;
            }
        }
        panic!("the child ended before it said {expected:?}");
    }

    /// SIGKILL: the process gets no chance to do anything more.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets the child end by itself; its role must have been played to the end.
    pub fn finish(mut self) {
        drop(self.stdin.take());
        self.wait_for("done");
        let status: ExitStatus = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
