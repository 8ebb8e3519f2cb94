//! `inkrelay token`: what it makes, a relay takes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use inkrelay_protocol::Role;

use super::hello;
use crate::support::relay::Relay;
use crate::support::socket::Socket;

fn token(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    command.arg("token").args(arguments).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

fn said(folder: &Path, arguments: &[&str]) -> String {
    let output = token(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn failed(folder: &Path, arguments: &[&str]) -> String {
    let output = token(folder, arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn keys_tokens_and_links_are_made_that_a_relay_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (kind, file, checks) in
        [("ed25519", "private.pem", "private.pem.jwks"), ("hs256", "secret", "secret")]
    {
        said(path, &["new-key", file, "--type", kind]);
        let mode = |name: &str| std::fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(file), 0o600, "{kind}");
        assert!(failed(path, &["new-key", file, "--type", kind]).contains(file), "nothing is written over");
        let relay = Relay::start(|config| config.token_keys = vec![path.join(checks)]).await;
        for (role, expected) in
            [("viewer", Role::Viewer), ("drawer", Role::Drawer), ("moderator", Role::Moderator)]
        {
            let arguments = [
                "issue",
                "--key",
                file,
                "--room",
                "class-*",
                "--role",
                role,
                "--for",
                "1h",
                "--subject",
                "ann",
            ];
            let issued = said(path, &arguments);
            let socket = Socket::join_as(relay.address, "class-1", hello(&issued)).await;
            assert_eq!(socket.welcome.unwrap().role, expected);
            assert!(Socket::try_join(relay.address, "other", &hello(&issued)).await.is_err());
            let shown = said(path, &["inspect", &issued, "--token-keys", checks, "--room", "class-7"]);
            assert!(shown.contains(&format!("takes it, for the room class-7, as {role}")), "{shown}");
            let why = failed(path, &["inspect", &issued, "--token-keys", checks, "--room", "x"]);
            assert!(why.contains("refused: the token is for another room"), "{why}");
        }
        let server = relay.url("");
        let link =
            said(path, &["link", "--server", &server, "--key", file, "--room", "hello", "--role", "drawer"]);
        let (page, in_link) = link.split_once("#token=").unwrap();
        assert_eq!(page, format!("{server}/b/hello"));
        let socket = Socket::join_as(relay.address, "hello", hello(in_link)).await;
        assert_eq!(socket.welcome.unwrap().role, Role::Drawer);
        let shown = said(path, &["inspect", &link]);
        assert!(shown.contains("Nothing of this was checked") && shown.contains("good until"), "{shown}");
    }
    let private = path.join("private.pem");
    let why = failed(path, &["inspect", "x.y.z", "--token-keys", private.to_str().unwrap()]);
    assert!(why.contains("no token"), "{why}");
}

#[test]
fn what_cannot_be_is_said_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    said(path, &["new-key", "key"]);
    for (arguments, says) in [
        (&["issue", "--key", "nowhere", "--room", "a"][..], "nowhere"),
        (&["issue", "--key", "key.jwks", "--room", "a"], "only checks tokens"),
        (&["issue", "--key", "key", "--room", "a b"], "room's name"),
        (&["issue", "--key", "key", "--room", "*a"], "room's name"),
        (&["issue", "--key", "key", "--room", "a", "--role", "admin"], "viewer, drawer or moderator"),
        (&["issue", "--key", "key", "--room", "a", "--for", "soon"], "12h"),
        (&["link", "--key", "key", "--room", "a*", "--server", "https://h"], "one room"),
        (&["link", "--key", "key", "--room", "a", "--server", "h"], "https://draw.example"),
        (&["link", "--key", "key", "--room", "a", "--server", "https://h/x?y"], "https://draw.example"),
    ] {
        let why = failed(path, arguments);
        assert!(why.contains(says), "{arguments:?}: {why}");
    }
}
