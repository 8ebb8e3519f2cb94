//! A relay that breaks a promise is caught, each fault by its name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use inkrelay_load::measure::Breach;
use inkrelay_load::measure::ink;
use inkrelay_load::measure::pacer::Pace;
use inkrelay_load::report::Report;
use inkrelay_load::run::{Plan, Room, Setup, drive, interrupted};
use inkrelay_load::target::{self, Kind, Transport};

use crate::faulty::{self, Fault, STALL};
use crate::support::{Run, run};

/// 300 draws at about 200 a second, over one connection so that the unlucky draw has one after it.
async fn replay(fault: Fault, draws: u64, posts: u64) -> (Run, Report) {
    let address = faulty::start(fault).await;
    let work = move || {
        let (server, draws, posts) = (format!("http://{address}"), draws.to_string(), posts.to_string());
        let named =
            ["--speed", "4", "--draws", &draws, "--posts", &posts, "--drain", "2", "--server", &server];
        run(&[&["replay"], &named[..]].concat())
    };
    let run = tokio::task::spawn_blocking(work).await.unwrap();
    let report = run.report();
    (run, report)
}

/// A run finds this and nothing else, says so, and fails.
async fn is_caught(fault: Fault, breach: Breach) {
    let (run, report) = replay(fault, 300, 1).await;
    let said = run.said();
    assert_eq!(run.output.status.code(), Some(1), "{said}");
    assert_eq!(report.breaches.counts.keys().collect::<Vec<_>>(), [&breach], "{said}");
    let case = report.breaches.first.expect("the first case is told");
    assert!(case.room.starts_with("load-replay-"), "{said}");
    assert!(said.contains(&format!("the first: {breach} in room {}", case.room)), "{said}");
    if breach != Breach::RefusedButKept {
        assert!(case.seq.is_some_and(|seq| (39..=42).contains(&seq)), "{said}");
    }
    let page = std::fs::read_to_string(run.page()).unwrap();
    assert!(page.contains("Broken promises") && page.contains(&case.room));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_and_dropped_is_lost() {
    is_caught(Fault::Drops, Breach::Lost).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_twice_is_repeated() {
    is_caught(Fault::Doubles, Breach::Repeated).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_swapped_is_out_of_order() {
    is_caught(Fault::Swaps, Breach::OutOfOrder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_out_of_the_numbers_is_misnumbered() {
    is_caught(Fault::Misnumbers, Breach::Misnumbered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_and_kept_is_told() {
    is_caught(Fault::KeepsRefused, Breach::RefusedButKept).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_author_is_told() {
    is_caught(Fault::Renames, Breach::Corrupt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_names_another_number_is_told() {
    is_caught(Fault::Misanswers, Breach::Divergent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_means_nothing_is_malformed() {
    is_caught(Fault::Garbles, Breach::Malformed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_corrupt_and_the_draw_itself_is_lost() {
    let (run, report) = replay(Fault::Corrupts, 300, 1).await;
    assert_eq!(run.output.status.code(), Some(1), "{}", run.said());
    let found: Vec<_> = report.breaches.counts.keys().copied().collect();
    assert_eq!(found, [Breach::Lost, Breach::Corrupt], "{}", run.said());
    assert_eq!(report.breaches.first.map(|case| case.breach), Some(Breach::Corrupt));
}

/// Two people in a room, each over one connection. The fault happens to the 40th draw of both.
async fn rooms(fault: Fault) -> (Run, Report) {
    let address = faulty::start(fault).await;
    let work = move || {
        let server = format!("http://{address}");
        let load = ["rooms", "--rooms", "1", "--people", "2", "--seconds", "2", "--rate", "50"];
        run(&[&load[..], &["--drain", "1", "--server", &server]].concat())
    };
    let run = tokio::task::spawn_blocking(work).await.unwrap();
    let report = run.report();
    (run, report)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_who_read_and_draw_over_one_connection_check_as_readers_do() {
    for (fault, breach) in [
        (Fault::Drops, Breach::Lost),
        (Fault::Doubles, Breach::Repeated),
        (Fault::Corrupts, Breach::Corrupt),
        (Fault::KeepsRefused, Breach::RefusedButKept),
        (Fault::Renames, Breach::Corrupt),
        (Fault::Garbles, Breach::Malformed),
        (Fault::SwapsForOne, Breach::Divergent),
        (Fault::Misanswers, Breach::Divergent),
    ] {
        let (run, report) = rooms(fault).await;
        assert_eq!(run.output.status.code(), Some(1), "{fault:?}: {}", run.said());
        assert!(report.breaches.counts.contains_key(&breach), "{fault:?}: {}", run.said());
        let expected = match fault {
            // For the one with a memory, the one who got it, and the one who was told.
            Fault::KeepsRefused | Fault::Garbles | Fault::Misanswers => 1..=1,
            // Two draws for one, or for the others, whoever saw them first.
            Fault::SwapsForOne => 1..=4,
            // Both of them, and the fresh reader at the end.
            _ => 3..=3,
        };
        assert!(expected.contains(&report.breaches.counts[&breach]), "{fault:?}: {}", run.said());
        // Whoever got garbage hung up.
        assert!(report.tally.unknown == 0 || fault == Fault::Garbles, "{fault:?}: {}", run.said());
    }
    let (run, report) = rooms(Fault::None).await;
    assert_eq!(run.output.status.code(), Some(0), "{}", run.said());
    assert_eq!((report.tally.stored, report.delivered), (200, 400), "{}", run.said());
}

/// The reader comes back to its place, and the drawer as somebody new.
#[tokio::test(flavor = "multi_thread")]
async fn people_whose_connection_breaks_go_on_over_two() {
    let (run, report) = rooms(Fault::HangsUp).await;
    assert_eq!(run.output.status.code(), Some(0), "{}", run.said());
    assert!(report.broken.0 >= 1, "{}", run.said());
    // What had no answer came all the same; what failed to be sent did not.
    assert!((1..30).contains(&report.tally.unknown), "{}", run.said());
    assert_eq!(report.tally.stored + report.tally.unknown, 200, "{}", run.said());
    assert!(report.delivered > 2 * report.tally.stored, "{}", run.said());
}

/// Whoever lets a connection go that another half of theirs draws over ends it for both.
#[tokio::test(flavor = "multi_thread")]
async fn people_who_all_reconnect_at_once_lose_nothing() {
    let address = faulty::start(Fault::None).await;
    let target = target::open(Kind::Inkrelay, &format!("http://{address}"), Transport::Ws).unwrap();
    let setup = Setup {
        target: target.into(),
        processes: Vec::new(),
        ink: Arc::new(ink::handwriting()),
        options: BTreeMap::new(),
        drain: Duration::from_secs(2),
        allow_refused: false,
        threads: 2,
        stop: interrupted(),
    };
    let people = (0..3).map(|seed| Pace::steady_from(seed, 100.0, 200)).collect();
    let room = Room { name: "storm".into(), people, ..Room::default() };
    let plan = Plan { scenario: "rooms", rooms: vec![room], storms_s: vec![1.0] };
    let report = drive(plan, &setup).await.unwrap();
    assert!(report.is_good(), "{:?} {:?}", report.breaches, report.failures);
    assert_eq!((report.tally.sent, report.tally.refused), (600, 0));
    // At most what was on its way has no answer, and all of it may have come.
    assert!(report.tally.unknown < 30, "{:?}", report.tally);
    assert!(report.delivered >= 3 * report.tally.stored, "{} {:?}", report.delivered, report.tally);
    let back = report.figures.iter().find(|figure| figure.name == "reconnections");
    assert_eq!(back.map(|back| back.value), Some(3.0));
}

/// It loses nothing, but that is no success.
#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_takes_nothing_fails() {
    let (run, report) = replay(Fault::RefusesAll, 20, 1).await;
    assert_eq!(run.output.status.code(), Some(1), "{}", run.said());
    assert_eq!((report.tally.refused, report.tally.stored, report.delivered), (20, 0, 0));
    assert!(run.said().contains("nothing was stored"), "{}", run.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_without_a_fault_passes() {
    let (run, report) = replay(Fault::None, 300, 8).await;
    assert_eq!(run.output.status.code(), Some(0), "{}", run.said());
    assert_eq!((report.tally.stored, report.delivered), (300, 300));
}

/// A generator that waits for answers would have eight draws that took a second, and 872 that were fast: the draws
/// that it did not send meanwhile would be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stall_is_seen_by_all_draws_that_were_due_in_it() {
    let (run, report) = replay(Fault::Stalls, 880, 8).await;
    assert_eq!(run.output.status.code(), Some(0), "{}", run.said());
    let stall_us = STALL.as_micros() as u64;
    for latency in [report.ack.quantiles, report.delivery.quantiles] {
        assert!(latency.p999 > stall_us * 9 / 10, "{}", run.said());
        // A quarter of all were due in that second; the tenth that waited longest waited more than half of it.
        assert!(latency.p90 > stall_us / 2, "{}", run.said());
    }
    assert!(report.ack.quantiles.p999 < stall_us * 5, "{}", run.said());
}

/// The draws that were due while nobody could connect are sent late, and not skipped: all of them show how long it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_seen_by_all_draws_that_were_due_meanwhile() {
    for (run, report) in [replay(Fault::Away, 880, 4).await, rooms(Fault::Away).await] {
        let said = run.said();
        assert_eq!(run.output.status.code(), Some(0), "{said}");
        assert_eq!(report.tally.stored + report.tally.unknown, report.tally.sent, "{said}");
        // Only what was on its way.
        assert!(report.tally.unknown <= 20 && report.tally.sent >= 200, "{said}");
        let away_us = STALL.as_micros() as u64;
        assert!(report.delivery.quantiles.max > away_us * 8 / 10, "{said}");
        assert!(report.delivery.quantiles.p90 > away_us / 4, "{said}");
        let away = report.figures.iter().find(|figure| figure.name == "the server was away for");
        assert!(away.is_some_and(|away| away.value >= STALL.as_secs_f64() * 0.8), "{said}");
        // One outage of each, however often it tried.
        assert!((1..=6).contains(&report.broken.0), "{said}");
    }
}
