//! The bare loop: one thread that copies what comes from one socket of a room to those that read there, and does
//! nothing else. It is the floor under every relay's cost.
//!
//! It keeps nothing, numbers nothing and answers nothing. All it knows are rooms, named in the first bytes of a
//! connection, and where a draw ends: each has its length before it, so that draws of several people stay whole.
//!
//! A connection begins with [`READER`] or [`DRAWER`], a byte that tells the length of the room's name, and the name. A
//! reader is answered with one byte when it is served, and may draw too. Then each draw is two bytes of its length,
//! the higher one first, and its bytes, both ways.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};

/// What somebody says first who reads.
pub const READER: u8 = b'r';
/// What somebody says first who only draws.
pub const DRAWER: u8 = b'd';
/// Bytes before each draw: its length.
pub const LENGTH_BYTES: usize = 2;

/// Bytes read at once; more than one draw has.
const READ_BYTES: usize = 128 * 1024;
/// Reads of one connection before others have their turn.
const READS_MAX: usize = 16;
/// Bytes that wait for a reader whose socket is full; one that lacks more is dropped.
const UNSENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes that wait in a room for its next flush; more are written at once.
const JOINED_BYTES_MAX: usize = 1024 * 1024;
/// Events taken at once.
const EVENTS: usize = 1024;
/// Rooms of one loop. They stay until it ends: a loop is for one run.
const ROOMS_MAX: usize = 1 << 16;

const LISTENER: Token = Token(usize::MAX);
/// Of every connection, for good: events tell of changes, and a socket that takes more makes none.
const OPEN: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Serves until something fails. With `flush` what comes within that time goes out in one write; otherwise each read is
/// written at once to each reader.
///
/// # Errors
/// When it can neither listen nor wait. Connections that break are left out.
pub fn serve(listener: std::net::TcpListener, flush: Duration) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let registry = poll.registry().try_clone()?;
    let mut bare = BareLoop {
        registry,
        flush,
        connections: Vec::new(),
        free: Vec::new(),
        rooms: Vec::new(),
        names: HashMap::new(),
        due: VecDeque::new(),
    };
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Events::with_capacity(EVENTS);
    loop {
        let wait = bare.due.front().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        match poll.poll(&mut events, wait) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            result => result?,
        }
        for event in &events {
            match event.token() {
                LISTENER => bare.accept(&listener)?,
                Token(index) => bare.on_event(index, event, &mut buffer)?,
            }
        }
        bare.flush_due();
    }
}

struct BareLoop {
    registry: Registry,
    flush: Duration,
    /// By token.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    rooms: Vec<Room>,
    names: HashMap<Vec<u8>, usize>,
    /// Rooms that are to be flushed, in that order.
    due: VecDeque<(Instant, usize)>,
}

struct Connection {
    socket: TcpStream,
    /// None until it has said which.
    room: Option<usize>,
    /// The beginning of something whose end has not come.
    rest: Vec<u8>,
    /// What the socket did not take.
    unsent: BytesMut,
}

#[derive(Default)]
struct Room {
    readers: Vec<usize>,
    /// What waits for the next flush.
    joined: Vec<u8>,
}

