//! Runs of the program, and what they leave behind.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use inkrelay_load::report::Report;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_inkrelay-load");

/// One run with its report.
pub struct Run {
    pub output: Output,
    pub folder: tempfile::TempDir,
}

impl Run {
    pub fn report(&self) -> Report {
        Report::read(&self.folder.path().join("report.json"))
            .unwrap_or_else(|why| panic!("{why}\n{}", self.said()))
    }

    pub fn page(&self) -> std::path::PathBuf {
        self.folder.path().join("report.html")
    }

    pub fn said(&self) -> String {
        let text = [&self.output.stdout[..], &self.output.stderr[..]].concat();
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Runs the program to its end.
pub fn run(arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(PROGRAM).args(arguments).arg("--out").arg(folder.path()).output().unwrap();
    Run { output, folder }
}

/// Runs the program, and asks it to end as Ctrl-C does once it has connected.
pub fn interrupt(arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(arguments).arg("--out").arg(folder.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let files = format!("/proc/{}/fd", child.id());
    let is_socket = |file: std::io::Result<std::fs::DirEntry>| {
        let target = file.and_then(|file| std::fs::read_link(file.path()));
        target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    // The runtime has two for signals.
    let has_connected =
        || std::fs::read_dir(&files).unwrap().map(is_socket).filter(|is_socket| *is_socket).count() > 4;
    let until = Instant::now() + Duration::from_secs(30);
    while !has_connected() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGINT).unwrap();
    Run { output: child.wait_with_output().unwrap(), folder }
}

/// Where the relay is.
pub fn relay() -> std::path::PathBuf {
    build_relay();
    Path::new(PROGRAM).with_file_name("inkrelay")
}

/// Builds the relay beside the program, which may be the only thing that was built.
pub fn build_relay() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--package", "inkrelay-server", "--bin", "inkrelay", "--locked", "--quiet"]);
        let built = build.current_dir(root).status().unwrap();
        assert!(built.success(), "the relay could not be built");
    });
}

/// What starts a baseline, with a port and a Redis of its own.
pub fn baseline(name: &str) -> String {
    let start = Path::new(env!("CARGO_MANIFEST_DIR")).join("baselines").join(name).join("start");
    format!("{} --port {{port}} --redis {{redis}}", start.display())
}
