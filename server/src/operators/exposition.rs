//! The text that Prometheus reads (exposition format 0.0.4): each family with its type and a line of help.

use std::fmt::{Display, Write as _};

use inkrelay_protocol::{CloseCode, ErrorCode};

use super::process::Process;
use super::sampler::Sample;
use crate::metrics::Transport;
use crate::metrics::histogram::{Bounds, Histogram};
use crate::session::Relay;

/// All that is counted, as it is now.
pub(super) fn text(relay: &Relay, sample: &Sample, process: Option<&Process>) -> String {
    let mut out = Exposition::default();
    people(&mut out, relay);
    draws(&mut out, relay);
    store(&mut out, relay, sample);
    workers(&mut out, sample);
    if let Some(process) = process {
        of_process(&mut out, process);
    }
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    out.family("inkrelay_build_info", "gauge", "The program's version, as a label; always 1.");
    out.labelled("inkrelay_build_info", &version, 1);
    out.0
}

fn people(out: &mut Exposition, relay: &Relay) {
    let metrics = relay.hub.metrics();
    out.gauge("inkrelay_connections", "Open connections on the public port.", metrics.connections.get());
    let name = "inkrelay_sessions";
    out.family(
        name,
        "gauge",
        "Readers of rooms on this server, by transport; a long poll counts while it waits.",
    );
    for transport in Transport::ALL {
        out.labelled(name, &[("transport", transport.as_str())], metrics.sessions(transport));
    }
    out.gauge("inkrelay_rooms", "Rooms that are live on this server.", relay.hub.live_rooms());
    out.gauge("inkrelay_tail_bytes", "Memory for the recent records of all rooms.", relay.hub.tail_bytes());
    let limits = &relay.config().limits;
    out.gauge(
        "inkrelay_rooms_limit",
        "Rooms that may be live on this server; 0 for no limit.",
        limits.max_rooms,
    );
    out.gauge(
        "inkrelay_tail_budget_bytes",
        "What the recent records of all rooms may take; 0 for no limit.",
        limits.memory_budget,
    );
    if let Some(at) = metrics.certificate_expiry() {
        out.gauge(
            "inkrelay_tls_certificate_expiry_timestamp_seconds",
            "When the first certificate of the chain that is shown to clients expires, since 1970; missing without TLS.",
            at,
        );
    }
    let name = "inkrelay_refused_total";
    out.family(
        name,
        "counter",
        "What was refused: requests, batches, sessions and tokens, by the code that the client was told, or that its close code stands for.",
    );
    for code in ErrorCode::ALL {
        out.labelled(name, &[("code", code.as_str())], metrics.refused(*code));
    }
    let name = "inkrelay_closed_total";
    out.family(name, "counter", "WebSockets that this server closed, by close code.");
    for code in CloseCode::ALL {
        out.labelled(name, &[("code", &code.number().to_string())], metrics.closed(*code));
    }
    let name = "inkrelay_websockets_left_total";
    out.family(
        name,
        "counter",
        "WebSockets that the client ended, by whether it closed it or was just gone.",
    );
    out.labelled(name, &[("how", "closed")], metrics.left.get());
    out.labelled(name, &[("how", "gone")], metrics.vanished.get());
    out.counter(
        "inkrelay_slow_readers_closed_total",
        "WebSockets that were closed since they took nothing or gave no sign of life.",
        metrics.slow_readers_closed.get(),
    );
}

fn draws(out: &mut Exposition, relay: &Relay) {
    let metrics = relay.hub.metrics();
    for (name, help, count) in [
        ("inkrelay_draws_total", "Draws that were stored through this server.", &metrics.draws),
        (
            "inkrelay_received_bytes_total",
            "Bytes of draws that clients sent, as MessagePack.",
            &metrics.received_bytes,
        ),
        (
            "inkrelay_records_sent_total",
            "Records that were handed to readers, one for each record and reader.",
            &metrics.records_sent,
        ),
        ("inkrelay_sent_bytes_total", "Bytes of these records, before they are framed.", &metrics.sent_bytes),
        ("inkrelay_resumes_total", "Readers that went on from a position.", &metrics.resumes),
        (
            "inkrelay_resets_total",
            "Readers whose board was of another log, so that they were told the whole log.",
            &metrics.resets,
        ),
        (
            "inkrelay_gaps_healed_total",
            "Times that a room read from the store what it had not heard of.",
            &metrics.gaps_healed,
        ),
    ] {
        out.counter(name, help, count.get());
    }
    out.histogram("inkrelay_batch_draws", "Draws that one append stored together.", &metrics.batch_draws);
    out.histogram("inkrelay_append_seconds", "How long the store took for an append.", &metrics.append);
    let name = "inkrelay_delivery_seconds";
    out.family(
        name,
        "histogram",
        "From the begin of an append, or a record's arrival from another server, until a row of WebSockets has it, or a poll or stream that waited.",
    );
    for transport in Transport::ALL {
        out.measured(name, &[("transport", transport.as_str())], metrics.delivery(transport));
    }
}

