//! Recorded ink with the commands of the binary: two drawers at once, four readers who are there from the start, and
//! one who comes when half is drawn.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use inkrelay_client::ink::{self, InkStyle, Replay, Step};
use inkrelay_protocol::board::Stroke;
use inkrelay_protocol::{Board, ClientId, Draw, Identity, Record, json};
use serde_json::Value;

use super::command::Running;
use super::reader::{Over, Reader, record_of};
use super::{ROOM, board, picture, picture_path, recorded, say};
use crate::support::eventually;
use crate::support::http::Http;
use crate::support::process::Process;
use crate::support::redis::RedisServer;
use crate::support::socket::batch;

/// All ink is drawn in about so many seconds, however long it took to record.
const DRAWN_IN_S: f64 = 4.0;

/// One who plays files into the room.
struct Part {
    name: &'static str,
    transport: &'static str,
    colour: &'static str,
    /// In pixels.
    offset: (i32, i32),
    files: Vec<PathBuf>,
}

impl Part {
    fn replay(&self) -> Replay {
        let rgb = u32::from_str_radix(self.colour, 16).expect("a colour");
        let style = InkStyle { rgba: Some(rgb << 8 | 0xff), ..InkStyle::default() };
        Replay { style, offset: (self.offset.0 * 16, self.offset.1 * 16) }
    }

    fn steps(&self) -> Vec<Step> {
        ink::replay(&recorded::strokes(&self.files), self.replay()).expect("it fits on the board")
    }

