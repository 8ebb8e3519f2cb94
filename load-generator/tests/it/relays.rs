//! The real relay keeps its promises under short runs, with each store and over each transport.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{PROGRAM, Run, build_relay, interrupt, relay, run};

fn is_good(arguments: &[&str]) -> Run {
    build_relay();
    let run = run(arguments);
    assert_eq!(run.output.status.code(), Some(0), "{arguments:?}\n{}", run.said());
    run
}

#[test]
fn a_short_replay_on_each_store() {
    for store in ["memory", "embedded", "redis"] {
        let run =
            is_good(&["replay", "--speed", "max", "--draws", "2000", "--readers", "2", "--store", store]);
        let report = run.report();
        assert_eq!((report.tally.stored, report.delivered), (2000, 4000), "{store}: {}", run.said());
        let names: Vec<&str> = report.processes.iter().map(|process| process.name.as_str()).collect();
        let expected: &[&str] =
            if store == "redis" { &["server", "redis", "generator"] } else { &["server", "generator"] };
        assert_eq!(names, expected);
    }
}

#[test]
fn a_short_fanout_over_each_transport() {
    for (transport, store) in [("ws", "redis"), ("poll", "memory"), ("sse", "embedded")] {
        let load = ["fanout", "--readers", "20", "--rate", "100", "--seconds", "2"];
        let run = is_good(&[&load[..], &["--transport", transport, "--store", store]].concat());
        let report = run.report();
        assert_eq!((report.tally.stored, report.delivered), (200, 4000), "{}", run.said());
        assert!(report.delivery.quantiles.count == 4000 && report.seconds.len() >= 2);
    }
}

#[test]
fn people_in_rooms_get_their_own_rooms_draws() {
    let run = is_good(&["rooms", "--rooms", "3", "--people", "3", "--seconds", "3"]);
    let report = run.report();
    assert!(report.tally.stored > 100, "{}", run.said());
    assert_eq!(report.delivered, report.tally.stored * 3);
}

#[test]
fn people_who_draw_steadily_keep_their_rate_over_one_connection_each() {
    let load = ["rooms", "--rooms", "3", "--people", "4", "--rate", "25", "--seconds", "2"];
    let run = is_good(&load);
    let report = run.report();
    assert_eq!((report.tally.stored, report.delivered), (3 * 4 * 50, 3 * 4 * 50 * 4), "{}", run.said());
    let sockets = report.seconds.iter().map(|second| second.processes[0].sockets).max();
    // What the server listens on, and the sockets between its own threads.
    assert!(sockets.is_some_and(|sockets| (12..24).contains(&sockets)), "{sockets:?} sockets");
    assert_eq!((report.options["rate"].as_str(), report.broken.0), ("25", 0), "{}", run.said());
}

#[test]
fn late_joiners_get_everything() {
    let report = is_good(&["join", "--records", "3000", "--joiners", "6", "--at-once", "3"]).report();
    assert_eq!(report.delivered, 18_000);
    assert!(report.figures.iter().any(|figure| figure.name.contains("last record") && figure.value > 0.0));
}

#[test]
fn the_floor_and_idle_connections_are_measured() {
    let report = is_good(&["floor", "--readers", "20", "--rate", "100", "--seconds", "2"]).report();
    assert_eq!((report.delivered, report.broken.0), (4000, 0));
    let rooms = ["floor", "--rooms", "5", "--people", "4", "--rate", "50", "--seconds", "2"];
    for flush in [&[][..], &["--flush-ms", "4"]] {
        let run = is_good(&[&rooms[..], flush].concat());
        let report = run.report();
        assert_eq!((report.tally.stored, report.delivered), (2000, 8000), "{}", run.said());
        assert_eq!(report.broken.0, 0, "{}", run.said());
    }
    let pair = ["replay", "--speed", "10", "--draws", "1000", "--posts", "1", "--target", "bare"];
    let report = is_good(&pair).report();
    assert_eq!((report.delivered, report.processes[0].name.as_str()), (1000, "server"));
    let report = is_good(&["idle", "--connections", "50", "--seconds", "1"]).report();
    assert!(report.figures.iter().any(|figure| figure.name == "connections" && figure.value == 50.0));
}

#[test]
fn a_flood_of_batches_comes_whole_and_in_order() {
    let load = ["saturation", "--readers", "5", "--seconds", "1", "--window", "1000", "--batch", "50"];
    for store in ["memory", "embedded"] {
        let run = is_good(&[&load[..], &["--store", store]].concat());
        let report = run.report();
        assert!(report.tally.stored >= 1000 && report.tally.unknown == 0, "{}", run.said());
        assert_eq!(report.tally.stored % 50, 0, "{}", run.said());
        assert_eq!(report.delivered, report.tally.stored * 5, "{}", run.said());
        let per_core = report.figures.iter().find(|figure| figure.name.contains("per core"));
        assert!(per_core.is_some_and(|per_core| per_core.value > 0.0), "{}", run.said());
    }
}