fn store(out: &mut Exposition, relay: &Relay, sample: &Sample) {
    let is_up = u8::from(sample.store_roundtrip.is_some());
    out.gauge(
        "inkrelay_store_up",
        "Whether the store said within two seconds that it is well: 1 or 0.",
        is_up,
    );
    out.histogram(
        "inkrelay_store_roundtrip_seconds",
        "How long the store took to say that it is well; it is asked once a second.",
        &relay.hub.metrics().store_roundtrip,
    );
    if let Some(space) = sample.space {
        out.gauge(
            "inkrelay_store_used_bytes",
            "What is used where draws are kept: of the disk, or of Redis's memory.",
            space.used,
        );
        if let Some(limit) = space.limit {
            out.gauge(
                "inkrelay_store_limit_bytes",
                "What can be used there: the disk, or Redis's maxmemory; missing without one.",
                limit,
            );
        }
    }
    out.counter(
        "inkrelay_redis_reconnects_total",
        "Connections to Redis that were made anew; 0 with other stores.",
        relay.hub.store().reconnects(),
    );
}

fn workers(out: &mut Exposition, sample: &Sample) {
    let name = "inkrelay_worker_busy_ratio";
    out.family(name, "gauge", "The part of the last second in which a worker was not idle, from 0 to 1.");
    for (worker, busy) in sample.busy.iter().enumerate() {
        out.labelled(name, &[("worker", &worker.to_string())], busy);
    }
    let name = "inkrelay_worker_busy_seconds_total";
    out.family(name, "counter", "How long a worker was not idle.");
    for (worker, busy) in sample.busy_time.iter().enumerate() {
        out.labelled(name, &[("worker", &worker.to_string())], busy.as_secs_f64());
    }
    out.gauge(
        "inkrelay_worker_queue_depth",
        "Tasks that wait for a worker, but for those in a worker's own queue.",
        sample.queue_depth,
    );
    #[cfg(tokio_unstable)]
    {
        let runtime = tokio::runtime::Handle::current().metrics();
        let name = "inkrelay_worker_steals_total";
        out.family(name, "counter", "Tasks that a worker took from another one.");
        for worker in 0..runtime.num_workers() {
            out.labelled(name, &[("worker", &worker.to_string())], runtime.worker_steal_count(worker));
        }
    }
}

fn of_process(out: &mut Exposition, process: &Process) {
    out.counter("process_cpu_seconds_total", "Processor time of this process.", process.cpu_s);
    out.gauge("process_resident_memory_bytes", "Memory of this process.", process.resident_bytes);
    out.gauge(
        "inkrelay_memory_limit_bytes",
        "What this process may take: its control group's limit, or the machine's memory.",
        process.limit_bytes,
    );
    out.gauge("process_virtual_memory_bytes", "Address space of this process.", process.virtual_bytes);
    out.gauge("process_open_fds", "Open files and connections of this process.", process.open_files);
    if let Some(max) = process.max_open_files {
        out.gauge("process_max_fds", "Files and connections that it may open.", max);
    }
    out.gauge("process_threads", "Threads of this process.", process.threads);
    out.gauge("process_start_time_seconds", "When this process started, since 1970.", process.started_at_s);
}

#[derive(Default)]
struct Exposition(String);

impl Exposition {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.line(format_args!("{name} {value}"));
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "counter", help);
        self.line(format_args!("{name} {value}"));
    }

    /// Labels' values are of the program's own and need no escaping.
    fn labelled(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<_> = labels.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        if labels.is_empty() {
            return self.line(format_args!("{name} {value}"));
        }
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    fn histogram<B: Bounds>(&mut self, name: &str, help: &str, histogram: &Histogram<B>) {
        self.family(name, "histogram", help);
        self.measured(name, &[], histogram);
    }

    fn measured<B: Bounds>(&mut self, name: &str, labels: &[(&str, &str)], histogram: &Histogram<B>) {
        let mut count = 0;
        for (bound, more) in histogram.buckets() {
            count += more;
            let bound = if bound.is_finite() { bound.to_string() } else { "+Inf".to_owned() };
            self.labelled(&format!("{name}_bucket"), &[labels, &[("le", &bound)]].concat(), count);
        }
        self.labelled(&format!("{name}_sum"), labels, histogram.sum());
        self.labelled(&format!("{name}_count"), labels, count);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // A String takes everything.
        let _ = writeln!(self.0, "{line}");
    }
}

/// What `docs/METRICS.md` lists of an exposition: a table of its families.
pub fn reference(exposition: &str) -> String {
    let mut table = "| name | type | labels | what it is |\n|---|---|---|---|\n".to_owned();
    for help in exposition.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = help.split_once(' ').unwrap_or((help, ""));
        let rest =
            |prefix: &str| exposition.lines().find_map(|line| line.strip_prefix(prefix)).unwrap_or_default();
        let kind = rest(&format!("# TYPE {name} ")).to_owned();
        let first = |prefix: &str| rest(prefix).split_once('=').map_or("", |(label, _)| label);
        let label = [first(&format!("{name}{{")), first(&format!("{name}_bucket{{"))].concat();
        let label = label.trim_end_matches("le");
        let label = if label.is_empty() { String::new() } else { format!("`{label}`") };
        let _ = writeln!(table, "| `{name}` | {kind} | {label} | {help} |");
    }
    table
}
