//! A connection that is closed without losing its last answer.
//!
//! Closing a socket with bytes that nobody has read resets the connection, and the reset may overtake the
//! answer: a client that is still sending a body that is too large would see a broken pipe, and no 413.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;

/// What a client still sends after the last answer is read and dropped for so long,
const LINGER_TIME: Duration = Duration::from_secs(2);
/// and only until it has sent nothing for so long.
const QUIET_TIME: Duration = Duration::from_millis(500);
/// Connections that linger at the same time; others beyond them are just closed.
const LINGERING: usize = 256;

type Stream = Pin<Box<TimeoutStream<TcpStream>>>;

/// Bounds how many connections linger.
#[derive(Clone)]
pub struct Farewells(Arc<Semaphore>);

impl Farewells {
    /// With none that lingers.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(LINGERING)))
    }
}

/// See the module's documentation.
pub struct Lingering {
    /// There until it is dropped.
    stream: Option<Stream>,
    farewells: Farewells,
    /// Nothing more can come.
    is_at_end: bool,
}

impl Lingering {
    /// Lingers when it is dropped.
    pub fn new(stream: TimeoutStream<TcpStream>, farewells: Farewells) -> Self {
        Self { stream: Some(Box::pin(stream)), farewells, is_at_end: false }
    }

    fn stream(&mut self) -> Pin<&mut TimeoutStream<TcpStream>> {
        self.stream.as_mut().expect("it is taken only when this is dropped").as_mut()
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(mut stream) = self.stream.take().filter(|_| !self.is_at_end) else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(permit) = Arc::clone(&self.farewells.0).try_acquire_owned() else { return };
        runtime.spawn(async move {
            let rest = async {
                stream.shutdown().await?;
                let mut sink = [0; 4096];
                while timeout(QUIET_TIME, stream.read(&mut sink)).await?? > 0 {}
                std::io::Result::Ok(())
            };
            // Whether the answer arrives is up to the client from here.
            drop(timeout(LINGER_TIME, rest).await);
            drop(permit);
        });
    }
}

impl AsyncRead for Lingering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = into.filled().len();
        let polled = self.stream().poll_read(context, into);
        if let Poll::Ready(result) = &polled {
            self.is_at_end |= result.is_err() || (into.filled().len() == before && into.remaining() > 0);
        }
        polled
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.stream().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stream().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stream().poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        self.stream().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(|stream| stream.is_write_vectored())
    }
}
