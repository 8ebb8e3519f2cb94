//! `inkrelay serve`: all that can fail first, then the greeting; signals meanwhile.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use inkrelay_server::Ready;
use inkrelay_server::config::{Config, LogFormat, OperatorsListen, Settings, SyncSetting, Wrong};
use inkrelay_server::files::Files;
use inkrelay_server::store::{EmbeddedStore, MemoryStore, RedisConfig, RedisStore, Store, SyncPolicy};
use inkrelay_server::transport::Listener;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};

use crate::greeting::{self, Greeting};
use crate::logging;
use crate::prepare;

/// Serves until a signal ends it.
pub fn serve(arguments: Vec<OsString>) -> Result<(), String> {
    let settings = Settings::load(&arguments).map_err(|wrong| wrong.to_string())?;
    let config = settings.config.clone();
    let set_filter = logging::start(config.log_format, &config.log);
    let files = prepare(&settings)?;
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
        let (listener, address) = listen(config.listen)?;
        let operators = listen_for_operators(&settings)?;
        let mut stops = stop_signals().map_err(|error| format!("cannot catch signals: {error}"))?;
        let opened = async {
            let store = open_store(&config).await?;
            let told = store.describe();
            let ready = Ready::new(config.clone(), store, files.tokens.clone()).await;
            let ready = ready.map_err(|error| format!("the store does not tell its secret: {error}"))?;
            Ok::<_, String>((ready, told))
        };
        // A store may take its time to answer, and the first process of a container is ended by no signal that it does
        // not catch.
        let (ready, told) = tokio::select! {
            opened = opened => opened?,
            _ = stops.recv() => {
                tracing::info!("stopped before it served anybody");
                return Ok(());
            }
        };
        let hangup =
            signal(SignalKind::hangup()).map_err(|error| format!("cannot catch signals: {error}"))?;
        greet(&config, address, operators.as_ref(), &told);
        let (reloaded, configs) = watch::channel(Arc::new(config));
        let listener = match &files.certificates {
            None => Listener::from(listener),
            Some(certificates) => {
                let fresh = Arc::clone(certificates);
                tokio::spawn(async move { fresh.keep_fresh().await });
                Listener::encrypted(listener, Arc::clone(certificates))
            }
        };
        tokio::spawn(reload(hangup, arguments, settings, files, set_filter, reloaded));
        ready.serve(configs, listener, operators, stops).await;
        Ok(())
    })
}

fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), String> {
    let bound = inkrelay_server::transport::listen(address);
    let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    bound.map_err(|error| {
        format!("listen: cannot listen on {address}: {error}; choose another address with --listen")
    })
}

/// Where operators are served. Another relay on this machine may have the usual port, which is said and no more.
fn listen_for_operators(settings: &Settings) -> Result<Option<TcpListener>, String> {
    let OperatorsListen::At(address) = settings.config.operators_listen else { return Ok(None) };
    match inkrelay_server::operators::listen(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(why) if settings.is_set("operators-listen") => Err(why),
        Err(why) => {
            tracing::warn!("{why}");
            Ok(None)
        }
    }
}

async fn open_store(config: &Config) -> Result<Arc<dyn Store>, String> {
    if config.memory {
        return Ok(Arc::new(MemoryStore::new()));
    }
    if let Some(url) = &config.redis {
        let store = RedisStore::connect(url, RedisConfig::default()).await;
        let why = |error| format!("redis: {error}; start one there, or say where it is with --redis");
        return Ok(Arc::new(store.map_err(why)?));
    }
    let policy = match config.sync {
        SyncSetting::Always => SyncPolicy::Always,
        SyncSetting::Interval => SyncPolicy::Interval,
    };
    let why = |error| format!("data: {error}; choose another folder with --data, or --memory");
    Ok(Arc::new(EmbeddedStore::open(&config.data, policy).map_err(why)?))
}

/// Says that the relay is there: to people, or as a line of the log to programs that read nothing else.
fn greet(config: &Config, address: SocketAddr, operators: Option<&TcpListener>, store: &str) {
    let addresses = if address.ip().is_loopback() { Vec::new() } else { greeting::reachable(address.ip()) };
    let greeting = Greeting {
        listens_on: address,
        store,
        is_encrypted: config.tls_cert.is_some(),
        has_board: inkrelay_server::transport::has_board(),
        is_unlimited: config.unlimited,
        operators: operators.and_then(|listener| listener.local_addr().ok()),
        has_tokens: config.has_tokens(),
        addresses: &addresses,
        is_terminal: std::io::stdout().is_terminal(),
    };
    match config.log_format {
        LogFormat::Json => greeting.log(),
        // Whoever started the server may have stopped listening, which is no reason not to serve.
        LogFormat::Human => drop(std::io::stdout().write_all(greeting.text().as_bytes())),
    }
}

/// Reads the settings, and the files that they name, again at each SIGHUP. Says what is another then.
async fn reload(
    mut hangup: Signal,
    arguments: Vec<OsString>,
    mut settings: Settings,
    files: Files,
    set_filter: impl Fn(&str),
    reloaded: watch::Sender<Arc<Config>>,
) {
    let arguments: Arc<[OsString]> = arguments.into();
    while hangup.recv().await.is_some() {
        let (arguments, current, files) = (Arc::clone(&arguments), settings.clone(), files.clone());
        // Files are read, and names looked up, which may take its time.
        let read = tokio::task::spawn_blocking(move || {
            let reload = Settings::load(&arguments).and_then(|read| current.reload(&read))?;
            Ok::<_, Wrong>((reload, files.reload()))
        });
        let Ok(read) = read.await else { continue };
        let (reload, (changed, wrong)) = match read {
            Ok(read) => read,
            Err(wrong) => {
                wrong.0.iter().for_each(|why| tracing::error!("nothing is reloaded: {why}"));
                continue;
            }
        };
        settings = reload.settings;
        set_filter(&settings.config.log);
        reloaded.send_replace(Arc::new(settings.config.clone()));
        for error in &wrong {
            tracing::error!("not reloaded, and held to as it was: {error}");
        }
        for waiting in &reload.waiting {
            tracing::warn!("this needs a restart: {waiting}");
        }
        let files_changed = changed.into_iter().map(str::to_owned);
        let changed: Vec<_> = reload.changed.into_iter().chain(files_changed).collect();
        for changed in &changed {
            tracing::info!("reloaded {changed}");
        }
        if changed.is_empty() && wrong.is_empty() && reload.waiting.is_empty() {
            tracing::info!("reloaded: all is as it was");
        }
    }
}

/// SIGTERM and SIGINT, which are caught from now on: also one that comes right after the greeting, before anyone waits,
/// ends the server in good order.
fn stop_signals() -> std::io::Result<mpsc::Receiver<()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (told, stops) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if told.send(()).await.is_err() {
                return;
            }
        }
    });
    Ok(stops)
}
