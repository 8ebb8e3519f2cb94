//! The files of the certificate: what may be in them, what is said of what may not, and how they are exchanged.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use inkrelay_server::transport::Certificates;
use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize};

use super::{relay, url};
use crate::support::certificates::{Authority, shown};
use crate::support::eventually;
use crate::support::ledger::padded;
use crate::support::process::Process;
use crate::support::relay::Relay;
use crate::support::requests::answer;
use crate::support::socket::mark;

/// What a key in PKCS#8 (RFC 5208, section 5) holds: the third of the three fields of a sequence.
fn inner(pkcs8: &[u8]) -> &[u8] {
    let mut rest = field(pkcs8).0;
    let mut last = rest;
    for _ in 0..3 {
        (last, rest) = field(rest);
    }
    last
}

/// The content of the first DER field, and what follows it.
fn field(der: &[u8]) -> (&[u8], &[u8]) {
    let (head, len) = match der[1] {
        short @ 0..=0x7f => (2, usize::from(short)),
        0x81 => (3, usize::from(der[2])),
        0x82 => (4, usize::from(u16::from_be_bytes([der[2], der[3]]))),
        long => panic!("no key is that long: {long}"),
    };
    der[head..].split_at(len)
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[tokio::test]
async fn keys_of_every_usual_kind_in_every_usual_format_are_taken() {
    let authority = Authority::new();
    let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let p256 = KeyPair::generate().unwrap();
    let p384 = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap();
    let keys = [
        (&rsa, rsa.serialize_pem()),
        (&rsa, pem("RSA PRIVATE KEY", inner(rsa.serialized_der()))),
        (&p256, p256.serialize_pem()),
        (&p256, pem("EC PRIVATE KEY", inner(p256.serialized_der()))),
        (&p384, format!("some words before it\n{}", p384.serialize_pem())),
        (&ed25519, ed25519.serialize_pem()),
    ];
    for (key, text) in keys {
        let chain = authority.write("chain.pem", &authority.chain(key));
        let path = authority.write("key.pem", &text);
        let label = text.lines().find(|line| line.starts_with("-----")).unwrap();
        let certificates = Certificates::load(&chain, &path).unwrap_or_else(|why| panic!("{label}: {why}"));
        let relay = Relay::encrypted(Arc::new(certificates), |_| {});
        assert_eq!(answer(authority.http().get(url(&relay, "/healthz"))).await.status, 200, "{label}");
    }
}

/// Files that cannot be used: what each is, its chain and key, and what is said of it.
fn wrong_files(authority: &Authority) -> Vec<(&'static str, [std::path::PathBuf; 2], &'static str)> {
    let [chain, key] = authority.issue();
    let other = authority.write("other.pem", &KeyPair::generate().unwrap().serialize_pem());
    let empty = authority.write("empty.pem", "");
    let cut = &std::fs::read_to_string(&key).unwrap()[..60];
    let cut = authority.write("cut.pem", cut);
    let broken = authority.write("broken.pem", &pem("CERTIFICATE", &[0x30, 3, 1, 2, 3]));
    let missing = authority.path("nowhere.pem");
    let locked = authority.write("locked.pem", &pem("ENCRYPTED PRIVATE KEY", &[0x30, 0]));
    vec![
        ("no file", [missing.clone(), key.clone()], "cannot read"),
        ("no key file", [chain.clone(), missing], "nowhere.pem"),
        ("a folder", [authority.path(""), key.clone()], "cannot read"),
        ("an empty chain", [empty.clone(), key.clone()], "empty.pem holds no certificate"),
        ("an empty key", [chain.clone(), empty], "empty.pem holds no key"),
        ("the two exchanged", [key.clone(), chain.clone()], "key.pem holds no certificate"),
        ("the chain twice", [chain.clone(), chain.clone()], "chain.pem holds no key"),
        ("a key with a password", [chain.clone(), locked], "not encrypted"),
        ("another's key", [chain.clone(), other], "other.pem is not that of the first certificate"),
        ("half a key", [chain.clone(), cut], "cut.pem"),
        ("no certificate in it", [broken, key], "broken.pem"),
    ]
}

#[test]
fn wrong_files_are_named_with_what_is_wrong() {
    let authority = Authority::new();
    for (what, [chain, key], said) in wrong_files(&authority) {
        let error = Certificates::load(&chain, &key).err().unwrap_or_else(|| panic!("{what} is taken"));
        assert!(error.to_string().contains(said), "{what}: {error}");
    }
}

/// The status and the error of a relay that does not start.
fn refused(arguments: &[&str], chain: Option<&Path>, key: Option<&Path>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    command.args(["serve", "--memory", "--listen", "127.0.0.1:0"]).args(arguments);
    for (flag, path) in [("--tls-cert", chain), ("--tls-key", key)] {
        if let Some(path) = path {
            command.arg(flag).arg(path);
        }
    }
    let output = command.output().unwrap();
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_relay_with_wrong_files_does_not_start_and_says_why() {
    let authority = Authority::new();
    let (what, [chain, key], said) = wrong_files(&authority).swap_remove(8);
    let (status, error) = refused(&[], Some(&chain), Some(&key));
    assert!(status == Some(1) && error.contains(said), "{what}: {status:?} {error}");
    let mut check = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
    let checked = check
        .args(["config", "check", "--tls-cert"])
        .arg(&chain)
        .arg("--tls-key")
        .arg(&key)
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&checked.stderr).contains(said), "{checked:?}");
    for (chain, key) in [(Some(&*chain), None), (None, Some(&*key))] {
        let (status, error) = refused(&[], chain, key);
        assert!(status.is_some_and(|status| status > 0), "{error}");
        assert!(error.contains("tls-cert") && error.contains("tls-key"), "{error}");
    }
}

