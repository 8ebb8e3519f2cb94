//! What moderators do over HTTP: lock, kick, ban, erase and clear, and what is laid down.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use inkrelay_protocol::{ClientId, ErrorCode, Role};
use serde_json::{Map, Value, json};

use super::problem::Problem;
use super::request::{Admitted, Shared, admit, body, is_json};
use crate::access::Grant;
use crate::room::Room;
use crate::session::moderation::{Action, Done, Erasure, Who};
use crate::session::{Refused, Relay};
use crate::store::rules::SUBJECT_BYTES_MAX;
use crate::store::{Rules, StoreError};

/// What is laid down.
pub async fn rules(State(relay): Shared, Admitted { room, grant }: Admitted) -> Result<Json<Value>, Problem> {
    is_moderator(&grant)?;
    let handle = relay.visit(&room).await?;
    admit(&handle, ClientId::ANONYMOUS, &grant)?;
    Ok(laid_down(&relay, &handle).await?)
}

/// What is laid down for a room now, for moderators and operators.
///
/// # Errors
/// When the store does not answer.
pub async fn laid_down(relay: &Relay, room: &Room) -> Result<Json<Value>, StoreError> {
    room.read_rules().await?;
    let mut told = told(&room.rules());
    told["erasing"] = relay.erasing(room.id()).map_or(Value::Null, |erasure| progress(&erasure));
    Ok(Json(told))
}

/// Does one thing, and answers with what is laid down then.
pub async fn act(
    State(relay): Shared,
    Admitted { room, grant }: Admitted,
    headers: HeaderMap,
    request_body: Body,
) -> Result<(StatusCode, Json<Value>), Problem> {
    is_moderator(&grant)?;
    // Also so that no form of a foreign page can ask: what it may send is never of this type.
    is_json(&headers)?;
    let sent = body(&relay, &headers, request_body).await?;
    // The body may have been long in coming.
    relay.still_admits(&grant)?;
    let action = read_action(&sent)?;
    admit(&*relay.visit(&room).await?, ClientId::ANONYMOUS, &grant)?;
    let done = relay.moderate(&room, action).await?;
    Ok(answer(&done))
}

fn is_moderator(grant: &Grant) -> Result<(), Problem> {
    if grant.role >= Role::Moderator {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::Forbidden, "only moderators may do that"))
}

/// Of something done; operators are answered alike.
pub fn answer(done: &Done) -> (StatusCode, Json<Value>) {
    let mut told = told(&done.rules);
    let mut status = StatusCode::OK;
    if let Some(erasure) = &done.erasure {
        for (name, value) in progress(erasure).as_object().into_iter().flatten() {
            told[name] = value.clone();
        }
        if !erasure.is_done {
            status = StatusCode::ACCEPTED;
        }
    }
    if !done.records.is_empty() {
        told["records"] = done.records.iter().map(|(author, n)| json!([author.get(), n])).collect();
    }
    (status, Json(told))
}

fn told(rules: &Rules) -> Value {
    json!({
        "locked": rules.is_locked,
        "banned_clients": rules.banned_clients.iter().map(|client| client.get()).collect::<Vec<_>>(),
        "banned_subjects": rules.banned_subjects.iter().map(|subject| &**subject).collect::<Vec<_>>(),
    })
}

fn progress(erasure: &Erasure) -> Value {
    json!({
        "client": erasure.client.get(),
        "erased": erasure.erased,
        "read": erasure.read,
        "of": erasure.of,
        "done": erasure.is_done,
    })
}

/// Reads `{"action", "client"?, "subject"?}`.
///
/// # Errors
/// What is missing or wrong, in plain words.
pub fn read_action(body: &[u8]) -> Result<Action, Refused> {
    action(body).map_err(Refused::malformed)
}

