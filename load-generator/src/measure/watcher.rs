//! The watcher: what processes and the machine use, each second, from `/proc` (proc(5)).

use std::collections::BTreeMap;
use std::fs;

/// Linux counts CPU time in hundredths of a second there, on every architecture (USER_HZ).
const TICK_MS: u64 = 10;

/// One process in one second. Times are of that second.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ProcessSecond {
    /// CPU time in user mode, milliseconds.
    pub user_ms: u64,
    /// CPU time in the kernel, milliseconds.
    pub system_ms: u64,
    /// Resident memory, KiB.
    pub rss_kib: u64,
    /// Context switches, voluntary and involuntary.
    pub switches: (u64, u64),
    /// Open sockets.
    pub sockets: u64,
    /// CPU time of each thread name, milliseconds; threads of one name together.
    pub threads: BTreeMap<String, u64>,
}

/// One process over a whole run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ProcessWhole {
    /// `server`, `redis-server` and so on.
    pub name: String,
    /// Its id.
    pub pid: u32,
    /// CPU seconds in user mode.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// Resident memory at the start, KiB.
    pub rss_first_kib: u64,
    /// Resident memory at the end, KiB.
    pub rss_last_kib: u64,
    /// The most resident memory since the process began (VmHWM), KiB.
    pub rss_peak_kib: u64,
    /// Context switches, voluntary and involuntary.
    pub switches: (u64, u64),
}

/// One core in one second, in hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CoreSecond {
    /// In user mode.
    pub user: f64,
    /// In the kernel, interrupts included.
    pub system: f64,
    /// Taken away by the machine under a virtual one.
    pub stolen: f64,
}

/// What a process had used up to some moment.
#[derive(Clone, Debug, Default)]
struct Usage {
    user_ms: u64,
    system_ms: u64,
    rss_kib: u64,
    peak_kib: u64,
    switches: (u64, u64),
    threads: BTreeMap<String, u64>,
}

#[derive(Debug)]
struct Watched {
    name: String,
    pid: u32,
    first: Usage,
    last: Usage,
    /// Open files that are no sockets; counted once, since looking at each of thousands costs more than it tells.
    other_files: u64,
}

/// Watches some processes and all cores.
#[derive(Debug)]
pub struct Watcher {
    watched: Vec<Watched>,
    cores: Vec<[u64; 4]>,
}

impl Watcher {
    /// Begins to watch. Processes that cannot be read are left out; their names come back.
    pub fn new(processes: Vec<(String, u32)>) -> (Self, Vec<String>) {
        let mut watcher = Self { watched: Vec::new(), cores: cores() };
        let mut unreadable = Vec::new();
        for (name, pid) in processes {
            match usage(pid) {
                Some(first) => {
                    let other_files = files(pid) - sockets(pid).min(files(pid));
                    watcher.watched.push(Watched { name, pid, last: first.clone(), first, other_files });
                }
                None => unreadable.push(format!("{name} ({pid})")),
            }
        }
        (watcher, unreadable)
    }

    /// What was used since the last call: by each process, in the order of [`Watcher::whole`], and by each core.
    pub fn second(&mut self) -> (Vec<ProcessSecond>, Vec<CoreSecond>) {
        let processes = self.watched.iter_mut().map(|watched| {
            let Some(now) = usage(watched.pid) else { return ProcessSecond::default() };
            let before = std::mem::replace(&mut watched.last, now.clone());
            let since = |now: u64, before: u64| now.saturating_sub(before);
            let thread = |(name, ms): (&String, &u64)| {
                (name.clone(), since(*ms, before.threads.get(name).copied().unwrap_or(0)))
            };
            ProcessSecond {
                user_ms: since(now.user_ms, before.user_ms),
                system_ms: since(now.system_ms, before.system_ms),
                rss_kib: now.rss_kib,
                switches: (
                    since(now.switches.0, before.switches.0),
                    since(now.switches.1, before.switches.1),
                ),
                sockets: since(files(watched.pid), watched.other_files),
                threads: now.threads.iter().map(thread).filter(|(_, ms)| *ms > 0).collect(),
            }
        });
        let processes = processes.collect();
        let now = cores();
        let before = std::mem::replace(&mut self.cores, now.clone());
        let core = |(now, before): (&[u64; 4], &[u64; 4])| {
            let part = |index: usize| now[index].saturating_sub(before[index]) as f64;
            let all = (part(0) + part(1) + part(2) + part(3)).max(1.0);
            CoreSecond {
                user: 100.0 * part(0) / all,
                system: 100.0 * part(1) / all,
                stolen: 100.0 * part(3) / all,
            }
        };
        (processes, now.iter().zip(&before).map(core).collect())
    }

