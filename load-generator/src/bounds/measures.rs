//! What is measured: each bound, and what it compares in a round.

use std::collections::BTreeMap;

use crate::bounds::loads::is_own;
use crate::report::Report;
use crate::sampler::OTHERS;
use crate::scenario::{BUSIEST_SHARE, IDLE_KIB, PER_CORE};

/// Measures that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Group {
    /// One drawer, many readers
    Fanout,
    /// Rooms of people who all draw
    Rooms,
    /// One drawer as fast as acks allow
    Saturation,
    /// The load of 2010: what a draw costs
    Pair,
    /// The load of 2010, as fast as it goes
    Replay,
    /// Connections that say nothing
    Idle,
    /// The load of 2010: how long a draw takes
    Latency,
    /// How even the work is spread over the cores
    Workers,
}

/// What a value is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
}

impl Bound {
    pub(super) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::Below(most) => value < most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

/// One bound.
pub(super) struct Measure {
    pub(super) group: Group,
    pub(super) name: &'static str,
    /// What the value is of.
    pub(super) unit: &'static str,
    pub(super) bound: Bound,
    /// What it needs, in the order that `value` takes them.
    pub(super) loads: &'static [&'static str],
    value: fn(&[&Report]) -> Result<f64, String>,
}

/// The results of one round, as far as there are any.
pub(super) struct Round(pub(super) BTreeMap<&'static str, Result<Report, String>>);

/// A core is full from here on, in hundredths.
const FULL: f64 = 95.0;
/// Who is this late does not hold the schedule, in microseconds at p99.
const LATE_US: u64 = 100_000;

impl Round {
    pub(super) fn has(&self, load: &str) -> bool {
        self.0.contains_key(load)
    }

    pub(super) fn report(&self, load: &str) -> Option<&Report> {
        self.0.get(load)?.as_ref().ok()
    }

    fn reports(&self, measure: &Measure) -> Result<Vec<&Report>, String> {
        let report = |load: &&'static str| match self.0.get(load) {
            Some(Ok(report)) => Ok(report),
            Some(Err(why)) => Err(format!("{load} failed: {}", why.trim())),
            None => Err(format!("{load} was not run")),
        };
        measure.loads.iter().map(report).collect()
    }

    pub(super) fn value(&self, measure: &Measure) -> Result<f64, String> {
        let reports = self.reports(measure)?;
        for (load, report) in measure.loads.iter().zip(&reports) {
            if !report.is_good() {
                let case = report.breaches.first.as_ref().map(ToString::to_string);
                let why = case.or_else(|| report.failures.first().cloned()).unwrap_or_default();
                return Err(format!("{load} broke a promise: {why}"));
            }
            if is_own(load) && report.tally.unknown > 0 {
                return Err(format!("{load} left {} draws unanswered", report.tally.unknown));
            }
        }
        (measure.value)(&reports)
    }

    /// Which servers could not do what was asked of them.
    pub(super) fn notes(&self, measure: &Measure) -> Vec<String> {
        let mut notes = Vec::new();
        for load in measure.loads {
            let Some(report) = self.report(load) else { continue };
            let of_a_core = 100.0 * report.server_cpu_s() / report.took_s.max(1e-3);
            let is_late = report.delivery.quantiles.p99 >= LATE_US && has_schedule(report);
            if is_late {
                let full = if of_a_core >= FULL { ": its core is full" } else { "" };
                notes.push(format!("{load} does not hold the schedule{full}"));
            }
            if report.tally.unknown > 0 || report.broken.0 > 0 {
                notes.push(format!("{load} left draws unanswered, or connections broke"));
            }
        }
        notes
    }

    /// How many runs there are, and during how many other programs used much of the machine.
    pub(super) fn disturbed(&self) -> (usize, usize) {
        let reports = || self.0.values().flatten();
        let is_disturbed =
            |report: &&Report| report.warnings.iter().any(|warning| warning.starts_with(OTHERS));
        (reports().count(), reports().filter(is_disturbed).count())
    }
}

fn has_schedule(report: &Report) -> bool {
    let is_max = report.options.get("speed").is_some_and(|speed| speed == "max");
    !is_max && report.scenario != "saturation"
}

fn per_delivery_us(report: &Report) -> f64 {
    report.server_cpu_s() * 1e6 / report.delivered.max(1) as f64
}

fn per_draw_us(report: &Report) -> f64 {
    report.server_cpu_s() * 1e6 / report.tally.stored.max(1) as f64
}

