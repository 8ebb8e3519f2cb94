//! The page of a comparison: a table and a picture for each scenario, the machine, the versions and the date.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::compare::picture::{Bar, Picture};
use crate::compare::plan::{FLOOR, Kind, Run};
use crate::measure::watcher::ProcessWhole;
use crate::messaging::{Cost, Row, Table};
use crate::report::Report;
use crate::report::markdown::{cell, table};
use crate::report::summary::median;
use crate::run::Failure;
use crate::tasks::RESULT;
use crate::versions::{today, versions};

/// What the page is called.
pub(super) const FILE: &str = "COMPARISON.md";
/// The folder of its pictures, beside it.
const PICTURES: &str = "comparison";
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
    // A sum of nothing is -0.
    chosen.map(ProcessWhole::cpu).sum::<f64>() + 0.0
}

fn per(total: f64, count: u64) -> f64 {
    total / (count.max(1)) as f64
}

fn memory_mib(report: &Report, of: &str) -> f64 {
    let chosen = report.processes.iter().filter(|process| process.name.starts_with(of));
    chosen.map(|process| process.rss_peak_kib as f64 / 1024.0).sum::<f64>() + 0.0
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
        Kind::Rooms => {
            "Rooms of four people who all draw, in strokes with pauses; each sees what all draw. Inkrelay holds a busy \
             room's records back for up to 4 ms on purpose (`--flush-ms`): one write for several of them."
        }
        Kind::Churn => {
            "A new connection for each request, without keep-alive. All ask for the cheapest answer that the server has."
        }
        Kind::Messaging => {
            "Small messages between two workers, each answered, 64 on their way at most. Times are without the start of \
             the programs."
        }
    }
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
    match broken.is_empty() {
        true if entry.reports.iter().all(|report| report.keeps_log) => "kept".to_owned(),
        true => "kept (it has no log)".to_owned(),
        false => broken.join("; ").replace('|', "/"),
    }
}

fn entries(kind: Kind, results: &Path, runs: &[Run]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for run in runs.iter().filter(|run| run.kind == kind) {
        let place = entries.iter().position(|entry| entry.server == run.server);
        let place = place.unwrap_or_else(|| {
            entries.push(Entry { server: run.server, reports: Vec::new(), failures: Vec::new() });
            entries.len() - 1
        });
        match run.task.report(results) {
            Ok(report) => entries[place].reports.push(report),
            Err(why) => entries[place].failures.push(why),
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

/// Writes the page and its pictures into a folder.
pub(super) fn write(out: &Path, results: &Path, runs: &[Run], quick: bool) -> Result<(), Failure> {
    fs::create_dir_all(out.join(PICTURES))?;
    let rounds = runs.iter().map(|run| run.round).max().unwrap_or(0);
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
            let done = runs.iter().filter(|run| run.kind == kind);
            let read = |run: &Run| {
                serde_json::from_slice(&fs::read(results.join(&run.task.folder).join(RESULT)).ok()?).ok()
            };
            messaging(&done.filter_map(read).collect::<Vec<Table>>())
        } else {
            let entries = entries(kind, results, runs);
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
        today(),
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
    fn a_page_is_written_also_of_what_failed() {
        let (results, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let runs = crate::compare::plan::runs(1, true);
        let folder = results.path().join(&runs[0].task.folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(RESULT), serde_json::to_vec(&Report::default()).unwrap()).unwrap();
        write(out.path(), results.path(), &runs, true).unwrap();
        let page = fs::read_to_string(out.path().join(FILE)).unwrap();
        assert!(page.contains("## messaging") && page.contains("failed: "), "{page}");
        assert!(out.path().join(PICTURES).join("rooms.svg").exists());
    }
}
