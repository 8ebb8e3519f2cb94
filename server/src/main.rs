//! The command line: arguments, logging and signals.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use inkrelay_server::config::Config;
use inkrelay_server::store::{MemoryStore, Store};
use tokio::net::TcpListener;
use tracing_subscriber::EnvFilter;

/// A relay for live drawing.
#[derive(Parser)]
#[command(name = "inkrelay", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start the relay.
    Serve(Box<Config>),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_env("INKRELAY_LOG").unwrap_or_else(|_| EnvFilter::new("info")))
        .with_writer(std::io::stderr)
        .init();
    let result = match cli.command {
        Command::Serve(config) => serve(*config),
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
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if config.workers > 0 {
        runtime.worker_threads(config.workers);
    }
    let runtime = runtime.enable_all().build().map_err(|error| format!("cannot start threads: {error}"))?;
    runtime.block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let listen = config.listen;
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            format!("cannot listen on {listen}: {error}; choose another address with --listen")
        })?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        println!("Inkrelay listens on http://{address}");
        println!("  {}", store.describe());
        inkrelay_server::run(config, store, listener, stop_signal()).await.map_err(|error| error.to_string())
    })
}

/// Waits for SIGTERM or SIGINT.
async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(error) => {
            tracing::error!(%error, "cannot wait for SIGTERM; only Ctrl-C stops the server in good order");
            drop(tokio::signal::ctrl_c().await);
        }
    }
}
