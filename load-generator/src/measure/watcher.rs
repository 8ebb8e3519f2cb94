//! The watcher: what processes and the machine use, each second, from `/proc` (proc(5)).

use std::collections::BTreeMap;
use std::fs;

/// Linux counts user and kernel time in hundredths of a second there, on every architecture (USER_HZ).
const TICK_MS: u64 = 10;
const NS_PER_MS: u64 = 1_000_000;

/// One process in one second. Times are of that second.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ProcessSecond {
    /// CPU time in user mode, milliseconds.
    pub user_ms: u64,
    /// CPU time in the kernel, milliseconds.
    pub system_ms: u64,
    /// All CPU time, microseconds: finer than the two above, which are counted in steps of 10 ms.
    #[serde(default)]
    pub cpu_us: u64,
    /// Resident memory, KiB.
    pub rss_kib: u64,
    /// It had ended; all else is 0.
    #[serde(default)]
    pub has_ended: bool,
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
    /// It ended during the run: what it used is as of when it was last seen.
    #[serde(default)]
    pub has_ended: bool,
    /// CPU seconds in user mode.
    pub user_s: f64,
    /// CPU seconds in the kernel.
    pub system_s: f64,
    /// All CPU seconds, to the microsecond: finer than the two above.
    #[serde(default)]
    pub cpu_s: f64,
    /// Its threads at the end.
    #[serde(default)]
    pub threads: Vec<ThreadWhole>,
    /// Resident memory at the start, KiB.
    pub rss_first_kib: u64,
    /// Resident memory at the end, KiB.
    pub rss_last_kib: u64,
    /// The most resident memory since the process began (VmHWM), KiB.
    pub rss_peak_kib: u64,
    /// Context switches, voluntary and involuntary.
    pub switches: (u64, u64),
}

/// One thread over a whole run.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ThreadWhole {
    /// Its name, of 15 characters at most.
    pub name: String,
    /// Its id.
    pub id: u32,
    /// CPU seconds.
    pub cpu_s: f64,
}

impl ProcessWhole {
    /// All CPU seconds, as fine as they are known: reports of earlier versions have the two parts alone.
    pub fn cpu(&self) -> f64 {
        if self.cpu_s > 0.0 { self.cpu_s } else { self.user_s + self.system_s }
    }

    /// The share of the busiest worker in what the two busiest did: 0.5 where they did the same, 1 where one did all.
    /// Workers are the threads of one name that did most together; none where no two threads share a name.
    pub fn busiest_share(&self) -> Option<f64> {
        let mut groups: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for thread in &self.threads {
            groups.entry(&thread.name).or_default().push(thread.cpu_s);
        }
        let sum = |group: &Vec<f64>| group.iter().sum::<f64>();
        let shared = groups.into_values().filter(|group| group.len() > 1);
        let mut workers = shared.max_by(|one, other| sum(one).total_cmp(&sum(other)))?;
        workers.sort_by(|one, other| other.total_cmp(one));
        Some(workers[0] / (workers[0] + workers[1]).max(1e-9))
    }
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
    cpu_ns: u64,
    rss_kib: u64,
    peak_kib: u64,
    switches: (u64, u64),
    threads: BTreeMap<u32, Thread>,
}

/// What a thread had used.
#[derive(Clone, Debug, Default)]
struct Thread {
    name: String,
    cpu_ns: u64,
}

#[derive(Debug)]
struct Watched {
    name: String,
    pid: u32,
    first: Usage,
    last: Usage,
    /// What threads that ended had used when they were last seen.
    ended_ns: u64,
    has_ended: bool,
    /// Open files that are no sockets; counted once, since looking at each of thousands costs more than it tells.
    other_files: u64,
}

impl Watched {
    fn new(name: String, pid: u32) -> Option<Self> {
        let mut first = usage(pid)?;
        // Others ended before.
        let ended_ns = first.cpu_ns.saturating_sub(threads_ns(&first));
        first.cpu_ns = ended_ns + threads_ns(&first);
        let other_files = files(pid) - sockets(pid).min(files(pid));
        Some(Self { name, pid, last: first.clone(), first, ended_ns, has_ended: false, other_files })
    }

