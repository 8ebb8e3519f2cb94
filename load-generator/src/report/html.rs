//! The page: one file with everything in it, which needs no network and no script.

mod compared;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::measure::recorder::Quantiles;
use crate::measure::watcher::ProcessSecond;
use crate::report::chart::{Along, Chart, Series, Unit, escape};
use crate::report::summary::{count, mib, number, time};
use crate::report::{Report, Second};

/// What is left of a run after its last whole second is not drawn when it is shorter.
const SHORTEST_S: f64 = 0.4;
/// Threads named in the table at most, the busiest first.
const THREADS_MAX: usize = 8;

/// One run, or several side by side.
pub fn page(reports: &[Report]) -> String {
    let title = match reports {
        [one] => one.title(),
        many => format!("{} runs side by side", many.len()),
    };
    let mut body = String::new();
    if let [one] = reports {
        let _ = write!(body, "<h1>{}</h1>\n{}", escape(&one.title()), run(one));
    } else {
        let _ = write!(body, "<h1>{}</h1>\n{}", escape(&title), compared::compared(reports));
        for (report, name) in reports.iter().zip(compared::names(reports)) {
            let _ = write!(body, "<h2>{}</h2>\n{}", escape(&name), run(report));
        }
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(&title),
        include_str!("style.css"),
    )
}

/// The seconds that are long enough to be drawn, each with its length.
fn seconds(report: &Report) -> Vec<(f64, &Second)> {
    let mut before = 0.0;
    let length = |second: &'_ Second| {
        let length = second.at_s - before;
        before = second.at_s;
        length
    };
    let lengths: Vec<f64> = report.seconds.iter().map(length).collect();
    lengths.into_iter().zip(&report.seconds).filter(|(length, _)| *length >= SHORTEST_S).collect()
}

/// A value of each second.
fn over_time(report: &Report, value: impl Fn(f64, &Second) -> f64) -> Vec<(f64, f64)> {
    seconds(report).into_iter().map(|(length, second)| (second.at_s, value(length, second))).collect()
}

/// A latency of each second, with gaps where there was none.
fn latency_over_time(
    report: &Report,
    which: fn(&Second) -> &Quantiles,
    value: fn(&Quantiles) -> u64,
) -> Vec<(f64, f64)> {
    over_time(report, |_, second| {
        let latency = which(second);
        if latency.count > 0 { value(latency) as f64 } else { f64::NAN }
    })
}

/// A percentile curve by nines.
fn curve(points: &[(f64, u64)]) -> Vec<(f64, f64)> {
    points.iter().map(|(quantile, us)| (-(1.0 - quantile).log10(), *us as f64)).collect()
}

fn chart(title: impl Into<String>, what: &'static str, unit: Unit, series: Vec<Series>) -> Chart {
    Chart {
        title: title.into(),
        what,
        unit,
        along: Along::Seconds,
        is_stacked: false,
        marks: Vec::new(),
        series,
    }
}

/// A value of a process in each second, with a gap once it has ended.
fn of_process(report: &Report, index: usize, value: impl Fn(f64, &ProcessSecond) -> f64) -> Vec<(f64, f64)> {
    over_time(report, |length, second| {
        let process = second.processes.get(index).filter(|process| !process.has_ended);
        process.map_or(f64::NAN, |process| value(length, process))
    })
}

/// The CPU time of a process as hundredths of a core.
fn cpu(report: &Report, index: usize) -> Vec<(f64, f64)> {
    of_process(report, index, |length, process| (process.user_ms + process.system_ms) as f64 / 10.0 / length)
}

fn memory(report: &Report, index: usize) -> Vec<(f64, f64)> {
    of_process(report, index, |_, process| process.rss_kib as f64 / 1024.0)
}

fn switches(report: &Report, index: usize) -> Vec<(f64, f64)> {
    of_process(report, index, |length, process| (process.switches.0 + process.switches.1) as f64 / length)
}

fn sockets(report: &Report, index: usize) -> Vec<(f64, f64)> {
    of_process(report, index, |_, process| process.sockets as f64)
}

