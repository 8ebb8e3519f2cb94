//! `inkrelay health`: whether a server is ready, or at least alive, for those who look after it and have no other program at
//! hand, as in a container that holds nothing but this one.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use rustls::ClientConfig as TlsConfig;

use super::CommandError;
use crate::http::{HttpError, Problem};
use crate::tls;

/// A server that does not answer in this time is not well.
const TIMEOUT: Duration = Duration::from_secs(4);
/// Bytes of an answer at most.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Arguments of `inkrelay health`.
#[derive(Debug, Args)]
pub struct HealthArgs {
    /// The server's address
    #[arg(long, env = "INKRELAY_SERVER", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    server: String,
    /// PEM file with the authorities that may vouch for the server, instead of those that this machine trusts
    #[arg(long, env = "INKRELAY_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Ask whether it runs, and not whether it is ready: one whose store is away, or that is about to go, is alive
    #[arg(long)]
    alive: bool,
}

pub(super) async fn run(args: HealthArgs) -> Result<(), CommandError> {
    let (path, is) = if args.alive { ("healthz", "alive") } else { ("readyz", "ready") };
    let url = Url::parse(&args.server).and_then(|server| server.join(path));
    let url = url.map_err(|error| CommandError(format!("{}: {error}", args.server)))?;
    let tls = match url.scheme() {
        "https" => tls::config(args.ca.as_deref()).map_err(CommandError)?,
        _ => tls::none(),
    };
    let client = reqwest::Client::builder().tls_backend_preconfigured(TlsConfig::clone(&tls)).build();
    let client = client.map_err(CommandError::new)?;
    let ask = async {
        let response = client.get(url).send().await?;
        let status = response.status();
        let is_short = response.content_length().is_none_or(|bytes| bytes <= ANSWER_BYTES_MAX);
        let body = if is_short { response.bytes().await? } else { bytes::Bytes::new() };
        Ok::<_, HttpError>((status, body))
    };
    let answered = tokio::time::timeout(TIMEOUT, ask).await;
    match answered.map_err(|_| CommandError(format!("{} does not answer", args.server)))? {
        Ok((status, _)) if status.is_success() => {
            println!("{is}");
            Ok(())
        }
        Ok((status, body)) => {
            let problem = Problem::parse(status.as_u16(), None, &body);
            Err(CommandError(format!("{} is not {is}: {}", args.server, problem.message)))
        }
        Err(error) => Err(CommandError(format!("cannot reach {}: {error}", args.server))),
    }
}
