//! An echo over a WebSocket that is set up exactly as the relay's own are: for conformance tests.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::IntoResponse;
use futures_util::{SinkExt, StreamExt};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;

use super::{config, handshake, open};
use crate::transport::encoding::Encoding;
use crate::transport::lingering::{Farewells, Lingering};
use crate::transport::stream::Stream;

const WRITE_TIME: Duration = Duration::from_secs(30);

/// Serves one connection: whatever messages come are sent back, each of so many bytes at most.
pub async fn echo(stream: TcpStream, max_message: usize) {
    let service = service_fn(async |request: http::Request<hyper::body::Incoming>| {
        let upgraded = match handshake(request.map(Body::new)) {
            Ok((response, upgraded)) => {
                tokio::spawn(async move {
                    let Ok(upgraded) = upgraded.await else { return };
                    let Some((mut socket, _)) =
                        open(upgraded, Encoding::MessagePack, config(max_message, usize::MAX)).await
                    else {
                        return;
                    };
                    while let Some(Ok(message)) = socket.next().await {
                        let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
                        if is_data && socket.send(message).await.is_err() {
                            return;
                        }
                    }
                });
                response
            }
            Err(problem) => problem.into_response(),
        };
        Ok::<_, Infallible>(upgraded)
    });
    let io = TokioIo::new(Stream::Plain(Lingering::new(stream, WRITE_TIME, Farewells::new())));
    let connection = hyper::server::conn::http1::Builder::new().serve_connection(io, service).with_upgrades();
    // However it ends is for the tests to see.
    drop(connection.await);
}