fn action(body: &[u8]) -> Result<Action, &'static str> {
    const WRONG: &str =
        "the body is {\"action\": text, \"client\": number, \"subject\": text}, the last two where needed";
    let asked: Value = serde_json::from_slice(body).map_err(|_| WRONG)?;
    let asked = asked.as_object().ok_or(WRONG)?;
    match asked.get("action").and_then(Value::as_str) {
        Some("lock") => Ok(Action::Lock(true)),
        Some("unlock") => Ok(Action::Lock(false)),
        Some("clear") => Ok(Action::Clear),
        Some("kick") => Ok(Action::Kick(ticketed(client(asked)?)?)),
        Some("ban") => Ok(Action::Ban(who(asked)?)),
        Some("unban") => Ok(Action::Unban(who(asked)?)),
        Some("erase") => Ok(Action::Erase(client(asked)?)),
        Some(_) => Err("an action is lock, unlock, kick, ban, unban, erase or clear"),
        None => Err("\"action\" is missing: lock, unlock, kick, ban, unban, erase or clear"),
    }
}

fn client(asked: &Map<String, Value>) -> Result<ClientId, &'static str> {
    let client = asked.get("client").filter(|client| !client.is_null());
    let client = client.ok_or("\"client\" is missing: the number of a participant or author")?;
    let client = client.as_u64().and_then(ClientId::new);
    client.ok_or("\"client\" is a whole number up to 2^48 - 1")
}

fn ticketed(client: ClientId) -> Result<ClientId, &'static str> {
    if client.is_anonymous() {
        return Err(
            "client 0 is everyone without a ticket, and can be neither kicked nor banned: lock the room, or ask for tokens",
        );
    }
    Ok(client)
}

fn who(asked: &Map<String, Value>) -> Result<Who, &'static str> {
    let subject = asked.get("subject").filter(|subject| !subject.is_null());
    let is_client = asked.get("client").is_some_and(|client| !client.is_null());
    match subject {
        Some(_) if is_client => Err("name \"client\" or \"subject\", one of them"),
        Some(subject) => {
            let subject = subject.as_str().filter(|name| (1..=SUBJECT_BYTES_MAX).contains(&name.len()));
            subject
                .map(|subject| Who::Subject(Arc::from(subject)))
                .ok_or("\"subject\" is a text of 1 to 256 bytes")
        }
        None if is_client => Ok(Who::Client(ticketed(client(asked)?)?)),
        None => Err("\"client\" or \"subject\" is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M-2.
    #[test]
    fn an_action_is_read_and_what_it_lacks_is_named() {
        let read = |text: &str| action(text.as_bytes());
        let id = ClientId::new(7).unwrap();
        assert_eq!(read(r#"{"action":"lock"}"#), Ok(Action::Lock(true)));
        assert_eq!(read(r#"{"action":"kick","client":7,"subject":null}"#), Ok(Action::Kick(id)));
        assert_eq!(read(r#"{"action":"ban","client":7}"#), Ok(Action::Ban(Who::Client(id))));
        assert_eq!(
            read(r#"{"action":"unban","subject":"ann"}"#),
            Ok(Action::Unban(Who::Subject("ann".into())))
        );
        assert_eq!(read(r#"{"action":"erase","client":0}"#), Ok(Action::Erase(ClientId::ANONYMOUS)));
        for (wrong, named) in [
            ("", "the body is"),
            ("[]", "the body is"),
            ("{}", "\"action\" is missing"),
            (r#"{"action":"dance"}"#, "an action is"),
            (r#"{"action":"kick"}"#, "\"client\" is missing"),
            (r#"{"action":"kick","client":"7"}"#, "\"client\" is a whole number"),
            (r#"{"action":"kick","client":281474976710656}"#, "\"client\" is a whole number"),
            (r#"{"action":"kick","client":0}"#, "client 0 is everyone"),
            (r#"{"action":"ban","client":0}"#, "client 0 is everyone"),
            (r#"{"action":"ban"}"#, "\"client\" or \"subject\" is missing"),
            (r#"{"action":"ban","client":7,"subject":"ann"}"#, "one of them"),
            (r#"{"action":"ban","subject":""}"#, "\"subject\" is a text"),
            (r#"{"action":"erase","client":-1}"#, "\"client\" is a whole number"),
        ] {
            let why = read(wrong).unwrap_err();
            assert!(why.starts_with(named) || why.ends_with(named), "{wrong}: {why}");
        }
    }
}
