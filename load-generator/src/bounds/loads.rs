//! The loads: which scenario, on which server. Sizes fit two cores.

use crate::tasks::{Task, baseline, words};

/// One load on one server.
pub(super) struct Load {
    pub(super) name: &'static str,
    /// The command line of its full size.
    pub(super) full: &'static str,
    /// And of one that only shows that it runs.
    quick: &'static str,
    server: Server,
}

/// Which server, with its options.
#[derive(Clone, Copy)]
enum Server {
    /// The load names it.
    Own(&'static str),
    Baseline(&'static str, &'static str),
}

impl Load {
    fn arguments(&self, quick: bool) -> Vec<String> {
        let load = words(if quick { self.quick } else { self.full });
        let server = match self.server {
            Server::Own(options) => words(options),
            Server::Baseline(name, transport) => baseline(name, transport, true),
        };
        [load, server].concat()
    }

    /// As people type it.
    pub(super) fn command(&self) -> String {
        let quoted = |word: String| if word.contains(' ') { format!("'{word}'") } else { word };
        let words: Vec<String> = self.arguments(false).into_iter().map(quoted).collect();
        format!("inkrelay-load {}", words.join(" "))
    }

    /// The run of a round.
    pub(super) fn task(&self, round: u32, quick: bool) -> Task {
        let size = if quick { "-quick" } else { "" };
        Task {
            name: format!("round {round}, {}", self.name),
            folder: format!("{}{size}-{round}", self.name),
            arguments: self.arguments(quick),
            writes_file: false,
        }
    }
}

const FANOUT: [&str; 2] =
    ["fanout --readers 100 --rate 60 --seconds 10", "fanout --readers 10 --rate 60 --seconds 1"];
const ROOMS: [&str; 2] = [
    "rooms --rooms 50 --people 8 --rate 30 --seconds 10",
    "rooms --rooms 4 --people 3 --rate 30 --seconds 1",
];
/// Twenty seconds at 3,300 draws a minute.
const PAIR: [&str; 2] = ["replay --draws 1100", "replay --draws 55"];
const REPLAY: [&str; 2] = ["replay --speed max --draws 198000", "replay --speed max --draws 2000"];

/// Whether a load is on the relay or on the bare loop: they have to answer all.
pub(super) fn is_own(name: &str) -> bool {
    let load = LOADS.iter().find(|load| load.name == name);
    load.is_some_and(|load| matches!(load.server, Server::Own(_)))
}

const fn load(name: &'static str, size: [&'static str; 2], server: Server) -> Load {
    Load { name, full: size[0], quick: size[1], server }
}

/// All loads, in the order in which a round runs them: what is compared runs close together.
pub(super) const LOADS: &[Load] = &[
    load(
        "fanout-floor",
        ["floor --readers 100 --rate 60 --seconds 10", "floor --readers 10 --rate 60 --seconds 1"],
        Server::Own(""),
    ),
    load("fanout", FANOUT, Server::Own("--store memory")),
    load("fanout-socketio", FANOUT, Server::Baseline("socketio", "ws")),
    load(
        "rooms-floor",
        [
            "floor --rooms 50 --people 8 --rate 30 --seconds 10",
            "floor --rooms 4 --people 3 --rate 30 --seconds 1",
        ],
        Server::Own(""),
    ),
    load("rooms", ROOMS, Server::Own("--store embedded")),
    load("rooms-no-delay", ROOMS, Server::Own("--store embedded --relay-args=--flush-ms=0")),
    load("rooms-socketio", ROOMS, Server::Baseline("socketio", "ws")),
    load(
        "saturation",
        ["saturation --readers 50 --seconds 5", "saturation --readers 5 --seconds 1"],
        Server::Own("--store memory"),
    ),
    load(
        "workers",
        [
            "rooms --rooms 50 --people 8 --rate 120 --seconds 8",
            "rooms --rooms 4 --people 3 --rate 120 --seconds 1",
        ],
        Server::Own("--store memory"),
    ),
    load("pair-floor", PAIR, Server::Own("--posts 1 --target bare")),
    load("pair-ws-memory", PAIR, Server::Own("--posts 1 --transport ws --store memory")),
    load("pair-ws-embedded", PAIR, Server::Own("--posts 1 --transport ws --store embedded")),
    load("pair-ws-redis", PAIR, Server::Own("--posts 1 --transport ws --store redis")),
    load("pair-poll-redis", PAIR, Server::Own("--transport poll --store redis")),
    load("pair-node-json", PAIR, Server::Baseline("node-json", "poll")),
    load("pair-erlang-binary", PAIR, Server::Baseline("erlang-binary", "poll")),
    load("replay", REPLAY, Server::Own("--transport poll --store redis")),
    load("replay-node-json", REPLAY, Server::Baseline("node-json", "poll")),
    load("replay-erlang-binary", REPLAY, Server::Baseline("erlang-binary", "poll")),
    load(
        "idle",
        ["idle --connections 4000 --seconds 5", "idle --connections 100 --seconds 1"],
        Server::Own("--store memory"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_people_type_them() {
        let of = |name: &str| LOADS.iter().find(|load| load.name == name).unwrap().command();
        assert_eq!(
            of("rooms-no-delay"),
            "inkrelay-load rooms --rooms 50 --people 8 --rate 30 --seconds 10 --store embedded \
             --relay-args=--flush-ms=0"
        );
        assert!(
            of("pair-node-json").ends_with(
                "--spawn 'load-generator/baselines/node-json/start --port {port} --redis {redis}'"
            )
        );
    }
}
