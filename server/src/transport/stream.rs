//! What HTTP is spoken over: a connection as it is, or an encrypted one.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::lingering::{Farewells, Lingering};
use super::tls::TlsStream;

/// See the module's documentation.
pub enum Stream {
    Plain(Lingering),
    /// Boxed: plain connections are to be no larger for it.
    Encrypted(Box<TlsStream>),
}

impl Stream {
    /// Goes on without HTTP; whoever takes it over encrypts, if there is a session, and sees to its end.
    pub fn into_parts(self) -> (TcpStream, Option<ServerConnection>, Farewells) {
        let (lingering, session) = match self {
            Self::Plain(lingering) => (lingering, None),
            Self::Encrypted(stream) => {
                let (lingering, session) = stream.into_inner();
                (lingering, Some(session))
            }
        };
        let (stream, farewells) = lingering.into_parts();
        (stream, session, farewells)
    }
}

/// Calls the same method of whichever it is.
macro_rules! either {
    ($stream:ident.$method:ident($($argument:expr),*)) => {
        match $stream.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).$method($($argument),*),
            Stream::Encrypted(stream) => Pin::new(stream.as_mut()).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.poll_read(context, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.poll_write(context, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.poll_shutdown(context))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        // Both can.
        true
    }
}
