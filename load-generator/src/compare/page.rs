//! The page of a comparison: a table and a picture for each scenario, the machine, the versions and the date.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::compare::picture::{Bar, Picture, median};
use crate::compare::plan::{FAILED, FLOOR, Kind, RESULT, Task};
use crate::measure::watcher::ProcessWhole;
use crate::messaging::{Cost, Row, Table};
use crate::report::Report;
use crate::report::markdown::table;
use crate::report::summary::number;
use crate::run::Failure;

/// What the page is called.
pub(super) const FILE: &str = "COMPARISON.md";
/// The folder of its pictures, beside it.
const PICTURES: &str = "comparison";
/// Debian's packages that take part.
const PACKAGES: [&str; 7] = [
    "redis-server",
    "erlang-base",
    "erlang-mochiweb",
    "erlang-redis-client",
    "nginx",
    "libnginx-mod-nchan",
    "openjdk-17-jdk-headless",
];

/// One server under one scenario.
struct Entry {
    server: &'static str,
    reports: Vec<Report>,
    failures: Vec<String>,
}

/// Something that is measured: its head in the table, and how it is read.
type Column = (&'static str, fn(&Report) -> f64);

const US_PER_MS: f64 = 1000.0;

fn own_cpu_s(report: &Report, is_redis: bool) -> f64 {
    let others = report.processes.iter().filter(|process| process.name != "generator");
    let chosen = others.filter(|process| process.name.starts_with("redis") == is_redis);
    chosen.map(ProcessWhole::cpu).sum()
}

fn per(total: f64, count: u64) -> f64 {
    total / (count.max(1)) as f64
}

fn memory_mib(report: &Report, of: &str) -> f64 {
    let chosen = report.processes.iter().filter(|process| process.name.starts_with(of));
    chosen.map(|process| process.rss_peak_kib as f64 / 1024.0).sum()
}

fn columns(kind: Kind) -> Vec<Column> {
    let server_cpu: Column =
        ("server CPU, µs a record read", |report| per(own_cpu_s(report, false) * 1e6, report.delivered));
    let redis_cpu: Column =
        ("Redis CPU, µs a record read", |report| per(own_cpu_s(report, true) * 1e6, report.delivered));
    let memory: Column = ("memory, MiB at most", |report| memory_mib(report, "server"));
    match kind {
        Kind::Replay => vec![
            ("draws a second", |report| report.tally.stored as f64 / report.took_s.max(1e-3)),
            ("ack p50, ms", |report| report.ack.quantiles.p50 as f64 / US_PER_MS),
            ("ack p99, ms", |report| report.ack.quantiles.p99 as f64 / US_PER_MS),
            ("delivery p99, ms", |report| report.delivery.quantiles.p99 as f64 / US_PER_MS),
            server_cpu,
            redis_cpu,
            memory,
            ("memory of Redis, MiB at most", |report| memory_mib(report, "redis")),
        ],
        Kind::Fanout | Kind::Rooms => vec![
            ("records read a second", |report| report.delivered as f64 / report.took_s.max(1e-3)),
            ("delivery p50, ms", |report| report.delivery.quantiles.p50 as f64 / US_PER_MS),
            ("delivery p99, ms", |report| report.delivery.quantiles.p99 as f64 / US_PER_MS),
            ("longest, ms", |report| report.delivery.quantiles.max as f64 / US_PER_MS),
            server_cpu,
            redis_cpu,
            memory,
        ],
        Kind::Churn => vec![
            ("requests a second", |report| report.ack.quantiles.count as f64 / report.took_s.max(1e-3)),
            ("p50, ms", |report| report.ack.quantiles.p50 as f64 / US_PER_MS),
            ("p99, ms", |report| report.ack.quantiles.p99 as f64 / US_PER_MS),
            ("server CPU, µs a request", |report| {
                per(own_cpu_s(report, false) * 1e6, report.ack.quantiles.count)
            }),
            memory,
        ],
        Kind::Messaging => Vec::new(),
    }
}

/// Which column the picture shows, its title, and whether on a logarithmic scale.
fn pictured(kind: Kind) -> (usize, &'static str, bool) {
    match kind {
        Kind::Replay => (0, "replay: draws a second, more is better", false),
        Kind::Fanout => (4, "fanout: CPU of the server for each record read, µs, less is better", true),
        Kind::Rooms => (2, "rooms: from drawn to read, 99 of 100 within, ms, less is better", true),
        Kind::Churn => (0, "churn: requests a second, more is better", false),
        Kind::Messaging => (0, "messaging: seconds, less is better", true),
    }
}

fn what(kind: Kind) -> &'static str {
    match kind {
        Kind::Replay => {
            "The load of 2010, 198,000 draws, as fast as eight posts at a time are answered; one reader polls. nchan \
             keeps the newest draws only, in its memory; all others keep them in Redis with `appendonly yes`, or in a file that is \
             synced before each answer (embedded)."
        }
        Kind::Fanout => {
            "One drawer, 60 draws a second, on schedule; many readers in one room. The floor is a loop that writes the \
             same bytes to each socket and does nothing else: it reads nothing, keeps nothing and answers nothing. \
             socketio keeps nothing either."
        }
        Kind::Rooms => "Rooms of four people who all draw, in strokes with pauses; each sees what all draw.",
        Kind::Churn => {
            "A new connection for each request, without keep-alive. All ask for the cheapest answer that the server has."
        }
        Kind::Messaging => {
            "Small messages between two workers, each answered, 64 on their way at most. Times are without the start of \
             the programs."
        }
    }
}

