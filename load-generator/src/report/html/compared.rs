//! Several runs side by side.

use crate::measure::watcher::ProcessWhole;
use crate::report::Report;
use crate::report::chart::{Along, Chart, Series, Unit};
use crate::report::html::{chart, cpu, curve, figures, latency_over_time, memory, over_time, table};
use crate::report::summary::{count, mib, time};

/// The titles of runs, with the options in which those differ that have the same.
pub(super) fn names(reports: &[Report]) -> Vec<String> {
    let name = |report: &Report| {
        let title = report.title();
        let same: Vec<&Report> = reports.iter().filter(|other| other.title() == title).collect();
        let differs = |(option, value): &(&String, &String)| {
            same.iter().any(|other| other.options.get(*option) != Some(*value))
        };
        let options = report.options.iter().filter(differs);
        let options: Vec<String> = options.map(|(option, value)| format!("{option} {value}")).collect();
        if options.is_empty() { title } else { format!("{title} ({})", options.join(", ")) }
    };
    reports.iter().map(name).collect()
}

/// What stands above the single runs.
pub(super) fn compared(reports: &[Report]) -> String {
    let names = names(reports);
    let rows: Vec<[String; 10]> = reports
        .iter()
        .zip(names.clone())
        .map(|(report, name)| {
            let latency = &report.delivery.quantiles;
            let server = report.processes.iter().find(|process| process.name == "server");
            let none = || "–".to_owned();
            let used = server.map(ProcessWhole::cpu);
            let each = report.server_us_each();
            let when = |us: u64| if latency.count > 0 { time(us) } else { none() };
            [
                name,
                if report.is_good() { "good".to_owned() } else { "FAILED".to_owned() },
                format!("{:.1} s", report.took_s),
                count(report.delivered),
                when(latency.p50),
                when(latency.p99),
                when(latency.p999),
                used.map_or_else(none, |used| format!("{used:.2} s")),
                each.map_or_else(none, |each| format!("{each:.1} µs")),
                server.map_or_else(none, |process| mib(process.rss_peak_kib)),
            ]
        })
        .collect();
    let head = [
        "run",
        "verdict",
        "took",
        "deliveries",
        "median",
        "p99",
        "p99.9",
        "server's CPU",
        "of it a delivery",
        "server's peak",
    ];
    let of_each = |value: &dyn Fn(&Report) -> Vec<(f64, f64)>| -> Vec<Series> {
        reports.iter().zip(&names).map(|(report, name)| Series::new(name.clone(), value(report))).collect()
    };
    let server = |report: &Report| report.processes.iter().position(|process| process.name == "server");
    let charts = [
        Chart {
            along: Along::Nines,
            ..chart(
                "From due to a reader",
                "percentiles of the whole run",
                Unit::Time,
                of_each(&|report| curve(&report.delivery.curve)),
            )
        },
        chart(
            "p99 from due to a reader",
            "in each second",
            Unit::Time,
            of_each(&|report| latency_over_time(report, |second| &second.delivery, |latency| latency.p99)),
        ),
        chart(
            "CPU of the server",
            "100 % is one core",
            Unit::Percent,
            of_each(&|report| server(report).map_or_else(Vec::new, |index| cpu(report, index))),
        ),
        chart(
            "Memory of the server",
            "resident, MiB",
            Unit::Plain,
            of_each(&|report| server(report).map_or_else(Vec::new, |index| memory(report, index))),
        ),
        chart(
            "Records delivered",
            "a second, to all readers",
            Unit::Plain,
            of_each(&|report| over_time(report, |length, second| second.delivered as f64 / length)),
        ),
    ];
    format!("{}{}", table("In figures", &head, &rows), figures(&charts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::html::page;

    #[test]
    fn runs_of_one_title_are_told_apart_and_failures_stand_out() {
        let run = |readers: &str| Report {
            scenario: "fanout".into(),
            target: "relay".into(),
            options: [("readers".to_owned(), readers.to_owned()), ("rate".to_owned(), "60".to_owned())]
                .into(),
            ..Report::default()
        };
        let mut reports = [run("5"), run("50")];
        reports[1].failures.push("nothing was stored".into());
        assert_eq!(names(&reports), ["fanout, relay (readers 5)", "fanout, relay (readers 50)"]);
        let page = page(&reports);
        assert!(page.contains("<td>good</td>") && page.contains("<td>FAILED</td>"));
    }
}
