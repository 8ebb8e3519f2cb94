//! A connection over HTTP: its writes are bounded in time, and it is closed without losing its last answer.
//!
//! Closing a socket with bytes that nobody has read resets the connection, and the reset may overtake the
//! answer: a client that is still sending a body that is too large would see a broken pipe, and no 413.

use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::{Sleep, sleep, timeout};

/// What a client still sends after the last answer is read and dropped for so long,
const LINGER_TIME: Duration = Duration::from_secs(2);
/// and only until it has sent nothing for so long.
const QUIET_TIME: Duration = Duration::from_millis(500);
/// Connections that linger at the same time; others beyond them are just closed.
const LINGERING: usize = 256;

/// Bounds how many connections linger.
#[derive(Clone)]
pub struct Farewells(Arc<Semaphore>);

impl Farewells {
    /// With none that lingers.
    pub fn new() -> Self {
        Self(Arc::new(Semaphore::new(LINGERING)))
    }

    /// Sends nothing more on a connection, and closes it when the client has sent what it was about to.
    pub fn linger(&self, mut stream: impl AsyncRead + AsRef<TcpStream> + Unpin + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Ok(permit) = Arc::clone(&self.0).try_acquire_owned() else { return };
        if socket2::SockRef::from(stream.as_ref()).shutdown(Shutdown::Write).is_err() {
            return; // The client is gone.
        }
        runtime.spawn(async move {
            let rest = async {
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

/// See the module's documentation.
pub struct Lingering {
    /// There until it is dropped, or goes on without HTTP.
    stream: Option<Whole>,
    farewells: Farewells,
    /// Nothing more can come.
    is_at_end: bool,
    /// How long the client may take nothing of what is written.
    write_time: Duration,
    /// Since it takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

/// A stream that is not split.
struct Whole(TcpStream);

impl AsRef<TcpStream> for Whole {
    fn as_ref(&self) -> &TcpStream {
        &self.0
    }
}

impl AsyncRead for Whole {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl Lingering {
    /// Lingers when it is dropped.
    pub fn new(stream: TcpStream, write_time: Duration, farewells: Farewells) -> Self {
        Self { stream: Some(Whole(stream)), farewells, is_at_end: false, write_time, stalled: None }
    }

    /// Waits for the first byte, and leaves it to be read. `None` when nothing comes.
    pub async fn first_byte(&mut self) -> std::io::Result<Option<u8>> {
        let mut byte = [0];
        Ok((self.stream().peek(&mut byte).await? > 0).then_some(byte[0]))
    }

    /// Goes on without HTTP; whoever takes it over sees to its end.
    pub fn into_parts(mut self) -> (TcpStream, Farewells) {
        let Whole(stream) = self.stream.take().expect("it is taken only once");
        (stream, self.farewells.clone())
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(&mut self.stream.as_mut().expect("it is taken only when this ends").0)
    }

    /// A write that has to wait has so long.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if polled.is_ready() {
            self.stalled = None;
            return polled;
        }
        let write_time = self.write_time;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(write_time)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()))
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take().filter(|_| !self.is_at_end) {
            self.farewells.linger(stream);
        }
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
        let polled = self.stream().poll_write(context, bytes);
        self.bounded(context, polled)
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
        let polled = self.stream().poll_write_vectored(context, slices);
        self.bounded(context, polled)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}