/// Median, and the range of all runs where it is wider than the number tells.
fn cell(values: &[f64]) -> String {
    let Some(middle) = median(values) else { return "no result".to_owned() };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, middle, high) = (number(low), number(middle), number(high));
    if low == high { middle } else { format!("{middle} ({low}–{high})") }
}

fn promises(entry: &Entry) -> String {
    let mut broken: Vec<String> = Vec::new();
    for report in &entry.reports {
        broken.extend(report.breaches.counts.iter().map(|(breach, count)| format!("{breach:?}: {count}")));
        broken.extend(report.failures.first().cloned());
        if report.tally.unknown > 0 {
            broken.push(format!("{} unanswered", report.tally.unknown));
        }
    }
    broken.extend(entry.failures.iter().map(|why| format!("failed: {}", why.trim())));
    if broken.is_empty() { "kept".to_owned() } else { broken.join("; ").replace('|', "/") }
}

fn entries(kind: Kind, results: &Path, tasks: &[Task]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for task in tasks.iter().filter(|task| task.kind == kind) {
        let place = entries.iter().position(|entry| entry.server == task.server);
        let place = place.unwrap_or_else(|| {
            entries.push(Entry { server: task.server, reports: Vec::new(), failures: Vec::new() });
            entries.len() - 1
        });
        let folder = task.folder(results);
        match Report::read(&folder.join(RESULT)) {
            Ok(report) => entries[place].reports.push(report),
            Err(why) => entries[place].failures.push(fs::read_to_string(folder.join(FAILED)).unwrap_or(why)),
        }
    }
    entries
}

fn section(kind: Kind, entries: &[Entry]) -> (String, Picture) {
    let columns = columns(kind);
    let (shown, title, is_logarithmic) = pictured(kind);
    let values = |entry: &Entry, column: &Column| entry.reports.iter().map(column.1).collect::<Vec<f64>>();
    let floor = entries.iter().find(|entry| entry.server == FLOOR);
    let floor = floor.and_then(|entry| median(&values(entry, &columns[shown])));
    let mut head = vec!["server".to_owned()];
    head.extend(columns.iter().map(|(name, _)| (*name).to_owned()));
    head.extend(floor.map(|_| "times the floor".to_owned()));
    if kind != Kind::Churn {
        head.push("promises".to_owned());
    }
    let mut rows = vec![head];
    for entry in entries {
        let mut row = vec![entry.server.to_owned()];
        row.extend(columns.iter().map(|column| cell(&values(entry, column))));
        row.extend(floor.map(|floor| {
            let own = median(&values(entry, &columns[shown]));
            own.map_or(String::new(), |own| format!("{:.1}", own / floor.max(1e-9)))
        }));
        if kind != Kind::Churn {
            row.push(promises(entry));
        }
        rows.push(row);
    }
    let bars = entries
        .iter()
        .map(|entry| Bar { name: entry.server.to_owned(), values: values(entry, &columns[shown]) })
        .collect();
    (table(&rows), Picture { title, is_logarithmic, bars })
}

