//! The process and its machine, as the kernel tells. Elsewhere than on Linux nothing is known.

/// What the kernel says.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    /// Seconds of processor time, in all threads.
    pub cpu_s: f64,
    /// Bytes in memory, and in the address space.
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub open_files: u64,
    /// `None` where there is no limit.
    pub max_open_files: Option<u64>,
    pub threads: u64,
    /// Seconds since 1970.
    pub started_at_s: f64,
    /// For each of the machine's cores, the time that it was busy and all its time, in the kernel's ticks.
    pub cores: Vec<(u64, u64)>,
    /// Bytes of the machine's memory, and those of it that could be had.
    pub memory_bytes: u64,
    pub available_bytes: u64,
    /// Bytes of memory that this process may take: what its control groups allow, or the machine has.
    pub limit_bytes: u64,
}

/// Reads it, on a thread that may wait: ten thousand open files take milliseconds to count.
pub(super) async fn read() -> Option<Process> {
    tokio::task::spawn_blocking(now).await.ok().flatten()
}

#[cfg(not(target_os = "linux"))]
fn now() -> Option<Process> {
    None
}

#[cfg(target_os = "linux")]
fn now() -> Option<Process> {
    read_all().map_err(|error| tracing::debug!(%error, "the kernel does not tell about this process")).ok()
}

#[cfg(target_os = "linux")]
fn read_all() -> procfs::ProcResult<Process> {
    use procfs::process::LimitValue;
    use procfs::{Current, CurrentSI};

    let this = procfs::process::Process::myself()?;
    let stat = this.stat()?;
    let ticks = procfs::ticks_per_second() as f64;
    let kernel = procfs::KernelStats::current()?;
    let core = |core: &procfs::CpuTime| {
        let waits = core.iowait.unwrap_or(0) + core.idle;
        let serves = core.irq.unwrap_or(0) + core.softirq.unwrap_or(0) + core.steal.unwrap_or(0);
        let busy = core.user + core.nice + core.system + serves;
        (busy, busy + waits)
    };
    let memory = procfs::Meminfo::current()?;
    Ok(Process {
        cpu_s: (stat.utime + stat.stime) as f64 / ticks,
        resident_bytes: stat.rss * procfs::page_size(),
        virtual_bytes: stat.vsize,
        open_files: this.fd_count()? as u64,
        max_open_files: match this.limits()?.max_open_files.soft_limit {
            LimitValue::Value(max) => Some(max),
            LimitValue::Unlimited => None,
        },
        threads: u64::try_from(stat.num_threads).unwrap_or(0),
        started_at_s: kernel.btime as f64 + stat.starttime as f64 / ticks,
        cores: kernel.cpu_time.iter().map(core).collect(),
        memory_bytes: memory.mem_total,
        available_bytes: memory.mem_available.unwrap_or(memory.mem_free),
        limit_bytes: group_limit(&this).map_or(memory.mem_total, |limit| limit.min(memory.mem_total)),
    })
}

/// The least that a control group of version 2 around this process allows, as systemd and containers set it.
#[cfg(target_os = "linux")]
fn group_limit(this: &procfs::process::Process) -> Option<u64> {
    let groups = this.cgroups().ok()?;
    let path = groups.into_iter().find(|group| group.hierarchy == 0)?.pathname;
    let root = std::path::Path::new("/sys/fs/cgroup");
    let path = root.join(path.trim_start_matches('/'));
    let around = path.ancestors().take_while(|folder| folder.starts_with(root));
    // Without a limit it says `max`.
    around
        .filter_map(|folder| std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok())
        .min()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_tells_of_this_process() {
        let process = read().await.unwrap();
        assert!(process.resident_bytes > 1 << 20 && process.virtual_bytes > process.resident_bytes);
        assert!((process.resident_bytes..=process.memory_bytes).contains(&process.limit_bytes));
        assert!(process.open_files > 2 && process.threads > 0 && !process.cores.is_empty());
        assert!(process.cores.iter().all(|(busy, all)| busy <= all));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 86_400.0..now + 2.0).contains(&process.started_at_s), "{}", process.started_at_s);
    }
}
