//! The log: for people, or as JSON for programs; on standard error.

use std::io::IsTerminal;

use inkrelay_server::config::LogFormat;
use tracing_subscriber::filter::{Directive, EnvFilter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry, reload};

/// These would tell, at their finest, what goes over sockets: ink, tickets and passwords. Nobody can ask them to.
const TELL_TOO_MUCH: [&str; 4] = ["tungstenite=warn", "tokio_tungstenite=warn", "hyper=warn", "redis=warn"];

/// Starts the log. Returns what changes its filter later.
pub fn start(format: LogFormat, filter: &str) -> impl Fn(&str) + Send + use<> {
    let (filter, handle) = reload::Layer::new(limited(EnvFilter::new(filter)));
    let lines = fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Human => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let log = registry().with(filter).with(lines);
    #[cfg(feature = "otel")]
    let log = log.with(crate::otel::layer());
    log.init();
    move |filter| {
        let set = EnvFilter::try_new(filter).map_err(|error| error.to_string());
        if let Err(error) =
            set.and_then(|filter| handle.reload(limited(filter)).map_err(|error| error.to_string()))
        {
            tracing::error!("log: all stays as it was: {error}");
        }
    }
}

fn limited(filter: EnvFilter) -> EnvFilter {
    let directives = TELL_TOO_MUCH.iter().filter_map(|text| text.parse::<Directive>().ok());
    directives.fold(filter, EnvFilter::add_directive)
}
