//! The Kubernetes manifests, held against each other and against the program; and every setting that a file of `deploy` names.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::containers::{compose, compose_environment, has_room};
use super::{documents, list, path, port, seconds, str, text, words_with};
use crate::support::process::Process;
use crate::support::redis::RedisServer;
use crate::support::requests::answer;

const KUBERNETES: [&str; 4] = ["namespace.yaml", "redis.yaml", "relay.yaml", "network-policy.yaml"];

/// What `inkrelay serve --help` tells of all settings.
fn help() -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_inkrelay")).args(["serve", "--help"]).output().unwrap();
    assert!(ran.status.success());
    String::from_utf8(ran.stdout).unwrap()
}

/// The manifest of that kind and name.
fn manifest(kind: &str, name: &str) -> Value {
    let all = KUBERNETES.iter().flat_map(|file| documents(&format!("kubernetes/{file}")));
    let found = all.filter(|one| one["kind"] == kind && one["metadata"]["name"] == name).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{kind} {name}");
    found.into_iter().next().unwrap()
}

/// The environment of the relay in the deployment.
fn kubernetes_environment() -> BTreeMap<String, String> {
    let relay = relay_container();
    let pair = |one: &Value| (str(&one["name"]).to_owned(), str(&one["value"]).to_owned());
    list(&relay["env"]).iter().map(pair).collect()
}

fn relay_container() -> Value {
    manifest("Deployment", "relay")["spec"]["template"]["spec"]["containers"][0].clone()
}

#[test]
fn every_setting_that_is_named_is_one() {
    let help = help();
    let known = words_with(&help, &["INKRELAY_"]);
    assert!(known.len() > 20);
    let mut files: Vec<String> = KUBERNETES.iter().map(|file| format!("kubernetes/{file}")).collect();
    files.extend(["Containerfile", "compose.yaml", "systemd/inkrelay.service"].map(str::to_owned));
    for file in &files {
        let text = text(file);
        let unknown: Vec<_> = words_with(&text, &["INKRELAY_"]).difference(&known).copied().collect();
        assert_eq!(unknown, [""; 0], "{file} names what the relay does not know");
    }
    // Flags, where text names one in backticks.
    files.extend(
        ["../docs/RUNBOOK.md", "nginx/inkrelay.conf", "nginx/inkrelay-locations.conf"].map(str::to_owned),
    );
    files.extend(
        ["caddy/Caddyfile", "small-machine.toml", "systemd/inkrelay.service", "systemd/inkrelay.toml"]
            .map(str::to_owned),
    );
    let flags: BTreeSet<&str> = help.split_whitespace().filter_map(|word| word.strip_prefix("--")).collect();
    for file in &files {
        for rest in text(file).split("`--").skip(1) {
            let flag = rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
            assert!(flags.contains(flag), "{file} names --{flag}, which is no flag of `inkrelay serve`");
        }
    }
}