#[test]
fn nothing_is_lost_when_everyone_reconnects() {
    let load = ["storm", "--readers", "30", "--rate", "50", "--seconds", "4", "--storms", "2"];
    for transport in ["ws", "poll", "sse"] {
        let run = is_good(&[&load[..], &["--transport", transport]].concat());
        let report = run.report();
        assert_eq!(report.delivered, 200 * 30, "{transport}: {}", run.said());
        let back = report.figures.iter().find(|figure| figure.name == "reconnections");
        assert!(back.is_some_and(|back| back.value >= 30.0), "{transport}: {}", run.said());
    }
}

#[test]
fn connections_that_come_and_go_are_counted() {
    let run = is_good(&["churn", "--requests", "500", "--at-once", "10"]);
    let report = run.report();
    assert_eq!((report.ack.quantiles.count, report.tally.sent), (500, 0));
    assert!(run.said().contains("limit"), "{}", run.said());
}

#[test]
fn a_capacity_has_a_limit_or_says_that_none_was_met() {
    // Any p99 is above 0 ms, so that the first step is too much.
    let steps = ["capacity", "--readers", "5", "--step-seconds", "1"];
    let report = is_good(&[&steps[..], &["--p99-ms", "0"]].concat()).report();
    let held = |report: &inkrelay_load::report::Report| {
        report.figures.iter().find(|figure| figure.name == "held, readers").map(|figure| figure.value)
    };
    assert_eq!((held(&report), report.steps.len()), (Some(0.0), 1));
    let run = is_good(&[&steps[..], &["--p99-ms", "60000", "--most", "8", "--factor", "1.5"]].concat());
    assert_eq!(held(&run.report()), Some(8.0), "{}", run.said());
    assert!(run.said().contains("no limit was met"), "{}", run.said());
}

#[test]
fn a_scenario_file_is_run_and_options_go_over_it() {
    build_relay();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "scenario = \"fanout\"\nreaders = 7\nrate = 50\nseconds = 60\n").unwrap();
    let run = is_good(&["run", &file.path().display().to_string(), "--seconds", "1"]);
    assert_eq!(run.report().delivered, 350, "{}", run.said());
}

#[test]
fn a_soak_too_short_to_judge_says_so() {
    let seconds = ["soak", "--seconds", "3", "--rooms", "1"];
    let run = is_good(&[&seconds[..], &["--store", "embedded"]].concat());
    assert!(run.said().contains("too short"), "{}", run.said());
    assert!(crate::support::run(&seconds).said().contains("memory store"));
}

#[test]
fn a_command_starts_the_server() {
    let command = format!("{} serve --listen 127.0.0.1:0 --memory --unlimited", relay().display());
    let run = is_good(&["fanout", "--readers", "3", "--seconds", "1", "--spawn", &command]);
    let report = run.report();
    assert_eq!((report.delivered, report.processes[0].name.as_str()), (180, "server"));
}

#[test]
fn a_relay_is_started_with_more_options() {
    let load = ["fanout", "--readers", "2", "--seconds", "1", "--relay-args"];
    let report = is_good(&[&load[..], &["--flush-ms 2 --workers 1"]].concat()).report();
    assert_eq!((report.delivered, report.options["relay-args"].as_str()), (120, "--flush-ms 2 --workers 1"));
    let run = run(&[&load[..], &["--no-such-option 3"]].concat());
    assert_eq!(run.output.status.code(), Some(2));
    let said = run.said();
    assert!(said.contains("ended before it listened; its options were --no-such-option 3"), "{said}");
}

/// Run in the project's folder; the figures of small loads on a debug build say nothing.
#[test]
fn bounds_are_measured_and_what_was_measured_is_kept() {
    build_relay();
    let results = tempfile::tempdir().unwrap();
    let bounds = || {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut command = Command::new(PROGRAM);
        command.args(["bounds", "--quick", "--only", "saturation", "--only", "workers", "--results"]);
        let output = command.arg(results.path()).current_dir(root).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, table, said) = bounds();
    assert!(matches!(code, Some(0 | 1)), "{table}{said}");
    assert!(said.contains("1 of 2: round 1, saturation") && !said.contains("failed"), "{said}");
    let said_so = ["yes", "no"].map(|within| table.matches(&format!(" {within} |")).count());
    assert_eq!((said_so[0] + said_so[1], code), (2, Some(i32::from(said_so[1] > 0))), "{table}");
    // Nothing runs again, and the numbers are the same.
    assert_eq!(bounds(), (code, table, String::new()));
}