impl Connection {
    /// Writes, and says whether the connection is still of use.
    fn send(&mut self, bytes: &[u8]) -> bool {
        let mut left = bytes;
        while self.unsent.is_empty() && !left.is_empty() {
            match self.socket.write(left) {
                Ok(0) => return false,
                Ok(len) => left = &left[len..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        self.unsent.extend_from_slice(left);
        self.unsent.len() <= UNSENT_BYTES_MAX
    }

    /// Writes what waits, now that the socket takes some.
    fn send_unsent(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.socket.write(&self.unsent) {
                Ok(0) => return false,
                Ok(len) => self.unsent.advance(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
        true
    }
}

impl BareLoop {
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        loop {
            let mut socket = match listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if socket.set_nodelay(true).is_err() {
                continue;
            }
            let index = self.free.pop().unwrap_or(self.connections.len());
            self.registry.register(&mut socket, Token(index), OPEN)?;
            let connection = Connection { socket, room: None, rest: Vec::new(), unsent: BytesMut::new() };
            if index == self.connections.len() {
                self.connections.push(Some(connection));
            } else {
                self.connections[index] = Some(connection);
            }
        }
    }

    fn on_event(&mut self, index: usize, event: &Event, buffer: &mut [u8]) -> io::Result<()> {
        // It may have ended by an event before this one.
        let Some(connection) = &mut self.connections[index] else { return Ok(()) };
        if event.is_writable() && !connection.send_unsent() {
            self.close(index);
            return Ok(());
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read(index, event.is_read_closed() || event.is_error(), buffer)?;
        }
        Ok(())
    }

    /// Reads until there is no more. Where the end has come, nothing tells of it again.
    fn read(&mut self, index: usize, is_ending: bool, buffer: &mut [u8]) -> io::Result<()> {
        for _ in 0..READS_MAX {
            let Some(connection) = &mut self.connections[index] else { return Ok(()) };
            let kept = connection.rest.len();
            buffer[..kept].copy_from_slice(&connection.rest);
            match connection.socket.read(&mut buffer[kept..]) {
                Ok(0) => {
                    self.close(index);
                    return Ok(());
                }
                Ok(len) => {
                    connection.rest.clear();
                    if !self.take(index, &buffer[..kept + len]) {
                        self.close(index);
                        return Ok(());
                    }
                    // Fewer than asked for: there was no more, and the next will be told.
                    if kept + len < buffer.len() && !is_ending {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => {
                    self.close(index);
                    return Ok(());
                }
            }
        }
        // Registered anew, it is told again of what is left.
        match &mut self.connections[index] {
            Some(connection) => self.registry.reregister(&mut connection.socket, Token(index), OPEN),
            None => Ok(()),
        }
    }

    /// Takes what came, and says whether the connection is still of use.
    fn take(&mut self, index: usize, bytes: &[u8]) -> bool {
        let Some(connection) = &mut self.connections[index] else { return false };
        let (room, draws) = match connection.room {
            Some(room) => (room, bytes),
            None => {
                let Some((kind, name, draws)) = first_words(bytes) else {
                    connection.rest.extend_from_slice(bytes);
                    return true;
                };
                let Some(room) = room_of(&mut self.names, &mut self.rooms, name) else { return false };
                connection.room = Some(room);
                if kind == READER {
                    if !connection.send(&[READER]) {
                        return false;
                    }
                    self.rooms[room].readers.push(index);
                }
                (room, draws)
            }
        };
        let whole = whole_draws(draws);
        connection.rest.extend_from_slice(&draws[whole..]);
        if whole > 0 {
            if self.flush.is_zero() {
                self.pass(room, &draws[..whole]);
            } else {
                self.join(room, &draws[..whole]);
            }
        }
        true
    }

    fn join(&mut self, index: usize, draws: &[u8]) {
        let room = &mut self.rooms[index];
        if room.joined.is_empty() {
            self.due.push_back((Instant::now() + self.flush, index));
        }
        room.joined.extend_from_slice(draws);
        if room.joined.len() > JOINED_BYTES_MAX {
            self.flush_room(index);
        }
    }

    fn flush_due(&mut self) {
        while let Some((due, room)) = self.due.front().copied() {
            if due > Instant::now() {
                return;
            }
            self.due.pop_front();
            self.flush_room(room);
        }
    }

    fn flush_room(&mut self, index: usize) {
        let mut joined = std::mem::take(&mut self.rooms[index].joined);
        self.pass(index, &joined);
        joined.clear();
        self.rooms[index].joined = joined;
    }

    /// One write to each reader of a room.
    fn pass(&mut self, room: usize, draws: &[u8]) {
        let mut gone = Vec::new();
        for index in &self.rooms[room].readers {
            if let Some(connection) = &mut self.connections[*index]
                && !connection.send(draws)
            {
                gone.push(*index);
            }
        }
        for index in gone {
            self.close(index);
        }
    }

    fn close(&mut self, index: usize) {
        let Some(connection) = self.connections[index].take() else { return };
        if let Some(room) = connection.room {
            self.rooms[room].readers.retain(|reader| *reader != index);
        }
        self.free.push(index);
    }
}

/// Finds a room, or makes it; none where there are too many.
fn room_of(names: &mut HashMap<Vec<u8>, usize>, rooms: &mut Vec<Room>, name: &[u8]) -> Option<usize> {
    if let Some(room) = names.get(name) {
        return Some(*room);
    }
    (rooms.len() < ROOMS_MAX).then(|| {
        names.insert(name.to_vec(), rooms.len());
        rooms.push(Room::default());
        rooms.len() - 1
    })
}

/// How a connection begins: its kind, the room's name, and what follows. None while that is not complete.
fn first_words(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, len], rest) = bytes.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(len.into())?;
    Some((kind, name, rest))
}

/// Bytes of the draws that are whole.
fn whole_draws(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(head) = bytes[end..].first_chunk::<LENGTH_BYTES>() {
        let next = end + LENGTH_BYTES + usize::from(u16::from_be_bytes(*head));
        if next > bytes.len() {
            break;
        }
        end = next;
    }
    end
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Connects and says its first words; a reader is served when this returns.
    fn connect(address: std::net::SocketAddr, kind: u8) -> TcpStream {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(&[&[kind, 3], &b"ink"[..]].concat()).unwrap();
        if kind == READER {
            socket.read_exact(&mut [0]).unwrap();
        }
        socket
    }

    #[test]
    fn a_reader_that_takes_nothing_is_dropped_and_the_others_get_all() {
        const DRAWS: usize = 1000;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // Ends with the tests.
        std::thread::spawn(|| serve(listener, Duration::ZERO));
        let (mut slow, mut fast) = (connect(address, READER), connect(address, READER));
        let mut drawer = connect(address, DRAWER);
        let mut draw = u16::MAX.to_be_bytes().to_vec();
        draw.resize(LENGTH_BYTES + usize::from(u16::MAX), 7);
        let mut got = vec![0; draw.len()];
        for _ in 0..DRAWS {
            drawer.write_all(&draw).unwrap();
            fast.read_exact(&mut got).unwrap();
            assert!(got == draw);
        }
        let mut taken = 0;
        // Closed with bytes on their way, it may be reset.
        while let Ok(len @ 1..) = slow.read(&mut got) {
            taken += len;
        }
        assert!(taken < DRAWS * draw.len(), "{taken} bytes");
    }

    #[test]
    fn draws_are_passed_whole() {
        let draws = [0, 2, 7, 7, 0, 0, 1, 0, 9];
        assert_eq!(whole_draws(&draws), 6);
        assert_eq!(whole_draws(&draws[..5]), 4);
        assert_eq!(whole_draws(&draws[..3]), 0);
        assert_eq!(whole_draws(&[]), 0);
    }

    #[test]
    fn first_words_wait_for_their_end() {
        assert_eq!(first_words(b"r\x04inks"), Some((READER, &b"inks"[..], &b""[..])));
        assert_eq!(first_words(b"d\x03inks"), Some((DRAWER, &b"ink"[..], &b"s"[..])));
        assert_eq!(first_words(b"d\x05ink"), None);
        assert_eq!(first_words(b"d"), None);
    }
}
