//! The commands of the binary as processes of their own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::eventually;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running `inkrelay` whose words are gathered. Killed when dropped.
pub struct Running {
    what: String,
    child: Child,
    said: Lines,
    complained: Lines,
}

impl Running {
    /// Runs `inkrelay` with these arguments.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be run");
        let said = gather(child.stdout.take().expect("its output is piped"));
        let complained = gather(child.stderr.take().expect("its errors are piped"));
        Self { what: arguments.join(" "), child, said, complained }
    }

    /// How many lines it has said.
    pub fn lines(&self) -> usize {
        self.said.lock().unwrap().len()
    }

    /// Waits until it has ended well, and returns what it said.
    ///
    /// # Panics
    /// When it fails, or takes longer than [`crate::support::PATIENCE`].
    pub async fn finish(mut self) -> Vec<String> {
        let mut status: Option<ExitStatus> = None;
        let what = self.what.clone();
        eventually(&format!("inkrelay {what} ends"), async || {
            status = self.child.try_wait().expect("one's own child can be asked");
            status.is_some()
        })
        .await;
        // Both ends of the pipes are closed now, so that what is still in them is read soon.
        eventually("all it said is read", async || Arc::strong_count(&self.said) == 1).await;
        let ended_well = status.is_some_and(|status| status.success());
        assert!(ended_well, "inkrelay {what}: {}", self.complained.lock().unwrap().join("\n"));
        std::mem::take(&mut *self.said.lock().unwrap())
    }
}

/// Reads lines until there are no more; then the reader lets go of them.
fn gather(from: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let gathered = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            gathered.lock().unwrap().push(line);
        }
    });
    lines
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already, which is as well.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
