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

/// A file or folder below `deploy/`.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("deploy").join(name)
}

/// The text of a file below `deploy/`.
fn text(name: &str) -> String {
    let path = path(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The names that begin with one of these prefixes, as metrics do.
fn words_with<'t>(text: &'t str, prefixes: &[&str]) -> std::collections::BTreeSet<&'t str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !is_name(c))
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .collect()
}
