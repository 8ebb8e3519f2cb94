//! The operators' listener: few connections, each held to its time.

use std::io;
use std::net::{IpAddr, SocketAddr};
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

/// Listens for operators. `public` is where the relay itself listens.
///
/// # Errors
/// In plain words: an address that everybody reaches, or the public one, or one that cannot be listened on.
pub fn listen(address: SocketAddr, public: SocketAddr) -> Result<TcpListener, String> {
    check(address, public)?;
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map_err(|error| {
        let what = if error.kind() == io::ErrorKind::AddrInUse { "it is taken".to_owned() } else { error.to_string() };
        format!("operators cannot be served on {address}: {what}; choose another address with --operators-listen, or off")
    })
}

fn check(address: SocketAddr, public: SocketAddr) -> Result<(), String> {
    let overlap =
        address.ip() == public.ip() || address.ip().is_unspecified() || public.ip().is_unspecified();
    if address.port() != 0 && address.port() == public.port() && overlap {
        return Err(format!(
            "operators would be served on the public address {public}: choose another port with --operators-listen"
        ));
    }
    if is_public(address.ip()) {
        return Err(format!(
            "{address} is reached from the whole internet, and whoever reaches the operators' port looks into every room \
             and deletes it without a password: let --operators-listen be an address of this machine, and go there through \
             a tunnel or a proxy that asks who comes"
        ));
    }
    Ok(())
}

/// Whether it is an address that the whole internet reaches. Unspecified ones may be; who listens there is warned.
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
            !(ip.is_loopback() || ip.is_private() || ip.is_link_local() || ip.is_unspecified() || is_shared)
        }
        IpAddr::V6(ip) => {
            !(ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local())
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_never_the_public_address_nor_one_that_everybody_reaches() {
        let check = |address: &str, public: &str| check(address.parse().unwrap(), public.parse().unwrap());
        for (address, public) in [
            ("127.0.0.1:9090", "127.0.0.1:8080"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("10.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0:9090", "0.0.0.0:8080"),
            ("[::1]:9090", "[::]:8080"),
            ("192.168.1.5:9090", "0.0.0.0:8080"),
            ("[fd00::1]:9090", "[::]:8080"),
        ] {
            assert_eq!(check(address, public), Ok(()), "{address}");
        }
        for (address, public) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "0.0.0.0:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080"),
        ] {
            assert!(check(address, public).unwrap_err().contains("public address"), "{address}");
        }
        for address in ["203.0.113.5:9090", "8.8.8.8:9090", "[2001:db8::1]:9090", "[::ffff:8.8.8.8]:9090"] {
            assert!(check(address, "127.0.0.1:1").unwrap_err().contains("without a password"), "{address}");
        }
    }
}