    /// Plays it, so fast that it takes about as long as is wished.
    fn start(&self, address: SocketAddr, steps: &[Step]) -> Running {
        let takes_s = steps.last().map_or(0.0, |step| step.at.as_secs_f64());
        let speed = (takes_s / DRAWN_IN_S).clamp(1.0, 1000.0).to_string();
        let (server, offset) = (format!("http://{address}"), format!("{},{}", self.offset.0, self.offset.1));
        let files: Vec<String> = self.files.iter().map(|file| file.display().to_string()).collect();
        let mut arguments = vec!["draw", ROOM];
        arguments.extend(files.iter().map(String::as_str));
        arguments.extend(["--server", &server, "--transport", self.transport, "--name", self.name]);
        arguments.extend(["--color", self.colour, "--offset", &offset, "--speed", &speed]);
        say!(
            "{} plays {} files into {server} over {}, {} draws, {speed:.5} times as fast as they were recorded",
            self.name,
            files.len(),
            self.transport,
            steps.len()
        );
        Running::start(&arguments)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drawers_over_two_servers_on_one_redis() {
    println!("\nTwo drawers, two servers, one Redis");
    let Some(parts) = parts() else { return };
    let redis = RedisServer::durable();
    let url = redis.url();
    let servers = [Process::keeping(&["--redis", &url]), Process::keeping(&["--redis", &url])];
    let addresses = [servers[0].address, servers[1].address];
    say!("two servers, {} and {}, keep their draws in one Redis at {url}", addresses[0], addresses[1]);
    demonstrate(&parts, addresses, "two-servers-on-redis").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_drawers_over_one_server_with_its_own_store() {
    println!("\nTwo drawers, one server with its own store");
    let Some(parts) = parts() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = Process::keeping(&["--data", &folder.path().display().to_string()]);
    say!(
        "one server, {}, keeps its draws in a folder and syncs them to disk before each ack",
        server.address
    );
    demonstrate(&parts, [server.address, server.address], "one-server").await;
}

/// Who draws what; `None` where there is no recorded ink, which is said.
fn parts() -> Option<[Part; 2]> {
    let Some((inkml, json)) = recorded::files("inkml").zip(recorded::files("json")) else {
        say!("SKIPPED: there is no recorded ink beside the project, in ../shared/data/ink");
        return None;
    };
    let (ada, ben) = ("Ada", "Ben");
    Some([
        Part { name: ada, transport: "ws", colour: "1f4e79", offset: (0, 0), files: inkml },
        Part { name: ben, transport: "poll", colour: "b03a2e", offset: (0, 960), files: json },
    ])
}

async fn demonstrate(parts: &[Part; 2], [a, b]: [SocketAddr; 2], name: &str) {
    let steps = [parts[0].steps(), parts[1].steps()];
    // One more is the clear by which everyone's presence is seen.
    let count = 1 + steps[0].len() + steps[1].len();
    let began = Instant::now();

    say!("four readers come:");
    let watch = |over: &str, how: &str, address: SocketAddr| {
        say!("  inkrelay watch --transport {over} {how}, at {address}");
        let (server, count) = (format!("http://{address}"), count.to_string());
        let place = ["watch", ROOM, "--server", &server];
        Running::start(&[&place[..], &["--transport", over, how, "--count", &count]].concat())
    };
    let socket = watch("ws", "--hex", a);
    let polls = watch("poll", "--hex", b);
    let events = watch("sse", "--json", a);
    say!("  a WebSocket that speaks JSON, at {b}");
    let texts = Reader::start("JSON", Over::WebSocketJson, b, ROOM);
    let cleared = Http::new(a, ROOM).post(batch(&[Draw::Clear]), None).await.unwrap();
    assert_eq!(cleared.0, 200, "{}", cleared.1);
    eventually("all four have the first record", async || {
        texts.len() > 0 && [&socket, &polls, &events].iter().all(|reader| reader.lines() > 0)
    })
    .await;

    let drawers = [parts[0].start(a, &steps[0]), parts[1].start(b, &steps[1])];
    eventually("half is drawn", async || socket.lines() >= count / 2).await;
    say!("when {} records are there, another reader comes late:", socket.lines());
    let late = watch("ws", "--hex", b);
    for drawer in drawers {
        drawer.finish().await.iter().for_each(|line| say!("the drawer says: {line}"));
    }
    let socket = from_hex(&socket.finish().await);
    let polls = from_hex(&polls.finish().await);
    let late = from_hex(&late.finish().await);
    let events = events.finish().await;
    eventually("the JSON reader has everything", async || texts.len() == count).await;
    say!("all have their {count} records after {:.1} s", began.elapsed().as_secs_f64());

    assert!(polls == socket, "the long poll has other bytes than the WebSocket");
    assert!(late == socket, "the late one has other bytes than the WebSocket");
    say!("WebSocket, long poll and the late one have the same bytes in the same order");
    let told: Vec<String> = socket.iter().map(|record| to_json(record)).collect();
    assert!(told == events, "the events tell other records than the WebSocket");
    let texts = texts.log();
    assert!(texts.all() == socket, "the WebSocket in JSON tells other records than the one in MessagePack");
    say!("events and the WebSocket in JSON tell the same records in the same order");
    assert_numbered(&socket);

    let pictures =
        [("first", a), ("second", b)].map(|(which, address)| (which, board_of(address, which, name)));
    let expected = picture(&socket);
    for (which, board) in pictures {
        assert!(board.await == expected, "the {which} server draws another picture than the readers");
    }
    let events: Vec<Vec<u8>> =
        events.iter().map(|line| record_of(&serde_json::from_str::<Value>(line).unwrap())).collect();
    for (who, records) in
        [("long poll", &polls), ("late one", &late), ("events", &events), ("JSON", &texts.all().to_vec())]
    {
        assert!(picture(records) == expected, "the {who} reader draws another picture");
    }
    say!("both servers and all five readers draw the same picture, {} bytes of SVG", expected.len());
    assert_ink(&board(&socket), &steps);
    say!("every stroke on it is as it stands in the files, point for point");
    say!("look at it: {}", picture_path(name).display());
}

/// The picture that `inkrelay board` draws. The first server's is left to be looked at.
async fn board_of(address: SocketAddr, which: &str, name: &str) -> String {
    let kept = picture_path(name);
    let path = if which == "first" { kept } else { kept.with_extension(format!("{which}.svg")) };
    let (server, svg) = (format!("http://{address}"), path.display().to_string());
    let said = Running::start(&["board", ROOM, "--server", &server, "--svg", &svg]).finish().await;
    said.iter().for_each(|line| say!("inkrelay board: {line}"));
    let picture = std::fs::read_to_string(&path).unwrap();
    if which != "first" {
        std::fs::remove_file(Path::new(&path)).unwrap();
    }
    picture
}

/// Every author's draws stand in the order of their numbers, without gaps.
fn assert_numbered(records: &[Vec<u8>]) {
    let mut newest = std::collections::HashMap::new();
    for record in records {
        let Identity { author, n, .. } = Record::parse(record).unwrap().identity;
        if !author.is_anonymous() {
            let before = newest.insert(author, n).unwrap_or(0);
            assert_eq!(n, before + 1, "the number after {before} of {author}");
        }
    }
    assert_eq!(newest.len(), 2, "two drew");
}

/// The board shows what stands in the files, and nothing else.
fn assert_ink(board: &Board, parts: &[Vec<Step>; 2]) {
    let nobody = ClientId::new(1).unwrap();
    let mut shown: Vec<Vec<Stroke>> = Vec::new();
    for stroke in board.strokes() {
        match shown.iter_mut().find(|strokes| strokes[0].author == stroke.author) {
            Some(strokes) => strokes.push(stroke.clone()),
            None => shown.push(vec![stroke.clone()]),
        }
    }
    shown.iter_mut().flatten().for_each(|stroke| stroke.author = nobody);
    let mut expected: Vec<Vec<Stroke>> = Vec::new();
    for steps in parts {
        let mut alone = Board::new();
        for (n, step) in (1..).zip(steps) {
            let identity = Identity { author: nobody, n, at: 0 };
            alone.apply(&Record { identity, draw: &step.draw.to_bytes() });
        }
        expected.push(alone.strokes().cloned().collect());
    }
    let by_colour = |strokes: &Vec<Stroke>| strokes[0].style.rgba;
    shown.sort_by_key(by_colour);
    expected.sort_by_key(by_colour);
    assert!(shown == expected, "the board shows something else than the files");
}

fn from_hex(lines: &[String]) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    lines.iter().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

fn to_json(record: &[u8]) -> String {
    let mut out = Vec::new();
    json::from_msgpack(record, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}
