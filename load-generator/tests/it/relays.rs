//! The real relay keeps its promises under short runs, with each store and over each transport.

use crate::support::{Run, build_relay, run};

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
fn late_joiners_get_everything() {
    let report = is_good(&["join", "--records", "3000", "--joiners", "6", "--at-once", "3"]).report();
    assert_eq!(report.delivered, 18_000);
    assert!(report.figures.iter().any(|figure| figure.name.contains("last record") && figure.value > 0.0));
}

#[test]
fn the_floor_and_idle_connections_are_measured() {
    let report = is_good(&["floor", "--readers", "20", "--rate", "100", "--seconds", "2"]).report();
    assert_eq!((report.delivered, report.broken.0), (4000, 0));
    let report = is_good(&["idle", "--connections", "50", "--seconds", "1"]).report();
    assert!(report.figures.iter().any(|figure| figure.name == "connections" && figure.value == 50.0));
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let run = run(&["fanout", "--server", "http://127.0.0.1:1"]);
    assert_eq!(run.output.status.code(), Some(2));
    assert!(run.said().contains("refused"), "{}", run.said());
}