fn charts(report: &Report) -> Vec<Chart> {
    let mut charts = Vec::new();
    if !report.steps.is_empty() {
        let steps = report.steps.iter().map(|(load, us)| (*load, *us as f64)).collect();
        let what = report.options.get("raise").map_or("load", String::as_str);
        let mut lines = vec![Series::new("p99", steps)];
        let bound_us =
            report.options.get("p99-ms").and_then(|ms| ms.parse::<f64>().ok()).map(|ms| ms * 1000.0);
        if let Some(bound_us) = bound_us.filter(|bound_us| *bound_us > 0.0) {
            let ends = [report.steps.first(), report.steps.last()].into_iter().flatten();
            lines.push(Series::new("the bound", ends.map(|(load, _)| (*load, bound_us)).collect()));
        }
        let steps = Chart {
            along: Along::Load(if what == "readers" { "readers" } else { "draws a second" }),
            ..chart(format!("Latency by {what}"), "p99 of each step", Unit::Time, lines)
        };
        charts.push(steps);
    }
    let delivery: fn(&Second) -> &Quantiles = |second| &second.delivery;
    let ack: fn(&Second) -> &Quantiles = |second| &second.ack;
    for (title, which) in [("From due to a reader", delivery), ("From due to the answer", ack)] {
        let line = |name, value| Series::new(name, latency_over_time(report, which, value));
        let lines = vec![
            line("p50", |latency| latency.p50),
            line("p90", |latency| latency.p90),
            line("p99", |latency| latency.p99),
            line("max", |latency| latency.max),
        ];
        let what = match &report.storms_s[..] {
            [] => "latency in each second",
            _ => "latency in each second; dashed: everyone reconnects",
        };
        charts.push(Chart { marks: report.storms_s.clone(), ..chart(title, what, Unit::Time, lines) });
    }
    charts.push(Chart {
        along: Along::Nines,
        ..chart(
            "How many waited how long",
            "percentiles of the whole run",
            Unit::Time,
            vec![
                Series::new("from due to a reader", curve(&report.delivery.curve)),
                Series::new("from due to the answer", curve(&report.ack.curve)),
            ],
        )
    });
    let sent = over_time(report, |length, second| second.sent as f64 / length);
    let delivered = over_time(report, |length, second| second.delivered as f64 / length);
    if report.tally.sent > 0 {
        charts.push(chart("Draws sent", "a second", Unit::Plain, vec![Series::new("sent", sent)]));
    }
    if report.delivered > 0 {
        let line = vec![Series::new("delivered", delivered)];
        charts.push(chart("Records delivered", "a second, to all readers", Unit::Plain, line));
    }
    let of_each = |value: fn(&Report, usize) -> Vec<(f64, f64)>| {
        let line = |(index, process): (usize, &crate::measure::watcher::ProcessWhole)| {
            Series::new(process.name.clone(), value(report, index))
        };
        report.processes.iter().enumerate().map(line).collect()
    };
    charts.push(chart("CPU of each process", "100 % is one core", Unit::Percent, of_each(cpu)));
    charts.push(chart("Memory", "resident, MiB", Unit::Plain, of_each(memory)));
    charts.push(chart("Context switches", "a second", Unit::Plain, of_each(switches)));
    charts.push(chart("Open sockets", "at the end of each second", Unit::Plain, of_each(sockets)));
    let cores = report.seconds.first().map_or(0, |second| second.cores.len());
    for core in 0..cores {
        let part = |value: fn(&crate::measure::watcher::CoreSecond) -> f64| {
            over_time(report, |_, second| second.cores.get(core).map_or(0.0, value))
        };
        charts.push(Chart {
            is_stacked: true,
            ..chart(
                format!("Core {core}"),
                "all programs of the machine",
                Unit::Percent,
                vec![
                    Series::new("user", part(|core| core.user)),
                    Series::new("system", part(|core| core.system)),
                    Series::new("taken by the host", part(|core| core.stolen)),
                ],
            )
        });
    }
    charts
}

fn figures(charts: &[Chart]) -> String {
    let figures: String = charts.iter().map(Chart::figure).collect();
    format!("<div class=\"charts\">\n{figures}</div>\n")
}

/// Everything about one run.
fn run(report: &Report) -> String {
    let mut out = String::new();
    let mut put = |text: String| out.push_str(&text);
    put(format!(
        "<p class=\"about\">{} against {}{}, {}. {}.</p>\n",
        escape(&report.scenario),
        escape(&report.target),
        report.rooms_line().map(|rooms| format!(", in {}", escape(&rooms))).unwrap_or_default(),
        day(report.began_unix_ms),
        escape(&report.machine)
    ));
    put(verdict(report));
    for warning in &report.warnings {
        put(format!("<p class=\"note\">Note: {}.</p>\n", escape(warning)));
    }
    put(tiles(report));
    put(figures(&charts(report)));
    let steps: Vec<[String; 2]> =
        report.steps.iter().map(|(load, us)| [number(load.round()), time(*us)]).collect();
    let what = report.options.get("raise").map_or("load", String::as_str);
    put(table("Steps", &[what, "to a reader, p99"], &steps));
    put(processes(report));
    put(threads(report));
    let options: Vec<[String; 2]> =
        report.options.iter().map(|(name, value)| [name.clone(), value.clone()]).collect();
    put(table("Options", &["option", "value"], &options));
    out
}

fn verdict(report: &Report) -> String {
    let mut out = String::new();
    if report.is_good() {
        let what = if report.delivered > 0 {
            "Nothing lost, nothing twice, all in order, all as it was sent."
        } else {
            "Nothing went wrong."
        };
        let _ = writeln!(out, "<p class=\"verdict good\">{what}</p>");
    }
    for failure in &report.failures {
        let _ = writeln!(out, "<p class=\"verdict bad\">Failed: {}.</p>", escape(failure));
    }
    if !report.breaches.is_empty() {
        let counts: Vec<String> = report
            .breaches
            .counts
            .iter()
            .map(|(breach, found)| format!("{} {breach}", count(*found)))
            .collect();
        let _ = writeln!(out, "<p class=\"verdict bad\">Broken promises: {}.</p>", counts.join(", "));
        if let Some(case) = &report.breaches.first {
            let _ = writeln!(out, "<p class=\"bad\">The first: {}.</p>", escape(&case.to_string()));
        }
    }
    if let (broken @ 1.., why) = &report.broken {
        let why = why.as_deref().unwrap_or("for no reason given");
        let _ = writeln!(
            out,
            "<p class=\"note\">{} connections broke; the first: {}.</p>",
            count(*broken),
            escape(why)
        );
    }
    out
}

