//! Whatever is logged, a token, a ticket and a secret are not in it (T-13).

use std::io::Read;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use inkrelay_protocol::ClientFrame;
use inkrelay_protocol::frame::Hello;

use super::{CALLS, Keys, SECRET, hello, sign, token};
use crate::support::requests::JSON;
use crate::support::socket::Socket;

#[tokio::test]
async fn nothing_logs_a_token_or_a_secret() {
    let keys = Keys::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--memory", "--secret", "the secret of tickets"]);
    command.arg("--token-keys").arg(keys.file()).env("INKRELAY_LOG", "trace");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut log) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let log = std::thread::spawn(move || {
        let mut text = Vec::new();
        log.read_to_end(&mut text).unwrap();
        text
    });
    let mut said = String::new();
    let address = loop {
        let mut byte = [0];
        out.read_exact(&mut byte).unwrap();
        said.push(char::from(byte[0]));
        let found = said.split_once("http://").and_then(|(_, rest)| rest.split_once('\n'));
        if let Some((address, _)) = found {
            break address.trim().parse().unwrap();
        }
    };
    let (good, foreign) = (token("a", "drawer"), token("b", "drawer"));
    let expired = sign(&serde_json::json!({"room": "a", "exp": 1, "sub": "ann"}));
    let client = crate::support::requests::client();
    let mut tickets = Vec::new();
    for token in [&good, &foreign, &expired, &format!("{good}x")] {
        for (method, path, body) in &CALLS {
            let request = client.request(method.clone(), format!("http://{address}/v1/rooms/a{path}"));
            let request =
                request.bearer_auth(token).header("content-type", JSON).body(body.unwrap_or("").to_owned());
            drop(request.send().await.unwrap());
        }
        let body = serde_json::json!({"token": token}).to_string();
        let open = client.request(Method::POST, format!("http://{address}/v1/rooms/a/sessions"));
        drop(open.header("content-type", JSON).body(body).send().await.unwrap());
        for protocol in ["v1.msgpack.inkrelay".to_owned(), format!("token.{token}, v1.json.inkrelay")] {
            let (mut socket, _) = Socket::handshake(address, "a", Some(&protocol)).await.unwrap();
            if protocol.contains("json") {
                socket.send_text(&format!(r#"[1,null,null,null,"{token}"]"#)).await;
                socket.send_text(&format!(r#"[5,"{token}"]"#)).await;
                drop(socket.next().await);
            } else if socket.hello(&hello(token)).await.is_ok() {
                socket.send(&ClientFrame::Token(token.clone())).await;
                socket.send(&ClientFrame::Token(format!("{token}y"))).await;
                assert_eq!(socket.refused().await.0, "invalid_token");
                let again = Hello { token: Some(token.clone()), ..socket.resume(None) };
                drop(Socket::join_as(address, "a", again).await);
                tickets.push(socket.ticket);
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let log = String::from_utf8_lossy(&log.join().unwrap()).into_owned();
    assert!(log.contains("TRACE") || log.contains("DEBUG"), "it was logged: {log}");
    assert!(!tickets.is_empty());
    let mut never = vec![SECRET.to_owned(), STANDARD.encode(SECRET), "the secret of tickets".to_owned()];
    never.extend(tickets);
    // Any part of a token that is of use: its claims, and its signature.
    for token in [&good, &foreign, &expired] {
        never.extend(token.split('.').skip(1).map(|part| part[..part.len().min(24)].to_owned()));
    }
    for secret in &never {
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        for form in [secret, &hex] {
            let line = log.lines().find(|line| line.contains(form.as_str()));
            assert_eq!(line, None, "{secret} is in the log");
        }
    }
}
