//! The host that a request names has to be this server's, where whoever reaches it may come in.
//!
//! With tokens there is nothing to look at: a page that leads here by a name of its own has none, and gets nothing.

use http::Request;
use inkrelay_protocol::ErrorCode;

use super::problem::Problem;
use crate::access::Host;
use crate::session::Relay;

/// Load balancers ask these by any name; they tell nothing of any room.
const BY_ANY_NAME: [&str; 2] = ["/healthz", "/readyz"];

/// Lets in who asks by a known name, or as programs alone do by none.
///
/// # Errors
/// By which name to ask, and how another one becomes known.
pub fn check<B>(relay: &Relay, request: &Request<B>) -> Result<(), Problem> {
    if BY_ANY_NAME.contains(&request.uri().path()) {
        return Ok(());
    }
    let unreadable =
        || Problem::new(ErrorCode::Malformed, "there is to be one Host header, with a name or an address");
    let host = Host::of(request.headers()).map_err(|_| unreadable())?;
    // A target in absolute form (RFC 9112, section 3.2.2) names a host too.
    let target = match request.uri().authority() {
        Some(authority) => Some(Host::parse(authority.as_str()).ok_or_else(unreadable)?),
        None => None,
    };
    [host, target].into_iter().flatten().try_for_each(|host| known(relay, host))
}

fn known(relay: &Relay, host: Host<'_>) -> Result<(), Problem> {
    match host {
        Host::Name(name) if !relay.config().has_tokens() && !relay.origins().know(Host::Name(name)) => {
            Err(Problem::new(
                ErrorCode::OriginRefused,
                format!(
                    "{name} is not known to be a name of this server: ask by its IP address, or start it with \
                     --allow-origin https://{name}"
                ),
            ))
        }
        _ => Ok(()),
    }
}