    /// What was used since the beginning, as of the last [`Watcher::second`].
    pub fn whole(&self) -> Vec<ProcessWhole> {
        let one = |watched: &Watched| {
            let (first, last) = (&watched.first, &watched.last);
            ProcessWhole {
                name: watched.name.clone(),
                pid: watched.pid,
                user_s: last.user_ms.saturating_sub(first.user_ms) as f64 / 1000.0,
                system_s: last.system_ms.saturating_sub(first.system_ms) as f64 / 1000.0,
                rss_first_kib: first.rss_kib,
                rss_last_kib: last.rss_kib,
                rss_peak_kib: last.peak_kib,
                switches: (
                    last.switches.0.saturating_sub(first.switches.0),
                    last.switches.1.saturating_sub(first.switches.1),
                ),
            }
        };
        self.watched.iter().map(one).collect()
    }
}

/// The field of a `/proc/*/status` that begins so.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The name, and milliseconds in user mode and in the kernel, of a `/proc/*/stat`.
fn stat(path: &str) -> Option<(String, u64, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let (head, fields) = text.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    let mut ticks = fields.split(' ').skip(11).map_while(|ticks| ticks.parse::<u64>().ok());
    Some((name, ticks.next()? * TICK_MS, ticks.next()? * TICK_MS))
}

fn usage(pid: u32) -> Option<Usage> {
    let (_, user_ms, system_ms) = stat(&format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mut usage = Usage {
        user_ms,
        system_ms,
        rss_kib: field(&status, "VmRSS:"),
        peak_kib: field(&status, "VmHWM:"),
        ..Usage::default()
    };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let task = task.path().display().to_string();
        // A thread may end between the listing and the reading.
        let Some((name, user_ms, system_ms)) = stat(&format!("{task}/stat")) else { continue };
        *usage.threads.entry(name).or_default() += user_ms + system_ms;
        let status = fs::read_to_string(format!("{task}/status")).unwrap_or_default();
        usage.switches.0 += field(&status, "voluntary_ctxt_switches:");
        usage.switches.1 += field(&status, "nonvoluntary_ctxt_switches:");
    }
    Some(usage)
}

fn files(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |files| files.count() as u64)
}

fn sockets(pid: u32) -> u64 {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let is_socket = |path: std::path::PathBuf| {
        fs::read_link(path).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    files.flatten().filter(|file| is_socket(file.path())).count() as u64
}

/// Ticks of each core: user, kernel, idle, stolen.
fn cores() -> Vec<[u64; 4]> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let core = |line: &str| {
        let fields =
            line.strip_prefix("cpu").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))?;
        let t: Vec<u64> = fields.split(' ').skip(1).map_while(|ticks| ticks.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal
        (t.len() >= 8).then(|| [t[0] + t[1], t[2] + t[5] + t[6], t[3] + t[4], t[7]])
    };
    text.lines().filter_map(core).collect()
}

/// Pages of kernel memory that TCP sockets hold, in KiB, on the whole machine.
pub fn tcp_memory_kib() -> u64 {
    let text = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    let pages = line.split_whitespace().skip_while(|word| *word != "mem").nth(1);
    pages.and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
}

/// Memory of the kernel's slabs, in KiB, on the whole machine: sockets, their inodes and files are there.
pub fn slab_kib() -> u64 {
    field(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "Slab:")
}

/// The machine, in a line.
pub fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown CPU", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = field(&fs::read_to_string("/proc/meminfo").unwrap_or_default(), "MemTotal:") / 1024;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, {memory} MiB, Linux {}", kernel.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_seen_to_work() {
        let (mut watcher, unreadable) =
            Watcher::new(vec![("me".into(), std::process::id()), ("nobody".into(), u32::MAX)]);
        assert_eq!(unreadable.len(), 1);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut used = 0;
        while used == 0 && std::time::Instant::now() < until {
            std::hint::black_box((0..1_000_000).sum::<u64>());
            let (processes, cores) = watcher.second();
            used += processes[0].user_ms + processes[0].system_ms;
            assert!(processes[0].rss_kib > 0 && !cores.is_empty());
        }
        let whole = &watcher.whole()[0];
        assert!(whole.user_s + whole.system_s > 0.0);
        assert!(whole.rss_peak_kib >= whole.rss_first_kib);
        assert!(machine().contains("Linux"));
    }
}
