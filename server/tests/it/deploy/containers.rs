//! Containerfile and compose: held against each other, the files that they repeat, and the relay.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use inkrelay_server::config::OperatorsListen;
use inkrelay_server::transport::Certificates;
use serde_json::Value;

use super::{bytes, documents, list, path, port, seconds, str, text};
use crate::support::certificates::Authority;
use crate::support::relay::Relay;

pub(super) fn compose() -> Value {
    documents("compose.yaml").remove(0)
}

pub(super) fn compose_environment() -> BTreeMap<String, String> {
    let environment = &compose()["services"]["relay-1"]["environment"];
    let pair = |(name, value): (&String, &Value)| (name.clone(), str(value).to_owned());
    environment.as_object().unwrap().iter().map(pair).collect()
}

#[test]
fn containers_of_compose_run_without_rights_and_for_this_machine_alone() {
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

/// The files for compose say the same as those that they repeat.
#[test]
fn what_compose_repeats_is_the_same() {
    let compose = compose();
    let words = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    let ours = text("nginx/inkrelay-upstream.conf");
    let ours = ours.replace("127.0.0.1:8081", "relay-1:8080").replace("127.0.0.1:8082", "relay-2:8080");
    // What it has besides: that names are looked up again, for relays that are made anew elsewhere. `resolver_timeout` is
    // also the time until a name that was not known is asked for again.
    let theirs = text("nginx/inkrelay-upstream.compose.conf");
    let (looks_up, theirs): (Vec<&str>, Vec<&str>) =
        theirs.lines().partition(|line| line.starts_with("resolver"));
    assert_eq!(looks_up, ["resolver 127.0.0.11 valid=2s ipv6=off;", "resolver_timeout 2s;"]);
    let theirs = theirs.join("\n");
    let servers = theirs.matches("server relay-").count();
    assert_eq!(theirs.matches(" resolve;").count(), servers);
    assert_eq!(words(&theirs.replace(" resolve;", ";")), words(&ours));
    let nginx = str(&compose["services"]["proxy"]["image"]);
    assert!(version(nginx, "nginx:") >= vec![1, 27, 3], "{nginx} resolves no name of an upstream again");
    let theirs = documents("prometheus/compose.yml").remove(0);
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
    assert!(end.contains(r#"ENTRYPOINT ["/inkrelay"]"#));
    assert!(end.contains(r#"CMD ["serve"]"#) && end.contains("EXPOSE 8080"));
    let web = std::fs::read_to_string(path("../clients/web/package.json")).unwrap();
    // npm wants to see every part that the lock names, and the program carries every page that build.rs looks for.
    let package: Value = serde_json::from_str(&web).unwrap();
    for part in list(&package["workspaces"]).iter().map(str) {
        assert!(lines.contains(&format!("COPY clients/web/{part}/package.json {part}/").as_str()), "{part}");
    }
    let build = std::fs::read_to_string(path("../server/build.rs")).unwrap();
    let pages: Vec<&str> =
        build.split("web.join(\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(pages.len() >= 2, "{pages:?}");
    for page in pages {
        let copied = format!("COPY --from=board /inkrelay/clients/web/{page} clients/web/{page}");
        assert!(lines.contains(&copied.as_str()), "{copied}");
    }
    let (node, needed) = (version(&text, "node:"), version(&web, "\"node\": \">="));
    assert!(node >= needed, "the board is built with Node.js {needed:?} or newer");
    let workspace = std::fs::read_to_string(path("../Cargo.toml")).unwrap();
    assert_eq!(version(&text, "rust:")[..2], version(&workspace, "rust-version = \"")[..2]);
}

/// With TLS on the public port, and while it is not ready, a relay is alive: nobody starts it again for that.
#[tokio::test(flavor = "multi_thread")]
async fn the_images_check_asks_whether_the_relay_lives() {
    let text = text("Containerfile");
    let check = text.lines().find(|line| line.starts_with("HEALTHCHECK ")).expect("a check");
    let command: Vec<String> = serde_json::from_str(check.split(" CMD ").nth(1).expect("a command")).unwrap();
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let mut relay = Relay::encrypted(Arc::new(Certificates::load(&chain, &key).unwrap()), |config| {
        config.operators_listen = OperatorsListen::At((std::net::Ipv4Addr::LOCALHOST, 0).into());
        config.times.drain_delay = Duration::from_secs(60);
    });
    let operators = relay.operators.expect("it was asked for").to_string();
    let (program, arguments) = command.split_first().expect("a program");
    assert_eq!(program, "/inkrelay", "the image has no shell");
    let OperatorsListen::At(usual) = OperatorsListen::DEFAULT else { panic!("there is one") };
    let usual = usual.to_string();
    assert!(arguments.iter().any(|argument| argument.contains(&usual)), "{check}");
    let run = |arguments: Vec<String>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
        tokio::task::block_in_place(|| command.args(arguments).output().unwrap())
    };
    let here = |argument: &String| argument.replace(&usual, &operators);
    let check = || run(arguments.iter().map(here).collect());
    let checked = check();
    assert!(checked.status.success(), "{checked:?}");
    relay.stop();
    let ready = || run(["health", "--server", &format!("http://{operators}")].map(str::to_owned).into());
    crate::support::eventually("it is not ready", async || !ready().status.success()).await;
    let checked = check();
    assert!(checked.status.success(), "{checked:?}");
}

/// What Redis is given is more than twice what it may fill: rewriting its file may copy all of it.
#[test]
fn compose_leaves_room_and_asks_for_a_password() {
    let compose = compose();
    let redis = &compose["services"]["redis"];
    assert!(has_room(list(&redis["command"]), str(&redis["mem_limit"])));
    assert_eq!(redis["healthcheck"]["test"], serde_json::json!(["CMD", "redis-cli", "-e", "ping"]));
    let grafana = &compose["services"]["grafana"]["environment"];
    // Compose itself refuses to start without it.
    assert!(str(&grafana["GF_SECURITY_ADMIN_PASSWORD"]).starts_with("${GRAFANA_PASSWORD:?"));
    assert!(grafana["GF_AUTH_ANONYMOUS_ENABLED"].is_null());
}

/// Whether a Redis of these arguments keeps all that it has, on disk too, and within that much memory.
pub(super) fn has_room(arguments: &[Value], limit: &str) -> bool {
    let value = |key: &str| {
        let at = arguments.iter().position(|argument| argument == key).unwrap_or_else(|| panic!("no {key}"));
        str(&arguments[at + 1])
    };
    assert_eq!((value("--appendonly"), value("--appendfsync")), ("yes", "always"));
    assert_eq!((value("--maxmemory-policy"), value("--save")), ("noeviction", ""));
    bytes(limit) >= 2 * bytes(value("--maxmemory")) + bytes("128mb")
}

/// The numbers behind the first mark.
fn version(text: &str, mark: &str) -> Vec<u32> {
    let behind = text.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark}"));
    let version = behind.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap();
    version.split('.').map(|number| number.parse().unwrap()).collect()
}
