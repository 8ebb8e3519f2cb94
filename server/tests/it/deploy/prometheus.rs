//! `deploy/prometheus`: promtool is the judge of the rules and of their own tests.

use std::collections::BTreeSet;
use std::process::Command;

use super::{path, text};

/// Runs promtool in the folder; what it says.
fn promtool(arguments: &[&str]) -> String {
    let ran = Command::new("promtool").args(arguments).current_dir(path("prometheus")).output();
    let ran = ran.unwrap_or_else(|error| {
        panic!("these tests need promtool of Debian's package prometheus (`make prometheus`): {error}")
    });
    let said = String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "promtool {arguments:?}:\n{said}");
    said
}

/// What follows a key at the beginning of lines, such as the names of alerts.
fn values<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    let value = |line: &'t str| line.trim_start().trim_start_matches("- ").strip_prefix(key);
    text.lines().filter_map(value).map(str::trim).collect()
}

#[test]
fn the_configuration_and_the_rules_are_sound() {
    for configuration in ["prometheus.yml", "compose.yml"] {
        let said = promtool(&["check", "config", configuration]);
        assert!(said.contains("rules found"), "it looks into the rules too: {said}");
    }
    promtool(&["check", "rules", "--lint", "all", "--lint-fatal", "alerts.yml"]);
}

#[test]
fn each_alert_fires_when_it_should_and_is_silent_when_it_should_not() {
    promtool(&["test", "rules", "alerts.test.yml"]);
    let tests = text("prometheus/alerts.test.yml");
    let names = |what: &str| -> BTreeSet<String> {
        let names = values(&tests, "name:").into_iter();
        let (what, mark) = (format!(" {what}"), format!(" {what} ("));
        names
            .filter(|name| name.ends_with(&what) || name.contains(&mark))
            .filter_map(|name| Some(name.split(' ').next()?.to_owned()))
            .collect()
    };
    let alerts: BTreeSet<String> =
        values(&text("prometheus/alerts.yml"), "alert:").into_iter().map(str::to_owned).collect();
    assert!(alerts.len() > 10, "{alerts:?}");
    assert_eq!(names("fires"), alerts, "each alert has a test in which it fires");
    assert_eq!(names("is silent"), alerts, "and one in which it does not");
}

#[test]
fn each_alert_leads_to_its_place_in_the_runbook() {
    let runbook = std::fs::read_to_string(path("../docs/RUNBOOK.md")).unwrap();
    let headings: BTreeSet<&str> = runbook.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = text("prometheus/alerts.yml");
    let (names, urls) = (values(&alerts, "alert:"), values(&alerts, "runbook_url:"));
    assert_eq!(names.len(), urls.len());
    for (name, url) in names.iter().zip(urls) {
        assert!(headings.contains(name), "docs/RUNBOOK.md has no heading {name}");
        let page = "https://github.com/inkrelay/inkrelay/blob/main/docs/RUNBOOK.md";
        assert_eq!(url, format!("{page}#{}", name.to_lowercase()));
    }
    let about = headings.iter().filter(|heading| heading.starts_with("Inkrelay")).count();
    assert_eq!(about, names.len(), "the runbook has alerts that there are no more");
}
