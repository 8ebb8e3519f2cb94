//! What reports look like in a browser.

use std::path::Path;
use std::process::Command;

use inkrelay_load::report::summary::count;

use crate::support::{PROGRAM, build_relay, run};

/// Loads a page in headless Chromium, and returns its document and what the browser complained of.
fn load(page: &Path) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("chromium is installed, as `make browsers` does");
    assert!(output.status.success(), "{output:?}");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let complaints = text(&output.stderr);
    let complaints: Vec<&str> = complaints.lines().filter(|line| line.contains("CONSOLE")).collect();
    (text(&output.stdout), complaints.join("\n"))
}

#[test]
fn a_report_renders_without_errors_and_shows_its_numbers() {
    build_relay();
    let fanout = ["fanout", "--readers", "30", "--rate", "100", "--seconds", "3", "--store", "memory"];
    let (first, second) =
        (run(&fanout), run(&["floor", "--readers", "30", "--rate", "100", "--seconds", "3"]));
    let (report, floor) = (first.report(), second.report());
    let (document, complaints) = load(&first.page());
    assert_eq!(complaints, "");
    for title in ["From due to a reader", "How many waited how long", "Memory", "Core 0", "Draws sent"] {
        assert!(document.contains(title), "{title}");
    }
    assert!(document.matches("<path").count() >= 10 && !document.contains("NaN"));
    assert!(document.contains(&count(report.delivered)) && document.contains("Nothing lost"));
    for outside in ["<script", "http://", "https://", "<link", "url("] {
        assert!(!document.contains(outside), "the page needs nothing from outside: {outside}");
    }

    let both = first.folder.path().join("both.html");
    let reports = [&first, &second].map(|run| run.folder.path().join("report.json"));
    let shown = Command::new(PROGRAM).arg("report").args(&reports).arg("--out").arg(&both).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let (document, complaints) = load(&both);
    assert_eq!(complaints, "");
    assert!(document.contains("2 runs side by side"));
    assert!(document.contains(&report.title()) && document.contains(&floor.title()));
}
