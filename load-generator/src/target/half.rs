//! One TCP connection in the hands of two: one reads, the other writes. When either lets go, it ends for both.

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A hold on a connection. Others are made by cloning.
#[derive(Clone, Debug)]
pub struct Half(Arc<TcpStream>);

impl From<TcpStream> for Half {
    fn from(stream: TcpStream) -> Self {
        Self(Arc::new(stream))
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = SockRef::from(&*self.0).shutdown(Shutdown::Both);
    }
}

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.poll_read_ready(context))?;
            match self.0.try_read(into.initialize_unfilled()) {
                Ok(len) => {
                    into.advance(len);
                    return Poll::Ready(Ok(()));
                }
                // It was ready for somebody else; asked again, it wakes this task.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Half {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.poll_write_ready(context))?;
            match self.0.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&*self.0).shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn when_one_half_goes_the_other_reads_the_end() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (mut near, mut far) = (Half::from(near.unwrap()), far.unwrap().0);
        let mut other = near.clone();
        other.write_all(b"ink").await.unwrap();
        let mut got = [0; 3];
        far.read_exact(&mut got).await.unwrap();
        far.write_all(&got).await.unwrap();
        near.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"ink");
        drop(other);
        assert_eq!(near.read(&mut got).await.unwrap(), 0);
        assert_eq!(far.read(&mut got).await.unwrap(), 0);
        assert!(near.write_all(b"more").await.is_err());
    }
}
