//! The Rust client of Inkrelay: draw in a room, and learn what others draw.
//!
//! A [`Client`] keeps itself connected, over WebSocket or, where a network lets none through, by long-polling.
//! It numbers what the program draws and sends it again until the server has it, so that every draw is stored
//! once and in order, or is told as refused. What comes back are [`Event`]s: every record of the room once, in
//! order, without gaps.
//!
//! ```no_run
//! use inkrelay_client::client::{Client, ClientConfig, Event};
//! use inkrelay_protocol::{Channels, Draw, Style};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let config = ClientConfig::new("http://127.0.0.1:8080", "kitchen".parse()?);
//! let (client, mut events) = Client::connect(config)?;
//!
//! // A line of 100 pixels, in sixteenths of a pixel.
//! let style = Style { tool: 0, rgba: 0x1f4e_79ff, width: 48 };
//! let points = vec![160, 160, 1600, 0];
//! client.draw(&Draw::Begin { stroke: 0, style, channels: Channels::NONE, points, end: true })?;
//! client.flush().await?;
//!
//! while let Some(event) = events.recv().await {
//!     match event {
//!         Event::Records { first, records } => println!("{} records from {first} on", records.len()),
//!         Event::Refused { draw, message, .. } => println!("draw {} was refused: {message}", draw.get()),
//!         Event::Stopped(why) => println!("{why}"),
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! What decides is apart from what waits. [`Outbox`], [`Replica`] and [`Backoff`] know no clock and do no I/O;
//! a program with its own transport can use them alone. A [`Replica`] also keeps the board that the records
//! draw, and [`svg::render`] makes a picture of it:
//!
//! ```
//! use inkrelay_client::replica::Replica;
//! use inkrelay_client::svg;
//! use inkrelay_protocol::{Channels, ClientId, Draw, Identity, Record, Seq, Style};
//!
//! let style = Style { tool: 0, rgba: 0x0000_00ff, width: 64 };
//! let draw = Draw::Begin { stroke: 0, style, channels: Channels::NONE, points: vec![0, 0, 160, 160], end: true };
//! let mut record = Vec::new();
//! let identity = Identity { author: ClientId::new(7).ok_or("no id")?, n: 1, at: 1_700_000_000_000 };
//! Record { identity, draw: &draw.to_bytes() }.encode(&mut record);
//!
//! // As they come with `Event::Records`.
//! let mut replica = Replica::new(None, true);
//! replica.on_records(Seq::START.next(), &[record])?;
//! let board = replica.board().ok_or("no board")?;
//! assert_eq!(board.strokes().count(), 1);
//! assert!(svg::render(board).starts_with("<svg"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The commands `draw`, `watch` and `board` of the command line are here too: [`command`].

pub mod backoff;
pub mod client;
pub mod command;
mod config;
mod connection;
mod event;
mod http;
pub mod ink;
mod long_poll;
pub mod outbox;
pub mod replica;
mod session;
mod shared;
mod sse;
pub mod svg;
mod tls;
mod websocket;

pub use backoff::Backoff;
pub use client::{Client, ClientConfig, Event, Events, Transport};
pub use http::InvalidServer;
pub use outbox::{DrawId, Outbox};
pub use replica::Replica;
