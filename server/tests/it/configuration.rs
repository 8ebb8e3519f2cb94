//! The settings as people set them: flags, the environment and a file, and a reload of it all at SIGHUP.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::Value;

use crate::support::certificates::Authority;
use crate::support::eventually;
use crate::support::process::Process;
use crate::support::program::{failed, inkrelay, succeeded};
use crate::support::requests::{MESSAGE_PACK, answer, raw_bytes};
use crate::support::socket::{batch, mark};

fn written(folder: &Path, text: &str) -> String {
    let file = folder.join("inkrelay.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn the_example_is_right() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/inkrelay.toml");
    let text = std::fs::read_to_string(&example).unwrap();
    let checked =
        succeeded(inkrelay(&["config", "check", "--config", example.to_str().unwrap()]).output().unwrap());
    assert_eq!(checked, "The settings are right.\n");

    // What is commented out is right as well, but for what excludes each other or names files of yours.
    let all: String = text
        .lines()
        .map(|line| {
            line.strip_prefix("# ")
                .filter(|line| line.contains(" = ") && !line.contains(": "))
                .unwrap_or(line)
        })
        .filter(|line| !line.starts_with("secret-file") && !line.starts_with("token-keys"))
        .filter(|line| !line.starts_with("tls-") && !line.starts_with("revoked"))
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(all.contains("\nredis = ") && all.contains("\ntrust-forwarded = "), "{all}");
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), &all);
    succeeded(inkrelay(&["config", "check", "--config", &file]).output().unwrap());
}

#[test]
fn a_flag_goes_before_the_environment_and_that_before_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "[limits]\nmax-batch = 1\nmax-rate = 1\nmax-rooms = 1\n");
    let mut command = inkrelay(&["config", "show", "--max-batch", "3"]);
    command.env("INKRELAY_CONFIG", &file).env("INKRELAY_MAX_BATCH", "2").env("INKRELAY_MAX_RATE", "2");
    let shown = succeeded(command.output().unwrap());
    for (setting, source) in [
        ("max-batch = 3", "flag --max-batch".to_owned()),
        ("max-rate = 2", "environment INKRELAY_MAX_RATE".to_owned()),
        ("max-rooms = 1", format!("{file}, line 4")),
        ("max-sessions = 1000", "default".to_owned()),
    ] {
        let line = shown.lines().find(|line| line.starts_with(&format!("{setting} ")));
        assert!(line.is_some_and(|line| line.ends_with(&format!("# {source}"))), "{setting}:\n{shown}");
    }
}

#[test]
fn a_choice_of_a_flag_goes_before_another_choice_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "redis = \"redis://anna:hunter2@h\"\n");
    let show = |args: &[&str]| {
        succeeded(inkrelay(&[&["config", "show", "--config", &file], args].concat()).output().unwrap())
    };
    assert!(show(&["--memory"]).contains("# redis is not set"));
    let shown = show(&[]);
    assert!(shown.contains("# redis = \"redis://anna:***@h\"") && !shown.contains("hunter2"), "{shown}");
    let file = written(folder.path(), "memory = true\nredis = \"redis://h\"\n");
    let why = failed(inkrelay(&["config", "check", "--config", &file]).output().unwrap());
    assert!(why.contains(":2: memory and redis exclude each other"), "{why}");
}

#[test]
fn what_is_wrong_is_said_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "lisen = \"127.0.0.1:0\"\n[limits]\nmax-draw = \"much\"\n");
    for command in [&["config", "check"][..], &["config", "show"], &["serve", "--memory"]] {
        let why = failed(inkrelay(&[command, &["--config", &file]].concat()).output().unwrap());
        assert!(why.contains("inkrelay.toml:1: there is no setting lisen: did you mean listen?"), "{why}");
        assert!(why.contains("inkrelay.toml:3: max-draw cannot be \"much\": "), "{why}");
        assert!(why.contains("write it like 65536, 64KiB or 1MB"), "{why}");
    }
    let why = failed(inkrelay(&["config", "check", "--config", "/nowhere/f.toml"]).output().unwrap());
    assert!(why.contains("cannot read the settings in /nowhere/f.toml"), "{why}");
    let why = failed(inkrelay(&["serve", "--max-draw", "much"]).output().unwrap());
    assert!(why.contains("--max-draw") && why.contains("write it like"), "{why}");
}

