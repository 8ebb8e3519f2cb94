//! The command line: arguments, logging and signals.

mod greeting;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use greeting::Greeting;
use inkrelay_server::config::{Config, SyncSetting};
use inkrelay_server::store::{EmbeddedStore, MemoryStore, RedisConfig, RedisStore, Store, SyncPolicy};
use inkrelay_server::token::TokenCommand;
use tracing_subscriber::EnvFilter;

/// Gives memory back when many have left. What it is set to is in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A relay for live drawing.
#[derive(Parser)]
#[command(name = "inkrelay", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the relay
    Serve(Box<Config>),
    /// Make keys, tokens and links for people, and look into tokens
    #[command(subcommand)]
    Token(TokenCommand),
    #[command(flatten)]
    Client(inkrelay_client::command::Command),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let default_level = if matches!(cli.command, Command::Serve(_)) { "info" } else { "error" };
    let filter = EnvFilter::try_from_env("INKRELAY_LOG").unwrap_or_else(|_| EnvFilter::new(default_level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let result = match cli.command {
        Command::Serve(config) => serve(*config),
        Command::Token(command) => inkrelay_server::token::run(command),
        Command::Client(command) => client(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("inkrelay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(config: Config) -> Result<(), String> {
    // Each connection is an open file, and the usual soft limit of 1,024 is far below what a small machine serves.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if config.workers > 0 {
        runtime.worker_threads(config.workers.into());
    }
    if config.times.flush_ms > 0 {
        let flush_time = std::time::Duration::from_millis(config.times.flush_ms.into());
        runtime.on_thread_park(inkrelay_server::rest::before_waiting(flush_time));
    }
    let runtime = runtime.enable_all().build().map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(async {
        let listen = config.listen;
        let listener = inkrelay_server::transport::listen(listen).map_err(|error| {
            format!("cannot listen on {listen}: {error}; choose another address with --listen")
        })?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let store = open_store(&config).await?;
        let stop = stop_signal().map_err(|error| format!("cannot catch signals: {error}"))?;
        let addresses =
            if address.ip().is_loopback() { Vec::new() } else { greeting::reachable(address.ip()) };
        let greeting = Greeting {
            listens_on: address,
            store: &store.describe(),
            has_board: inkrelay_server::transport::has_board(),
            is_unlimited: config.unlimited,
            addresses: &addresses,
            is_terminal: std::io::stdout().is_terminal(),
        }
        .text();
        // Whoever started the server may have stopped listening, which is no reason not to serve.
        let _ = std::io::stdout().write_all(greeting.as_bytes());
        inkrelay_server::run(config, store, listener, stop).await.map_err(|error| error.to_string())
    })
}

fn client(command: inkrelay_client::command::Command) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(inkrelay_client::command::run(command)).map_err(|error| error.to_string())
}

async fn open_store(config: &Config) -> Result<Arc<dyn Store>, String> {
    if config.memory {
        return Ok(Arc::new(MemoryStore::new()));
    }
    if let Some(url) = &config.redis {
        let store =
            RedisStore::connect(url, RedisConfig::default()).await.map_err(|error| error.to_string())?;
        return Ok(Arc::new(store));
    }
    let policy = match config.sync {
        SyncSetting::Always => SyncPolicy::Always,
        SyncSetting::Interval => SyncPolicy::Interval,
    };
    Ok(Arc::new(EmbeddedStore::open(&config.data, policy).map_err(|error| error.to_string())?))
}

/// Waits for SIGTERM or SIGINT, which are caught from now on: also one that comes right after the greeting, before
/// anyone waits, ends the server in good order.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