/// The medians of several tables, way by way.
fn messaging(tables: &[Table]) -> (String, Picture) {
    let (_, title, is_logarithmic) = pictured(Kind::Messaging);
    let Some(first) = tables.first() else {
        return ("no result\n".to_owned(), Picture { title, is_logarithmic, bars: Vec::new() });
    };
    let mut middle = Table { rows: Vec::new(), ..first.clone() };
    let mut bars = Vec::new();
    for row in &first.rows {
        let same = tables.iter().flat_map(|table| &table.rows).filter(|other| other.way == row.way);
        let costs: Vec<Cost> = same.filter_map(|row| row.cost.as_ref().ok().copied()).collect();
        let of =
            |get: fn(&Cost) -> f64| median(&costs.iter().map(get).collect::<Vec<f64>>()).unwrap_or_default();
        let cost = match &row.cost {
            Ok(_) => Ok(Cost {
                elapsed_s: of(|cost| cost.elapsed_s),
                user_s: of(|cost| cost.user_s),
                system_s: of(|cost| cost.system_s),
                voluntary: of(|cost| cost.voluntary as f64) as i64,
                involuntary: of(|cost| cost.involuntary as f64) as i64,
                calls_per_message: costs.first().and_then(|cost| cost.calls_per_message),
            }),
            Err(why) => Err(why.clone()),
        };
        middle.rows.push(Row { way: row.way.clone(), cost });
        bars.push(Bar { name: row.way.clone(), values: costs.iter().map(|cost| cost.elapsed_s).collect() });
    }
    (middle.text(), Picture { title, is_logarithmic, bars })
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// What npm installs, from the files that pin it.
fn npm_versions() -> Vec<String> {
    let mut versions = Vec::new();
    for baseline in ["node-json", "socketio"] {
        let file = format!("load-generator/baselines/{baseline}/package.json");
        let text = fs::read(file).unwrap_or_default();
        let package: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let pinned = package["dependencies"].as_object().into_iter().flatten();
        versions.extend(pinned.filter_map(|(name, version)| Some(format!("{name} {}", version.as_str()?))));
    }
    versions.sort();
    versions.dedup();
    versions
}

fn versions() -> Vec<String> {
    let commit = first_line("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let mut versions = vec![format!("inkrelay {} {commit}", env!("CARGO_PKG_VERSION")).trim_end().to_owned()];
    versions.extend(first_line("uname", &["-sr"]));
    versions.extend(first_line("node", &["--version"]).map(|version| format!("Node.js {version}")));
    versions.extend(npm_versions());
    let show = ["--show", "--showformat", "${Package} ${Version}\\n"];
    for package in PACKAGES {
        versions.extend(first_line("dpkg-query", &[&show[..], &[package]].concat()));
    }
    versions
}

/// Writes the page and its pictures into a folder.
pub(super) fn write(out: &Path, results: &Path, tasks: &[Task], quick: bool) -> Result<(), Failure> {
    fs::create_dir_all(out.join(PICTURES))?;
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let rounds = tasks.iter().map(|task| task.round).max().unwrap_or(0);
    let mut page = String::from(
        "# Comparison\n\nInkrelay and what people would use instead, under the same loads, with the same checks of every \
         record. `make compare` measures it anew; `load-generator/baselines/README.md` says what each of the others stands \
         for.\n\n",
    );
    if quick {
        page.push_str("**A trial with small loads: its numbers say nothing.**\n\n");
    }
    let mut machine = None;
    let mut body = String::new();
    for kind in Kind::ALL {
        let (text, picture) = if kind == Kind::Messaging {
            let done = tasks.iter().filter(|task| task.kind == kind);
            let read =
                |task: &Task| serde_json::from_slice(&fs::read(task.folder(results).join(RESULT)).ok()?).ok();
            messaging(&done.filter_map(read).collect::<Vec<Table>>())
        } else {
            let entries = entries(kind, results, tasks);
            let reports = || entries.iter().flat_map(|entry| &entry.reports);
            machine = machine.or_else(|| reports().next().map(|report| report.machine.clone()));
            section(kind, &entries)
        };
        let name = kind.name();
        fs::write(out.join(PICTURES).join(format!("{name}.svg")), picture.svg())?;
        let _ = write!(
            body,
            "\n## {name}\n\n{}\n\n`inkrelay-load {name} {}`\n\n![{}]({PICTURES}/{name}.svg)\n\n{text}",
            what(kind),
            kind.load(quick),
            picture.title
        );
    }
    let _ = writeln!(
        page,
        "Date: {}. Machine: {}. Server, Redis and generator share it, so that times are upper bounds. Each number is the \
         median of {rounds} interleaved runs, with the lowest and the highest in brackets; times count from when a draw was \
         due. CPU is user and system time. Memory is resident memory; what \
         nginx's workers share is counted for each of them.\n\nVersions: {}.",
        now.split('T').next().unwrap_or_default(),
        machine.unwrap_or_else(|| "unknown".to_owned()),
        versions().join(", ")
    );
    page.push_str(&body);
    Ok(fs::write(out.join(FILE), page)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_median_and_the_range() {
        assert_eq!(cell(&[2.0, 1.0, 3.0]), "2 (1–3)");
        assert_eq!(cell(&[2.0, 2.0]), "2");
        assert_eq!(cell(&[]), "no result");
    }

    #[test]
    fn a_page_is_written_also_of_what_failed() {
        let (results, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let tasks = crate::compare::plan::tasks(1, true);
        let folder = tasks[0].folder(results.path());
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(RESULT), serde_json::to_vec(&Report::default()).unwrap()).unwrap();
        write(out.path(), results.path(), &tasks, true).unwrap();
        let page = fs::read_to_string(out.path().join(FILE)).unwrap();
        assert!(page.contains("## messaging") && page.contains("failed: "), "{page}");
        assert!(out.path().join(PICTURES).join("rooms.svg").exists());
    }
}
