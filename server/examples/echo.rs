//! An echo server with exactly the WebSocket settings of the relay, for the conformance cases.
//!
//! `cargo run --example echo -- 127.0.0.1:9001`. Only the message limit is larger, since some cases send 16 MiB.

use inkrelay_server::transport::echo;
use tokio::net::TcpListener;

const MAX_MESSAGE: usize = 16 * 1024 * 1024;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9001".to_owned());
    let listener = TcpListener::bind(&address).await?;
    println!("echoing on ws://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo(stream, MAX_MESSAGE));
    }
}
