//! The command line: arguments, logging and signals.

mod greeting;
mod logging;
#[cfg(feature = "otel")]
mod otel;
mod upkeep;

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use greeting::Greeting;
use inkrelay_server::access::Tokens;
use inkrelay_server::config::{Config, LogFormat, OperatorsListen, Settings, SyncSetting, reference};
use inkrelay_server::store::{EmbeddedStore, MemoryStore, RedisConfig, RedisStore, Store, SyncPolicy};
use inkrelay_server::token::TokenCommand;
use inkrelay_server::transport::{Certificates, Listener};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

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
    /// Look at the settings of `serve` without starting it
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Make keys, tokens and links for people, and look into tokens
    #[command(subcommand)]
    Token(TokenCommand),
    #[command(flatten)]
    Client(inkrelay_client::command::Command),
    #[command(flatten)]
    Upkeep(upkeep::Upkeep),
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say what is wrong with the settings, if anything is
    Check(Box<Config>),
    /// Print what holds, and where it comes from
    Show(Box<Config>),
    /// Print the reference of all settings, in Markdown
    Reference,
}

fn main() -> ExitCode {
    // clap says by itself what is wrong with flags. They are read again together with the file that they name.
    let behind = |words: usize| std::env::args_os().skip(1 + words).collect();
    let result = match Cli::parse().command {
        Command::Serve(_) => serve(behind(1)),
        Command::Config(command) => config(&command, behind(2)),
        Command::Token(command) => inkrelay_server::token::run(command),
        Command::Client(command) => client(command),
        Command::Upkeep(command) => work_on_store(command),
    };
    #[cfg(feature = "otel")]
    otel::finish();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("inkrelay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn config(command: &ConfigCommand, arguments: Vec<OsString>) -> Result<(), String> {
    let load = || Settings::load(&arguments).map_err(|wrong| wrong.to_string());
    let text = match command {
        ConfigCommand::Check(_) => {
            let config = load()?.config;
            // The files that they name, as far as they can be looked at without starting.
            Tokens::open(config.tokens()).map_err(|error| error.to_string())?;
            certificates(&config)?;
            "The settings are right.\n".to_owned()
        }
        ConfigCommand::Show(_) => load()?.show(),
        ConfigCommand::Reference => reference::page(),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

fn serve(arguments: Vec<OsString>) -> Result<(), String> {
    let settings = Settings::load(&arguments).map_err(|wrong| wrong.to_string())?;
    let config = settings.config.clone();
    let set_filter = logging::start(config.log_format, &config.log);
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
        let operators = listen_for_operators(&config, address)?;
        let certificates = certificates(&config)?;
        let store = open_store(&config).await?;
        let stop = stop_signal().map_err(|error| format!("cannot catch signals: {error}"))?;
        let hangup =
            signal(SignalKind::hangup()).map_err(|error| format!("cannot catch signals: {error}"))?;
        let addresses =
            if address.ip().is_loopback() { Vec::new() } else { greeting::reachable(address.ip()) };
        let greeting = Greeting {
            listens_on: address,
            store: &store.describe(),
            is_encrypted: certificates.is_some(),
            has_board: inkrelay_server::transport::has_board(),
            is_unlimited: config.unlimited,
            operators: operators.as_ref().and_then(|listener| listener.local_addr().ok()),
            has_tokens: config.has_tokens(),
            addresses: &addresses,
            is_terminal: std::io::stdout().is_terminal(),
        }
        .text();
        // Whoever started the server may have stopped listening, which is no reason not to serve.
        let _ = std::io::stdout().write_all(greeting.as_bytes());
        let (reloaded, configs) = watch::channel(Arc::new(config));
        tokio::spawn(reload(hangup, arguments, settings, set_filter, reloaded));
        let listener = match certificates {
            None => Listener::from(listener),
            Some(certificates) => {
                tokio::spawn(Arc::clone(&certificates).keep_fresh(configs.clone()));
                Listener::encrypted(listener, certificates)
            }
        };
        let served = inkrelay_server::run_with_reloads(configs, store, listener, operators, stop).await;
        served.map_err(|error| error.to_string())
    })
}

/// Reads the settings again at each SIGHUP.
async fn reload(
    mut hangup: Signal,
    arguments: Vec<OsString>,
    mut settings: Settings,
    set_filter: impl Fn(&str),
    reloaded: watch::Sender<Arc<Config>>,
) {
    while hangup.recv().await.is_some() {
        let read = Settings::load(&arguments).and_then(|read| settings.reload(&read));
        let reload = match read {
            Ok(reload) => reload,
            Err(wrong) => {
                wrong.0.iter().for_each(|why| tracing::error!("nothing is reloaded: {why}"));
                continue;
            }
        };
        settings = reload.settings;
        set_filter(&settings.config.log);
        reload.changed.iter().for_each(|changed| tracing::info!("reloaded {changed}"));
        reload.waiting.iter().for_each(|waiting| tracing::warn!("this needs a restart: {waiting}"));
        if reload.changed.is_empty() && reload.waiting.is_empty() {
            tracing::info!("reloaded: no setting is another");
        }
        // Also when no setting is: the files that they name may be.
        reloaded.send_replace(Arc::new(settings.config.clone()));
    }
}

/// Where operators are served. Another relay on this machine may have the usual port, which is said and no more.
fn listen_for_operators(config: &Config, public: SocketAddr) -> Result<Option<TcpListener>, String> {
    let OperatorsListen::At(address) = config.operators_listen else { return Ok(None) };
    match inkrelay_server::operators::listen(address, public) {
        Ok(listener) => {
            if !address.ip().is_loopback() {
                tracing::warn!(
                    %address,
                    "the operators' port is open to others: whoever reaches it looks into every room and deletes it, \
                     without a password"
                );
            }
            Ok(Some(listener))
        }
        Err(why) if config.operators_listen == OperatorsListen::DEFAULT => {
            tracing::warn!("{why}");
            Ok(None)
        }
        Err(why) => Err(why),
    }
}

/// The log of a command that is no server.
fn start_log(filter: &str) {
    let filter = std::env::var("INKRELAY_LOG").unwrap_or_else(|_| filter.to_owned());
    let _ = logging::start(LogFormat::Human, &filter);
}

fn client(command: inkrelay_client::command::Command) -> Result<(), String> {
    start_log("error");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(inkrelay_client::command::run(command)).map_err(|error| error.to_string())
}

fn work_on_store(command: upkeep::Upkeep) -> Result<(), String> {
    // Among others, that a store could not say that it lost nothing.
    start_log("warn");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start: {error}"))?.block_on(upkeep::run(command))
}

/// What the port shows to clients, where it speaks TLS.
fn certificates(config: &Config) -> Result<Option<Arc<Certificates>>, String> {
    let (Some(chain), Some(key)) = (&config.tls_cert, &config.tls_key) else { return Ok(None) };
    Certificates::load(chain, key).map(|read| Some(Arc::new(read))).map_err(|error| error.to_string())
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
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
