//! What each role may do, over every way in (D-17, S-18).

use http::Method;
use inkrelay_protocol::{ClientFrame, Draw, Profile, Role, ServerFrame};
use serde_json::json;

use super::{Keys, hello, in_seconds, sign, token};
use crate::support::requests::{MESSAGE_PACK, answer};
use crate::support::socket::{Socket, batch, mark};

#[tokio::test]
async fn a_viewer_cannot_draw_whichever_way_it_tries() {
    let keys = Keys::new();
    // Everyone may do everything where no tokens say otherwise, which they do.
    let relay = keys.relay(|config| config.role = Role::Moderator).await;
    for viewer in [token("a", "viewer"), sign(&json!({"room": "a", "exp": in_seconds(60)}))] {
        let mut socket = Socket::join_as(relay.address, "a", hello(&viewer)).await;
        assert_eq!(socket.welcome.as_ref().unwrap().role, Role::Viewer);
        for draw in [mark(1), Draw::Clear, Draw::Erase(vec![]), Draw::Revoke(vec![])] {
            socket.draw(1, &[draw.clone(), mark(2)]).await;
            assert_eq!(socket.refused().await, ("forbidden".to_owned(), Some(1)), "{draw:?}");
        }
        let session = relay.request(Method::POST, "/v1/rooms/a/sessions").bearer_auth(&viewer);
        let session = answer(session).await.json();
        assert_eq!(session["role"], 0);
        let ticket = session["ticket"].as_str().unwrap();
        let post = || {
            let request = relay.request(Method::POST, "/v1/rooms/a/draws").bearer_auth(&viewer);
            request.header("content-type", MESSAGE_PACK).body(batch(&[mark(1)]))
        };
        let as_client = post().header("inkrelay-ticket", ticket).header("inkrelay-n", 1);
        for request in [post(), as_client] {
            assert_eq!(answer(request).await.problem(), (403, "forbidden".to_owned()));
        }
        // It stays, and reads.
        let mut drawer = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
        drawer.draw(1, &[mark(7)]).await;
        drawer.acked(1).await;
        socket.wait_for("a record", |frame| matches!(frame, ServerFrame::Records { .. }).then_some(())).await;
    }
    let room = relay.request(Method::GET, "/v1/rooms/a").bearer_auth(token("a", "viewer"));
    assert_eq!(answer(room).await.json()["records"], 2, "only what drawers drew");
}

#[tokio::test]
async fn a_viewer_is_seen_and_its_pen_is_not() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let mut viewer = Socket::join_as(relay.address, "a", hello(&token("a", "viewer"))).await;
    let mut drawer = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
    let mut other = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
    viewer.send(&ClientFrame::Pointer { x: 1, y: 1 }).await;
    viewer.send(&ClientFrame::Profile(Profile { name: "Vera".to_owned(), rgba: 1 })).await;
    let client = viewer.client;
    let sees_name = |frame: ServerFrame<'_>| match frame {
        ServerFrame::Participants(list) => {
            list.iter().any(|one| one.client == client && one.profile.name == "Vera").then_some(())
        }
        ServerFrame::Pointer { .. } => panic!("a viewer's pen is shown"),
        _ => None,
    };
    other.wait_for("the viewer's name", sees_name).await;
    // What the drawer points at after that comes, and nothing of the viewer's before it.
    drawer.send(&ClientFrame::Pointer { x: 5, y: 5 }).await;
    let pointed = |frame: ServerFrame<'_>| match frame {
        ServerFrame::Pointer { client, .. } => Some(client),
        _ => None,
    };
    assert_eq!(other.wait_for("a pointer", pointed).await, drawer.client);
}

#[tokio::test]
async fn only_moderators_revoke_what_others_did() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let mut ann = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
    ann.draw(1, &[Draw::Clear]).await;
    ann.acked(1).await;
    let revoke = Draw::Revoke(vec![(ann.client, 1)]);
    let mut bob = Socket::join_as(relay.address, "a", hello(&token("a", "drawer"))).await;
    bob.draw(1, std::slice::from_ref(&revoke)).await;
    assert_eq!(bob.refused().await, ("forbidden".to_owned(), Some(1)));
    let mut eve = Socket::join_as(relay.address, "a", hello(&token("a", "moderator"))).await;
    eve.draw(1, &[revoke]).await;
    eve.acked(1).await;
}

/// T-7: a name in the token is the one that is shown.
#[tokio::test]
async fn nobody_goes_by_another_name_than_the_tokens() {
    let keys = Keys::new();
    let relay = keys.relay(|_| {}).await;
    let named = sign(&json!({"room": "a", "role": "drawer", "name": "Ann", "exp": in_seconds(60)}));
    let mut first = hello(&named);
    first.profile = Some(Profile { name: "The teacher".to_owned(), rgba: 3 });
    let mut ann = Socket::join_as(relay.address, "a", first).await;
    let client = ann.client;
    let name_with = |rgba: u32| {
        move |frame: ServerFrame<'_>| match frame {
            ServerFrame::Participants(list) => {
                let here = list.into_iter().find(|one| one.client == client && one.profile.rgba == rgba);
                here.map(|here| here.profile.name)
            }
            _ => None,
        }
    };
    assert_eq!(ann.wait_for("the list", name_with(3)).await, "Ann");
    ann.send(&ClientFrame::Profile(Profile { name: "Bob".to_owned(), rgba: 4 })).await;
    assert_eq!(ann.wait_for("the list", name_with(4)).await, "Ann");
}
