//! The summary that the terminal shows at the end of a run.

use std::fmt::Write as _;

use crate::measure::recorder::Quantiles;
use crate::report::Report;

/// A run in about twenty lines.
pub fn summary(report: &Report) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(format!("{} against {}: {:.1} s", report.scenario, report.target, report.took_s));
    if let Some(rooms) = report.rooms_line() {
        line(format!("  in          {rooms}"));
    }
    let (tally, took) = (&report.tally, report.took_s.max(1e-3));
    if tally.sent > 0 {
        line(format!(
            "  draws       {} sent, {} stored, {} refused, {} unknown; {} stored a second",
            count(tally.sent),
            count(tally.stored),
            count(tally.refused),
            count(tally.unknown),
            count((tally.stored as f64 / took) as u64),
        ));
    }
    if report.delivered > 0 {
        line(format!(
            "  deliveries  {}; {} a second",
            count(report.delivered),
            count((report.delivered as f64 / took) as u64)
        ));
    }
    for (name, latency) in [("delivery", &report.delivery), ("answer", &report.ack)] {
        if latency.quantiles.count > 0 {
            line(format!("  {name:<11} {}", quantiles(&latency.quantiles)));
        }
    }
    for figure in &report.figures {
        line(format!("  {}: {} {}", figure.name, number(figure.value), figure.unit));
    }
    for (load, us) in &report.steps {
        line(format!("  with {}: p99 {}", number(load.round()), time(*us)));
    }
    for process in &report.processes {
        let cpu = process.cpu();
        let each = report.server_us_each().filter(|_| process.name == "server");
        let each = each.map_or_else(String::new, |us| format!(", {} µs a delivery", number(us)));
        line(format!(
            "  {:<11} {cpu:.2} s CPU ({:.2} user, {:.2} system; {:.0} % of a core{each}), {} resident, {} at its peak, {} switches",
            process.name,
            process.user_s,
            process.system_s,
            100.0 * cpu / took,
            mib(process.rss_last_kib),
            mib(process.rss_peak_kib),
            count(process.switches.0 + process.switches.1),
        ));
    }
    if let (broken @ 1.., why) = &report.broken {
        line(format!(
            "  {broken} connections broke; the first: {}",
            why.as_deref().unwrap_or("for no reason given")
        ));
    }
    for warning in &report.warnings {
        line(format!("  note: {warning}"));
    }
    for failure in &report.failures {
        line(format!("  FAILED: {failure}"));
    }
    if report.breaches.is_empty() {
        // A run that failed may not have looked everywhere.
        if report.is_good() && report.delivered > 0 {
            line("  nothing lost, nothing twice, all in order, all as it was sent".to_owned());
        }
    } else {
        let counts: Vec<String> =
            report.breaches.counts.iter().map(|(breach, count)| format!("{count} {breach}")).collect();
        line(format!("  BREACHES: {}", counts.join(", ")));
        if let Some(case) = &report.breaches.first {
            line(format!("  the first: {case}"));
        }
    }
    out
}

/// `p50 0.52 ms, …`.
fn quantiles(quantiles: &Quantiles) -> String {
    let mut out = String::new();
    let named = [
        ("p50", quantiles.p50),
        ("p90", quantiles.p90),
        ("p99", quantiles.p99),
        ("p99.9", quantiles.p999),
        ("max", quantiles.max),
    ];
    for (index, (name, value)) in named.into_iter().enumerate() {
        let comma = if index > 0 { ", " } else { "" };
        write!(out, "{comma}{name} {}", time(value)).expect("a String takes everything");
    }
    out
}

/// Microseconds in the unit that reads best.
pub fn time(us: u64) -> String {
    let ms = us as f64 / 1000.0;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{ms:.2} ms"),
        10_000..100_000 => format!("{ms:.1} ms"),
        100_000..1_000_000 => format!("{ms:.0} ms"),
        _ => format!("{:.2} s", ms / 1000.0),
    }
}

/// KiB as MiB.
pub fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

/// With a comma at each thousand.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The middle one; of an even number, the higher of the two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

/// As many digits as say something.
pub fn number(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    match value.abs() {
        whole @ 0.0..1e15 if whole == whole.round() => format!("{sign}{}", count(whole as u64)),
        large @ 1000.0.. => format!("{sign}{}", count(large.round() as u64)),
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(198_000), "198,000");
        assert_eq!(count(999), "999");
        assert_eq!(time(950), "950 µs");
        assert_eq!(time(12_345), "12.3 ms");
        assert_eq!(time(1_000_000), "1.00 s");
        let numbers = [1234.5, 50.0, 0.0, -2.0, 14.93, 0.581].map(number);
        assert_eq!(numbers, ["1,235", "50", "0", "-2", "14.9", "0.58"]);
    }
}
