//! The comparison: the same loads on this relay and on what people would use instead, written down as one page.
//!
//! Each run is a program of its own, so that none inherits another's memory. Runs of all servers are interleaved, round
//! by round, so that a machine that gets slower with time is unfair to all alike. What has run is kept: a comparison
//! that was broken off goes on where it was.

mod page;
mod picture;
mod plan;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::run::Failure;
use plan::{RESULT, Task};

/// How long one run may take.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// How long one that is interrupted may take to end its servers.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Between looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(100);

/// Runs replay, fanout, rooms, churn and messaging on this relay and on all baselines, and writes COMPARISON.md
///
/// Run it in the project's folder, on a machine with nothing else to do. It takes less than an hour; broken off, it goes on
/// where it was. To begin anew, remove the folder of its results.
/// Example: inkrelay-load compare
#[derive(Clone, Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Compare {
    /// How often everything is run
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Small loads: to see that everything runs, not to measure
    #[arg(long)]
    quick: bool,
    /// Where results are kept
    #[arg(long, default_value = "target/compare", value_name = "FOLDER")]
    results: PathBuf,
    /// Where the page and its pictures go
    #[arg(long, default_value = "docs", value_name = "FOLDER")]
    out: PathBuf,
}

/// Waits until a program has ended, at most that long.
fn wait(child: &mut Child, within: Duration) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + within;
    loop {
        let ended = child.try_wait()?;
        if ended.is_some() || Instant::now() >= until {
            return Ok(ended);
        }
        std::thread::sleep(LOOK);
    }
}

impl Compare {
    /// Runs what has not run yet, and writes the page.
    ///
    /// # Errors
    /// When nothing can be started or written. A run that fails is told in the page.
    pub fn run(&self) -> Result<(), Failure> {
        if !Path::new("load-generator/baselines").is_dir() {
            return Err("run it in the project's folder: it starts load-generator/baselines".into());
        }
        let tasks = plan::tasks(self.rounds, self.quick);
        let open: Vec<&Task> = tasks.iter().filter(|task| !task.is_done(&self.results)).collect();
        let began = Instant::now();
        for (index, task) in open.iter().enumerate() {
            let left = match index {
                0 => String::new(),
                _ => {
                    let each = began.elapsed() / u32::try_from(index)?;
                    let left = each * u32::try_from(open.len() - index)?;
                    format!(", about {} min left", left.as_secs().div_ceil(60))
                }
            };
            eprintln!("{} of {}{left}: {task}", index + 1, open.len());
            self.run_task(task)?;
        }
        page::write(&self.out, &self.results, &tasks, self.quick)?;
        println!("{}", self.out.join(page::FILE).display());
        Ok(())
    }

    /// Runs one, in a folder that gets its name when the run has ended.
    fn run_task(&self, task: &Task) -> Result<(), Failure> {
        let folder = task.folder(&self.results);
        let running = folder.with_extension("running");
        let _ = fs::remove_dir_all(&running);
        fs::create_dir_all(&running)?;
        let log = fs::File::create(running.join("log.txt"))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(&task.arguments).arg("--out").arg(task.output(&running));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let mut child = command.spawn()?;
        let ended = match wait(&mut child, RUN_TIMEOUT)? {
            Some(status) => status.to_string(),
            None => {
                // As by Ctrl-C: killed at once, it would leave its servers running.
                kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
                if wait(&mut child, END_TIMEOUT)?.is_none() {
                    child.kill()?;
                    child.wait()?;
                }
                format!("not done after {} s", RUN_TIMEOUT.as_secs())
            }
        };
        if !running.join(RESULT).exists() {
            let said = fs::read_to_string(running.join("log.txt")).unwrap_or_default();
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            eprintln!("  failed: {ended}: {last}");
            fs::write(running.join(plan::FAILED), format!("{ended}: {last}\n"))?;
        }
        let _ = fs::remove_dir_all(&folder);
        Ok(fs::rename(&running, &folder)?)
    }
}
