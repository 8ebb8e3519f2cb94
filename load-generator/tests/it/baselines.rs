//! The baselines that need Node.js alone pass draws as the relay does: nothing lost, nothing twice, all in order.
//!
//! Those of Debian's packages (`erlang-binary`, `nchan`) get the same runs from `make baselines-check`.

use std::fs;

use inkrelay_load::messaging::Table;

use crate::support::{Run, baseline, run};

fn is_good(arguments: &[&str]) -> Run {
    let run = run(arguments);
    assert_eq!(run.output.status.code(), Some(0), "{arguments:?}\n{}", run.said());
    run
}

#[test]
fn node_json_passes_draws_in_order() {
    let start = baseline("node-json");
    let server = ["--target", "node-json", "--transport", "poll", "--spawn", &start];
    let replay = ["replay", "--speed", "max", "--draws", "1500", "--readers", "2"];
    let report = is_good(&[&replay[..], &server].concat()).report();
    assert_eq!((report.tally.stored, report.delivered), (1500, 3000));
    let rooms = ["rooms", "--rooms", "2", "--people", "2", "--seconds", "2"];
    let report = is_good(&[&rooms[..], &server].concat()).report();
    assert!(report.tally.stored > 0);
    assert_eq!(report.delivered, report.tally.stored * 2);
}

#[test]
fn socketio_passes_draws_in_order() {
    let start = baseline("socketio");
    let server = ["--target", "socketio", "--transport", "ws", "--spawn", &start];
    let fanout = ["fanout", "--readers", "10", "--rate", "100", "--seconds", "2"];
    let report = is_good(&[&fanout[..], &server].concat()).report();
    assert_eq!((report.tally.stored, report.delivered), (200, 2000));
}

#[test]
fn messages_are_passed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table.json");
    let passed = std::process::Command::new(crate::support::PROGRAM)
        .args(["messaging", "--count", "2000", "--window", "8", "--out"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&passed.stdout).into_owned();
    assert!(passed.status.success(), "{said}{}", String::from_utf8_lossy(&passed.stderr));
    let table: Table = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    for row in &table.rows {
        // A machine need not have a JVM.
        if row.way.starts_with("JVM") && row.cost.is_err() {
            continue;
        }
        let cost = row.cost.as_ref().unwrap_or_else(|why| panic!("{}: {why}", row.way));
        assert!(cost.elapsed_s > 0.0 && said.contains(&row.way), "{said}");
    }
    // One to write and one to read at the least, where there is a strace. Through shared memory there may be none, but
    // whoever leaves the core makes one too: on a full machine there is no bound to check.
    let sockets = table.rows.iter().find(|row| row.way.starts_with("Rust, two processes")).unwrap();
    if let Some(calls) = sockets.cost.as_ref().unwrap().calls_per_message {
        assert!((2.0..6.0).contains(&calls), "{said}");
    }
}

#[test]
fn node_hello_answers_every_new_connection() {
    let start = baseline("node-hello");
    let churn = ["churn", "--requests", "300", "--at-once", "10", "--path", "/", "--spawn", &start];
    let report = is_good(&churn).report();
    assert_eq!(report.ack.quantiles.count, 300);
}
