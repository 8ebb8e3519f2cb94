//! What stands in `deploy/`: each file is used as it is, or held against the program that it describes, so that a flag
//! or a metric that gets another name breaks a test and not an operator's night.
//!
//! - `prometheus`: rules and their own tests under promtool, and that each alert has its place in the runbook
//! - `grafana`: the dashboard
//! - `manifests`: Kubernetes, and the settings that any of the files names
//! - `containers`: Containerfile and compose
//! - `systemd`: the unit
//! - `proxy`: nginx and Caddy in front of real relays
//! - `rolling_restart`: two servers behind nginx are restarted in turn while people draw

mod containers;
mod grafana;
mod manifests;
mod prometheus;
mod proxy;
mod rolling_restart;
mod systemd;

use std::path::{Path, PathBuf};
use std::time::Duration;

use inkrelay_protocol::ErrorCode;
use serde_json::Value;

/// A file or folder below `deploy/`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("deploy").join(name)
}

/// The text of a file below `deploy/`.
fn text(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All documents of a YAML file, with merge keys carried out.
fn documents(name: &str) -> Vec<Value> {
    use serde::Deserialize as _;
    let text = text(name);
    let documents = serde_yaml_ng::Deserializer::from_str(&text).map(|document| {
        let mut value =
            serde_yaml_ng::Value::deserialize(document).unwrap_or_else(|error| panic!("{name}: {error}"));
        value.apply_merge().unwrap_or_else(|error| panic!("{name}: {error}"));
        serde_json::to_value(value).unwrap()
    });
    documents.collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn str(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

fn seconds(text: &str) -> Duration {
    humantime::parse_duration(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `0.0.0.0:8080` has the port 8080.
fn port(address: &str) -> u64 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("an address with a port")
}

/// Bytes, as Redis, compose and Kubernetes write them.
fn bytes(text: &str) -> u64 {
    let number: String = text.chars().take_while(char::is_ascii_digit).collect();
    let unit = match &text[number.len()..] {
        "mb" | "m" | "Mi" => 1 << 20,
        "gb" | "g" | "Gi" => 1 << 30,
        other => panic!("{text}: which unit is {other}?"),
    };
    number.parse::<u64>().unwrap_or_else(|error| panic!("{text}: {error}")) * unit
}

/// Whatever rules and dashboard ask for, a relay tells; and what they take for labels are its labels.
#[tokio::test(flavor = "multi_thread")]
async fn every_metric_that_is_asked_for_is_told() {
    let told = crate::operators::all_that_is_told().await;
    let known = words_with(&told, &["inkrelay_", "process_"]);
    let mut asked = 0;
    for file in ["prometheus/alerts.yml", "prometheus/alerts.test.yml", "grafana/dashboards/inkrelay.json"] {
        let text = text(file);
        let names = words_with(&text, &["inkrelay_", "process_"]);
        let mut unknown: Vec<_> = names.difference(&known).copied().collect();
        // tokio counts steals only where it is built to.
        unknown.retain(|name| cfg!(tokio_unstable) || *name != "inkrelay_worker_steals_total");
        assert_eq!(unknown, [""; 0], "{file}");
        asked += names.len();
        for code in text.split("code=~\"").skip(1).flat_map(|rest| rest.split('"').next().unwrap().split('|'))
        {
            assert!(ErrorCode::from_wire(code).is_some(), "{file} asks for the code {code}");
        }
    }
    assert!(asked > 40, "{asked}");
    // A count that is not there before its first one would never be seen to grow.
    for code in ErrorCode::ALL {
        assert!(told.contains(&format!("inkrelay_refused_total{{code=\"{}\"}}", code.as_str())), "{told}");
    }
}

/// The names that begin with one of these prefixes, as metrics do.
fn words_with<'t>(text: &'t str, prefixes: &[&str]) -> std::collections::BTreeSet<&'t str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_name(c))
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}
