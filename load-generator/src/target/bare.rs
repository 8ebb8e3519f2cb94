//! How to speak to the bare loop. What a server costs is told as a multiple of it.

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::bare_loop::{DRAWER, LENGTH_BYTES, READER};
use crate::measure::Answers;
use crate::target::half::Half;
use crate::target::http::Address;
use crate::target::{Arrived, Broken, Drawer, Reader, Take, Target};

/// Bytes read at once.
const READ_BYTES: usize = 16 * 1024;

/// Speaks to [`crate::bare_loop`], which keeps nothing.
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

async fn open(address: &Address, room: &str, kind: u8) -> Result<Half, Broken> {
    let mut socket = Half::from(address.connect().await?);
    let len = u8::try_from(room.len()).map_err(|_| Broken::new("a room's name has at most 255 bytes"))?;
    socket.write_all(&[&[kind, len], room.as_bytes()].concat()).await?;
    if kind == READER {
        let mut served = [0];
        socket.read_exact(&mut served).await?;
    }
    Ok(socket)
}

#[async_trait]
impl Target for Bare {
    fn name(&self) -> String {
        "bare loop".to_owned()
    }

    fn keeps_log(&self) -> bool {
        false
    }

    async fn reader(&self, room: &str, _place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        Ok(Box::new(BareReader::new(open(&self.address, room, READER).await?)))
    }

    async fn drawer(&self, room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken> {
        let socket = open(&self.address, room, DRAWER).await?;
        Ok(Box::new(BareDrawer::new(&self.address, room, answers, socket)))
    }

    async fn participant(
        &self,
        room: &str,
        answers: Answers,
    ) -> Result<(Box<dyn Reader>, Box<dyn Drawer>), Broken> {
        let socket = open(&self.address, room, READER).await?;
        let drawer = BareDrawer::new(&self.address, room, answers, socket.clone());
        Ok((Box::new(BareReader::new(socket)), Box::new(drawer)))
    }
}

struct BareDrawer {
    address: Address,
    room: String,
    answers: Answers,
    socket: Option<Half>,
    buffer: Vec<u8>,
}

impl BareDrawer {
    fn new(address: &Address, room: &str, answers: Answers, socket: Half) -> Self {
        let (address, room) = (address.clone(), room.to_owned());
        Self { address, room, answers, socket: Some(socket), buffer: Vec::new() }
    }
}

#[async_trait]
impl Drawer for BareDrawer {
    async fn ready(&mut self) -> Result<(), Broken> {
        if self.socket.is_none() {
            self.socket = Some(open(&self.address, &self.room, DRAWER).await?);
        }
        Ok(())
    }

    async fn draw(&mut self, number: u32, draw: &[u8]) -> Result<(), Broken> {
        let len = u16::try_from(draw.len()).map_err(|_| Broken::new("a draw has at most 65,535 bytes"))?;
        let mut socket = self.socket.take().ok_or_else(|| Broken::new("not connected"))?;
        self.buffer.clear();
        self.buffer.extend_from_slice(&len.to_be_bytes());
        self.buffer.extend_from_slice(draw);
        socket.write_all(&self.buffer).await?;
        self.socket = Some(socket);
        // TCP loses nothing as long as both ends live.
        self.answers.assume_stored(number);
        Ok(())
    }

    async fn settle(&mut self, _unanswered_max: usize, _within: std::time::Duration) {}
}

struct BareReader {
    socket: Half,
    buffer: BytesMut,
    bytes: u64,
}

impl BareReader {
    fn new(socket: Half) -> Self {
        Self { socket, buffer: BytesMut::new(), bytes: 0 }
    }
}

#[async_trait]
impl Reader for BareReader {
    async fn next(&mut self, take: &mut Take<'_>) -> Result<(), Broken> {
        self.buffer.reserve(READ_BYTES);
        let len = self.socket.read_buf(&mut self.buffer).await?;
        if len == 0 {
            return Err(Broken::new("the loop closed the connection"));
        }
        self.bytes += len as u64;
        while let Some((head, rest)) = self.buffer.split_first_chunk::<LENGTH_BYTES>() {
            let len = usize::from(u16::from_be_bytes(*head));
            let Some(draw) = rest.get(..len) else { break };
            take(Arrived { seq: None, author: None, draw });
            self.buffer.advance(LENGTH_BYTES + len);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
