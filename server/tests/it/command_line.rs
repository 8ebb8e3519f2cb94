//! The commands of the binary that are clients, against a relay: what they print and how they end.

use std::process::Output;
use std::time::Duration;

use crate::support::relay::Relay;

/// Three strokes: by hand with pressure and time, a line, and a dot.
const INK: &str = r#"{
    "hand": [[10, 10, 0.2, 0], [12, 11, 0.4, 4], [15, 13, 0.9, 8], [19, 13, 1, 30], [24, 12.5, 0.7, 45]],
    "line": [{"x": 0, "y": 40}, {"x": 100, "y": 40}],
    "dot": [[50, 60]]
}"#;

async fn inkrelay(relay: &Relay, args: &[&str]) -> Output {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    command.args(args).env("INKRELAY_SERVER", relay.url(""));
    tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

fn succeeded(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn failed(output: Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_drawn_is_told_the_same_by_every_transport() {
    let relay = Relay::start(|_| {}).await;
    let folder = tempfile::tempdir().unwrap();
    let ink = folder.path().join("ink.json");
    std::fs::write(&ink, INK).unwrap();
    let ink = ink.to_str().unwrap();
    for transport in ["ws", "poll"] {
        let args = ["draw", "r", ink, "--speed", "max", "--transport", transport, "--name", "Anna"];
        let told = succeeded(inkrelay(&relay, &args).await);
        assert!(told.starts_with("stored 5 draws of 3 strokes"), "{told}");
    }

    let mut told = Vec::new();
    for transport in ["auto", "ws", "poll", "sse"] {
        let args = ["watch", "r", "--json", "--count", "10", "--wait-ms", "10000", "--transport", transport];
        told.push(succeeded(inkrelay(&relay, &args).await));
    }
    assert_eq!(told[0].lines().count(), 10);
    assert!(told.iter().all(|lines| *lines == told[0]), "{told:#?}");

    let picture = succeeded(inkrelay(&relay, &["board", "r", "--svg", "-"]).await);
    assert_eq!(picture.matches("<path").count() + picture.matches("<circle").count(), 6);
    assert_eq!(picture, succeeded(inkrelay(&relay, &["board", "r", "--svg", "-"]).await));
    relay.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_fails_says_why() {
    let relay = Relay::start(|config| config.role = inkrelay_protocol::Role::Viewer).await;
    let folder = tempfile::tempdir().unwrap();
    let ink = folder.path().join("ink.json");
    std::fs::write(&ink, INK).unwrap();
    let ink = ink.to_str().unwrap();
    for transport in ["ws", "poll"] {
        let args = ["draw", "r", ink, "--speed", "max", "--transport", transport];
        let why = failed(inkrelay(&relay, &args).await);
        assert!(why.contains("takes no more draws here: draw 1: viewers may not draw (forbidden)"), "{why}");
    }
    let why = failed(inkrelay(&relay, &["watch", "r", "--count", "1", "--wait-ms", "300"]).await);
    assert!(why.contains("did not come in time"), "{why}");
    let ca = ["--server", "https://h", "--ca", "/nowhere.pem"];
    let why = failed(inkrelay(&relay, &[&["board", "r", "--svg", "-"], &ca[..]].concat()).await);
    assert!(why.contains("/nowhere.pem"), "{why}");
    std::fs::write(folder.path().join("bad.json"), "[[1, 2], [1, 1e300]]").unwrap();
    let bad = folder.path().join("bad.json");
    let why = failed(inkrelay(&relay, &["draw", "r", bad.to_str().unwrap()]).await);
    assert!(why.contains("bad.json: the stroke, point 2: a coordinate"), "{why}");
    relay.stopped().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_as_an_exit_code() {
    let mut relay = Relay::start(|config| config.times.drain_delay = Duration::from_secs(10)).await;
    assert_eq!(succeeded(inkrelay(&relay, &["health"]).await), "ready\n");
    relay.stop();
    crate::support::eventually("it is not ready", async || relay.get("/readyz").await.status == 503).await;
    let why = failed(inkrelay(&relay, &["health"]).await);
    assert!(why.contains("is not ready: the server is going away"), "{why}");
    let why = failed(inkrelay(&relay, &["health", "--server", "http://127.0.0.1:1"]).await);
    assert!(why.contains("cannot reach http://127.0.0.1:1"), "{why}");
    let why = failed(inkrelay(&relay, &["health", "--server", "nowhere"]).await);
    assert!(why.contains("nowhere"), "{why}");
}

/// What would be refused again and again is not sent again and again.
#[tokio::test(flavor = "multi_thread")]
async fn drawing_into_a_full_room_ends_at_once() {
    let relay = Relay::start(|config| config.limits.max_room = 100).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.json");
    let points: Vec<_> = (0..2000).map(|point| [point, point]).collect();
    std::fs::write(&file, serde_json::to_string(&points).unwrap()).unwrap();
    let begun = std::time::Instant::now();
    let why = failed(inkrelay(&relay, &["draw", "r", file.to_str().unwrap(), "--speed", "max"]).await);
    assert!(why.contains("takes no more draws here") && why.contains("room_full"), "{why}");
    assert!(begun.elapsed() < crate::support::PATIENCE, "{:?}", begun.elapsed());
    relay.stopped().await;
}

/// A connection that has sent its request may wait longer than a header may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_quiet_room_is_watched_in_peace() {
    let relay = Relay::start(|config| config.times.header_time = Duration::from_millis(800)).await;
    for transport in ["ws", "poll", "sse"] {
        let args = ["watch", "r", "--wait-ms", "1200", "--transport", transport];
        let output = inkrelay(&relay, &args).await;
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{transport}");
        assert_eq!(succeeded(output), "", "{transport}");
    }
    relay.stopped().await;
}

/// M-1, M-3, M-8: as a moderator types it.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_is_moderated_from_the_command_line() {
    let relay = Relay::start(|config| config.role = inkrelay_protocol::Role::Moderator).await;
    let moderate = async |args: &[&str]| inkrelay(&relay, &[&["moderate", "r"], args].concat()).await;
    let said = async |args: &[&str]| succeeded(moderate(args).await);
    assert_eq!(said(&["show"]).await, "not locked\n");
    assert_eq!(said(&["lock"]).await, "locked\n");
    assert_eq!(said(&["ban", "77"]).await, "locked\nbanned: 77\n");
    assert_eq!(said(&["ban", "--subject", "ann"]).await, "locked\nbanned: 77\nbanned: \"ann\"\n");
    assert_eq!(said(&["unban", "77"]).await, "locked\nbanned: \"ann\"\n");
    assert_eq!(said(&["unlock"]).await, "not locked\nbanned: \"ann\"\n");
    assert_eq!(said(&["kick", "77"]).await, "kicked 77\n");
    assert_eq!(said(&["erase", "77"]).await, "nothing of 77 shows\n");
    let stroke = "[[0,0,[0,1,16],0,[5,5],true]]";
    assert_eq!(relay.post("/v1/rooms/r/draws", "application/json", stroke).await.status, 200);
    let erased = said(&["erase", "0"]).await;
    assert!(erased.starts_with("erased 1 stroke of 0; to take it back, revoke [0, "), "{erased}");
    assert!(said(&["clear"]).await.starts_with("cleared; to take it back, revoke [0, "));
    let why = failed(moderate(&["kick", "0"]).await);
    assert!(why.contains("client 0 is everyone without a ticket"), "{why}");
    // The address stands before or behind what is to be done.
    let url = relay.url("");
    let nowhere = ["INKRELAY_SERVER", "http://127.0.0.1:1"];
    for arguments in [
        ["moderate", "r", "lock", "--server", &url],
        ["moderate", "r", "--server", &url, "unlock"],
        ["moderate", "--server", &url, "r", "show"],
    ] {
        let mut command = crate::support::program::inkrelay(&arguments);
        command.env(nowhere[0], nowhere[1]);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert!(succeeded(output).contains("locked"), "{arguments:?}");
    }
    assert_eq!(moderate(&["ban"]).await.status.code(), Some(2), "somebody has to be named");
}
