//! A TCP proxy that does to a connection what networks do: it forwards, swallows and cuts, as a test says.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

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
    accepting: JoinHandle<()>,
    /// Dropped with the proxy, which ends every connection.
    _open: watch::Sender<()>,
}

impl Proxy {
    /// In front of a loopback port.
    pub async fn start(port: u16, rule: Arc<Rule>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let (open, closed) = watch::channel(());
        let accepting = tokio::spawn(async move {
            for number in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                let (rule, closed) = (Arc::clone(&rule), closed.clone());
                tokio::spawn(serve(number, client, port, rule, closed));
            }
        });
        Self { address, accepting, _open: open }
    }

    /// `redis://127.0.0.1:PORT/`.
    pub fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Where it listens.
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
    mut closed: watch::Receiver<()>,
) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one way ends, both do: dropping all four halves closes both sockets.
    tokio::select! {
        () = pump(from_client, to_server, |bytes| rule(number, Direction::ToServer, bytes)) => {}
        () = pump(from_server, to_client, |bytes| rule(number, Direction::ToClient, bytes)) => {}
        _ = closed.changed() => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, decide: impl Fn(&[u8]) -> Fate) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(len @ 1..) = from.read(&mut buffer).await {
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
