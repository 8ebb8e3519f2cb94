//! The listener: accepts connections, bounds them, and ends them in good order.
//!
//! `axum::serve` has no time limit for a request's header, no count per address and no end to its draining, so
//! the accept loop is here, over hyper's HTTP/1. HTTP/2 is not spoken: nothing here gains by it, and its
//! ways of being flooded stay out.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::IntoResponse;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use inkrelay_protocol::ErrorCode;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout_at};
use tower::ServiceExt;
use tracing::Instrument;

use super::address::{introduce, is_within};
use super::headers::secure;
use super::host;
use super::lingering::{Farewells, Lingering};
use super::request::{PeerAddress, room_of};
use super::stream::Stream;
use super::tls::Certificates;
use super::trace::{REQUEST_ID, RequestIds};
use crate::lock::lock;
use crate::metrics::{Caller, Metrics};
use crate::session::Relay;
use crate::session::rates::limited_as;

/// Bytes of a request's header at most.
const HEADER_BYTES: usize = 16 * 1024;
/// Connections that wait to be accepted, at most; the kernel may allow fewer. With the usual 128, those who come back
/// at once after a restart would wait for a second, or for three, and try again.
const BACKLOG: u32 = 4096;
/// When no connection can be accepted, usually for want of file descriptors, the next try comes after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// A write that the client's machine does not acknowledge in this time ends the connection: it is gone.
#[cfg(target_os = "linux")]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes that the kernel takes for a connection before it has sent them. Its own measure is megabytes, in which a
/// slow client's pings would wait for their turn, and a client that reads slowly would look like one that does not.
#[cfg(target_os = "linux")]
const UNSENT_BYTES: u32 = 64 * 1024;
/// One connection too many has so long to send something that can be answered.
const TURN_AWAY_TIME: Duration = Duration::from_secs(1);
/// Connections that are turned away at the same time; others beyond them are just closed.
const TURNED_AWAY: usize = 256;
/// Beyond the stall time of sessions, which say why they end; this one just cuts.
const WRITE_GRACE: Duration = Duration::from_secs(10);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\nx-content-type-options: nosniff\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 175\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"code\":\"too_many_connections\",\
    \"detail\":\"this address has as many connections as it may\",\"retry_ms\":1000}      ";

