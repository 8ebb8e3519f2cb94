//! Everyone who is there while things are killed, and what must hold of them in the end.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use inkrelay_client::client::Transport;
use inkrelay_client::ink::{InkStyle, Replay};
use inkrelay_protocol::{Draw, Seq};

use super::command::Running;
use super::drawer::Drawer;
use super::reader::{Over, Reader};
use super::{ROOM, picture, picture_path, recorded, say};
use crate::support::PATIENCE;
use crate::support::ledger::{Fault, Ledger, Outcome, ReaderLog};
use crate::support::proxy::{Fate, Proxy};
use crate::support::reader::fresh_log;

/// Everyone goes on when so many more draws of each drawer were answered, and each reader has so many more records.
const GOES_ON: usize = 15;
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How much is asked of a test; more for trying by hand.
#[derive(Clone, Copy)]
pub struct Strength {
    /// How often something is killed: `INKRELAY_DEMONSTRATION_KILLS`.
    pub kills: usize,
    /// Drawers for each transport at each server: `INKRELAY_DEMONSTRATION_DRAWERS`.
    pub drawers: usize,
}

impl Strength {
    /// Ten kills and one drawer, unless the environment says otherwise.
    pub fn from_environment() -> Self {
        let read = |name: &str, default| {
            let text = std::env::var(format!("INKRELAY_DEMONSTRATION_{name}"));
            text.map_or(default, |text| text.parse().expect("a number of kills or drawers"))
        };
        Self { kills: read("KILLS", 10), drawers: read("DRAWERS", 1) }
    }
}

/// See the module's documentation.
pub struct Stage {
    addresses: Vec<SocketAddr>,
    ledger: Arc<Ledger>,
    drawers: Vec<Drawer>,
    readers: Vec<Reader>,
    proxies: Vec<(Proxy, Arc<AtomicBool>)>,
    /// What those drew who will not offer it again.
    left_behind: HashSet<u64>,
    /// Whether the store forgets what it acked when it is killed.
    pub store_forgets: bool,
    /// The longest that it took until everyone went on.
    longest: Duration,
    began: Instant,
}

impl Stage {
    /// At every server a reader for each transport, and drawers for both that the library has, one of them over a
    /// connection that can be cut.
    pub async fn start(addresses: &[SocketAddr], strength: Strength) -> Self {
        let ledger = Arc::new(Ledger::default());
        let (mut drawers, mut readers, mut proxies) = (Vec::new(), Vec::new(), Vec::new());
        for (server, address) in addresses.iter().enumerate() {
            for over in Over::ALL {
                readers.push(Reader::start(format!("{} at {server}", over.name()), over, *address, ROOM));
            }
            let is_cut = Arc::new(AtomicBool::new(false));
            let cut = Arc::clone(&is_cut);
            let rule = move |_, _, _: &[u8]| {
                if cut.swap(false, Ordering::Relaxed) { Fate::Cut } else { Fate::Forward }
            };
            let proxy = Proxy::start(address.port(), Arc::new(rule)).await;
            for number in 0..strength.drawers {
                for transport in [Transport::WebSocket, Transport::LongPoll] {
                    // So that each transport is cut at one of the servers.
                    let is_behind_proxy = (transport == Transport::WebSocket) == (server == 0);
                    let at = if is_behind_proxy { proxy.address() } else { *address };
                    let name = format!("{transport:?} drawer {number} at {server}");
                    let draws = ink(drawers.len());
                    drawers.push(Drawer::start(name, transport, at, ROOM, &ledger, draws));
                }
            }
            proxies.push((proxy, is_cut));
        }
        say!("{} drawers draw at a pen's pace, {} readers follow", drawers.len(), readers.len());
        let addresses = addresses.to_vec();
        let (longest, began) = (Duration::ZERO, Instant::now());
        let (left_behind, store_forgets) = (HashSet::new(), false);
        Self { addresses, ledger, drawers, readers, proxies, left_behind, store_forgets, longest, began }
    }

    /// One who draws for a moment, until [`Stage::leave`].
    pub fn visitor(&self, number: usize) -> Drawer {
        let address = self.addresses[number % self.addresses.len()];
        let transport = if number % 4 < 2 { Transport::WebSocket } else { Transport::LongPoll };
        let draws = ink(self.drawers.len() + number);
        Drawer::start(format!("visitor {number}"), transport, address, ROOM, &self.ledger, draws)
    }

    /// The visitor is gone, without waiting for answers.
    pub async fn leave(&mut self, visitor: Drawer) {
        self.left_behind.extend(visitor.vanish().await);
    }

    /// Cuts one of the connections that go through that server's proxy, as soon as there is something on it.
    pub fn cut(&self, server: usize) {
        self.proxies[server].1.store(true, Ordering::Relaxed);
    }

    /// Waits until everyone goes on: drawers are answered, and readers are told. Returns how long that took.
    ///
    /// # Panics
    /// When somebody does not within [`PATIENCE`].
    pub async fn goes_on(&mut self) -> Duration {
        let counts = || -> Vec<(String, usize)> {
            let drawers = self.drawers.iter().map(|drawer| (drawer.name.clone(), drawer.answered()));
            let told =
                self.drawers.iter().map(|drawer| (format!("{} as a reader", drawer.name), drawer.len()));
            drawers
                .chain(told)
                .chain(self.readers.iter().map(|reader| (reader.name.clone(), reader.len())))
                .collect()
        };
        let (before, since) = (counts(), Instant::now());
        loop {
            let now = counts();
            let waits = |((_, before), (name, now)): (&(String, usize), &(String, usize))| {
                (*now < before + GOES_ON).then(|| format!("{name}: {now} after {before}"))
            };
            let waiting: Vec<String> = before.iter().zip(&now).filter_map(waits).collect();
            if waiting.is_empty() {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "these do not go on: {waiting:#?}");
            tokio::time::sleep(LOOK).await;
        }
        let took = since.elapsed();
        self.longest = self.longest.max(took);
        took
    }

