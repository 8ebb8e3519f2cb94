//! The operators' listener: few connections, each held to its time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tower::ServiceExt;

/// Connections at the same time; others wait to be accepted.
const CONNECTIONS: usize = 64;
/// For a request's header, and for the next request on a connection.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// Bytes of a request's header at most.
const HEADER_BYTES: usize = 16 * 1024;
/// When no connection can be accepted, the next try comes after this.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// Listens for operators. Which addresses may be, the settings' check says.
///
/// # Errors
/// In plain words, when the address cannot be listened on.
pub fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(|error| {
        let what = if error.kind() == io::ErrorKind::AddrInUse { "it is taken".to_owned() } else { error.to_string() };
        format!("operators-listen: operators cannot be served on {address}: {what}; choose another address, or off")
    })
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, app: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let app = app.clone();
                tokio::spawn(async move {
                    serve_connection(stream, app).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept operators' connections for the time being");
                tokio::time::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, app: Router) {
    let service =
        service_fn(move |request: hyper::Request<Incoming>| app.clone().oneshot(request.map(Body::new)));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "an operator's connection ended early");
    }
}
