//! The table of bounds, for a terminal and for the page.

use std::fs;
use std::path::Path;

use crate::bounds::Row;
use crate::bounds::loads::LOADS;
use crate::bounds::measures::{Bound, Round};
use crate::report::Report;
use crate::report::markdown::{cell, table};
use crate::report::summary::number;
use crate::run::Failure;
use crate::versions::{today, versions};

/// What is written by hand stands before and behind these two.
const BEGIN: &str = "<!-- bounds: written by `make bounds` from here -->";
const END: &str = "<!-- bounds: to here -->";

/// The page, when there is none.
const FRAME: &str = "# Performance

What the relay is to cost at most, and what was measured, told as ratios within a run on one machine. `make bounds` measures all of
it anew, `target/release/inkrelay-load bounds --only NAME --again` a part of it, and both write what stands between the two marks in
this file.
";

impl Bound {
    fn text(self, unit: &str) -> String {
        let (words, value) = match self {
            Self::AtMost(most) => ("at most", most),
            Self::Below(most) => ("below", most),
            Self::AtLeast(least) => ("at least", least),
        };
        format!("{words} {} {unit}", number(value)).trim_end().to_owned()
    }
}

/// Each measure with its bound, what was measured, and what else to know.
pub(super) fn table_of(rows: &[&Row]) -> String {
    let mut cells = vec![["measure", "bound", "measured", "within"].map(str::to_owned).to_vec()];
    for row in rows {
        let measure = row.measure;
        let measured = match (row.is_within, row.values.is_empty()) {
            (None, _) => "not measured".to_owned(),
            (_, true) => "no result".to_owned(),
            _ => format!("{} {}", cell(&row.values), measure.unit).trim_end().to_owned(),
        };
        let within = match row.is_within {
            None => "",
            Some(true) => "yes",
            Some(false) => "no",
        };
        let notes = row.notes.iter().map(|note| format!("; {}", note.replace('|', "/")));
        let within = format!("{within}{}", notes.collect::<String>());
        cells.push(vec![measure.name.to_owned(), measure.bound.text(measure.unit), measured, within]);
    }
    table(&cells)
}

/// What each load cost, and its command.
fn loads(rounds: &[Round]) -> String {
    let head = ["load", "CPU, µs a record", "p99, ms", "server at its peak, MiB", "command"];
    let mut cells = vec![head.map(str::to_owned).to_vec()];
    for load in LOADS {
        let reports: Vec<&Report> = rounds.iter().filter_map(|round| round.report(load.name)).collect();
        let of = |value: fn(&Report) -> f64| {
            let values: Vec<f64> = reports.iter().map(|report| value(report)).collect();
            cell(&values)
        };
        let delivers = reports.iter().any(|report| report.delivered > 0);
        let if_delivers = |text: String| if delivers { text } else { String::new() };
        cells.push(vec![
            load.name.to_owned(),
            if_delivers(of(|report| report.server_cpu_s() * 1e6 / report.delivered.max(1) as f64)),
            if_delivers(of(|report| report.delivery.quantiles.p99 as f64 / 1000.0)),
            of(|report| {
                let server = report.processes.iter().find(|process| process.name == "server");
                server.map_or(0.0, |server| server.rss_peak_kib as f64 / 1024.0)
            }),
            format!("`{}`", load.command()),
        ]);
    }
    table(&cells)
}

