//! Containerfile, compose, Kubernetes and systemd: parsed, held against each other, and against the program itself.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{path, text, words_with};
use crate::support::process::Process;
use crate::support::redis::RedisServer;
use crate::support::requests::answer;

const KUBERNETES: [&str; 4] = ["namespace.yaml", "redis.yaml", "relay.yaml", "network-policy.yaml"];

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

/// What `inkrelay serve --help` tells of all settings.
fn help() -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_inkrelay")).args(["serve", "--help"]).output().unwrap();
    assert!(ran.status.success());
    String::from_utf8(ran.stdout).unwrap()
}

fn compose() -> Value {
    documents("compose.yaml").remove(0)
}

/// The manifest of that kind and name.
fn manifest(kind: &str, name: &str) -> Value {
    let all = KUBERNETES.iter().flat_map(|file| documents(&format!("kubernetes/{file}")));
    let found = all.filter(|one| one["kind"] == kind && one["metadata"]["name"] == name).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{kind} {name}");
    found.into_iter().next().unwrap()
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

/// The environment of the relay in the deployment.
fn kubernetes_environment() -> BTreeMap<String, String> {
    let relay = relay_container();
    let pair = |one: &Value| (str(&one["name"]).to_owned(), str(&one["value"]).to_owned());
    list(&relay["env"]).iter().map(pair).collect()
}

fn relay_container() -> Value {
    manifest("Deployment", "relay")["spec"]["template"]["spec"]["containers"][0].clone()
}

fn compose_environment() -> BTreeMap<String, String> {
    let environment = &compose()["services"]["relay-1"]["environment"];
    let pair = |(name, value): (&String, &Value)| (name.clone(), str(value).to_owned());
    environment.as_object().unwrap().iter().map(pair).collect()
}

/// `0.0.0.0:8080` has the port 8080.
fn port(address: &str) -> u64 {
    address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("an address with a port")
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
    files.extend(["caddy/Caddyfile", "small-machine.toml"].map(str::to_owned));
    let flags: BTreeSet<&str> = help.split_whitespace().filter_map(|word| word.strip_prefix("--")).collect();
    for file in &files {
        for rest in text(file).split("`--").skip(1) {
            let flag = rest.split(|c: char| !c.is_ascii_lowercase() && c != '-').next().unwrap();
            assert!(flags.contains(flag), "{file} names --{flag}, which is no flag of `inkrelay serve`");
        }
    }
}

#[test]
fn the_small_machines_settings_are_right() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    let checked =
        command.args(["config", "check", "--config"]).arg(path("small-machine.toml")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
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
    assert_eq!(str(&pod["metadata"]["annotations"]["prometheus.io/port"]), ports["operators"].to_string());
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
    let args: Vec<_> =
        list(&redis["spec"]["template"]["spec"]["containers"][0]["args"]).iter().map(str).collect();
    assert_eq!(args, list(&compose()["services"]["redis"]["command"]).iter().map(str).collect::<Vec<_>>());
    assert!(args.windows(2).any(|two| two == ["--maxmemory-policy", "noeviction"]), "{args:?}");
    let resources = documents("kubernetes/kustomization.yaml").remove(0);
    let resources: BTreeSet<_> = list(&resources["resources"]).iter().map(str).map(str::to_owned).collect();
    assert_eq!(resources, KUBERNETES.map(str::to_owned).into());
}

#[test]
fn containers_run_without_rights() {
    for (kind, name) in [("Deployment", "relay"), ("StatefulSet", "redis")] {
        let pod = &manifest(kind, name)["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["automountServiceAccountToken"], false);
        for container in list(&pod["containers"]) {
            let may = &container["securityContext"];
            assert_eq!(may["allowPrivilegeEscalation"], false);
            assert_eq!(may["readOnlyRootFilesystem"], true);
            assert_eq!(may["capabilities"]["drop"], serde_json::json!(["ALL"]));
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
    }
    let compose = compose();
    for relay in ["relay-1", "relay-2"].map(|name| &compose["services"][name]) {
        assert_eq!(relay["read_only"], true);
        assert_eq!(relay["cap_drop"], serde_json::json!(["ALL"]));
        assert!(relay["ports"].is_null(), "people come through the proxy");
        let grace = seconds(str(&relay["stop_grace_period"]));
        assert!(grace > seconds(&compose_environment()["INKRELAY_DRAIN_TIME"]) + Duration::from_secs(3));
    }
    for (name, service) in compose["services"].as_object().unwrap() {
        for port in service["ports"].as_array().into_iter().flatten() {
            assert!(str(port).starts_with("127.0.0.1:"), "{name} is open to others: {port}");
        }
        let image = str(&service["image"]);
        let is_pinned =
            image == "inkrelay" || image.rsplit_once(':').is_some_and(|(_, tag)| tag.contains('.'));
        assert!(is_pinned, "{name}: {image} may be another one tomorrow");
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let from = str(volume).split(':').next().unwrap();
            let is_there = match from.strip_prefix("./") {
                Some(file) => path(file).exists(),
                None => compose["volumes"].get(from).is_some(),
            };
            assert!(is_there, "{name}: {volume}");
        }
    }
}

/// What stands in the compose file again says the same as the files do.
#[test]
fn what_compose_repeats_is_the_same() {
    let compose = compose();
    let words = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    let ours = text("nginx/inkrelay-upstream.conf");
    let ours = ours.replace("127.0.0.1:8081", "relay-1:8080").replace("127.0.0.1:8082", "relay-2:8080");
    assert_eq!(words(str(&compose["configs"]["upstream"]["content"])), words(&ours));
    let theirs: Value = serde_yaml_ng::from_str(str(&compose["configs"]["prometheus"]["content"])).unwrap();
    let mut ours = documents("prometheus/prometheus.yml").remove(0);
    let targets = &theirs["scrape_configs"][0]["static_configs"][0]["targets"];
    let operators = port(&compose_environment()["INKRELAY_OPERATORS_LISTEN"]);
    assert_eq!(targets, &serde_json::json!([format!("relay-1:{operators}"), format!("relay-2:{operators}")]));
    ours["scrape_configs"][0]["static_configs"][0]["targets"] = targets.clone();
    assert_eq!(theirs, ours);
}

#[test]
fn the_containerfile_copies_what_is_there_and_ends_without_root() {
    let text = text("Containerfile");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect();
    let stages: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("FROM ")).collect();
    let (last, builders) = stages.split_last().unwrap();
    assert_eq!(*last, "scratch");
    for stage in builders {
        let tag = stage.split_whitespace().next().unwrap().rsplit_once(':').expect("a tag").1;
        assert!(tag.split('.').count() >= 3 && tag.contains("alpine"), "{stage} is not pinned");
    }
    for copied in
        lines.iter().filter_map(|line| line.strip_prefix("COPY ")).filter(|copy| !copy.starts_with("--"))
    {
        let mut words: Vec<&str> = copied.split_whitespace().collect();
        words.pop();
        for word in words {
            assert!(path("..").join(word).exists(), "there is no {word} to copy");
        }
    }
    let end = text.split("FROM scratch").nth(1).unwrap();
    let user = end.lines().find_map(|line| line.strip_prefix("USER ")).expect("a user");
    assert!(
        user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user} is no number: Kubernetes wants one"
    );
    assert!(end.contains(r#"CMD ["/inkrelay", "health"]"#) && end.contains(r#"ENTRYPOINT ["/inkrelay"]"#));
    assert!(end.contains(r#"CMD ["serve"]"#) && end.contains("EXPOSE 8080"));
    let web = std::fs::read_to_string(path("../clients/web/package.json")).unwrap();
    let (node, needed) = (version(&text, "node:"), version(&web, "\"node\": \">="));
    assert!(node >= needed, "the board is built with Node.js {needed:?} or newer");
    let workspace = std::fs::read_to_string(path("../Cargo.toml")).unwrap();
    assert_eq!(version(&text, "rust:")[..2], version(&workspace, "rust-version = \"")[..2]);
}

/// The numbers behind the first mark.
fn version(text: &str, mark: &str) -> Vec<u32> {
    let behind = text.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark}"));
    let version = behind.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap();
    version.split('.').map(|number| number.parse().unwrap()).collect()
}

/// `systemd-analyze` is the judge, where there is one. It needs the program to be there, and runs nothing.
#[test]
fn the_unit_is_sound_and_hardened() {
    let unit = text("systemd/inkrelay.service");
    for needed in
        ["ExecReload=/bin/kill -HUP $MAINPID", "KillSignal=SIGTERM", "NoNewPrivileges=yes", "DynamicUser=yes"]
    {
        assert!(unit.lines().any(|line| line == needed), "{needed}");
    }
    let stop = unit.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).unwrap();
    let drain = inkrelay_server::config::Config::default().times.drain_time;
    assert!(seconds(stop) >= drain + Duration::from_secs(5), "{stop} for {drain:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("inkrelay.service");
    assert!(unit.contains("/usr/local/bin/inkrelay"));
    std::fs::write(&file, unit.replace("/usr/local/bin/inkrelay", env!("CARGO_BIN_EXE_inkrelay"))).unwrap();
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&file).output().ok()
    };
    let Some(verified) = analyze(&["verify", "--man=no"]) else { return };
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<_> = said.lines().filter(|line| line.contains("inkrelay")).collect();
    assert!(verified.status.success() && ours.is_empty(), "{said}");
    // In tenths; above is what systemd calls medium.
    let rated = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"]).unwrap();
    assert!(rated.status.success(), "{}", String::from_utf8_lossy(&rated.stdout));
}
