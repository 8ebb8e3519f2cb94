//! What keeps the house in order: which part may know which, and how long a file may be.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines after which a file gives its reason in the first ten.
const LONG: usize = 500;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Rust files below a folder of the project, with their text.
fn sources(folder: &str) -> Vec<(String, String)> {
    let (root, mut found, mut folders) = (root(), Vec::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

/// Lines that name something and do not stand in a comment.
fn lines_that_name<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    text.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains(name)).collect()
}

#[test]
fn only_some_files_know_a_library() {
    let rules = [
        ("axum::", &["server/src/transport", "server/src/operators"][..]),
        ("hyper::", &["server/src/transport", "server/src/operators"]),
        ("tungstenite::", &["server/src/transport"]),
        ("rustls::", &["server/src/transport"]),
        ("redis::", &["server/src/store/redis", "server/src/store.rs"]),
        ("procfs::", &["server/src/operators/process.rs"]),
        ("rusqlite::", &["server/src/store/embedded"]),
        ("inkrelay_client", &["server/src/main.rs"]),
    ];
    for (file, text) in sources("server/src") {
        for (library, allowed) in rules {
            let lines = lines_that_name(&text, library);
            let is_allowed = allowed.iter().any(|place| file.starts_with(place));
            assert!(is_allowed || lines.is_empty(), "{file} may not know {library}: {lines:?}");
        }
    }
}

/// The room that an address names, and the token that a request carries, are read in one file, which hands both out
/// together: a handler has no room without having asked who calls. (`board.rs` looks at a name alone, for its page.)
#[test]
fn no_handler_reaches_a_room_past_its_door() {
    for (file, text) in sources("server/src/transport") {
        let is_door = file.ends_with("transport/request.rs");
        let is_page = file.ends_with("transport/board.rs");
        for (name, is_allowed) in [
            ("Path<", is_door || is_page),
            ("Path(", is_page || is_door),
            ("parse::<RoomId>", is_page),
            (".admit(", is_door || file.ends_with("websocket/reading.rs")),
            ("AUTHORIZATION", is_door || file.ends_with("transport/http.rs")),
            ("hub.enter", false),
        ] {
            let lines = lines_that_name(&text, name);
            assert!(is_allowed || lines.is_empty(), "{file} goes past the door: {lines:?}");
        }
        for line in text.lines().filter(|line| line.contains("rooms/{room}") && line.contains("route(")) {
            assert!(file.ends_with("transport/http.rs"), "{file} has an address of rooms: {line}");
        }
    }
    let mut handlers = Vec::new();
    for (file, text) in sources("server/src/transport") {
        for (at, _) in text.match_indices("State(relay): Shared") {
            let signature = text[at..].split(" {\n").next().unwrap_or_default();
            let is_guarded = signature.contains("Admitted") || signature.contains(": Door");
            let name = text[..at].rsplit("fn ").next().and_then(|rest| rest.split('(').next()).unwrap();
            assert!(is_guarded || name == "ready", "{name} in {file} asks nobody who calls");
            handlers.push(name.to_owned());
        }
    }
    assert!(handlers.len() >= 8, "the handlers were found: {handlers:?}");
}

/// A part may know those of the levels below its own.
fn check_order(folder: &str, levels: &[&[&str]]) {
    for (file, text) in sources(folder) {
        let groups = lines_that_name(&text, "crate::{");
        assert!(groups.is_empty(), "{file} is to name each part in a line of its own: {groups:?}");
        let name = file.trim_start_matches(folder).trim_start_matches('/').trim_end_matches(".rs");
        let part = name.split('/').next().unwrap();
        let Some(level) = levels.iter().position(|parts| parts.contains(&part)) else { continue };
        for other in levels[..=level].concat().into_iter().filter(|other| *other != part) {
            let lines = lines_that_name(&text, &format!("crate::{other}"));
            assert!(lines.is_empty(), "{file} may not know {other}: {lines:?}");
        }
    }
}

#[test]
fn dependencies_point_down() {
    // main → lib → operators → transport → session → hub → room → store, and the protocol under all.
    check_order(
        "server/src",
        &[&["operators"], &["transport"], &["session"], &["hub"], &["room"], &["store"], &["metrics"]],
    );
    check_order(
        "clients/rust/src",
        &[
            &["command"],
            &["client"],
            &["connection"],
            &["websocket", "long_poll"],
            &["session"],
            &["shared"],
            &["event"],
            &["config", "outbox", "replica", "backoff", "http"],
            &["tls"],
        ],
    );
    check_order(
        "load-generator/src",
        &[
            &["compare"],
            &["scenario", "messaging"],
            &["server"],
            &["run"],
            &["sampler"],
            &["report", "target"],
            &["measure"],
        ],
    );
    for crate_above in ["inkrelay_server", "inkrelay_client"] {
        for (file, text) in sources("protocol/src") {
            assert!(lines_that_name(&text, crate_above).is_empty(), "{file} may not know {crate_above}");
        }
    }
    for folder in ["clients/rust/src", "load-generator/src"] {
        for (file, text) in sources(folder) {
            assert!(lines_that_name(&text, "inkrelay_server").is_empty(), "{file} may not know the server");
        }
    }
}

#[test]
fn the_protocol_and_the_pure_parts_neither_wait_nor_look_at_the_clock() {
    let mut pure = sources("protocol/src");
    let parts =
        ["room/tail.rs", "room/cursor.rs", "room/presence.rs"].map(|part| format!("server/src/{part}"));
    pure.extend(sources("server/src/room").into_iter().filter(|(file, _)| parts.contains(file)));
    let checks = ["checker.rs", "mark.rs"].map(|part| format!("load-generator/src/measure/{part}"));
    pure.extend(sources("load-generator/src/measure").into_iter().filter(|(file, _)| checks.contains(file)));
    let cores = ["outbox.rs", "replica.rs", "backoff.rs"].map(|part| format!("clients/rust/src/{part}"));
    pure.extend(sources("clients/rust/src").into_iter().filter(|(file, _)| cores.contains(file)));
    for (file, text) in pure {
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for name in ["async ", ".await", "tokio::", "Instant::now", "SystemTime::now", "std::fs", "std::net"]
        {
            let lines = lines_that_name(text, name);
            assert!(lines.is_empty(), "{file} is to be pure, and has {name}: {lines:?}");
        }
    }
}

#[test]
fn long_files_say_why() {
    for folder in ["server", "protocol", "clients", "load-generator"] {
        for (file, text) in sources(folder) {
            let lines = text.lines().count();
            let says_why =
                text.lines().take(10).any(|line| line.contains("long") || line.contains("one file"));
            assert!(lines <= LONG || says_why, "{file} has {lines} lines: split it, or say why at its top");
        }
    }
}

#[test]
fn every_file_begins_with_what_it_is() {
    for folder in ["server", "protocol", "clients", "load-generator"] {
        for (file, text) in sources(folder) {
            assert!(text.starts_with("//!") || text.starts_with("#!"), "{file} does not say what it is");
        }
    }
}