#[test]
fn files_of_settings_are_right() {
    for file in ["small-machine.toml", "inkrelay.toml"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
        let checked = command.args(["config", "check", "--config"]).arg(path(file)).output().unwrap();
        assert!(checked.status.success(), "{file}: {}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// The relay starts with the environments as they stand in the files, but for places that are not on this machine.
#[tokio::test]
async fn the_relay_takes_the_environments_and_answers_the_probes() {
    let redis = RedisServer::start();
    let folder = tempfile::tempdir().unwrap();
    let keep = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let secret = keep("secret", "of these relays alone, and long enough for one\n");
    let signing = folder.path().join("token.key").display().to_string();
    let made =
        Command::new(env!("CARGO_BIN_EXE_inkrelay")).args(["token", "new-key", &signing]).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    let key = format!("{signing}.jwks");
    for mut environment in [compose_environment(), kubernetes_environment()] {
        let mut put = |name: &str, value: &str| {
            if let Some(old) = environment.get_mut(name) {
                *old = value.to_owned();
            }
        };
        put("INKRELAY_REDIS", &redis.url());
        put("INKRELAY_SECRET_FILE", &secret);
        put("INKRELAY_TOKEN_KEYS", &key);
        put("INKRELAY_OPERATORS_LISTEN", "127.0.0.1:0");
        put("INKRELAY_LISTEN", "127.0.0.1:0");
        let relay = Process::with_environment(&environment);
        let container = relay_container();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let path = str(&container[probe]["httpGet"]["path"]);
            let got =
                answer(crate::support::requests::client().get(format!("http://{}{path}", relay.address)))
                    .await;
            assert_eq!(got.status, 200, "{probe} asks {path}");
        }
        let health = Command::new(env!("CARGO_BIN_EXE_inkrelay"))
            .args(["health", "--server", &format!("http://{}", relay.address)])
            .output()
            .unwrap();
        assert!(health.status.success(), "{health:?}");
    }
}

#[test]
fn the_kubernetes_manifests_agree_with_each_other() {
    let deployment = manifest("Deployment", "relay");
    let (environment, container) = (kubernetes_environment(), relay_container());
    let pod = &deployment["spec"]["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    for (kind, selector) in [
        ("Service", "/spec/selector"),
        ("PodDisruptionBudget", "/spec/selector/matchLabels"),
        ("NetworkPolicy", "/spec/podSelector/matchLabels"),
    ] {
        assert_eq!(manifest(kind, "relay").pointer(selector), Some(labels), "{kind}");
    }
    let ports: BTreeMap<&str, u64> = list(&container["ports"])
        .iter()
        .map(|port| (str(&port["name"]), port["containerPort"].as_u64().unwrap()))
        .collect();
    assert_eq!(ports["http"], port(&environment["INKRELAY_LISTEN"]));
    assert_eq!(ports["operators"], port(&environment["INKRELAY_OPERATORS_LISTEN"]));
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["port"], "http");
    }
    // The operators' port is for Prometheus alone.
    let service = manifest("Service", "relay");
    let public: Vec<_> =
        list(&service["spec"]["ports"]).iter().map(|port| str(&port["targetPort"])).collect();
    assert_eq!(public, ["http"]);
    let policy = manifest("NetworkPolicy", "relay");
    for rule in list(&policy["spec"]["ingress"]) {
        assert_eq!(list(&rule["from"]).len(), 1);
        let from = &rule["from"][0]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"];
        assert_eq!(rule["ports"][0]["port"] == "operators", from == "monitoring", "{rule}");
    }
    // Who is told to stop is given the time.
    let needed = seconds(&environment["INKRELAY_DRAIN_DELAY"]) + seconds(&environment["INKRELAY_DRAIN_TIME"]);
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(Duration::from_secs(grace) >= needed + Duration::from_secs(5), "{grace} s for {needed:?}");
    // Files of the environment lie where a secret is mounted.
    let mounts: BTreeMap<&str, &str> = list(&container["volumeMounts"])
        .iter()
        .map(|mount| (str(&mount["mountPath"]), str(&mount["name"])))
        .collect();
    let volumes: BTreeSet<&str> =
        list(&pod["spec"]["volumes"]).iter().map(|volume| str(&volume["name"])).collect();
    for file in ["INKRELAY_SECRET_FILE", "INKRELAY_TOKEN_KEYS"] {
        let (folder, _) = environment[file].rsplit_once('/').unwrap();
        assert!(volumes.contains(mounts[folder]), "{file}");
    }
    let autoscaler = manifest("HorizontalPodAutoscaler", "relay");
    assert_eq!(autoscaler["spec"]["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    assert!(autoscaler["spec"]["minReplicas"].as_u64() >= Some(2), "one may go while another serves");
    let redis = manifest("StatefulSet", "redis");
    let redis = &redis["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(redis["args"], compose()["services"]["redis"]["command"]);
    assert!(has_room(list(&redis["args"]), str(&redis["resources"]["limits"]["memory"])));
    assert_eq!(redis["readinessProbe"]["exec"]["command"], serde_json::json!(["redis-cli", "-e", "ping"]));
    // What the autoscaler goes by is a part of what is requested.
    assert!(container["resources"]["requests"]["cpu"].is_string());
    let resources = documents("kubernetes/kustomization.yaml").remove(0);
    let resources: BTreeSet<_> = list(&resources["resources"]).iter().map(str).map(str::to_owned).collect();
    assert_eq!(resources, KUBERNETES.map(str::to_owned).into());
}

/// Rules and dashboard select by `job="inkrelay"`: whichever way Prometheus finds the pods, they get it.
#[test]
fn prometheus_finds_the_pods_as_the_rules_want_them() {
    let labels = manifest("Deployment", "relay")["spec"]["template"]["metadata"]["labels"].clone();
    let namespace = manifest("Namespace", "inkrelay")["metadata"]["name"].clone();
    let ports = relay_container()["ports"].clone();
    assert!(list(&ports).iter().any(|port| port["name"] == "operators"));
    assert!(text("prometheus/alerts.yml").contains(r#"{job="inkrelay"}"#));

    let monitor = documents("prometheus/pod-monitor.yaml").remove(0);
    assert_eq!(monitor["metadata"]["namespace"], namespace);
    assert_eq!(monitor["spec"]["selector"]["matchLabels"], labels);
    let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
    assert_eq!(endpoint["port"], "operators");
    assert!(
        list(&endpoint["relabelings"])
            .iter()
            .any(|one| one["targetLabel"] == "job" && one["replacement"] == "inkrelay")
    );

    let config = documents("prometheus/kubernetes.yml").remove(0);
    let usual = documents("prometheus/prometheus.yml").remove(0);
    assert_eq!((&config["rule_files"], &config["global"]), (&usual["rule_files"], &usual["global"]));
    let job = &config["scrape_configs"][0];
    assert_eq!(job["job_name"], "inkrelay");
    assert_eq!(job["kubernetes_sd_configs"][0]["namespaces"]["names"], serde_json::json!([namespace]));
    let keep = &job["relabel_configs"][0];
    assert_eq!(labels, serde_json::json!({"app.kubernetes.io/name": "relay"}));
    assert_eq!((&keep["action"], &keep["regex"]), (&"keep".into(), &"relay;operators".into()));
}

#[test]
fn containers_run_without_rights() {
    for (kind, name) in [("Deployment", "relay"), ("StatefulSet", "redis")] {
        let pod = &manifest(kind, name)["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
        for container in list(&pod["containers"]) {
            let may = &container["securityContext"];
            assert_eq!(may["allowPrivilegeEscalation"], false);
            assert_eq!(may["readOnlyRootFilesystem"], true);
            assert_eq!(may["capabilities"]["drop"], serde_json::json!(["ALL"]));
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }
}
