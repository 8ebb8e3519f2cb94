//! The log: for people, or as JSON for programs; on standard error.

use std::io::IsTerminal;

use inkrelay_server::config::LogFormat;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Directive;

/// These would tell, at their finest, what goes over sockets: ink, tickets and passwords. Nobody can ask them to.
const TELL_TOO_MUCH: [&str; 4] = ["tungstenite=warn", "tokio_tungstenite=warn", "hyper=warn", "redis=warn"];

/// Starts the log. `INKRELAY_LOG` says what of it is told, such as `debug` or `inkrelay_server::room=trace`.
pub fn start(format: LogFormat, default_level: &str) {
    let filter = EnvFilter::try_from_env("INKRELAY_LOG").unwrap_or_else(|_| EnvFilter::new(default_level));
    let directives = TELL_TOO_MUCH.iter().filter_map(|text| text.parse::<Directive>().ok());
    let filter = directives.fold(filter, EnvFilter::add_directive);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Human => log.with_ansi(std::io::stderr().is_terminal()).init(),
        LogFormat::Json => log.json().flatten_event(true).with_span_list(false).init(),
    }
}
