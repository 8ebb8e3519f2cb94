//! How the relay starts, or says why it does not: before it greets anyone, and as `config check` says it.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::certificates::Authority;
use crate::support::eventually;
use crate::support::program::{ended, failed, inkrelay, succeeded};

/// Tells what `serve` says with these settings, which is what `config check` says too.
fn both_refuse(arguments: &[&str]) -> String {
    let check = failed(ended(&mut inkrelay(&[&["config", "check"], arguments].concat())));
    let serve = failed(ended(&mut inkrelay(&[&["serve"], arguments].concat())));
    // clap's own words end with how to use the command.
    let what = |text: &str| text.split("\n\n").next().unwrap_or_default().to_owned();
    assert_eq!(what(&check), what(&serve), "{arguments:?}");
    serve
}

#[test]
fn what_serve_refuses_the_check_refuses() {
    for (arguments, says) in [
        (&["--redis", "http://h"][..], &["redis: ", "write it like redis://127.0.0.1:6379"][..]),
        (&["--redis", "rediss://h"], &["redis: ", "write it like redis://"]),
        (&["--redis", "redis://h/3"], &["redis: only database 0"]),
        (&["--redis", "h:6379"], &["redis: ", "write it like redis://"]),
        (&["--operators-listen", "127.0.0.1:8080"], &["operators-listen", "choose another port"]),
        (&["--operators-listen", "0.0.0.0:8080"], &["operators-listen", "choose another port"]),
        (&["--operators-listen", "203.0.113.5:9090"], &["operators-listen", "whole internet", "tunnel"]),
        (&["--operators-listen", "9090"], &["--operators-listen", "write it like 127.0.0.1"]),
        (&["--operators-host", "http://x"], &["--operators-host", "write it like ops.example"]),
        (&["--listen", "0.0.0.0:80"], &["listen is 0.0.0.0:80", "--token-keys", "--open"]),
        (&["--listen", "8080"], &["--listen", "write it like 127.0.0.1:8080"]),
        (&["--listen", "nobody.invalid:80"], &["--listen", "nobody.invalid"]),
        (&["--max-room", "99999999999999999999GB"], &["--max-room", "8 PiB", "0 lifts"]),
        (&["--max-rate", "4294967295"], &["max-rate", "1000000 at most"]),
        (&["--max-sessions", "18446744073709551615"], &["max-sessions", "at most"]),
        (&["--max-sessions", "99999999999999999999"], &["--max-sessions"]),
        (&["--max-message", "1KiB"], &["max-message is 1024", "lower max-draw"]),
        (&["--unlimited", "--max-rate", "5"], &["--unlimited", "--max-rate"]),
        (&["--memory", "--redis", "redis://h"], &["--memory", "--redis"]),
        (&["--idle-time", "1ms"], &["idle-time is 1ms: it is from 1s to 1day"]),
        (&["--keep-alive", "0s"], &["keep-alive is 0s: it is from 100ms to 1day"]),
        (&["--heartbeat", "1000years"], &["heartbeat", "from 100ms to 1day"]),
        (&["--stall-time", "5"], &["--stall-time", "write it like 500ms, 5s or 2min"]),
        (&["--room-ttl", "1s"], &["room-ttl is 1s: it is from 1m", "0 to keep rooms for ever"]),
        (&["--drain-time", "1day"], &["drain-time is 1day: it is from 0s to 1h"]),
        (&["--log", "warning"], &["--log", "is no level", "off, error, warn, info, debug, trace"]),
        (&["--log", "verbose"], &["--log", "is no level", "off, error, warn, info, debug, trace"]),
        (&["--log", "inkrelay_server=loud"], &["--log", "off, error, warn, info, debug, trace"]),
        (&["--trust-forwarded", "*"], &["--trust-forwarded", "10.0.0.0/8"]),
        (&["--tls-cert", "c.pem"], &["tls-cert and tls-key go together"]),
        (&["--revoked", "r"], &["revoked are about tokens", "--token-keys"]),
        (&["--secret-file", "/nowhere/s"], &["secret-file: /nowhere/s"]),
    ] {
        let why = both_refuse(arguments);
        assert!(says.iter().all(|part| why.contains(part)), "{arguments:?}: {why}");
    }
}

