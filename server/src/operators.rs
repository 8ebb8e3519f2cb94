//! The operators' port: metrics, and a page that shows them live, with what an operator does about a room.
//!
//! It is a port of its own, on loopback unless told otherwise: who reaches it may look into every room and delete it. A
//! browser on the same machine reaches it too, for whatever page it shows; `guard` keeps foreign pages out.

mod api;
mod exposition;
mod guard;
mod listener;
mod page;
mod process;
mod sampler;

use std::sync::Arc;

use axum::extract::{FromRef, State};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router, middleware};
use http::header;
use inkrelay_protocol::ErrorCode;
use serde_json::json;
use tokio::net::TcpListener;

use crate::session::Relay;
use crate::transport::{Problem, ready};
pub use exposition::reference;
pub use listener::listen;
use sampler::Sampler;

/// What every request here shares.
#[derive(Clone)]
struct Operators {
    relay: Arc<Relay>,
    sampler: Arc<Sampler>,
}

impl FromRef<Operators> for Arc<Relay> {
    fn from_ref(operators: &Operators) -> Self {
        Self::clone(&operators.relay)
    }
}

/// Serves on the listener until it is dropped.
pub async fn serve(relay: Arc<Relay>, listener: TcpListener) {
    let sampler = Arc::new(Sampler::new(Arc::clone(&relay)));
    let app = router(Operators { relay, sampler: Arc::clone(&sampler) });
    tokio::join!(sampler.run(), listener::serve(listener, app));
}

fn router(operators: Operators) -> Router {
    let allowed = Arc::new(operators.relay.config().operators_host.clone());
    Router::new()
        .merge(page::routes())
        .merge(api::routes())
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { Json(json!({"status": "ok"})) }))
        .route("/readyz", get(ready))
        .fallback(|| async { Problem::new(ErrorCode::NotFound, "there is nothing at this address") })
        .method_not_allowed_fallback(|| async {
            Problem::new(ErrorCode::MethodNotAllowed, "this address takes other methods")
        })
        .layer(middleware::from_fn_with_state(allowed, guard::guard))
        .with_state(operators)
}

async fn metrics(State(operators): State<Operators>) -> impl IntoResponse {
    let process = process::read().await;
    let text = exposition::text(&operators.relay, &operators.sampler.latest(), process.as_ref());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}