    /// Ends the drawing, and checks what everyone has. `stored` are the records as the store itself keeps them.
    pub async fn finish(mut self, name: &str, stored: impl AsyncFnOnce() -> Vec<Vec<u8>>) {
        for drawer in &mut self.drawers {
            drawer.finish().await;
        }
        let mut logs = Vec::new();
        for (server, address) in self.addresses.iter().enumerate() {
            logs.push(fresh_log(&format!("who comes last at {server}"), *address, ROOM).await);
        }
        let count = logs[0].len();
        let has_all = || {
            let readers = self.readers.iter().map(|reader| (reader.name.clone(), reader.len()));
            let drawers = self.drawers.iter().map(|drawer| (drawer.name.clone(), drawer.len()));
            readers.chain(drawers).filter(|(_, len)| *len < count).collect::<Vec<_>>()
        };
        let until = Instant::now() + PATIENCE;
        while !has_all().is_empty() {
            assert!(Instant::now() < until, "of {count} records these have too few: {:?}", has_all());
            tokio::time::sleep(LOOK).await;
        }
        let mut pictures = Vec::new();
        for (server, address) in self.addresses.iter().enumerate() {
            pictures
                .push((format!("server {server}"), board_of(*address, &format!("{name}-{server}")).await));
        }
        let drawn_for = self.began.elapsed();
        logs.extend(self.readers.iter().map(Reader::log));
        logs.extend(self.drawers.iter().map(Drawer::log));
        let mut kept = ReaderLog::new("the store");
        kept.records(1, &stored().await);
        logs.push(kept);

        for log in &logs {
            assert_eq!(log.len(), count, "{log:.0?}");
        }
        let lost = self.check(&logs);
        let expected = picture(logs[0].all());
        for (who, picture) in pictures {
            assert!(picture == expected, "{who} draws another picture than the readers");
        }
        self.tell(count, logs.len(), drawn_for);
        if self.store_forgets {
            say!("of what the store forgot, everything was given back but {lost} draws of those who left");
        } else {
            say!("nothing acked is missing, nothing stands twice, nothing refused appears");
        }
        say!("look at it: {}", picture_path(&format!("{name}-0")).display());
    }

    /// Holds the ledger against everyone's log. Returns how many acked draws are missing, which they may be only of
    /// those who left, and only where the store forgets.
    fn check(&self, logs: &[ReaderLog]) -> usize {
        let mut faults = self.ledger.faults(&logs.iter().collect::<Vec<_>>());
        let mut lost = HashSet::new();
        if self.store_forgets {
            faults.retain(|fault| match fault {
                Fault::Lost { number, .. } if self.left_behind.contains(number) => {
                    lost.insert(*number);
                    false
                }
                // What is given back stands behind what others drew meanwhile.
                fault => !matches!(fault, Fault::Reordered { .. }),
            });
        }
        let some = &faults[..faults.len().min(5)];
        assert!(faults.is_empty(), "{} faults, of which the first: {some:#?}", faults.len());
        lost.len()
    }

    /// No reader was reset but to another epoch; returns how often that happened.
    pub fn resets(&self) -> usize {
        let mut resets = 0;
        for reader in &self.readers {
            for (before, after) in reader.resets() {
                // Who joined an empty log knows it by the epoch of all empty logs.
                let is_new =
                    after.seq == Seq::START || before.is_none_or(|before| before.epoch != after.epoch);
                assert!(is_new, "{} was reset within an epoch, from {before:?} to {after}", reader.name);
                resets += 1;
            }
        }
        resets + self.drawers.iter().map(|drawer| drawer.resets().len()).sum::<usize>()
    }

    fn tell(&self, count: usize, logs: usize, drawn_for: Duration) {
        let [acked, refused, unknown] =
            [Outcome::Acked, Outcome::Refused, Outcome::Unknown].map(|outcome| self.ledger.count(outcome));
        let connections: usize = self.drawers.iter().map(Drawer::connections).sum::<usize>()
            + self.readers.iter().map(Reader::connections).sum::<usize>();
        say!("{:.1} s, {connections} connections, {} resets", drawn_for.as_secs_f64(), self.resets());
        say!(
            "acked {acked} draws, refused {refused}, unknown {unknown} of those who left; the log has {count}"
        );
        say!("after a fault everyone went on within {} ms at most", self.longest.as_millis());
        say!("{logs} logs, of readers, drawers, late ones and the store: the same records in the same order");
    }
}

/// The picture that `inkrelay board` draws, left to be looked at.
async fn board_of(address: SocketAddr, name: &str) -> String {
    let (server, path) = (format!("http://{address}"), picture_path(name));
    let svg = path.display().to_string();
    Running::start(&["board", ROOM, "--server", &server, "--svg", &svg]).finish().await;
    std::fs::read_to_string(&path).unwrap()
}

/// The ink of one of several, each in a colour and at a place of their own.
fn ink(number: usize) -> impl Iterator<Item = Draw> + use<> {
    const COLOURS: [u32; 6] = [0x1f4e_79ff, 0xb03a_2eff, 0x1e84_49ff, 0x7d3c_98ff, 0xb967_0eff, 0x2e40_53ff];
    let strokes = recorded::strokes_or_spirals();
    let style = InkStyle { rgba: Some(COLOURS[number % COLOURS.len()]), ..InkStyle::default() };
    let offset = (number as i32 % 4 * 16 * 900, number as i32 / 4 * 16 * 900);
    recorded::endless(&strokes, Replay { style, offset })
}