/// For plain HTTP where TLS is spoken.
const NOT_ENCRYPTED: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: application/problem+json\r\nx-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: 137\r\n\r\n\
    {\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\"code\":\"malformed\",\
    \"detail\":\"this port speaks TLS: ask for https://, or wss://\"}";

/// What no handshake fails with, but for that.
const PLAIN: std::io::ErrorKind = std::io::ErrorKind::Unsupported;

/// Listens on an address, with room for many who come at once.
///
/// # Errors
/// When the address cannot be listened on.
pub fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As `TcpListener::bind`: a restart need not wait for the last connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Where connections come from, and whether they are encrypted.
pub struct Listener {
    socket: TcpListener,
    certificates: Option<Arc<Certificates>>,
}

impl From<TcpListener> for Listener {
    /// Without encryption.
    fn from(socket: TcpListener) -> Self {
        Self { socket, certificates: None }
    }
}

impl Listener {
    /// TLS, and nothing else.
    pub const fn encrypted(socket: TcpListener, certificates: Arc<Certificates>) -> Self {
        Self { socket, certificates: Some(certificates) }
    }
}

/// A server that accepts connections.
pub struct Server {
    connections: Arc<Connections>,
    accepting: tokio::task::JoinHandle<()>,
}

/// The open connections, counted in all and by address.
struct Connections {
    open: AtomicUsize,
    by_address: DashMap<IpAddr, usize>,
    one_closed: Notify,
    /// Told to those that are still open when the drain time is over.
    cut: watch::Sender<bool>,
    metrics: Arc<Metrics>,
    request_ids: RequestIds,
}

/// One of the open connections, as long as it lives.
pub struct Counted {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// Counts a connection, unless its address has as many as it may.
    fn count(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<Counted> {
        let mut count = self.by_address.entry(limited_as(address)).or_insert(0);
        if max != 0 && *count >= max {
            return None;
        }
        *count += 1;
        self.open.fetch_add(1, Ordering::AcqRel);
        self.metrics.connections.inc();
        Some(Counted { connections: Arc::clone(self), address })
    }
}

impl Counted {
    /// Waits until the drain time is over.
    pub async fn cut(&self) {
        // The sender is held here, so that the wait ends only with the cut.
        drop(self.connections.cut.subscribe().wait_for(|cut| *cut).await);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Entry::Occupied(mut count) = self.connections.by_address.entry(limited_as(self.address)) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
        self.connections.open.fetch_sub(1, Ordering::AcqRel);
        self.connections.metrics.connections.dec();
        self.connections.one_closed.notify_waiters();
    }
}

impl Server {
    /// Accepts from now on.
    pub fn start(relay: Arc<Relay>, app: axum::Router, listener: Listener) -> Self {
        let connections = Arc::new(Connections {
            open: AtomicUsize::new(0),
            by_address: DashMap::new(),
            one_closed: Notify::new(),
            cut: watch::Sender::new(false),
            metrics: Arc::clone(relay.hub.metrics()),
            request_ids: RequestIds::default(),
        });
        if let Some(certificates) = &listener.certificates {
            connections.metrics.follow_certificate(certificates.expiry());
        }
        let accepting = tokio::spawn(accept(relay, app, listener, Arc::clone(&connections)));
        Self { connections, accepting }
    }

    /// Waits for the open connections to end, which the sessions do on their own when the server drains, and
    /// stops accepting. Returns whether all did in that time; the others are cut. Whoever comes meanwhile is
    /// told that the server is draining, so that a load balancer sees it while there is still work to finish.
    pub async fn finish(self, within: Duration) -> bool {
        let all_closed = async {
            loop {
                let closed = self.connections.one_closed.notified();
                let mut closed = pin!(closed);
                closed.as_mut().enable();
                if self.connections.open.load(Ordering::Acquire) == 0 {
                    return;
                }
                closed.await;
            }
        };
        let in_time = tokio::time::timeout(within, all_closed).await.is_ok();
        self.accepting.abort();
        self.connections.cut.send_replace(true);
        in_time
    }
}

async fn accept(relay: Arc<Relay>, app: axum::Router, listener: Listener, connections: Arc<Connections>) {
    let Listener { socket, certificates } = listener;
    let (turned_away, farewells) = (Arc::new(Semaphore::new(TURNED_AWAY)), Farewells::new());
    let mut is_failing = false;
    loop {
        match socket.accept().await {
            Ok((stream, address)) => {
                is_failing = false;
                let address = canonical(address);
                let config = relay.config();
                // A trusted proxy has as many as its clients need; these are counted themselves.
                let is_proxy = is_within(&config.trust_forwarded, address);
                let max = if is_proxy { 0 } else { config.limits.max_connections };
                let (farewells, certificates) = (farewells.clone(), certificates.clone());
                match connections.count(address, max) {
                    Some(counted) => {
                        let (relay, app) = (Arc::clone(&relay), app.clone());
                        tokio::spawn(serve(relay, app, stream, farewells, certificates, counted));
                    }
                    None => {
                        connections.metrics.refuse(ErrorCode::TooManyConnections, Caller::at(address));
                        if let Ok(permit) = Arc::clone(&turned_away).try_acquire_owned() {
                            tokio::spawn(async move {
                                turn_away(stream, farewells, certificates).await;
                                drop(permit);
                            });
                        }
                    }
                }
            }
            Err(error) => {
                // A connection that was gone before it was accepted is no reason to wait; too many open
                // files are, and those that close make room. That is said once, and not at every try.
                if !std::mem::replace(&mut is_failing, true) {
                    tracing::warn!(%error, "cannot accept connections for the time being");
                }
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// An IPv4 address is the same through an IPv6 socket.
fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}

async fn turn_away(stream: TcpStream, farewells: Farewells, certificates: Option<Arc<Certificates>>) {
    let stream = Lingering::new(stream, TURN_AWAY_TIME, farewells);
    let answer = async {
        match certificates {
            None => answer(&mut { stream }, TOO_MANY).await,
            Some(certificates) => answer(&mut shake_hands(stream, &certificates).await?, TOO_MANY).await,
        }
    };
    // Whether the answer arrives is up to the client.
    drop(tokio::time::timeout(TURN_AWAY_TIME, answer).await);
}

/// Answers without looking at what is asked.
async fn answer(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &[u8]) -> std::io::Result<()> {
    // An answer to no question is an error to most clients, so that something of the request comes first.
    if stream.read(&mut [0; 1024]).await? == 0 {
        return Ok(());
    }
    stream.write_all(answer).await?;
    stream.flush().await
}

/// Has a connection encrypted. Whoever speaks plain HTTP is told that it is to be.
async fn shake_hands(mut stream: Lingering, certificates: &Certificates) -> std::io::Result<Stream> {
    // A method begins with a letter, and a handshake does not (RFC 8446, section 5.1).
    if stream.first_byte().await?.is_some_and(|first| first.is_ascii_uppercase()) {
        answer(&mut stream, NOT_ENCRYPTED).await?;
        return Err(std::io::Error::new(PLAIN, "plain HTTP where TLS is spoken"));
    }
    Ok(Stream::Encrypted(Box::new(certificates.accept(stream).await?)))
}

/// What the kernel is to do about a connection. The last two are Linux's own; elsewhere the kernel's measures hold.
fn set_up(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT))?;
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)?;
    }
    Ok(())
}

async fn serve(
    relay: Arc<Relay>,
    app: axum::Router,
    stream: TcpStream,
    farewells: Farewells,
    certificates: Option<Arc<Certificates>>,
    counted: Counted,
) {
    if let Err(error) = set_up(&stream) {
        // The client is gone already.
        return tracing::debug!(%error, "could not set up a connection");
    }
    let config = relay.config();
    let times = &config.times;
    let header_due = Instant::now() + times.header_time;
    let is_encrypted = certificates.is_some();
    let stream = Lingering::new(stream, times.stall_time + WRITE_GRACE, farewells);

    let address = counted.address;
    let connections = Arc::clone(&counted.connections);
    let mut cut = connections.cut.subscribe();
    let stream = match certificates {
        None => Stream::Plain(stream),
        Some(certificates) => {
            // Boxed: what this needs would be held by every connection.
            let opening = timeout_at(header_due, Box::pin(shake_hands(stream, &certificates)));
            let opened = tokio::select! {
                opened = opening => opened,
                _ = cut.wait_for(|cut| *cut) => return,
            };
            match opened {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    if error.kind() == PLAIN {
                        connections.metrics.refuse(ErrorCode::Malformed, Caller::at(address));
                    }
                    return tracing::debug!(%error, "a connection was not encrypted");
                }
                Err(_) => return tracing::debug!("a connection was not encrypted in time"),
            }
        }
    };
    let io = TokioIo::new(stream);
    let counted = Arc::new(std::sync::Mutex::new(Some(counted)));
    let has_request = Arc::new(AtomicBool::new(false));
    let service = {
        let (has_request, counted) = (Arc::clone(&has_request), Arc::clone(&counted));
        let (relay, config) = (Arc::clone(&relay), Arc::clone(&config));
        let connections = Arc::clone(&connections);
        service_fn(move |mut request: Request<Incoming>| {
            has_request.store(true, Ordering::Relaxed);
            let relay = Arc::clone(&relay);
            let id =
                connections.request_ids.id(request.headers(), is_within(&config.trust_forwarded, address));
            let span = tracing::error_span!("request", %id);
            // A proxy may tell another name than it asks by: both have to be this server's.
            let introduced = host::check(&relay, &request)
                .and_then(|()| introduce(&mut request, address, is_encrypted, &config.trust_forwarded))
                .and_then(|()| host::check(&relay, &request));
            request.extensions_mut().insert(id.clone());
            request.extensions_mut().insert(ConnectionCount(Arc::clone(&counted)));
            let app = app.clone();
            let address = request.extensions().get().map_or(address, |PeerAddress(address)| *address);
            let uri = request.uri().clone();
            // Whoever asks for such lines gets one for each request: never with the query, which may hold secrets.
            let asked = tracing::enabled!(tracing::Level::DEBUG)
                .then(|| (request.method().clone(), request.uri().path().to_owned(), Instant::now()));
            let answer = async move {
                let mut response = match introduced {
                    Ok(()) => app.oneshot(request.map(Body::new)).await?,
                    Err(problem) => problem.into_response(),
                };
                if let Some(code) = response.extensions().get::<ErrorCode>() {
                    let room = room_of(uri.path());
                    // The id is the span's.
                    let caller = Caller { room: room.as_ref(), ..Caller::at(address) };
                    relay.hub.metrics().refuse(*code, caller);
                }
                if response.status() != StatusCode::SWITCHING_PROTOCOLS {
                    secure(response.headers_mut(), is_encrypted);
                    if relay.is_draining() {
                        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                    }
                }
                if let Some((method, path, begun)) = asked {
                    let (status, took) = (response.status().as_u16(), begun.elapsed());
                    tracing::debug!(%method, path, status, ?took, "answered");
                }
                response.headers_mut().insert(REQUEST_ID, id.header());
                Ok::<_, Infallible>(response)
            };
            answer.instrument(span)
        })
    };
    // Who closes its sending side before it is answered is taken for gone (hyper's `half_close` stays off): from here that
    // looks as a client that closed all of it, whose poll would hold its place in the room until the wait is over.
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(times.keep_alive)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(io, service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut first_header = pin!(sleep_until(header_due));
    let mut draining = relay.draining();
    let (mut is_header_due, mut is_asked_to_end) = (true, false);
    loop {
        tokio::select! {
            result = connection.as_mut() => {
                if let Err(error) = result {
                    // The library has answered by itself that it cannot read the request.
                    if error.is_parse() {
                        let code = if error.is_parse_too_large() { ErrorCode::TooLarge } else { ErrorCode::Malformed };
                        connections.metrics.refuse(code, Caller::at(address));
                    }
                    tracing::debug!(%error, "a connection ended early");
                }
                break;
            }
            // Asked when the time is over: a branch's condition is looked at only when the wait begins.
            () = first_header.as_mut(), if is_header_due => {
                is_header_due = false;
                if !has_request.load(Ordering::Relaxed) {
                    tracing::debug!("a connection sent no whole request header in time");
                    break;
                }
            }
            () = draining.begun(), if !is_asked_to_end => {
                is_asked_to_end = true;
                // One whose first request is on its way still gets its answer, which closes it.
                if has_request.load(Ordering::Relaxed) {
                    connection.as_mut().graceful_shutdown();
                }
            }
            _ = cut.wait_for(|cut| *cut) => break,
        }
    }
}

/// Lets a WebSocket take its connection's count along when it leaves HTTP.
#[derive(Clone)]
pub struct ConnectionCount(Arc<std::sync::Mutex<Option<Counted>>>);

impl ConnectionCount {
    /// Counts the connection for that address from now on: the one of whom a proxy speaks for. Returns whether it has not as
    /// many already as it may.
    pub fn move_to(&self, address: IpAddr, max: usize) -> bool {
        let mut counted = lock(&self.0);
        let Some(current) = counted.as_ref().filter(|current| current.address != address) else {
            return true;
        };
        let moved = current.connections.count(address, max);
        let is_moved = moved.is_some();
        *counted = moved.or_else(|| counted.take());
        is_moved
    }

    /// Takes the count over: the connection counts until what is returned is dropped.
    pub fn take(&self) -> Option<Counted> {
        lock(&self.0).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_whoever_is_not_heard_are_whole() {
        for (answer, code) in [(TOO_MANY, "too_many_connections"), (NOT_ENCRYPTED, "malformed")] {
            let (head, body) = std::str::from_utf8(answer).unwrap().split_once("\r\n\r\n").unwrap();
            assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
            assert_eq!(serde_json::from_str::<serde_json::Value>(body).unwrap()["code"], code);
        }
    }
}