/// What cannot be known without the network or the disk.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_can_fail_at_the_start_fails_before_the_greeting() {
    let authority = Authority::new();
    let [chain, key] = authority.issue().map(|path| path.to_str().unwrap().to_owned());
    let [short, not_pem, other_key, keys, file] = [
        ("short", "too short"),
        ("not.pem", "no PEM"),
        ("other.pem", &rcgen::KeyPair::generate().unwrap().serialize_pem()),
        ("keys", "a secret that has thirty-two bytes, or some more"),
        ("file", "no folder"),
    ]
    .map(|(name, text)| authority.write(name, text).to_str().unwrap().to_owned());
    let (short, not_pem, other_key, keys, file) = (&*short, &*not_pem, &*other_key, &*keys, &*file);
    let (chain, key) = (&*chain, &*key);
    for (arguments, says) in [
        (&["--token-keys", "/nowhere/k"][..], &["token-keys: /nowhere/k: ", "it takes a secret"][..]),
        (&["--token-keys", short], &["token-keys: ", "at least 32 bytes", "inkrelay token new-key"]),
        (
            &["--token-keys", keys, "--revoked", "/nowhere/r"],
            &["revoked: /nowhere/r: ", "it takes a token id"],
        ),
        (&["--tls-cert", "/nowhere/c", "--tls-key", key], &["tls-cert: ", "/nowhere/c", "PEM"]),
        (&["--tls-cert", chain, "--tls-key", "/nowhere/k"], &["tls-key: ", "/nowhere/k", "PEM"]),
        (&["--tls-cert", not_pem, "--tls-key", key], &["tls-cert: ", "BEGIN CERTIFICATE"]),
        (&["--tls-cert", chain, "--tls-key", not_pem], &["tls-key: ", "BEGIN PRIVATE KEY"]),
        (&["--tls-cert", chain, "--tls-key", other_key], &["tls-key: ", "is not that of", "tls-cert"]),
    ] {
        let why = both_refuse(arguments);
        assert!(says.iter().all(|part| why.contains(part)), "{arguments:?}: {why}");
    }

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let held = TcpListener::bind(&taken);
    let taken_url = format!("redis://{taken}");
    let free = ["--memory", "--listen", "127.0.0.1:0"];
    for (arguments, says) in [
        (&["--data", file][..], &["data: ", "--data"][..]),
        (&["--redis", &taken_url], &["redis: ", &taken, "--redis"]),
        (&["--memory", "--listen", &taken], &["listen: ", &taken, "choose another address"]),
        (
            &[free[0], free[1], free[2], "--operators-listen", &taken],
            &["operators-listen: ", "it is taken", "or off"],
        ),
    ] {
        let mut serve = inkrelay(&[&["serve"], arguments].concat());
        if !arguments.contains(&"--listen") {
            serve.env("INKRELAY_LISTEN", "127.0.0.1:0");
        }
        if !arguments.contains(&"--operators-listen") {
            serve.env("INKRELAY_OPERATORS_LISTEN", "off");
        }
        let why = failed(tokio::task::spawn_blocking(move || ended(&mut serve)).await.unwrap());
        assert!(says.iter().all(|part| why.contains(part)), "{arguments:?}: {why}");
    }
    drop(held);
}

#[test]
fn a_wrong_variable_is_named_and_an_empty_one_is_not_set() {
    for (variable, value, says) in [
        ("INKRELAY_MAX_DRAW", "much", &["--max-draw", "write it like 65536"][..]),
        ("INKRELAY_OPEN", "yes", &["--open", "true, false"]),
        ("INKRELAY_LOG", "warning", &["--log", "off, error, warn"]),
        ("INKRELAY_MAX_RATE", "1e3", &["--max-rate", "write a whole number, like 120"]),
    ] {
        for command in [&["config", "check"][..], &["serve", "--memory"]] {
            let why = failed(ended(inkrelay(command).env(variable, value)));
            let names = why.contains(&format!("is set by {variable} in the environment"));
            assert!(names && says.iter().all(|part| why.contains(part)), "{variable}: {why}");
        }
        let why = failed(ended(inkrelay(&["config", "check", "--workers", "x"]).env(variable, value)));
        assert!(why.contains("--workers") && !why.contains(variable), "a flag is no variable: {why}");
    }
    let why = failed(ended(inkrelay(&["rooms"]).env("INKRELAY_LOG", "verbose")));
    assert!(why.contains("INKRELAY_LOG: ") && why.contains("is no level"), "{why}");

    let mut command = inkrelay(&["config", "show"]);
    for variable in [
        "INKRELAY_CONFIG",
        "INKRELAY_MAX_DRAW",
        "INKRELAY_OPEN",
        "INKRELAY_REDIS",
        "INKRELAY_TOKEN_KEYS",
        "INKRELAY_LOG",
        "INKRELAY_LISTEN",
        "INKRELAY_SECRET",
        "INKRELAY_ALLOW_ORIGIN",
        "INKRELAY_IDLE_TIME",
    ] {
        command.env(variable, "");
    }
    let shown = succeeded(ended(&mut command));
    assert!(!shown.contains("# environment") && shown.contains("# redis is not set"), "{shown}");
    let mut off = inkrelay(&["config", "check", "--redis", "redis://h"]);
    succeeded(ended(off.env("INKRELAY_MEMORY", "false")));
}