fn tiles(report: &Report) -> String {
    let mut tiles = Vec::new();
    let mut tile = |value: String, what: &str| tiles.push((value, what.to_owned()));
    let took = report.took_s.max(1e-3);
    tile(format!("{:.1} s", report.took_s), "took");
    if report.tally.sent > 0 {
        tile(count(report.tally.stored), "draws stored");
    }
    if report.delivered > 0 {
        tile(count(report.delivered), "deliveries");
        tile(count((report.delivered as f64 / took) as u64), "deliveries a second");
    }
    let latency = &report.delivery.quantiles;
    if latency.count > 0 {
        tile(time(latency.p50), "to a reader, median");
        tile(time(latency.p99), "to a reader, p99");
        tile(time(latency.p999), "to a reader, p99.9");
        tile(time(latency.max), "to a reader, longest");
    }
    let answer = &report.ack.quantiles;
    if latency.count == 0 && answer.count > 0 {
        tile(time(answer.p50), "to the answer, median");
        tile(time(answer.p99), "to the answer, p99");
        tile(time(answer.max), "to the answer, longest");
    }
    for process in report.processes.iter().filter(|process| process.name != "generator") {
        let used = process.cpu();
        tile(format!("{used:.2} s"), &format!("CPU of {}", process.name));
        tile(mib(process.rss_peak_kib), &format!("peak memory of {}", process.name));
    }
    for figure in &report.figures {
        tile(format!("{} {}", number(figure.value), figure.unit), &figure.name);
    }
    let mut out = "<div class=\"tiles\">\n".to_owned();
    for (value, what) in tiles {
        let _ = writeln!(out, "<div><b>{}</b><span>{}</span></div>", escape(value.trim()), escape(&what));
    }
    out.push_str("</div>\n");
    out
}

fn processes(report: &Report) -> String {
    let took = report.took_s.max(1e-3);
    let rows: Vec<[String; 8]> = report
        .processes
        .iter()
        .map(|process| {
            [
                process.name.clone(),
                format!("{:.2} s", process.user_s),
                format!("{:.2} s", process.system_s),
                format!("{:.0} %", 100.0 * process.cpu() / took),
                mib(process.rss_first_kib),
                mib(process.rss_last_kib),
                mib(process.rss_peak_kib),
                format!("{} / {}", count(process.switches.0), count(process.switches.1)),
            ]
        })
        .collect();
    let head = [
        "process",
        "user",
        "system",
        "of a core",
        "memory at first",
        "at last",
        "at its peak",
        "switches, own will / forced",
    ];
    table("Processes", &head, &rows)
}

/// The busiest threads of the server.
fn threads(report: &Report) -> String {
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    for second in &report.seconds {
        for (name, ms) in second.processes.first().into_iter().flat_map(|process| &process.threads) {
            *used.entry(name).or_default() += ms;
        }
    }
    let mut used: Vec<(&str, u64)> = used.into_iter().collect();
    used.sort_by_key(|(_, ms)| std::cmp::Reverse(*ms));
    let rows: Vec<[String; 2]> = used
        .into_iter()
        .take(THREADS_MAX)
        .map(|(name, ms)| [name.to_owned(), format!("{:.2} s", ms as f64 / 1000.0)])
        .collect();
    let name = report.processes.first().map_or("server", |process| process.name.as_str());
    table(&format!("Threads of {name}"), &["threads of that name", "CPU"], &rows)
}

fn table<const N: usize>(title: &str, head: &[&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let cells = |tag: &str, cells: &[String]| -> String {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
    };
    let head = cells("th", &head.map(str::to_owned));
    let rows: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!(
        "<h3>{}</h3>\n<div class=\"scroll\"><table>\n<tr>{head}</tr>\n{rows}</table></div>\n",
        escape(title)
    )
}

/// A moment as a date, in UTC (Howard Hinnant's `civil_from_days`).
fn day(unix_ms: u64) -> String {
    let minutes = unix_ms / 60_000;
    let days = minutes / 1440 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(day(0), "1970-01-01 00:00 UTC");
        assert_eq!(day(951_782_400_000), "2000-02-29 00:00 UTC");
        assert_eq!(day(1_796_046_960_000), "2026-11-30 13:56 UTC");
    }

    #[test]
    fn what_a_server_says_stays_text() {
        let mut report = Report { scenario: "fanout".into(), ..Report::default() };
        report.broken = (1, Some("<script>alert(1)</script>".into()));
        let page = page(&[report]);
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script>"));
    }
}
