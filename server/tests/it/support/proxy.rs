//! A TCP proxy that does to a connection what networks do: it forwards, swallows and cuts, as a test says.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Bytes that a slow line takes before it has sent them on.
const SLOW_BUFFER_BYTES: u32 = 8 * 1024;
/// A slow line sends that often.
const SLOW_BEATS_PER_SECOND: usize = 50;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// They go on.
    Forward,
    /// They vanish, and the connection stays.
    Swallow,
    /// They vanish, and the connection is closed on both sides.
    Cut,
}

/// Decides over what was read at once from the connection of that number, counted from 0.
pub type Rule = dyn Fn(usize, Direction, &[u8]) -> Fate + Send + Sync;

/// Listens on a free loopback port until it is dropped, and then ends its connections.
pub struct Proxy {
    address: SocketAddr,
    /// The port that it leads to.
    port: Arc<AtomicU16>,
    accepting: JoinHandle<()>,
    /// Sent to, or dropped with the proxy, it ends every connection.
    open: watch::Sender<()>,
}

impl Proxy {
    /// In front of a loopback port.
    pub async fn start(port: u16, rule: Arc<Rule>) -> Self {
        Self::listen(port, rule, None).await
    }

    /// In front of a loopback port, as a line over which so many bytes a second come from the server.
    pub async fn slow(port: u16, bytes_per_second: usize) -> Self {
        Self::listen(port, Arc::new(|_, _, _| Fate::Forward), Some(bytes_per_second)).await
    }

    async fn listen(port: u16, rule: Arc<Rule>, bytes_per_second: Option<usize>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (open, closed) = watch::channel(());
        let port = Arc::new(AtomicU16::new(port));
        let leads_to = Arc::clone(&port);
        let accepting = tokio::spawn(async move {
            for number in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                let (rule, mut closed) = (Arc::clone(&rule), closed.clone());
                closed.mark_unchanged();
                let port = leads_to.load(Ordering::Relaxed);
                tokio::spawn(serve(number, client, port, rule, bytes_per_second, closed));
            }
        });
        Self { address, port, accepting, open }
    }

    /// Leads new connections to another port; those that are open stay where they are.
    pub fn lead_to(&self, port: u16) {
        self.port.store(port, Ordering::Relaxed);
    }

    /// `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Ends every connection that is open now.
    pub fn break_all(&self) {
        self.open.send_replace(());
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(
    number: usize,
    client: TcpStream,
    port: u16,
    rule: Arc<Rule>,
    bytes_per_second: Option<usize>,
    mut closed: watch::Receiver<()>,
) {
    let socket = TcpSocket::new_v4().expect("a socket can be made");
    if bytes_per_second.is_some() {
        // So that the kernel does not take at once what the line has no room for.
        socket.set_recv_buffer_size(SLOW_BUFFER_BYTES).expect("a buffer can be made small");
    }
    let Ok(server) = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one way ends, both do: dropping all four halves closes both sockets.
    tokio::select! {
        () = pump(from_client, to_server, None, |bytes| rule(number, Direction::ToServer, bytes)) => {}
        () = pump(from_server, to_client, bytes_per_second, |bytes| rule(number, Direction::ToClient, bytes)) => {}
        _ = closed.changed() => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    bytes_per_second: Option<usize>,
    decide: impl Fn(&[u8]) -> Fate,
) {
    let mut buffer = vec![0; bytes_per_second.map_or(64 * 1024, |rate| rate / SLOW_BEATS_PER_SECOND)];
    let mut beat = tokio::time::interval(Duration::from_secs(1) / SLOW_BEATS_PER_SECOND as u32);
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
        if bytes_per_second.is_some() {
            beat.tick().await;
        }
        match decide(&buffer[..len]) {
            Fate::Forward => {
                if to.write_all(&buffer[..len]).await.is_err() {
                    return;
                }
            }
            Fate::Swallow => {}
            Fate::Cut => return,
        }
    }
}