/// From wherever it comes, and none of it is shown.
#[test]
fn a_short_secret_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("secret");
    std::fs::write(&key, "s7x9s7x9s7x9s7x\n").unwrap();
    let file = written(folder.path(), "secret = \"s7x9s7x9\"\n");
    let key = key.to_str().unwrap();
    for command in [&["serve", "--memory", "--listen", "127.0.0.1:0"][..], &["config", "check"]] {
        for args in [&["--secret", "s7x9"][..], &["--secret="], &["--secret-file", key], &["--config", &file]]
        {
            let why = failed(inkrelay(&[command, args].concat()).output().unwrap());
            assert!(why.contains("at least 16 bytes") && why.contains("openssl rand -base64 32"), "{why}");
            assert!(!why.contains("s7x9"), "{why}");
        }
        let why = failed(inkrelay(command).env("INKRELAY_SECRET", "s7x9").output().unwrap());
        assert!(why.contains("at least 16 bytes") && !why.contains("s7x9"), "{why}");
    }
    std::fs::write(key, "s7x9s7x9s7x9s7x9\n").unwrap();
    succeeded(inkrelay(&["config", "check", "--secret-file", key]).output().unwrap());
}

#[test]
fn other_addresses_than_loopback_need_to_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "listen = \"0.0.0.0:0\"\n");
    for args in [&["--listen", "0.0.0.0:0"][..], &["--listen", "[::]:0"], &["--config", &file]] {
        for command in [&["serve", "--memory"][..], &["config", "check"]] {
            let why = failed(inkrelay(&[command, args].concat()).output().unwrap());
            assert!(why.contains("--open") && why.contains("everyone who reaches that address"), "{why}");
        }
        succeeded(inkrelay(&[&["config", "check", "--open"], args].concat()).output().unwrap());
    }
    let mut open = inkrelay(&["config", "check", "--listen", "0.0.0.0:0"]);
    succeeded(open.env("INKRELAY_OPEN", "true").output().unwrap());
}

/// What two settings mean together, wherever each of them comes from, and the files that they name.
#[test]
fn what_belongs_together_is_checked_across_sources() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "tls-key = \"key.pem\"\n");
    let check = |args: &[&str]| failed(inkrelay(&[&["config", "check"], args].concat()).output().unwrap());
    let why = check(&["--config", &file]);
    assert!(why.contains("tls-cert and tls-key go together"), "{why}");
    let why = check(&["--config", &file, "--tls-cert", "/no.pem"]);
    assert!(why.contains("/no.pem"), "{why}");
    let why = check(&["--token-keys", "/no.jwks"]);
    assert!(why.contains("/no.jwks"), "{why}");
}

#[test]
fn the_reference_is_printed() {
    let page = succeeded(inkrelay(&["config", "reference"]).output().unwrap());
    assert!(page.starts_with("# Configuration\n") && page.contains("| `max-draw` |"), "{page}");
}

async fn limits(address: SocketAddr) -> Value {
    let request = crate::support::requests::client().post(format!("http://{address}/v1/rooms/r/sessions"));
    answer(request).await.json()["limits"].clone()
}

async fn post(address: SocketAddr, marks: u64) -> u16 {
    let draws: Vec<_> = (1..=marks).map(mark).collect();
    let request = crate::support::requests::client().post(format!("http://{address}/v1/rooms/r/draws"));
    answer(request.header("content-type", MESSAGE_PACK).body(batch(&draws))).await.status
}

