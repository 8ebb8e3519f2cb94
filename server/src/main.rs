//! The command line.

mod greeting;
mod logging;
#[cfg(feature = "otel")]
mod otel;
mod serve;
mod upkeep;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use inkrelay_server::config::{Config, LogFormat, Settings, environment, log_filter, reference};
use inkrelay_server::files::Files;
use inkrelay_server::token::TokenCommand;

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
    let cli = match parse() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    // clap says by itself what is wrong with flags. They are read again together with the file that they name.
    let behind = |words: usize| std::env::args_os().skip(1 + words).collect();
    let result = match cli.command {
        Command::Serve(_) => serve::serve(behind(1)),
        Command::Config(command) => config(&command, &behind(2)),
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

/// What the command line and the environment ask for, or the status after saying what is wrong with them.
fn parse() -> Result<Cli, ExitCode> {
    let command = environment::taken(Cli::command());
    let parsed = command.clone().try_get_matches();
    parsed.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| {
        // Nobody may be there to read it, which changes nothing.
        let _ = error.print();
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        if let Some(blamed) = environment::blamed(&command, &error, &arguments) {
            eprintln!("\n{blamed}");
        }
        u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
    })
}

fn config(command: &ConfigCommand, arguments: &[OsString]) -> Result<(), String> {
    let load = || Settings::load(arguments).map_err(|wrong| wrong.to_string());
    let text = match command {
        ConfigCommand::Check(_) => {
            let settings = load()?;
            // Whatever is to be logged later: what is asked now is whether something is wrong.
            let _ = logging::start(LogFormat::Human, "warn");
            prepare(&settings)?;
            "The settings are right.\n".to_owned()
        }
        ConfigCommand::Show(_) => load()?.show(),
        ConfigCommand::Reference => reference::page(),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| error.to_string())
}

/// All that is looked at before anything is started, for `serve` as for `config check`: the files that settings name, and
/// what is right and yet may not be meant.
fn prepare(settings: &Settings) -> Result<Files, String> {
    for warning in environment::unknown(&Cli::command()).into_iter().chain(settings.config.warnings()) {
        tracing::warn!("{warning}");
    }
    Files::read(&settings.config).map_err(|error| error.to_string())
}

/// The log of a command that is no server.
fn start_log(filter: &str) -> Result<(), String> {
    let asked = std::env::var("INKRELAY_LOG").ok().filter(|filter| !filter.is_empty());
    let filter = asked
        .map(|filter| log_filter(&filter).map_err(|why| format!("INKRELAY_LOG: {why}")))
        .transpose()?
        .unwrap_or_else(|| filter.to_owned());
    let _ = logging::start(LogFormat::Human, &filter);
    Ok(())
}

fn client(command: inkrelay_client::command::Command) -> Result<(), String> {
    start_log("error")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(inkrelay_client::command::run(command)).map_err(|error| error.to_string())
}

fn work_on_store(command: upkeep::Upkeep) -> Result<(), String> {
    // Among others, that a store could not say that it lost nothing.
    start_log("warn")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start: {error}"))?.block_on(upkeep::run(command))
}