fn ratio(one: f64, other: f64) -> Result<f64, String> {
    if other > 0.0 { Ok(one / other) } else { Err("there is nothing to compare with".to_owned()) }
}

fn delivery_ratio(reports: &[&Report]) -> Result<f64, String> {
    ratio(per_delivery_us(reports[0]), per_delivery_us(reports[1]))
}

fn draw_ratio(reports: &[&Report]) -> Result<f64, String> {
    ratio(per_draw_us(reports[0]), per_draw_us(reports[1]))
}

fn p99_ms(report: &Report) -> f64 {
    report.delivery.quantiles.p99 as f64 / 1000.0
}

/// How much later than the bare loop, in milliseconds.
fn p99_above_ms(reports: &[&Report]) -> Result<f64, String> {
    Ok(p99_ms(reports[0]) - p99_ms(reports[1]))
}

/// Times as long as the faster one of the others took.
fn time_ratio(reports: &[&Report]) -> Result<f64, String> {
    ratio(reports[0].took_s, reports[1].took_s.min(reports[2].took_s))
}

fn figure(report: &Report, name: &str) -> Result<f64, String> {
    let figure = report.figures.iter().find(|figure| figure.name == name);
    figure.map(|figure| figure.value).ok_or_else(|| format!("the report does not tell {name}"))
}

fn peak_mib(reports: &[&Report]) -> Result<f64, String> {
    let server = reports[0].processes.iter().find(|process| process.name == "server");
    server.map(|server| server.rss_peak_kib as f64 / 1024.0).ok_or_else(|| "it was not watched".to_owned())
}

/// The last quarter as a multiple of the second.
fn growth(reports: &[&Report]) -> Result<f64, String> {
    let [second, last] = reports[0].memory_quarters().ok_or("it was too short to tell")?;
    ratio(last, second)
}

const fn measure(
    group: Group,
    name: &'static str,
    (bound, unit): (Bound, &'static str),
    loads: &'static [&'static str],
    value: fn(&[&Report]) -> Result<f64, String>,
) -> Measure {
    Measure { group, name, unit, bound, loads, value }
}

use Bound::{AtLeast, AtMost, Below};