async fn allows(address: SocketAddr, origin: &str) -> bool {
    let request = crate::support::requests::client()
        .get(format!("http://{address}/v1/rooms/r"))
        .header("origin", origin);
    answer(request).await.status == 200
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_reloads_what_can_be_and_a_wrong_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "allow-origin = [\"https://a.example\"]\n[limits]\nmax-batch = 3\n");
    let log_file = folder.path().join("log");
    let process = Process::start_logged(&log_file, &["--config", &file]);
    let log = || std::fs::read_to_string(&log_file).unwrap();
    let address = process.address;
    assert!(limits(address).await.as_array().unwrap().contains(&3.into()));
    assert_eq!((post(address, 3).await, post(address, 4).await), (200, 413));
    assert!(allows(address, "https://a.example").await && !allows(address, "https://b.example").await);

    written(
        folder.path(),
        "allow-origin = [\"https://b.example\"]\nrole = \"viewer\"\n[limits]\nmax-batch = 5\nmax-rate = 1000\n",
    );
    process.hang_up();
    eventually("the new limit holds", async || post(address, 5).await == 200).await;
    assert!(limits(address).await.as_array().unwrap().contains(&5.into()));
    assert_eq!(post(address, 6).await, 413);
    assert!(!allows(address, "https://a.example").await && allows(address, "https://b.example").await);
    eventually("it says what changed", async || {
        let log = log();
        log.contains("reloaded max-batch: 3 → 5")
            && log.contains("this needs a restart: role: \"drawer\" → \"viewer\"")
    })
    .await;

    written(folder.path(), "[limits]\nmax-batch = \"many\"\nmax-rate = 7\n");
    process.hang_up();
    eventually("it says what is wrong", async || {
        log().contains("nothing is reloaded: ")
            && log().contains("inkrelay.toml:2: max-batch cannot be \"many\"")
    })
    .await;
    assert_eq!(post(address, 5).await, 200);

    written(folder.path(), "log = \"debug\"\n");
    process.hang_up();
    eventually("the default limit holds", async || post(address, 6).await == 200).await;
    eventually("more is logged", async || {
        // What is no request is worth a line for those who look closely.
        raw_bytes(address, b"no request\r\n\r\n").await;
        log().contains("DEBUG")
    })
    .await;
}

/// What the files hold that the settings name: which of them is another, which is none, and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_says_which_files_hold_something_else() {
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let keys = authority.write("keys", "a secret that has thirty-two bytes, or some more");
    let revoked = authority.write("revoked", "");
    let [chain, key, keys_file, revoked_file] =
        [&chain, &key, &keys, &revoked].map(|path| path.to_str().unwrap());
    let log_file = authority.path("log");
    let arguments =
        ["--tls-cert", chain, "--tls-key", key, "--token-keys", keys_file, "--revoked", revoked_file];
    let process = Process::start_logged(&log_file, &arguments);
    let mut read = 0;
    // The lines since the last time, when there are so many.
    let mut told = async |count: usize| {
        let mut lines = Vec::new();
        eventually("it says what it did", async || {
            let text = std::fs::read_to_string(&log_file).unwrap();
            lines = text.lines().skip(read).map(str::to_owned).collect();
            lines.len() >= count && text.ends_with('\n')
        })
        .await;
        read += lines.len();
        lines.iter().map(|line| line.trim_start_matches(|c| c != ' ').trim().to_owned()).collect::<Vec<_>>()
    };
    process.hang_up();
    assert_eq!(told(1).await, ["INFO inkrelay::serve: reloaded: all is as it was"]);

    authority.issue();
    std::fs::write(&keys, "another secret that has thirty-two bytes").unwrap();
    process.hang_up();
    assert_eq!(
        told(2).await,
        [
            "INFO inkrelay::serve: reloaded the keys of tokens",
            "INFO inkrelay::serve: reloaded the certificate"
        ]
    );

    std::fs::write(&keys, "short").unwrap();
    authority.issue();
    process.hang_up();
    let lines = told(2).await;
    assert!(
        lines[0].starts_with("ERROR ") && lines[0].contains("held to as it was: token-keys: "),
        "{lines:?}"
    );
    assert_eq!(lines[1..], ["INFO inkrelay::serve: reloaded the certificate"]);

    std::fs::write(&keys, "another secret that has thirty-two bytes").unwrap();
    std::fs::write(chain, "none").unwrap();
    process.hang_up();
    let lines = told(1).await;
    assert!(
        lines.len() == 1 && lines[0].starts_with("ERROR ") && lines[0].contains("tls-cert: "),
        "{lines:?}"
    );

    // It is looked at by itself as well, and said once by either.
    authority.issue();
    std::fs::write(&revoked, "sub:ann\n").unwrap();
    process.hang_up();
    let lines = told(2).await;
    assert_eq!(
        lines.iter().filter(|line| line.contains("the list of revoked tokens")).count(),
        1,
        "{lines:?}"
    );
}