    /// Looks again, and returns what was before and is now.
    fn look(&mut self) -> Option<(Usage, &Usage)> {
        let now = usage(self.pid).filter(|_| !self.has_ended);
        // Another may get its id.
        self.has_ended = now.is_none();
        let now = now?;
        let before = std::mem::replace(&mut self.last, now);
        self.ended_ns += ended_ns(&before.threads, &self.last.threads);
        // Threads that came and went between two looks are known to the process alone.
        let sum = self.ended_ns + threads_ns(&self.last);
        self.last.cpu_ns = sum.max(self.last.cpu_ns).max(before.cpu_ns);
        // One that has ended has no memory any more, but had.
        self.last.peak_kib = self.last.peak_kib.max(before.peak_kib);
        Some((before, &self.last))
    }
}

fn threads_ns(usage: &Usage) -> u64 {
    usage.threads.values().map(|thread| thread.cpu_ns).sum()
}

/// What threads had used that are there no more. One that has used less than before is another with the same id.
fn ended_ns(before: &BTreeMap<u32, Thread>, now: &BTreeMap<u32, Thread>) -> u64 {
    let has_ended = |(id, thread): &(&u32, &Thread)| now.get(id).is_none_or(|now| now.cpu_ns < thread.cpu_ns);
    before.iter().filter(has_ended).map(|(_, thread)| thread.cpu_ns).sum()
}