#[test]
fn what_may_not_be_meant_is_warned_of() {
    let mut command = inkrelay(&[
        "config",
        "check",
        "--trust-forwarded",
        "0.0.0.0/0",
        "--operators-listen",
        "0.0.0.0:9090",
    ]);
    command
        .env("INKRELAY_MAX_DRAWS", "1KiB")
        .env("INKRELAY_ZZZ", "1")
        .env("INKRELAY_PORT", "tcp://10.0.0.1:80");
    let output = ended(&mut command);
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    for says in [
        "the environment has INKRELAY_MAX_DRAWS, which nothing reads: did you mean INKRELAY_MAX_DRAW?",
        "the environment has INKRELAY_ZZZ, which nothing reads: ",
        "trust-forwarded has 0.0.0.0/0, which is everybody: anyone can forge the address",
        "operators-listen is 0.0.0.0:9090, which others can reach",
    ] {
        assert!(warned.contains(says), "{says}: {warned}");
    }
    assert!(!warned.contains("INKRELAY_PORT"), "{warned}");
    assert_eq!(succeeded(output), "The settings are right.\n");
    let six = ended(&mut inkrelay(&["config", "check", "--trust-forwarded", "::/0"]));
    assert!(String::from_utf8_lossy(&six.stderr).contains("anyone can forge"), "{six:?}");
    assert!(ended(&mut inkrelay(&["config", "check"])).stderr.is_empty());
    // Known to other commands of this program.
    assert!(ended(inkrelay(&["config", "check"]).env("INKRELAY_SERVER", "http://h")).stderr.is_empty());
}

/// A server whose output goes to files. Killed when dropped.
struct Started(std::process::Child);

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(folder: &Path, arguments: &[&str]) -> Started {
    let file = |name| Stdio::from(std::fs::File::create(folder.join(name)).unwrap());
    let mut command: Command = inkrelay(&[&["serve", "--memory"], arguments].concat());
    Started(command.stdout(file("said")).stderr(file("log")).spawn().unwrap())
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

#[tokio::test]
async fn a_log_of_json_has_the_greeting_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--listen", "localhost:0", "--operators-listen", "127.0.0.1:0", "--log-format", "json"];
    let _started = start(folder.path(), &[&arguments[..], &["--trust-forwarded", "::/0"]].concat());
    let log = || read(folder.path(), "log");
    eventually("it greets", async || log().contains("Inkrelay listens")).await;
    let log = log();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("one JSON object a line"));
    let lines: Vec<_> = lines.collect();
    let greeting = lines.iter().find(|line| line["message"] == "Inkrelay listens").unwrap();
    assert!(greeting["address"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{greeting}");
    assert!(greeting["operators"].as_str().unwrap().starts_with("http://127.0.0.1:"), "{greeting}");
    assert_eq!(greeting["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(greeting["tokens"], false);
    assert!(greeting["store"].as_str().unwrap().contains("memory"), "{greeting}");
    assert!(log.contains("anyone can forge the address"), "{log}");
    assert_eq!(read(folder.path(), "said"), "");
}

/// A store that does not answer keeps nobody from ending the server, in good order.
#[tokio::test(flavor = "multi_thread")]
async fn who_waits_for_the_store_can_be_stopped() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let mut serve = inkrelay(&["serve", "--redis", &url, "--operators-listen", "off"]);
    serve.env("INKRELAY_LISTEN", "127.0.0.1:0").stderr(Stdio::null());
    let mut started = Started(serve.spawn().unwrap());
    // By then it asks.
    let asked = tokio::task::spawn_blocking(move || silent.accept()).await.unwrap();
    assert!(Command::new("kill").arg(started.0.id().to_string()).status().unwrap().success());
    let mut status = None;
    eventually("it ends", async || {
        status = started.0.try_wait().unwrap();
        status.is_some()
    })
    .await;
    assert!(status.unwrap().success(), "{status:?}");
    drop(asked);
}

/// Two relays on one machine are common, and nobody has asked for the usual port.
#[tokio::test]
async fn the_usual_operators_port_may_be_taken() {
    // Whoever has it, this test or another program, it is taken.
    let _held = TcpListener::bind("127.0.0.1:9090");
    let folder = tempfile::tempdir().unwrap();
    let _started = start(folder.path(), &["--listen", "127.0.0.1:0"]);
    eventually("it greets", async || read(folder.path(), "said").contains("Inkrelay listens")).await;
    let log = read(folder.path(), "log");
    assert!(log.contains("operators cannot be served on 127.0.0.1:9090: it is taken"), "{log}");
}
