//! Two servers on one Redis behind nginx are restarted one after the other, as an operator brings in a new version,
//! while people draw over all transports and a crowd watches.
//!
//! A ledger tells whether anything was lost, doubled or out of order; and the crowd, when it came back: soon, and not
//! all at once.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use inkrelay_client::client::{Client, ClientConfig, Event, Transport};
use tokio::task::JoinHandle;

use crate::demonstration::kills::stored_in_redis;
use crate::demonstration::stage::{Stage, Strength};
use crate::support::eventually;
use crate::support::nginx::Nginx;
use crate::support::process::Process;
use crate::support::redis::RedisServer;

/// Who only watches, in rooms of [`TOGETHER`].
const CROWD: usize = 60;
const TOGETHER: usize = 12;
/// `--drain-time` of the servers.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// Beyond the drain time, until all are back.
const BACK_WITHIN: Duration = Duration::from_secs(5);
/// Of those who come back, at most [`AT_ONCE`] do so within any such time.
const MOMENT: Duration = Duration::from_millis(100);
/// The share; three times of what even spreading over their three seconds would be, and more for so few of them.
const AT_ONCE: f64 = 0.34;

/// When one of the crowd was connected, and whether it is.
#[derive(Debug, Default)]
struct Seen {
    connected: Vec<Instant>,
    is_there: bool,
}

/// One of the crowd. It leaves when it is dropped.
struct Watcher {
    seen: Arc<Mutex<Seen>>,
    _client: Client,
    following: JoinHandle<()>,
}

impl Watcher {
    fn start(server: &str, number: usize) -> Self {
        let room = format!("crowd-{}", number / TOGETHER).parse().expect("a room's name");
        let mut config = ClientConfig::new(server, room);
        config.transport = Transport::WebSocket;
        let (client, mut events) = Client::connect(config).expect("the address is a server's");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noted = Arc::clone(&seen);
        let following = tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                let mut seen = noted.lock().unwrap();
                match event {
                    Event::Connected { .. } => {
                        seen.connected.push(Instant::now());
                        seen.is_there = true;
                    }
                    Event::Disconnected { .. } => seen.is_there = false,
                    Event::Stopped(why) => panic!("one of the crowd gave up: {why}"),
                    _ => {}
                }
            }
        });
        Self { seen, _client: client, following }
    }

    fn is_there(&self) -> bool {
        self.seen.lock().unwrap().is_there
    }

    fn connected_since(&self, since: Instant) -> Vec<Duration> {
        let seen = self.seen.lock().unwrap();
        seen.connected.iter().filter_map(|at| at.checked_duration_since(since)).collect()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// How many of these times lie within one [`MOMENT`] at most.
fn most_at_once(times: &mut [Duration]) -> usize {
    times.sort_unstable();
    let within =
        |from: &Duration| times.iter().filter(|time| (*from..*from + MOMENT).contains(*time)).count();
    times.iter().map(within).max().unwrap_or(0)
}

/// Whether nginx passes a new request to that server, which has fewer connections than the other one.
async fn is_used(nginx: &Nginx, server: SocketAddr) -> bool {
    let before = nginx.access_log().len();
    let asked = reqwest::get(format!("http://{}/healthz", nginx.address)).await;
    let (is_answered, server) = (asked.is_ok_and(|answer| answer.status() == 200), server.to_string());
    is_answered
        && nginx.access_log()[before..]
            .lines()
            .any(|line| line.contains("/healthz") && line.contains(&server))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_restarted_in_turn_and_nobody_loses_a_draw() {
    println!("\nTwo servers on one Redis behind nginx are restarted one after the other");
    let redis = RedisServer::durable();
    let (url, drain) = (redis.url(), format!("{}s", DRAIN_TIME.as_secs()));
    let start = || Process::keeping(&["--redis", &url, "--drain-time", &drain]);
    let mut servers = [start(), start()];
    let nginx = Nginx::start([servers[0].address, servers[1].address]);
    let strength = Strength { kills: 0, drawers: 3 };
    let mut stage = Stage::start(&[nginx.address], strength).await;
    let server = format!("http://{}", nginx.address);
    let crowd: Vec<Watcher> = (0..CROWD).map(|number| Watcher::start(&server, number)).collect();
    let all_there = async || crowd.iter().all(Watcher::is_there);
    eventually("the crowd is there", all_there).await;

    for (index, server) in servers.iter_mut().enumerate() {
        stage.goes_on().await;
        let told = Instant::now();
        server.terminate();
        assert_eq!(server.ended().await, Some(0));
        let gone = told.elapsed();
        assert!(gone < DRAIN_TIME, "server {index} ended after {gone:?}: some had to be cut");
        tokio::task::block_in_place(|| server.restart());
        eventually("the crowd is there again", all_there).await;
        stage.goes_on().await;
        // As an operator waits: with the other one gone too, nginx would have nobody.
        let uses_it = async || is_used(&nginx, server.address).await;
        eventually("nginx sends people to it again", uses_it).await;

        let mut back: Vec<Duration> = crowd.iter().flat_map(|one| one.connected_since(told)).collect();
        assert!(back.len() >= CROWD / 4, "{} of {CROWD} had to move, which tells too little", back.len());
        let (last, at_once) = (back.iter().max().copied().unwrap_or_default(), most_at_once(&mut back));
        println!(
            "  server {index} was gone after {} ms; {} of {CROWD} came back within {} ms, {at_once} of them within {} ms",
            gone.as_millis(),
            back.len(),
            last.as_millis(),
            MOMENT.as_millis(),
        );
        assert!(last < DRAIN_TIME + BACK_WITHIN, "the last came back after {last:?}");
        assert!((at_once as f64) <= AT_ONCE * back.len() as f64, "{at_once} of {} came at once", back.len());
    }
    assert_eq!(stage.resets(), 0, "nothing was lost, so nobody is reset");
    stage.finish("rolling-restart", async || stored_in_redis(&redis)).await;
    let log = nginx.access_log();
    let refused: Vec<_> = log.lines().filter(|line| line.contains(" 503 ")).collect();
    assert_eq!(refused, [""; 0], "another server was there for everyone");
}
