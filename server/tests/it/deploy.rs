//! What stands in `deploy/`: each file is used as it is, or held against the program that it describes, so that a flag
//! or a metric that gets another name breaks a test and not an operator's night.
//!
//! - `prometheus`: rules and their own tests under promtool, and that each alert has its place in the runbook
//! - `grafana`: the dashboard
//! - `manifests`: Containerfile, compose, Kubernetes and systemd
//! - `proxy`: nginx in front of real relays, and Caddy's file where there is a Caddy
//! - `rolling_restart`: two servers behind nginx are restarted in turn while people draw

mod grafana;
mod manifests;
mod prometheus;
mod proxy;
mod rolling_restart;

use std::path::{Path, PathBuf};

use inkrelay_protocol::ErrorCode;

/// A file or folder below `deploy/`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("deploy").join(name)
}

/// The text of a file below `deploy/`.
fn text(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
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
