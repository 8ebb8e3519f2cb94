//! `inkrelay-load`: puts load on a relay, and shows what became of it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use inkrelay_load::bare_loop;
use inkrelay_load::bounds::Bounds;
use inkrelay_load::compare::Compare;
use inkrelay_load::messaging::Messaging;
use inkrelay_load::report::summary::summary;
use inkrelay_load::report::{Report, html};
use inkrelay_load::run::Failure;
use inkrelay_load::scenario::{Scenario, file};
use tokio::signal::unix::SignalKind;

/// Puts load on a relay, checks every record that every reader gets, and tells what it cost.
///
/// Draws are sent on schedule whatever becomes of those before, and latency counts from when a draw was due, so that
/// a server that stalls cannot hide. Ends with 1 when anything was lost, repeated, out of order or changed.
#[derive(Debug, Parser)]
#[command(version, args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    Scenario(Scenario),
    Messaging(Messaging),
    Compare(Compare),
    Bounds(Bounds),
    /// Runs a scenario file: TOML with `scenario = "fanout"` and that scenario's options
    ///
    /// Example: inkrelay-load run nightly.toml --out report
    #[command(verbatim_doc_comment)]
    Run {
        /// The file
        file: PathBuf,
        /// More options of its scenario, behind those of the file
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Shows several runs side by side in one page
    ///
    /// Example: inkrelay-load report a/report.json b/report.json --out both.html
    #[command(verbatim_doc_comment)]
    Report {
        /// As runs write them
        #[arg(required = true)]
        reports: Vec<PathBuf>,
        /// The page
        #[arg(long, default_value = "report.html", value_name = "FILE")]
        out: PathBuf,
    },
    /// The server of `floor`: copies what somebody draws in a room to all who read there
    BareLoop {
        /// Where it listens
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: String,
        /// Milliseconds within which what comes goes out in one write; 0: each draw at once
        #[arg(long, default_value_t = 0)]
        flush_ms: u64,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("inkrelay-load: {error}");
            ExitCode::from(2)
        }
    }
}

/// Waits for somebody who does not wait: a second Ctrl-C, or SIGTERM. At the first Ctrl-C runs stop drawing, wait
/// for what is on its way, and report.
async fn given_up() {
    let interrupted = async {
        // Without signals there is no giving up.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        eprintln!("stopping; Ctrl-C again gives up at once");
        let _ = tokio::signal::ctrl_c().await;
    };
    let Ok(mut terminated) = tokio::signal::unix::signal(SignalKind::terminate()) else {
        return interrupted.await;
    };
    tokio::select! {
        () = interrupted => {}
        _ = terminated.recv() => {}
    }
}

/// Makes a folder, and tries whether a file can be written there.
fn is_writable(folder: &Path) -> Result<(), Failure> {
    let tried = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
    tried.map(drop).map_err(|error| format!("{}: {error}", folder.display()).into())
}

/// Whether every promise was kept.
fn run(command: Command) -> Result<bool, Failure> {
    match command {
        Command::Run { file, options } => {
            let words = ["inkrelay-load".to_owned()].into_iter().chain(file::words(&file)?).chain(options);
            match Cli::try_parse_from(words)?.command {
                Command::Scenario(scenario) => run(Command::Scenario(scenario)),
                _ => Err(format!("{}: what it names is a command, and no scenario", file.display()).into()),
            }
        }
        Command::Scenario(scenario) => {
            let common = scenario.common();
            // Less than asked for shows when connections fail.
            let _ = rlimit::increase_nofile_limit(u64::MAX);
            let threads = usize::from(common.threads);
            // Not after hours.
            if let Some(folder) = &common.out {
                is_writable(folder)?;
            }
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
            // Dropping a scenario ends the server that was started for it.
            let report = runtime.block_on(async {
                tokio::select! {
                    report = scenario.run(threads) => report,
                    () = given_up() => Err("given up".into()),
                }
            })?;
            print!("{}", summary(&report));
            if let Some(folder) = &common.out {
                report.write(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
                println!("  {}", folder.join("report.html").display());
            }
            Ok(report.is_good())
        }
        Command::Messaging(messaging) => messaging.run().map(|()| true),
        Command::Compare(compare) => compare.run().map(|()| true),
        Command::Bounds(bounds) => bounds.run(),
        Command::Report { reports, out } => {
            let reports: Vec<Report> =
                reports.iter().map(|path| Report::read(path)).collect::<Result<_, _>>()?;
            std::fs::write(&out, html::page(&reports))
                .map_err(|error| format!("{}: {error}", out.display()))?;
            for report in &reports {
                print!("{}", summary(report));
            }
            println!("{}", out.display());
            Ok(reports.iter().all(Report::is_good))
        }
        Command::BareLoop { listen, flush_ms } => {
            let _ = rlimit::increase_nofile_limit(u64::MAX);
            let listener = TcpListener::bind(listen)?;
            println!("The bare loop listens on http://{}", listener.local_addr()?);
            bare_loop::serve(listener, Duration::from_millis(flush_ms))?;
            Ok(true)
        }
    }
}
