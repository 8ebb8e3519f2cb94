//! Traces for OpenTelemetry: each request's span, by OTLP over HTTP, where the usual variables name a collector.
//!
//! Only in programs that are built with the feature `otel`: nobody else pays for it.

use std::sync::OnceLock;

use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracerProvider, Tracer};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::registry::LookupSpan;

/// Either says where a collector is.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Spans that were not sent yet are sent at the end.
static PROVIDER: OnceLock<SdkTracerProvider> = OnceLock::new();

/// What passes spans on; none where no collector is named.
pub fn layer<S: Subscriber + for<'s> LookupSpan<'s>>() -> Option<OpenTelemetryLayer<S, Tracer>> {
    if ENDPOINTS.iter().all(|name| std::env::var_os(name).is_none()) {
        return None;
    }
    let exporter = SpanExporter::builder().with_http().build();
    let exporter = exporter.map_err(|error| eprintln!("inkrelay: no traces are sent: {error}")).ok()?;
    let resource = Resource::builder().with_service_name("inkrelay").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let provider = PROVIDER.get_or_init(|| provider);
    Some(tracing_opentelemetry::layer().with_tracer(provider.tracer("inkrelay")))
}

/// Sends what is left.
pub fn finish() {
    if let Some(Err(error)) = PROVIDER.get().map(SdkTracerProvider::shutdown) {
        eprintln!("inkrelay: the last traces were not sent: {error}");
    }
}
