//! `deploy/grafana`: the dashboard is read as Grafana reads it.

use std::collections::BTreeSet;

use serde_json::Value;

use super::text;

fn dashboard() -> Value {
    serde_json::from_str(&text("grafana/dashboards/inkrelay.json")).unwrap()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().expect("a list of panels")
}

#[test]
fn every_panel_has_an_id_a_place_and_something_to_show() {
    let dashboard = dashboard();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels(&dashboard) {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title} has the id of another panel");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|at| panel["gridPos"][at].as_u64().expect("a place"));
        assert!(x + w <= 24, "{title} is wider than the page");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{title} lies over another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        let targets = panel["targets"].as_array().expect("queries");
        assert!(!targets.is_empty());
        let refs: BTreeSet<_> = targets.iter().map(|target| target["refId"].as_str()).collect();
        assert_eq!(refs.len(), targets.len(), "{title}: each query has a letter of its own");
        for target in targets {
            let expr = target["expr"].as_str().expect("a query");
            assert!(expr.contains(r#"job="inkrelay""#), "{title} shows other jobs' too: {expr}");
        }
    }
}

#[test]
fn the_dashboard_is_provided_with_what_it_selects_by() {
    let dashboard = dashboard();
    let names: BTreeSet<_> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, BTreeSet::from(["datasource", "instance"]));
    let all = dashboard.to_string();
    // Grafana's own begin with two underscores.
    let asked: BTreeSet<&str> = all
        .split('$')
        .skip(1)
        .map(|rest| {
            rest.trim_start_matches('{')
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .next()
                .unwrap()
        })
        .filter(|name| !name.starts_with("__"))
        .collect();
    assert_eq!(asked, names);
    assert!(text("grafana/provisioning/dashboards/inkrelay.yaml").contains("type: file"));
    assert!(text("prometheus/prometheus.yml").contains("job_name: inkrelay"));
}
