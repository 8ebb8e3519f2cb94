//! What a way costs: it is run as a program of its own, and the kernel says what that used.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::{Deserialize, Serialize};

use crate::run::Failure;

/// How many ways there are.
pub(super) const WAYS: usize = 7;
/// Messages while system calls are counted, at most: each call then costs many times as much.
const TRACED: u64 = 20_000;

const NODE: &str = include_str!("../../baselines/messaging/processes.js");
const JAVA: &str = include_str!("../../baselines/messaging/Messaging.java");

/// What it cost, without the start of the program.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// From the first message to the last answer, seconds.
    pub elapsed_s: f64,
    /// CPU time in user mode of all its processes, seconds.
    pub user_s: f64,
    /// CPU time in the kernel, seconds.
    pub system_s: f64,
    /// Context switches because somebody waited.
    pub voluntary: i64,
    /// Context switches because somebody's time was over.
    pub involuntary: i64,
    /// By `strace`; `None` where there is none.
    pub calls_per_message: Option<f64>,
}

impl Cost {
    /// All CPU time, seconds.
    pub const fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// The programs of all ways, as far as they can be run here.
pub(super) struct Ways {
    folder: tempfile::TempDir,
}

/// A way's name, and its program or why it cannot be run.
pub(super) type Named = (&'static str, Result<Way, String>);

/// A program and its first arguments. Count and window follow.
pub(super) struct Way {
    program: PathBuf,
    arguments: Vec<OsString>,
    /// Whether count and window are options, or just numbers.
    has_options: bool,
}

impl Ways {
    /// Writes down the programs that are not Rust.
    pub(super) fn new() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("processes.mjs"), NODE)?;
        std::fs::write(folder.path().join("Messaging.java"), JAVA)?;
        Ok(Self { folder })
    }

    /// All of them, in the order in which they run.
    pub(super) fn all(&self) -> Result<[Named; WAYS], Failure> {
        let own = std::env::current_exe()?;
        let rust = |worker: &str| {
            let arguments = ["messaging", "--worker", worker].map(OsString::from).to_vec();
            Ok(Way { program: own.clone(), arguments, has_options: true })
        };
        let folder = self.folder.path();
        let compiled = compile_java(folder);
        let java = |way: &str| {
            compiled.clone()?;
            let arguments = vec!["-cp".into(), folder.into(), "Messaging".into(), way.into()];
            Ok(Way { program: "java".into(), arguments, has_options: false })
        };
        let node = find("node").map(|program| Way {
            program,
            arguments: vec![folder.join("processes.mjs").into()],
            has_options: false,
        });
        Ok([
            ("Node.js, two processes, IPC", node),
            ("Rust, two processes, socket pair, JSON", rust("processes")),
            ("JVM, two threads, LinkedTransferQueues", java("queues")),
            ("Rust, two threads, channels", rust("threads")),
            ("Rust, two tokio tasks, channels", rust("tasks")),
            ("JVM, two threads, atomic", java("atomic")),
            ("Rust, two threads, atomic", rust("atomic")),
        ])
    }
}

fn find(program: &str) -> Result<PathBuf, String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file());
    found.ok_or_else(|| format!("{program} is missing"))
}

/// Beforehand: what runs a source file compiles it each time, which is more work than the messages.
fn compile_java(folder: &Path) -> Result<(), String> {
    let source = folder.join("Messaging.java");
    let compiled = Command::new(find("javac")?).arg("-d").arg(folder).arg(source).status();
    match compiled {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("javac: {status}")),
        Err(error) => Err(format!("javac: {error}")),
    }
}

impl Way {
    fn add_arguments(&self, command: &mut Command, count: u64, window: u64) {
        command.args(&self.arguments);
        let (count, window) = (count.to_string(), window.to_string());
        if self.has_options {
            command.args(["--count", &count, "--window", &window]);
        } else {
            command.args([count, window]);
        }
    }

    /// Runs it, and returns the seconds that it says it took.
    fn run(&self, count: u64, window: u64) -> Result<f64, String> {
        let mut command = Command::new(&self.program);
        self.add_arguments(&mut command, count, window);
        said(command)
    }

    /// Runs it, and returns how many system calls it made; `None` where there is no `strace`.
    fn count_calls(&self, count: u64, window: u64) -> Result<Option<u64>, String> {
        let Ok(strace) = find("strace") else { return Ok(None) };
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        let mut command = Command::new(strace);
        command.args(["--follow-forks", "--summary-only", "--output"]).arg(file.path()).arg(&self.program);
        self.add_arguments(&mut command, count, window);
        said(command)?;
        let summary = std::fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        Ok(total_calls(&summary))
    }
}

fn said(mut command: Command) -> Result<f64, String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| format!("it said {text:?}"))
}

/// Reads the last line of `strace --summary-only`: `100.00 0.5 12 4711 3 total`, where the 3 of the errors may be missing.
fn total_calls(summary: &str) -> Option<u64> {
    let line = summary.lines().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

/// Runs a way without messages, with all of them, and with fewer under `strace`.
pub(super) fn measure(way: &Way, count: u64, window: u64) -> Result<Cost, String> {
    let children = || getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string());
    let begin = children()?;
    way.run(0, window)?;
    let between = children()?;
    let elapsed_s = way.run(count, window)?;
    let end = children()?;
    let traced = count.min(TRACED);
    let calls = match (way.count_calls(0, window)?, way.count_calls(traced, window)?) {
        (Some(start), Some(all)) => Some(all.saturating_sub(start) as f64 / traced.max(1) as f64),
        _ => None,
    };
    // What the messages used: the second run's use, less the first one's.
    let of = |get: fn(&Usage) -> i64| ((get(&end) - get(&between)) - (get(&between) - get(&begin))).max(0);
    Ok(Cost {
        elapsed_s,
        user_s: of(|usage| usage.user_time().num_microseconds()) as f64 / 1e6,
        system_s: of(|usage| usage.system_time().num_microseconds()) as f64 / 1e6,
        voluntary: of(Usage::voluntary_context_switches),
        involuntary: of(Usage::involuntary_context_switches),
        calls_per_message: calls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_calls_is_found() {
        let summary = "% time     seconds  usecs/call     calls    errors syscall\n\
                       ------ ----------- ----------- --------- --------- ----------------\n \
                       60.00    0.000006           1         4         1 openat\n\
                       ------ ----------- ----------- --------- --------- ----------------\n\
                       100.00    0.000010           1       120         1 total\n";
        assert_eq!(total_calls(summary), Some(120));
        assert_eq!(total_calls(&summary.replace("120         1 total", "120           total")), Some(120));
        assert_eq!(total_calls(""), None);
    }
}
