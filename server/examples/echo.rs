//! An echo server with exactly the WebSocket settings of the relay, for the conformance cases.
//!
//! `cargo run --example echo -- 127.0.0.1:9001`. Only the message limit is larger, since some cases send 16 MiB.

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::any;
use inkrelay_server::transport::configure_websocket;

const MAX_MESSAGE: usize = 16 * 1024 * 1024;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("echoing on ws://{}", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/", any(upgrade))).await
}

async fn upgrade(upgrade: WebSocketUpgrade) -> Response {
    configure_websocket(upgrade, MAX_MESSAGE).on_upgrade(echo)
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
        if is_data && socket.send(message).await.is_err() {
            return;
        }
    }
}
