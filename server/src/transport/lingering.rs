//! A connection that does not end while there is something unread in it.
//!
//! A socket that is closed with unread bytes is reset, and a reset may overtake what was written last: a client
//! that sends too much would never see why it was refused. So what it still sends is read and thrown away for a
//! moment, after it was told that nothing more will come.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// How long what still comes is thrown away, at most.
const LINGER_TIME: Duration = Duration::from_secs(2);
/// How much of it, at most.
const LINGER_BYTES: u64 = 64 * 1024 * 1024;
/// How much is read at a time.
const SINK_BYTES: usize = 16 * 1024;

/// See the module's documentation.
pub struct Lingering {
    /// `None` only while it is dropped.
    stream: Option<TcpStream>,
}

impl Lingering {
    pub const fn new(stream: TcpStream) -> Self {
        Self { stream: Some(stream) }
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut TcpStream> {
        Pin::new(self.get_mut().stream.as_mut().expect("it is taken only when this is dropped"))
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        let has_unread = stream.try_read(&mut [0; 1]).is_ok_and(|read| read > 0);
        // Outside of a runtime there is nobody who could wait.
        if let (true, Ok(runtime)) = (has_unread, tokio::runtime::Handle::try_current()) {
            runtime.spawn(linger(stream));
        }
    }
}

async fn linger(mut stream: TcpStream) {
    let throw_away = async {
        stream.shutdown().await?;
        let mut sink = vec![0; SINK_BYTES];
        let mut left = LINGER_BYTES;
        while left > 0 {
            match stream.read(&mut sink).await? {
                0 => break,
                read => left = left.saturating_sub(read as u64),
            }
        }
        io::Result::Ok(())
    };
    // However it ends, the connection ends.
    drop(tokio::time::timeout(LINGER_TIME, throw_away).await);
}

impl AsyncRead for Lingering {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
