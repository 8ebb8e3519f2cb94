//! A WebSocket's connection as the library sees it: reads come from the socket, writes go to the outlet.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::OwnedReadHalf;

use super::outlet::Outlet;
use crate::transport::lingering::Farewells;

/// See the module's documentation.
pub(super) struct Wire {
    /// There until it is dropped.
    socket: Option<OwnedReadHalf>,
    outlet: Arc<Outlet>,
    farewells: Farewells,
    /// Nothing more can come.
    is_at_end: bool,
}

impl Wire {
    pub(super) const fn new(socket: OwnedReadHalf, outlet: Arc<Outlet>, farewells: Farewells) -> Self {
        Self { socket: Some(socket), outlet, farewells, is_at_end: false }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let Some(socket) = self.socket.take() else { return };
        if let Some(cipher) = self.outlet.cipher() {
            cipher.close(socket.as_ref());
        }
        if !self.is_at_end {
            self.farewells.linger(socket);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let Self { socket, outlet, .. } = &mut *self;
        let socket = socket.as_mut().expect("it is taken only when this is dropped");
        let result = ready!(match outlet.cipher() {
            None => Pin::new(socket).poll_read(context, into),
            Some(cipher) => cipher.poll_read((*socket).as_ref(), context, into),
        });
        self.is_at_end |= result.is_err() || (into.filled().len() == before && into.remaining() > 0);
        Poll::Ready(result)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.outlet.poll_write(context, bytes).map_ok(|()| bytes.len())
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outlet.poll_send(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The sockets end when this and the outlet are dropped.
        self.poll_flush(context)
    }
}