/// New connections are shown the new certificate, and those that are open go on.
#[tokio::test]
async fn a_certificate_is_exchanged_without_ending_anything() {
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let certificates = Arc::new(Certificates::load(&chain, &key).unwrap());
    let relay = Relay::encrypted(Arc::clone(&certificates), |_| {});
    let mut socket = authority.join(relay.address, "a").await;
    let own = async || {
        let stream = authority.connect(relay.address, |_| {}).await.unwrap();
        shown(stream.get_ref().1)
    };
    let first = own().await;
    authority.issue();
    assert_eq!(own().await, first, "nobody said that there is another");
    certificates.reload().unwrap();
    let second = own().await;
    assert_ne!(second, first);
    socket.draw(1, &[padded(1, 50_000)]).await;
    socket.acked(1).await;

    // What is wrong is refused, and changes nothing.
    let [right_chain, right_key] = [&chain, &key].map(|path| std::fs::read_to_string(path).unwrap());
    let other_key = KeyPair::generate().unwrap().serialize_pem();
    for (wrong_chain, wrong_key, said) in [
        (Some(&*right_chain), None, "cannot read"),
        (None, Some(&*right_key), "cannot read"),
        (Some(""), Some(&*right_key), "holds no certificate"),
        (Some(&*right_chain), Some(&*other_key), "is not that of the first certificate"),
    ] {
        for (path, text) in [(&chain, wrong_chain), (&key, wrong_key)] {
            match text {
                Some(text) => std::fs::write(path, text).unwrap(),
                None => std::fs::remove_file(path).unwrap(),
            }
        }
        let error = certificates.reload().expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
        assert_eq!(own().await, second, "{said}");
    }
    socket.draw(2, &[mark(2)]).await;
    socket.acked(2).await;
    authority.issue();
    certificates.reload().unwrap();
    assert_ne!(own().await, second);
}

#[tokio::test]
async fn sighup_reads_the_certificate_again() {
    let authority = Authority::new();
    let [chain, key] = authority.issue();
    let arguments = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let mut process = Process::start(&arguments);
    let mut socket = authority.join(process.address, "a").await;
    let own = async || {
        let stream = authority.connect(process.address, |_| {}).await.unwrap();
        shown(stream.get_ref().1)
    };
    let first = own().await;
    // Only one of the two is new, as in the middle of an exchange.
    std::fs::write(&key, KeyPair::generate().unwrap().serialize_pem()).unwrap();
    process.hang_up();
    assert_eq!(own().await, first);
    authority.issue();
    process.hang_up();
    eventually("the new one is shown", async || own().await != first).await;
    socket.draw(1, &[mark(1)]).await;
    socket.acked(1).await;
    process.terminate();
    assert_eq!(socket.closed().await, 1001);
    drop(socket);
    assert_eq!(process.ended().await, Some(0));
}

/// The commands that are clients.
#[tokio::test(flavor = "multi_thread")]
async fn the_commands_go_over_tls_with_the_authority_that_they_are_given() {
    let authority = Authority::new();
    let relay = relay(&authority, |_| {});
    let ink = authority.write("ink.json", "[[10, 10, 0.2, 0], [12, 11, 0.4, 4]]");
    let inkrelay = async |arguments: &[&str], ca: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_inkrelay"));
        command.args(arguments).arg("--ca").arg(ca).env("INKRELAY_SERVER", url(&relay, ""));
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let ca = authority.ca();
    let (status, told) = inkrelay(&["draw", "r", ink.to_str().unwrap(), "--speed", "max"], &ca).await;
    assert!(status == Some(0) && told.contains("stored"), "{told}");
    for transport in ["ws", "poll", "sse"] {
        let watch = ["watch", "r", "--json", "--count", "1", "--wait-ms", "10000", "--transport", transport];
        let (status, told) = inkrelay(&watch, &ca).await;
        assert!(status == Some(0) && told.starts_with('['), "{transport}: {told}");
    }
    let (status, told) = inkrelay(&["board", "r", "--svg", "-"], &ca).await;
    assert!(status == Some(0) && told.contains("<svg"), "{told}");

    let stranger = Authority::new();
    let (status, told) = inkrelay(&["board", "r", "--svg", "-"], &stranger.ca()).await;
    assert!(status == Some(1) && told.contains("certificate"), "{told}");
    let (status, told) = inkrelay(&["board", "r", "--svg", "-"], &ink).await;
    assert!(status == Some(1) && told.contains("holds no certificate"), "{told}");
}
