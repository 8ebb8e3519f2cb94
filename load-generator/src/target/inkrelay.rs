//! A relay of this project.

use async_trait::async_trait;

use crate::measure::Answers;
use crate::target::http::{Address, Poller, Poster};
use crate::target::sse::Events;
use crate::target::websocket::{self, SocketDrawer, SocketReader};
use crate::target::{Broken, Drawer, Reader, Target, Transport};

/// Speaks the wire of `protocol/PROTOCOL.md`.
#[derive(Debug)]
pub struct Inkrelay {
    address: Address,
    transport: Transport,
}

impl Inkrelay {
    /// At `http://host:port`.
    ///
    /// # Errors
    /// When the address is none.
    pub fn new(server: &str, transport: Transport) -> Result<Self, Broken> {
        Ok(Self { address: Address::parse(server)?, transport })
    }
}

#[async_trait]
impl Target for Inkrelay {
    fn name(&self) -> String {
        let transport = match self.transport {
            Transport::Ws => "ws",
            Transport::Poll => "poll",
            Transport::Sse => "sse",
        };
        format!("inkrelay {transport}")
    }

    async fn reader(&self, room: &str, place: Option<&str>) -> Result<Box<dyn Reader>, Broken> {
        Ok(match self.transport {
            Transport::Ws => Box::new(SocketReader::open(&self.address, room, place).await?),
            Transport::Poll => Box::new(Poller::new(self.address.clone(), room, place)),
            Transport::Sse => Box::new(Events::open(self.address.clone(), room, place).await?),
        })
    }

    async fn drawer(&self, room: &str, answers: Answers) -> Result<Box<dyn Drawer>, Broken> {
        Ok(match self.transport {
            Transport::Ws => Box::new(SocketDrawer::open(&self.address, room, answers).await?),
            Transport::Poll | Transport::Sse => Box::new(Poster::new(self.address.clone(), room, answers)),
        })
    }

    async fn participant(
        &self,
        room: &str,
        answers: Answers,
    ) -> Result<(Box<dyn Reader>, Box<dyn Drawer>), Broken> {
        if self.transport != Transport::Ws {
            return Ok((self.reader(room, None).await?, self.drawer(room, answers).await?));
        }
        let (reader, drawer) = websocket::participant(&self.address, room, answers).await?;
        Ok((Box::new(reader), Box::new(drawer)))
    }
}