/// All bounds, in the order of the table.
pub(super) const MEASURES: &[Measure] = &[
    measure(
        Group::Fanout,
        "fan-out to 100 readers: CPU of a delivery, the bare loop being 1",
        (AtMost(1.3), "×"),
        &["fanout", "fanout-floor"],
        delivery_ratio,
    ),
    measure(
        Group::Fanout,
        "fan-out to 100 readers: CPU of a delivery, socketio being 1",
        (AtMost(1.0 / 3.0), "×"),
        &["fanout", "fanout-socketio"],
        delivery_ratio,
    ),
    measure(
        Group::Rooms,
        "50 rooms of 8, embedded: CPU of a delivery, the bare loop being 1",
        (AtMost(0.8), "×"),
        &["rooms", "rooms-floor"],
        delivery_ratio,
    ),
    measure(Group::Rooms, "50 rooms of 8, embedded: p99", (AtMost(12.0), "ms"), &["rooms"], |reports| {
        Ok(p99_ms(reports[0]))
    }),
    measure(
        Group::Rooms,
        "50 rooms of 8, embedded, without the delay: CPU of a delivery, the bare loop being 1",
        (AtMost(1.15), "×"),
        &["rooms-no-delay", "rooms-floor"],
        delivery_ratio,
    ),
    measure(
        Group::Rooms,
        "50 rooms of 8, embedded, without the delay: p99 above the bare loop's",
        (AtMost(2.0), "ms"),
        &["rooms-no-delay", "rooms-floor"],
        p99_above_ms,
    ),
    measure(
        Group::Rooms,
        "50 rooms of 8, embedded: CPU of a delivery, socketio being 1",
        (AtMost(0.25), "×"),
        &["rooms", "rooms-socketio"],
        delivery_ratio,
    ),
    measure(
        Group::Saturation,
        "saturation, 50 readers: deliveries a second per core of the server",
        (AtLeast(3_000_000.0), ""),
        &["saturation"],
        |reports| figure(reports[0], PER_CORE),
    ),
    measure(
        Group::Pair,
        "the load of 2010, long poll, Redis: CPU of a draw, node-json being 1",
        (AtMost(0.2), "×"),
        &["pair-poll-redis", "pair-node-json"],
        draw_ratio,
    ),
    measure(
        Group::Pair,
        "the load of 2010, long poll, Redis: CPU of a draw, erlang-binary being 1",
        (AtMost(0.5), "×"),
        &["pair-poll-redis", "pair-erlang-binary"],
        draw_ratio,
    ),
    measure(
        Group::Pair,
        "the load of 2010, WebSocket, embedded: CPU of a draw, the bare loop being 1",
        (AtMost(2.0), "×"),
        &["pair-ws-embedded", "pair-floor"],
        draw_ratio,
    ),
    measure(
        Group::Replay,
        "198,000 draws as fast as answered, long poll, Redis: delivered in order",
        (AtLeast(198_000.0), "draws"),
        &["replay"],
        |reports| Ok(reports[0].delivered as f64),
    ),
    measure(
        Group::Replay,
        "198,000 draws as fast as answered, long poll, Redis: CPU of a draw, node-json being 1",
        (AtMost(0.5), "×"),
        &["replay", "replay-node-json"],
        draw_ratio,
    ),
    measure(
        Group::Replay,
        "198,000 draws as fast as answered, long poll, Redis: time, the sooner of node-json and erlang-binary being 1",
        (Below(1.0), "×"),
        &["replay", "replay-node-json", "replay-erlang-binary"],
        time_ratio,
    ),
    measure(
        Group::Replay,
        "198,000 draws as fast as answered, long poll, Redis: the server's memory at its peak",
        (Below(40.0), "MiB"),
        &["replay"],
        peak_mib,
    ),
    measure(
        Group::Replay,
        "198,000 draws as fast as answered, long poll, Redis: memory in the last quarter, the second being 1",
        (AtMost(1.05), "×"),
        &["replay"],
        growth,
    ),
    measure(
        Group::Idle,
        "memory of an idle WebSocket connection",
        (AtMost(9.0), "KiB"),
        &["idle"],
        |reports| figure(reports[0], IDLE_KIB),
    ),
    measure(
        Group::Latency,
        "the load of 2010, WebSocket, memory: p99 above the bare loop's",
        (AtMost(1.0), "ms"),
        &["pair-ws-memory", "pair-floor"],
        p99_above_ms,
    ),
    measure(
        Group::Latency,
        "the load of 2010, WebSocket, embedded: p99 above the bare loop's",
        (AtMost(2.0), "ms"),
        &["pair-ws-embedded", "pair-floor"],
        p99_above_ms,
    ),
    measure(
        Group::Latency,
        "the load of 2010, WebSocket, Redis: p99 above the bare loop's",
        (AtMost(2.0), "ms"),
        &["pair-ws-redis", "pair-floor"],
        p99_above_ms,
    ),
    measure(
        Group::Workers,
        "more than the machine can do in 50 rooms of 8: the busiest worker's share of what the two busiest did",
        (AtMost(60.0), "%"),
        &["workers"],
        |reports| figure(reports[0], BUSIEST_SHARE),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bounds::loads::LOADS;

    #[test]
    fn every_measure_has_its_loads_and_every_load_a_measure() {
        let loads: BTreeSet<&str> = LOADS.iter().map(|load| load.name).collect();
        assert_eq!(loads.len(), LOADS.len());
        let needed: BTreeSet<&str> =
            MEASURES.iter().flat_map(|measure| measure.loads.iter().copied()).collect();
        assert_eq!(needed, loads);
        let names: BTreeSet<&str> = MEASURES.iter().map(|measure| measure.name).collect();
        assert_eq!(names.len(), MEASURES.len());
    }

    #[test]
    fn who_cannot_hold_the_schedule_is_named() {
        use crate::measure::recorder::Quantiles;
        use crate::measure::watcher::ProcessWhole;
        use crate::report::Latency;

        let process = ProcessWhole { name: "server".into(), cpu_s: 10.0, ..ProcessWhole::default() };
        let quantiles = Quantiles { p99: 900_000, ..Quantiles::default() };
        let report = Report {
            scenario: "rooms".into(),
            took_s: 10.2,
            delivered: 10,
            processes: vec![process],
            delivery: Latency { quantiles, curve: Vec::new() },
            ..Report::default()
        };
        let round = |report: &Report| Round([("rooms-socketio", Ok(report.clone()))].into());
        let measure = MEASURES.iter().find(|measure| measure.loads.contains(&"rooms-socketio")).unwrap();
        let notes = round(&report).notes(measure);
        assert_eq!(notes, ["rooms-socketio does not hold the schedule: its core is full"]);
        let prompt = Report { delivery: Latency::default(), ..report };
        assert!(round(&prompt).notes(measure).is_empty());
    }
}
