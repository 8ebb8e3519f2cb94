//! Sessions over HTTP: who a client is, and what its ticket resumes.

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use crate::support::relay::Relay;

async fn answer(request: RequestBuilder) -> (u16, Value) {
    let response = request.send().await.unwrap();
    (response.status().as_u16(), serde_json::from_str(&response.text().await.unwrap()).unwrap())
}

async fn open(relay: &Relay, room: &str, ticket: Option<&str>) -> (u16, Value) {
    let request = Client::new().post(relay.url(&format!("/v1/rooms/{room}/sessions")));
    let request =
        ticket.into_iter().fold(request, |request, ticket| request.header("inkrelay-ticket", ticket));
    answer(request).await
}

/// S-2, S-17.
#[tokio::test]
async fn a_session_call_with_a_ticket_resumes_its_client() {
    let relay = Relay::start(|_| {}).await;
    let (_, first) = open(&relay, "a", None).await;
    assert_eq!(first["limits"][4], 0);
    let ticket = first["ticket"].as_str().unwrap();
    let draws = Client::new()
        .post(relay.url("/v1/rooms/a/draws"))
        .header("inkrelay-ticket", ticket)
        .header("inkrelay-n", "1")
        .header("content-type", "application/json")
        .body("[[4], [4], [4]]");
    assert_eq!(answer(draws).await.0, 200);
    let (status, resumed) = open(&relay, "a", Some(ticket)).await;
    assert_eq!((status, &resumed["client"], &resumed["ticket"]), (200, &first["client"], &first["ticket"]));
    assert_eq!((&resumed["limits"][4], &resumed["position"][1]), (&json!(3), &json!(3)));
    assert_ne!(open(&relay, "a", None).await.1["client"], first["client"]);
}

/// S-3.
#[tokio::test]
async fn a_session_call_with_a_foreign_ticket_is_refused() {
    let (relay, other) = (Relay::start(|_| {}).await, Relay::start(|_| {}).await);
    let (_, here) = open(&relay, "a", None).await;
    let here = here["ticket"].as_str().unwrap();
    for (relay, room, ticket) in
        [(&relay, "b", here), (&other, "a", here), (&relay, "a", ""), (&relay, "a", "no")]
    {
        let (status, problem) = open(relay, room, Some(ticket)).await;
        assert_eq!((status, &problem["code"]), (401, &json!("invalid_ticket")), "{room} {ticket:?}");
    }
}
