//! The physical limit: a loop that copies bytes from one socket to many, without any protocol, and how to speak to
//! it. What a server costs is told as a multiple of it.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream as StdStream};

use async_trait::async_trait;
use inkrelay_protocol::msgpack::Reader as Msgpack;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::measure::Answers;
use crate::target::http::Address;
use crate::target::{Arrived, Broken, Drawer, Reader, Take, Target};

/// What a reader says first, and hears back when it is served.
const READER: u8 = b'r';
/// What the drawer says first.
const DRAWER: u8 = b'd';
/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Accepts readers until a drawer comes, and then writes what it sends to each of them, in one thread, until it
/// leaves. The next reader begins a new round.
///
/// # Errors
/// When it cannot accept. A reader that goes away is left out.
pub fn serve(listener: &TcpListener) -> std::io::Result<()> {
    let mut readers: Vec<StdStream> = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut is_over = false;
    loop {
        let (mut socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let mut first = [0];
        if socket.read_exact(&mut first).is_err() {
            continue;
        }
        if first != [DRAWER] {
            if std::mem::take(&mut is_over) {
                readers.clear();
            }
            if socket.write_all(&[READER]).is_ok() {
                readers.push(socket);
            }
            continue;
        }
        loop {
            let len = socket.read(&mut buffer).unwrap_or(0);
            if len == 0 {
                break;
            }
            readers.retain_mut(|reader| reader.write_all(&buffer[..len]).is_ok());
        }
        is_over = true;
    }
}

/// Speaks to [`serve`]. It has one room and one drawer, and keeps nothing.
#[derive(Debug)]
pub struct Bare {
    address: Address,
}

impl Bare {
    /// At `http://host:port`; there is no HTTP, but addresses look alike everywhere.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(server: &str) -> Result<Self, Broken> {
        Ok(Self { address: Address::parse(server)? })
    }
}

#[async_trait]
impl Target for Bare {
    fn name(&self) -> String {
        "bare loop".to_owned()
    }

    fn keeps_log(&self) -> bool {
        false
    }

    async fn reader(&self, _room: &str, _place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        let mut socket = self.address.connect().await?;
        socket.write_all(&[READER]).await?;
        let mut served = [0];
        socket.read_exact(&mut served).await?;
        Ok(Box::new(BareReader { socket, buffer: Vec::new(), bytes: 0 }))
    }

    async fn drawer(&self, _room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken> {
        let mut socket = self.address.connect().await?;
        socket.write_all(&[DRAWER]).await?;
        Ok(Box::new(BareDrawer { socket, answers }))
    }
}

struct BareDrawer {
    socket: TcpStream,
    answers: Answers,
}

#[async_trait]
impl Drawer for BareDrawer {
    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken> {
        self.socket.write_all(draw).await?;
        // TCP loses nothing as long as both ends live.
        self.answers.assume_stored(number);
        Ok(())
    }

    async fn settle(&mut self, _within: std::time::Duration) {}
}

struct BareReader {
    socket: TcpStream,
    buffer: Vec<u8>,
    bytes: u64,
}

#[async_trait]
impl Reader for BareReader {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        self.buffer.reserve(1024);
        let len = self.socket.read_buf(&mut self.buffer).await?;
        if len == 0 {
            return Err(Broken::new("the loop closed the connection"));
        }
        self.bytes += len as u64;
        let mut used = 0;
        loop {
            let mut reader = Msgpack::new(&self.buffer[used..]);
            let Ok(draw) = reader.raw() else { break };
            used += draw.len();
            take(Arrived { seq: None, draw });
        }
        self.buffer.drain(..used);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