#[test]
fn what_a_limit_refuses_is_counted_and_not_called_lost() {
    let relay = relay().display().to_string();
    let command = format!("{relay} serve --listen 127.0.0.1:0 --memory --max-rate 20");
    for transport in ["ws", "poll"] {
        let load = ["fanout", "--readers", "5", "--rate", "100", "--seconds", "3", "--transport", transport];
        let refused = run(&[&load[..], &["--spawn", &command]].concat());
        assert_eq!(refused.output.status.code(), Some(1), "{}", refused.said());
        let run = is_good(&[&load[..], &["--spawn", &command, "--allow-refused"]].concat());
        let report = run.report();
        assert!(report.tally.refused > 50 && report.tally.unknown == 0, "{}", run.said());
        assert_eq!(report.delivered, report.tally.stored * 5, "{}", run.said());
        assert!(run.said().contains("were refused"), "{}", run.said());
    }
}

/// Its log dies with it: whatever it acknowledged is gone, or cannot be asked for.
#[test]
fn a_relay_that_dies_on_the_way_is_no_success() {
    let mut server = Command::new(relay());
    server.args(["serve", "--listen", "127.0.0.1:0", "--memory", "--unlimited"]).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().last().unwrap().to_owned();
    let load = ["fanout", "--readers", "3", "--seconds", "4", "--drain", "1", "--server"];
    let running = std::thread::spawn(move || run(&[&load[..], &[&url]].concat()));
    std::thread::sleep(Duration::from_secs(2));
    server.kill().unwrap();
    server.wait().unwrap();
    let run = running.join().unwrap();
    assert_ne!(run.output.status.code(), Some(0), "{}", run.said());
    assert!(run.said().contains("refused") || run.said().contains("broke"), "{}", run.said());
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let run = run(&["fanout", "--server", "http://127.0.0.1:1"]);
    assert_eq!(run.output.status.code(), Some(2));
    assert!(run.said().contains("refused"), "{}", run.said());
}

#[test]
fn whoever_stops_a_run_gets_what_there_is() {
    build_relay();
    for scenario in [
        &["idle", "--seconds", "600", "--connections", "20"][..],
        &["churn", "--requests", "100000000"],
        &["fanout", "--seconds", "600"],
        &["join", "--records", "100", "--joiners", "100000000", "--at-once", "10"],
        &["capacity", "--step-seconds", "600", "--readers", "10"],
    ] {
        let run = interrupt(scenario);
        let said = run.said();
        // Those that had not come far have nothing to tell.
        let began = run.output.status.code() == Some(0) && said.contains("it was stopped before its end");
        assert!(began || said.contains("it was stopped"), "{scenario:?}: {said}");
        assert!(scenario[0] != "churn" || began, "{said}");
    }
}

#[test]
fn what_a_capacity_held_is_told_also_when_the_next_step_cannot_begin() {
    let command = format!("{} serve --listen 127.0.0.1:0 --memory --max-connections 9", relay().display());
    let steps = ["capacity", "--readers", "4", "--step-seconds", "1", "--p99-ms", "60000", "--spawn"];
    let run = is_good(&[&steps[..], &[&command]].concat());
    let held =
        run.report().figures.iter().find(|figure| figure.name == "held, readers").map(|held| held.value);
    assert!(held.is_some_and(|held| held >= 4.0), "{}", run.said());
    assert!(run.said().contains("the limit was met before the step with"), "{}", run.said());
}

#[test]
fn what_cannot_mean_anything_does_not_begin() {
    build_relay();
    for (options, why) in [
        (&["fanout", "--seconds", "0"][..], "nobody would draw"),
        (&["fanout", "--rate", "0.1", "--seconds", "1"], "nobody would draw"),
        (&["replay", "--draws", "0"], "nobody would draw"),
        (&["replay", "--posts", "0"], "nobody would draw"),
        (&["rooms", "--people", "0"], "nobody would draw"),
        (&["fanout", "--rate", "nan"], "a rate is"),
        (&["rooms", "--rate", "inf"], "a rate is"),
        (&["idle", "--connections", "0"], "at least 1"),
        (&["churn", "--requests", "0"], "0 is not in"),
        (&["fanout", "--threads", "100000"], "100000 is not in"),
        (&["fanout", "--pid", "1"], "--server"),
        (&["fanout", "--spawn", "false"], "false ended before it listened"),
    ] {
        let run = run(options);
        assert_eq!(run.output.status.code(), Some(2), "{options:?}: {}", run.said());
        assert!(run.said().contains(why), "{options:?}: {}", run.said());
    }
    let nowhere = Command::new(PROGRAM).args(["fanout", "--out", "/proc/nowhere"]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("/proc/nowhere"), "{nowhere:?}");
}
