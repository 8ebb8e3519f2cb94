//! The program as people type it: with nothing of this environment, and ended when it does not end by itself.

use std::process::{Command, Output, Stdio};
use std::time::Instant;

use super::PATIENCE;

/// A command with these arguments.
pub fn inkrelay(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("INKRELAY_")) {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// What it says until it ends, which a server only does when it does not start.
///
/// # Panics
/// When it does not end within [`PATIENCE`]: with what it said.
pub fn ended(command: &mut Command) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let until = Instant::now() + PATIENCE;
    let is_late = loop {
        if child.try_wait().unwrap().is_some() {
            break false;
        }
        if Instant::now() > until {
            child.kill().unwrap();
            break true;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let output = child.wait_with_output().unwrap();
    assert!(!is_late, "it did not end: {output:?}");
    output
}

/// What a command says that succeeds.
pub fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that fails, before it has said anything else.
pub fn failed(output: Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && stdout.is_empty(), "{stdout}");
    String::from_utf8(output.stderr).unwrap()
}