/// What each thread used between two moments, in nanoseconds.
fn used_ns<'u>(before: &'u Usage, now: &'u Usage) -> impl Iterator<Item = (u32, &'u str, u64)> {
    now.threads.iter().map(|(id, thread)| {
        let before = before.threads.get(id).map_or(0, |thread| thread.cpu_ns);
        let used = thread.cpu_ns.checked_sub(before).unwrap_or(thread.cpu_ns);
        (*id, thread.name.as_str(), used)
    })
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
            match Watched::new(name.clone(), pid) {
                Some(watched) => watcher.watched.push(watched),
                None => unreadable.push(format!("{name} ({pid})")),
            }
        }
        (watcher, unreadable)
    }

    /// What was used since the last call: by each process, in the order of [`Watcher::whole`], and by each core.
    pub fn second(&mut self) -> (Vec<ProcessSecond>, Vec<CoreSecond>) {
        let processes = self.watched.iter_mut().map(|watched| {
            let open = files(watched.pid).saturating_sub(watched.other_files);
            let Some((before, now)) = watched.look() else {
                return ProcessSecond { has_ended: true, ..ProcessSecond::default() };
            };
            let since = |now: u64, before: u64| now.saturating_sub(before);
            let mut names: BTreeMap<&str, u64> = BTreeMap::new();
            for (_, name, ns) in used_ns(&before, now) {
                *names.entry(name).or_default() += ns;
            }
            let in_ms = |(name, ns): (&str, u64)| (name.to_owned(), (ns + NS_PER_MS / 2) / NS_PER_MS);
            ProcessSecond {
                user_ms: since(now.user_ms, before.user_ms),
                system_ms: since(now.system_ms, before.system_ms),
                cpu_us: since(now.cpu_ns, before.cpu_ns) / 1000,
                has_ended: false,
                rss_kib: now.rss_kib,
                switches: (
                    since(now.switches.0, before.switches.0),
                    since(now.switches.1, before.switches.1),
                ),
                sockets: open,
                threads: names.into_iter().map(in_ms).filter(|(_, ms)| *ms > 0).collect(),
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
                has_ended: watched.has_ended,
                user_s: last.user_ms.saturating_sub(first.user_ms) as f64 / 1000.0,
                system_s: last.system_ms.saturating_sub(first.system_ms) as f64 / 1000.0,
                cpu_s: last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / 1e9,
                threads: used_ns(first, last)
                    .map(|(id, name, ns)| ThreadWhole { name: name.to_owned(), id, cpu_s: ns as f64 / 1e9 })
                    .collect(),
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
    // Its memory is taken first, and then it waits for somebody who asks how it ended.
    if !status.contains("VmRSS:") || status.contains("State:\tZ") {
        return None;
    }
    let mut usage = Usage {
        user_ms,
        system_ms,
        cpu_ns: (user_ms + system_ms) * NS_PER_MS,
        rss_kib: field(&status, "VmRSS:"),
        peak_kib: field(&status, "VmHWM:"),
        ..Usage::default()
    };
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let Some(id) = task.file_name().to_str().and_then(|id| id.parse().ok()) else { continue };
        let task = task.path().display().to_string();
        // A thread may end between the listing and the reading.
        let Some((name, user_ms, system_ms)) = stat(&format!("{task}/stat")) else { continue };
        // Without it, for kernels that do not tell, the steps of 10 ms have to do.
        let precise = fs::read_to_string(format!("{task}/schedstat")).ok();
        let precise = precise.and_then(|text| text.split(' ').next()?.parse().ok());
        let cpu_ns = precise.unwrap_or((user_ms + system_ms) * NS_PER_MS);
        usage.threads.insert(id, Thread { name, cpu_ns });
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
            assert!(processes[0].cpu_us > 0);
        }
        let whole = &watcher.whole()[0];
        assert!(whole.user_s + whole.system_s > 0.0);
        // Rounded down each, at the beginning and at the end.
        assert!((whole.cpu_s - whole.user_s - whole.system_s).abs() < 0.25, "{whole:?}");
        assert!(whole.rss_peak_kib >= whole.rss_first_kib);
        assert!(machine().contains("Linux"));
    }
    #[test]
    fn a_process_that_ends_is_told_from_one_that_does_nothing() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (mut watcher, _) = Watcher::new(vec![("child".into(), child.id())]);
        assert!(!watcher.second().0[0].has_ended);
        child.kill().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        // It stays a zombie until somebody waits for it.
        while !watcher.second().0[0].has_ended && std::time::Instant::now() < until {
            std::thread::yield_now();
        }
        let whole = &watcher.whole()[0];
        assert!(whole.has_ended && whole.rss_last_kib > 0);
        child.wait().unwrap();
    }

    #[test]
    fn what_ended_threads_used_stays_used() {
        let (mut watcher, _) = Watcher::new(vec![("me".into(), std::process::id())]);
        let cpu_s = |watcher: &mut Watcher| {
            watcher.second();
            watcher.whole()[0].cpu_s
        };
        let (working, looked) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let before = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::hint::black_box((0..30_000_000_u64).fold(1, |sum, next| sum ^ next.wrapping_mul(sum)));
                working.wait();
                looked.wait();
            });
            working.wait();
            let before = cpu_s(&mut watcher);
            looked.wait();
            before
        });
        assert!(before > 0.0);
        assert!(cpu_s(&mut watcher) >= before);
    }

    #[test]
    fn an_id_that_is_used_again_is_another_thread() {
        let threads = |used: &[(u32, u64)]| -> BTreeMap<u32, Thread> {
            used.iter().map(|(id, cpu_ns)| (*id, Thread { name: "t".into(), cpu_ns: *cpu_ns })).collect()
        };
        let before = threads(&[(1, 100), (2, 50), (3, 10)]);
        assert_eq!(ended_ns(&before, &threads(&[(1, 120), (3, 2), (4, 9)])), 60);
        assert_eq!(ended_ns(&before, &before), 0);
    }

    #[test]
    fn workers_are_told_from_other_threads() {
        let thread = |(name, cpu_s): &(&str, f64)| ThreadWhole { name: (*name).into(), id: 0, cpu_s: *cpu_s };
        let share = |threads: &[(&str, f64)]| {
            let threads = threads.iter().map(thread).collect();
            ProcessWhole { threads, ..ProcessWhole::default() }.busiest_share()
        };
        let shared = [("store", 9.0), ("worker", 1.0), ("worker", 3.0), ("worker", 0.5)];
        assert_eq!(share(&shared), Some(0.75));
        assert_eq!(share(&[("worker", 2.0), ("worker", 0.0), ("other", 0.1), ("other", 0.1)]), Some(1.0));
        assert_eq!(share(&[("node", 2.0), ("other", 1.0)]), None);
    }
}
