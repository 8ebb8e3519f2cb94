//! What takes part in a comparison, with its version.

use std::fs;
use std::process::Command;

/// Debian's packages that take part.
const PACKAGES: [&str; 7] = [
    "redis-server",
    "erlang-base",
    "erlang-mochiweb",
    "erlang-redis-client",
    "nginx",
    "libnginx-mod-nchan",
    "openjdk-17-jdk-headless",
];

/// Today, as `2026-11-30`.
pub fn today() -> String {
    let now = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    now.split('T').next().unwrap_or_default().to_owned()
}

/// Of this project, the kernel, and whatever is found of the rest.
pub fn versions() -> Vec<String> {
    let commit = first_line("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let mut versions = vec![format!("inkrelay {} {commit}", env!("CARGO_PKG_VERSION")).trim_end().to_owned()];
    versions.extend(first_line("uname", &["-sr"]));
    versions.extend(first_line("node", &["--version"]).map(|version| format!("Node.js {version}")));
    versions.extend(npm_versions());
    let show = ["--show", "--showformat", "${Package} ${Version}\\n"];
    for package in PACKAGES {
        versions.extend(first_line("dpkg-query", &[&show[..], &[package]].concat()));
    }
    versions
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

/// What npm installs, from the files that pin it.
fn npm_versions() -> Vec<String> {
    let mut versions = Vec::new();
    for baseline in ["node-json", "socketio"] {
        let file = format!("load-generator/baselines/{baseline}/package.json");
        let text = fs::read(file).unwrap_or_default();
        let package: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let pinned = package["dependencies"].as_object().into_iter().flatten();
        versions.extend(pinned.filter_map(|(name, version)| Some(format!("{name} {}", version.as_str()?))));
    }
    versions.sort();
    versions.dedup();
    versions
}
