//! The encryption of one WebSocket: what the outlet sends through, and what the wire reads from.
//!
//! Neither queues anything here. What is written is encrypted when the kernel has taken all that was encrypted before,
//! and it counts as written only when the kernel has taken it too; until then whoever writes offers the same bytes again.
//! So one bounded piece of ciphertext waits at most, and the outlet counts as waiting what is not sent.

use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::task::{Context, Poll, ready};

use rustls::ServerConnection;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;

use crate::lock::lock;

/// See the module's documentation.
pub(super) struct Cipher(Mutex<State>);

struct State {
    session: ServerConnection,
    /// Bytes that were offered and are encrypted, while the kernel has not taken all of them.
    held: usize,
}

impl Cipher {
    /// Of a session that has shaken hands.
    pub(super) const fn new(session: ServerConnection) -> Self {
        Self(Mutex::new(State { session, held: 0 }))
    }

    /// Sends the first of these bytes without waiting, and returns how many.
    ///
    /// # Errors
    /// `WouldBlock` when the kernel has not taken all: offer the same bytes again, and any that follow, when it can take
    /// more. Others when the connection is gone.
    pub(super) fn try_write(&self, socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
        let mut state = lock(&self.0);
        if state.held == 0 {
            state.send(socket)?;
            // As many as the session's limit lets in.
            state.held = state.session.writer().write(bytes)?;
        }
        state.send(socket)?;
        Ok(std::mem::take(&mut state.held))
    }

    /// Reads what the client says, as [`tokio::io::AsyncRead::poll_read`].
    pub(super) fn poll_read(
        &self,
        socket: &TcpStream,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let read = lock(&self.0).read(socket, into.initialize_unfilled());
            match read {
                Ok(len) => {
                    into.advance(len);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
            // Also what makes way for others now and then, when somebody sends records that hold nothing.
            ready!(socket.poll_read_ready(context))?;
        }
    }

    /// Tells the client that nothing follows (RFC 8446, section 6.1), if the kernel takes it.
    pub(super) fn close(&self, socket: &TcpStream) {
        let mut state = lock(&self.0);
        state.session.send_close_notify();
        // A client that takes nothing does not need to know.
        drop(state.send(socket));
    }
}

impl State {
    /// Sends all that is encrypted.
    fn send(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut Unwaiting(socket))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Reads what has come. `WouldBlock` when that is nothing, or not enough to be decrypted.
    fn read(&mut self, socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        match self.session.reader().read(into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            result => return result,
        }
        self.session.read_tls(&mut Unwaiting(socket))?;
        let processed = self.session.process_new_packets();
        // What the session itself has to say to that goes out, if the kernel takes it, and else with what is sent next.
        drop(self.send(socket));
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        self.session.reader().read(into)
    }
}

/// A socket that says `WouldBlock` where it would have to be waited for.
struct Unwaiting<'s>(&'s TcpStream);

impl Read for Unwaiting<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(into)
    }
}

impl Write for Unwaiting<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
