//! Which runs a comparison has: scenarios, servers and sizes that fit two cores.

use crate::tasks::{Task, baseline, spawn, words};

/// Scenarios in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Replay,
    Fanout,
    Rooms,
    Churn,
    Messaging,
}

impl Kind {
    pub(super) const ALL: [Self; 5] = [Self::Replay, Self::Fanout, Self::Rooms, Self::Churn, Self::Messaging];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Fanout => "fanout",
            Self::Rooms => "rooms",
            Self::Churn => "churn",
            Self::Messaging => "messaging",
        }
    }

    /// What its load is, as options of the scenario.
    pub(super) fn load(self, quick: bool) -> &'static str {
        match (self, quick) {
            (Self::Replay, false) => "--speed max --draws 198000 --readers 1",
            (Self::Replay, true) => "--speed max --draws 2000 --readers 1",
            (Self::Fanout, false) => "--readers 300 --rate 60 --seconds 15",
            (Self::Fanout, true) => "--readers 20 --rate 60 --seconds 2",
            (Self::Rooms, false) => "--rooms 30 --people 4 --seconds 20",
            (Self::Rooms, true) => "--rooms 4 --people 3 --seconds 2",
            (Self::Churn, false) => "--requests 20000 --at-once 100",
            (Self::Churn, true) => "--requests 500 --at-once 10",
            (Self::Messaging, false) => "--count 1000000",
            (Self::Messaging, true) => "--count 20000",
        }
    }

    /// Names of the servers, with the options that start and reach each.
    fn servers(self) -> Vec<(&'static str, Vec<String>)> {
        match self {
            Self::Replay => vec![
                ("inkrelay, Redis, poll", own("redis", "poll")),
                ("inkrelay, embedded, poll", own("embedded", "poll")),
                ("erlang-binary, poll", baseline("erlang-binary", "poll", true)),
                ("node-json, poll", baseline("node-json", "poll", true)),
                ("nchan, memory, poll", baseline("nchan", "poll", false)),
            ],
            Self::Fanout => vec![
                (FLOOR, Vec::new()),
                ("inkrelay, Redis, ws", own("redis", "ws")),
                ("inkrelay, Redis, poll", own("redis", "poll")),
                ("socketio, ws", baseline("socketio", "ws", true)),
                ("nchan, memory, ws", baseline("nchan", "ws", false)),
                ("erlang-binary, poll", baseline("erlang-binary", "poll", true)),
                ("node-json, poll", baseline("node-json", "poll", true)),
            ],
            Self::Rooms => vec![
                ("inkrelay, Redis, ws", own("redis", "ws")),
                ("inkrelay, Redis, poll", own("redis", "poll")),
                ("socketio, ws", baseline("socketio", "ws", true)),
                ("nchan, memory, ws", baseline("nchan", "ws", false)),
                ("erlang-binary, poll", baseline("erlang-binary", "poll", true)),
                ("node-json, poll", baseline("node-json", "poll", true)),
            ],
            Self::Churn => vec![
                ("inkrelay, GET /healthz", words("--store memory --path /healthz")),
                ("node-hello, GET /", spawn("node-hello", false, "--path /")),
                ("erlang-binary, empty poll", spawn("erlang-binary", true, EMPTY_POLL)),
                ("node-json, empty poll", spawn("node-json", true, EMPTY_POLL)),
            ],
            Self::Messaging => vec![("all", Vec::new())],
        }
    }
}

/// The server that is no server; its scenario has a name of its own.
pub(super) const FLOOR: &str = "the floor: a bare loop";
const EMPTY_POLL: &str = "--path /rooms/churn/draws?wait=0";

fn own(store: &str, transport: &str) -> Vec<String> {
    words(&format!("--store {store} --transport {transport}"))
}

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) kind: Kind,
    /// Which server, in the page's words.
    pub(super) server: &'static str,
    pub(super) round: usize,
    pub(super) task: Task,
}

/// All runs in their order: each round runs all of them, and begins with another server.
pub(super) fn runs(rounds: usize, quick: bool) -> Vec<Run> {
    let mut runs = Vec::new();
    let is_other = |char: char| !char.is_ascii_alphanumeric();
    for round in 1..=rounds {
        for kind in Kind::ALL {
            let mut servers = kind.servers();
            let first = (round - 1) % servers.len();
            servers.rotate_left(first);
            for (server, options) in servers {
                let scenario = if server == FLOOR { "floor" } else { kind.name() };
                let name = kind.name();
                let task = Task {
                    name: format!("round {round}, {name}, {server}"),
                    folder: format!("{name}-{}-{round}", server.replace(is_other, "-")),
                    arguments: [words(scenario), words(kind.load(quick)), options].concat(),
                    writes_file: kind == Kind::Messaging,
                };
                runs.push(Run { kind, server, round, task });
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rounds_are_interleaved_and_no_two_runs_share_a_folder() {
        let runs = runs(3, false);
        assert!(runs.windows(2).all(|pair| pair[0].round <= pair[1].round));
        let folders: BTreeSet<&str> = runs.iter().map(|run| run.task.folder.as_str()).collect();
        assert_eq!(folders.len(), runs.len());
        let firsts: BTreeSet<&str> = (1..=3)
            .filter_map(|round| runs.iter().find(|run| run.round == round && run.kind == Kind::Fanout))
            .map(|run| run.server)
            .collect();
        assert_eq!(firsts.len(), 3);
    }
}