/// Writes what stands between the marks, into the page that is there or a new one.
///
/// # Errors
/// When it cannot be written, or is a page without the marks.
pub(super) fn write(out: &Path, rows: &[Row], rounds: &[Round]) -> Result<(), Failure> {
    let machine = LOADS.iter().flat_map(|load| rounds.iter().filter_map(|round| round.report(load.name)));
    let machine = machine.map(|report| report.machine.clone()).next().unwrap_or_default();
    let of_rounds = match rounds.len() {
        1 => "of one round".to_owned(),
        rounds => format!("the median of {rounds} rounds, with the lowest and the highest in brackets"),
    };
    let (runs, disturbed) =
        rounds.iter().map(Round::disturbed).fold((0, 0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
    let quiet = match disturbed {
        0 => String::new(),
        _ => format!(
            " **The machine was not quiet: during {disturbed} of {runs} runs other programs used more than a fifth of it.**"
        ),
    };
    let body = format!(
        "Date: {}. Machine: {machine}. Server, Redis and generator share it.{quiet} Each value is {of_rounds}, and each ratio \
         is one within a round. CPU is user and system time of the \
         server, and of Redis where it has one; latencies count from when a draw was due. Every record of every reader \
         was checked: a lost, repeated, changed or misplaced one is a missed bound.\n\n{}\nWhat each load cost:\n\n{}\n\
         Versions: {}.\n",
        today(),
        table_of(&rows.iter().collect::<Vec<_>>()),
        loads(rounds),
        versions().join(", ")
    );
    let page = match fs::read_to_string(out) {
        Ok(page) => page,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => format!("{FRAME}\n{BEGIN}\n{END}\n"),
        Err(error) => return Err(format!("{}: {error}", out.display()).into()),
    };
    let page = between_marks(&page, &body)
        .ok_or_else(|| format!("{} lacks the marks {BEGIN} and {END}", out.display()))?;
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(out, page).map_err(|error| format!("{}: {error}", out.display()).into())
}

fn between_marks(page: &str, body: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n\n{body}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::measures::MEASURES;
    use crate::measure::watcher::ProcessWhole;

    #[test]
    fn what_is_written_by_hand_stays() {
        let page = format!("before\n{BEGIN}\nold\n{END}\nbehind\n");
        let written = between_marks(&page, "new").unwrap();
        assert_eq!(written, format!("before\n{BEGIN}\n\nnew\n{END}\nbehind\n"));
        assert_eq!(between_marks(&written, "new").unwrap(), written);
        assert_eq!(between_marks("no marks", "new"), None);
    }

    /// A round in which the fan-out cost so much a delivery, and the bare loop 5 µs.
    fn round(cpu_us: f64) -> Round {
        let report = |cpu_us: f64| {
            let process =
                ProcessWhole { name: "server".into(), cpu_s: cpu_us / 1e3, ..ProcessWhole::default() };
            Ok(Report { delivered: 1000, processes: vec![process], ..Report::default() })
        };
        let redis = Err("exit status: 2: no Redis".to_owned());
        Round([("fanout", report(cpu_us)), ("fanout-floor", report(5.0)), ("fanout-socketio", redis)].into())
    }

    #[test]
    fn a_row_tells_its_median_and_why_it_has_none() {
        let rows =
            |rounds: &[Round]| MEASURES.iter().map(|measure| Row::new(measure, rounds)).collect::<Vec<_>>();
        let within = rows(&[round(6.0), round(9.0), round(5.5)]);
        assert_eq!(
            (within[0].is_within, within[1].is_within, within[2].is_within),
            (Some(true), Some(false), None)
        );
        let text = table_of(&within.iter().collect::<Vec<_>>());
        for part in
            ["1.20 (1.10–1.80) ×", "at most 1.30 ×", "no result", "not measured", "failed: exit status: 2"]
        {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(rows(&[round(9.0), round(6.0), round(9.0)])[0].is_within, Some(false));
        // A round that lacks one is no measurement, however good the others are.
        let mut broken = round(5.0);
        broken.0.insert("fanout", Err("it ended before it listened".to_owned()));
        assert_eq!(rows(&[round(5.0), broken])[0].is_within, Some(false));
    }

    #[test]
    fn a_page_is_written_once_and_written_into_again() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("docs").join("PERFORMANCE.md");
        let rounds = [round(6.0)];
        let rows: Vec<Row> = MEASURES.iter().map(|measure| Row::new(measure, &rounds)).collect();
        write(&out, &rows, &rounds).unwrap();
        let page = fs::read_to_string(&out).unwrap();
        assert!(
            page.starts_with("# Performance") && page.contains("`inkrelay-load rooms --rooms 50"),
            "{page}"
        );
        fs::write(&out, format!("{page}\n## By hand\n")).unwrap();
        write(&out, &rows, &rounds).unwrap();
        assert!(fs::read_to_string(&out).unwrap().ends_with("\n## By hand\n"));
    }
}
