//! Runs of this program, one after the other, each a program of its own so that none inherits another's memory.
//!
//! What has run is kept, each in a folder of its own: a series that was broken off goes on where it was, unless the
//! programs have been built anew.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::report::Report;
use crate::run::Failure;
use crate::server::relay_beside;

/// What a run leaves behind.
pub const RESULT: &str = "report.json";
/// What one leaves behind that has no result: why.
const FAILED: &str = "failed.txt";
/// How long one run may take.
const RUN_TIMEOUT: Duration = Duration::from_secs(600);
/// How long one that is interrupted may take to end its servers.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Between looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(100);

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What it is, for people who wait.
    pub name: String,
    /// Where its results are, below those of its series.
    pub folder: String,
    /// Its command line, without the program.
    pub arguments: Vec<String>,
    /// Whether `--out` is a file, of a command that writes no page.
    pub writes_file: bool,
}

impl Task {
    /// Whether it has run, well or not, since these programs were built.
    pub fn is_done(&self, results: &Path, built: SystemTime) -> bool {
        let folder = results.join(&self.folder);
        let written = |name| fs::metadata(folder.join(name)).and_then(|file| file.modified());
        [RESULT, FAILED].iter().any(|name| written(name).is_ok_and(|written| written >= built))
    }

    /// What it measured.
    ///
    /// # Errors
    /// When it has no result: why.
    pub fn report(&self, results: &Path) -> Result<Report, String> {
        let folder = results.join(&self.folder);
        let failed = |why| fs::read_to_string(folder.join(FAILED)).unwrap_or(why);
        Report::read(&folder.join(RESULT)).map_err(failed)
    }

    /// Forgets what it measured.
    ///
    /// # Errors
    /// When its folder cannot be removed.
    pub fn forget(&self, results: &Path) -> std::io::Result<()> {
        let folder = results.join(&self.folder);
        if folder.exists() { fs::remove_dir_all(folder) } else { Ok(()) }
    }

    /// Runs it, in a folder that gets its name when the run has ended.
    fn run(&self, results: &Path) -> Result<(), Failure> {
        let folder = results.join(&self.folder);
        let running = folder.with_extension("running");
        let _ = fs::remove_dir_all(&running);
        fs::create_dir_all(&running)?;
        let log = fs::File::create(running.join("log.txt"))?;
        let output = if self.writes_file { running.join(RESULT) } else { running.clone() };
        let mut command = Command::new(std::env::current_exe()?);
        command.args(&self.arguments).arg("--out").arg(output);
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
            fs::write(running.join(FAILED), format!("{ended}: {last}\n"))?;
        }
        let _ = fs::remove_dir_all(&folder);
        Ok(fs::rename(&running, &folder)?)
    }
}

/// When the programs were built that are measured: what was measured of older ones does not count.
///
/// # Errors
/// When there is no relay beside this program.
pub fn built() -> Result<SystemTime, Failure> {
    let modified = |program: &Path| fs::metadata(program).and_then(|file| file.modified());
    Ok(modified(&std::env::current_exe()?)?.max(modified(&relay_beside()?)?))
}

/// Runs those that have not run yet, and says which and how long it will take.
///
/// # Errors
/// When nothing can be started or written. A run that fails leaves its reason.
pub fn run(tasks: &[&Task], results: &Path, built: SystemTime) -> Result<(), Failure> {
    if !Path::new("load-generator/baselines").is_dir() {
        return Err("run it in the project's folder: it starts load-generator/baselines".into());
    }
    let open: Vec<&&Task> = tasks.iter().filter(|task| !task.is_done(results, built)).collect();
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
        eprintln!("{} of {}{left}: {}", index + 1, open.len(), task.name);
        task.run(results)?;
    }
    Ok(())
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

/// Words that are separated by spaces.
pub fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Options that start a baseline of `load-generator/baselines`, with a port of its own, and a Redis if it needs one.
pub fn spawn(name: &str, has_redis: bool, options: &str) -> Vec<String> {
    let redis = if has_redis { " --redis {redis}" } else { "" };
    let command = format!("load-generator/baselines/{name}/start --port {{port}}{redis}");
    [words(options), vec!["--spawn".to_owned(), command]].concat()
}

/// Options that start a baseline and say how it is spoken to.
pub fn baseline(name: &str, transport: &str, has_redis: bool) -> Vec<String> {
    spawn(name, has_redis, &format!("--target {name} --transport {transport}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_or_a_reason_is_a_run_that_is_done() {
        let results = tempfile::tempdir().unwrap();
        let task = Task {
            name: "a run".to_owned(),
            folder: "run-1".to_owned(),
            arguments: words("fanout  --readers 1"),
            writes_file: false,
        };
        assert_eq!(task.arguments.len(), 3);
        let built = SystemTime::now() - Duration::from_secs(60);
        assert!(!task.is_done(results.path(), built));
        fs::create_dir(results.path().join("run-1")).unwrap();
        fs::write(results.path().join("run-1").join(FAILED), "no server").unwrap();
        assert!(task.is_done(results.path(), built));
        // It is of programs that are no longer there.
        assert!(!task.is_done(results.path(), SystemTime::now() + Duration::from_secs(60)));
        assert_eq!(task.report(results.path()).unwrap_err(), "no server");
        task.forget(results.path()).unwrap();
        task.forget(results.path()).unwrap();
        assert!(!task.is_done(results.path(), built));
    }
}
