//! Tokens that are hostile, broken or merely wrong, with real signatures: none is taken. This table is long by its nature.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use inkrelay_protocol::Role;
use sha2::Sha256;

use super::keys::{ED25519_PUBLIC, load};
use super::{NotTaken, TokenSettings, Tokens};

const SECRET: &[u8] = b"a secret of thirty-two bytes or more";
const NOW: u64 = 1_800_000_000;
const GOOD: &str = r#"{"room":"a","role":"drawer","exp":1800000600}"#;

/// Keys that are made once for all tests.
struct Pairs {
    ed: Ed25519KeyPair,
    other_ed: Ed25519KeyPair,
    ec_der: Vec<u8>,
    rsa: rsa::KeyPair,
    small_rsa: rsa::KeyPair,
}

static PAIRS: LazyLock<Pairs> = LazyLock::new(|| {
    let ec = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    Pairs {
        ed: Ed25519KeyPair::generate().unwrap(),
        other_ed: Ed25519KeyPair::generate().unwrap(),
        ec_der: ec.to_pkcs8v1().unwrap().as_ref().to_vec(),
        rsa: rsa::KeyPair::generate(rsa::KeySize::Rsa2048).unwrap(),
        small_rsa: rsa::KeyPair::generate(rsa::KeySize::Rsa3072).unwrap(),
    }
});

fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    EcdsaKeyPair::from_pkcs8(algorithm, &PAIRS.ec_der).unwrap()
}

fn pem(der: &[u8]) -> String {
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

fn ed_pem() -> String {
    pem(&[ED25519_PUBLIC, PAIRS.ed.public_key().as_ref()].concat())
}

fn ec_pem() -> String {
    let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(
        ec(&ECDSA_P256_SHA256_FIXED_SIGNING).public_key(),
    );
    pem(der.unwrap().as_ref())
}

fn rsa_pem() -> String {
    let der = AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(PAIRS.rsa.public_key());
    pem(der.unwrap().as_ref())
}

fn jwks(kid: &str, pair: &Ed25519KeyPair) -> String {
    let x = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","x":"{x}","kid":"{kid}"}}]}}"#)
}

fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

fn sign_hs(message: &[u8]) -> Vec<u8> {
    hmac(SECRET, message)
}

fn sign_ed(message: &[u8]) -> Vec<u8> {
    PAIRS.ed.sign(message).as_ref().to_vec()
}

fn sign_ec(message: &[u8]) -> Vec<u8> {
    ec(&ECDSA_P256_SHA256_FIXED_SIGNING).sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
}

fn sign_rsa(message: &[u8]) -> Vec<u8> {
    let mut signature = vec![0; PAIRS.rsa.public_modulus_len()];
    PAIRS.rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
    signature
}

/// A token of that header and those claims, with whatever the signer makes of it.
fn token(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// Signed as HS256 says, with the right secret.
fn hs(claims: &str) -> String {
    token(r#"{"alg":"HS256","typ":"JWT"}"#, claims, sign_hs)
}

/// Of the right secret, with a header of the test's.
fn hs_header(header: &str) -> String {
    token(header, GOOD, sign_hs)
}

struct Files {
    folder: tempfile::TempDir,
    settings: TokenSettings,
}

impl Files {
    fn new(keys: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = keys.iter().enumerate().map(|(index, text)| {
            let file = folder.path().join(format!("key-{index}"));
            std::fs::write(&file, text).unwrap();
            file
        });
        let keys = files.collect();
        Self { settings: TokenSettings { keys, ..TokenSettings::default() }, folder }
    }

    /// A secret, and a public key of each kind.
    fn of_all_kinds() -> Self {
        let secret = String::from_utf8(SECRET.to_vec()).unwrap();
        Self::new(&[&format!("{secret}\n"), &ed_pem(), &ec_pem(), &rsa_pem()])
    }

    fn open(&self) -> Tokens {
        Tokens::open(self.settings.clone()).unwrap().expect("there are keys")
    }
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(NOW)
}

fn check(tokens: &Tokens, token: &str) -> Result<Role, NotTaken> {
    tokens.check(&"a".parse().unwrap(), token, now()).map(|grant| grant.role)
}

/// T-1, T-2.
#[test]
fn a_token_of_each_algorithm_is_taken_with_its_key() {
    let tokens = Files::of_all_kinds().open();
    for good in [
        hs(GOOD),
        token(r#"{"alg":"EdDSA"}"#, GOOD, sign_ed),
        token(r#"{"alg":"ES256","typ":"jwt"}"#, GOOD, sign_ec),
        token(r#"{"alg":"RS256","typ":"at+JWT","kid":"any","x5t":"ignored"}"#, GOOD, sign_rsa),
    ] {
        assert_eq!(check(&tokens, &good), Ok(Role::Drawer), "{good}");
    }
}

/// T-5, T-6, T-7.
#[test]
fn what_a_token_says_is_what_is_granted() {
    let tokens = Files::of_all_kinds().open();
    let grant = |claims: &str| tokens.check(&"class-1".parse().unwrap(), &hs(claims), now()).unwrap();
    let all = grant(
        r#"{"room":"class-*","role":"moderator","exp":1800000600,"nbf":1799999999,"iat":1799999999.5,
            "name":"Ann","sub":"ann","jti":"one","other":[1]}"#,
    );
    assert_eq!(
        (all.role, all.subject.as_deref(), all.token_id.as_deref()),
        (Role::Moderator, Some("ann"), Some("one"))
    );
    assert_eq!(all.name.as_deref(), Some("Ann"));
    assert_eq!(all.expires, Some(UNIX_EPOCH + Duration::from_secs(1_800_000_605)));
    let least = grant(r#"{"room":"*","exp":1799999996}"#);
    assert_eq!((least.role, least.subject, least.token_id, least.name), (Role::Viewer, None, None, None));
    let long = grant(&format!(r#"{{"room":"class-1","exp":1800000600,"name":"{}"}}"#, "ä".repeat(70)));
    assert_eq!(long.name.as_deref(), Some(&*"ä".repeat(64)));
}

/// T-1 to T-8: each is refused, and nothing of it is said again.
#[test]
fn hostile_tokens_are_refused() {
    let tokens = Files::of_all_kinds().open();
    let ed_raw = PAIRS.ed.public_key().as_ref().to_vec();
    let own_key = format!(
        r#"{{"alg":"EdDSA","jwk":{{"kty":"OKP","crv":"Ed25519","x":"{}"}}}}"#,
        URL_SAFE_NO_PAD.encode(PAIRS.other_ed.public_key().as_ref())
    );
    let by_other = |message: &[u8]| PAIRS.other_ed.sign(message).as_ref().to_vec();
    let good = hs(GOOD);
    let parts: Vec<_> = good.split('.').collect();
    let [head, body, signature] = parts[..] else { unreachable!() };
    let claims = |text: &str| hs(&format!(r#"{{"room":"a","exp":1800000600,{text}}}"#));
    let exp = |text: &str| hs(&format!(r#"{{"room":"a","exp":{text}}}"#));
    let room = |text: &str| hs(&format!(r#"{{"exp":1800000600,"room":{text}}}"#));
    let alg = |name: &str| hs_header(&format!(r#"{{"alg":"{name}"}}"#));
    let header = |text: &str| hs_header(&format!(r#"{{"alg":"HS256",{text}}}"#));
    let unsigned = |_: &[u8]| Vec::new();
    let table: Vec<(&str, String)> = vec![
        // What signs it.
        ("alg none, without a signature", token(r#"{"alg":"none"}"#, GOOD, unsigned)),
        ("alg none, with one", alg("none")),
        ("alg None", token(r#"{"alg":"None"}"#, GOOD, unsigned)),
        ("alg nOnE", alg("nOnE")),
        ("alg empty", alg("")),
        ("alg hs256", alg("hs256")),
        ("alg missing", hs_header(r#"{"typ":"JWT"}"#)),
        ("alg null", hs_header(r#"{"alg":null}"#)),
        ("alg a number", hs_header(r#"{"alg":256}"#)),
        ("alg a list", hs_header(r#"{"alg":["HS256"]}"#)),
        ("alg twice", hs_header(r#"{"alg":"HS256","alg":"none"}"#)),
        ("HS384 by the secret", alg("HS384")),
        ("HS512 by the secret", alg("HS512")),
        ("RS512", token(r#"{"alg":"RS512"}"#, GOOD, sign_rsa)),
        ("PS256", token(r#"{"alg":"PS256"}"#, GOOD, sign_rsa)),
        ("ES384", token(r#"{"alg":"ES384"}"#, GOOD, sign_ec)),
        ("ES256K", token(r#"{"alg":"ES256K"}"#, GOOD, sign_ec)),
        ("EdDSA with the secret's MAC", alg("EdDSA")),
        ("RS256 with the secret's MAC", alg("RS256")),
        ("HS256 by the Ed25519 key", token(r#"{"alg":"HS256"}"#, GOOD, sign_ed)),
        (
            "HS256, the Ed25519 public key as its secret",
            token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(&ed_raw, m)),
        ),
        (
            "HS256, the Ed25519 PEM as its secret",
            token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(ed_pem().as_bytes(), m)),
        ),
        (
            "HS256, the P-256 PEM as its secret",
            token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(ec_pem().as_bytes(), m)),
        ),
        (
            "HS256, the RSA PEM as its secret",
            token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(rsa_pem().as_bytes(), m)),
        ),
        ("HS256, the RSA PEM without its last line break", {
            token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(rsa_pem().trim_end().as_bytes(), m))
        }),
        ("HS256, no secret at all", token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(b"", m))),
        ("HS256, the secret with its line break", {
            token(r#"{"alg":"HS256"}"#, GOOD, |m| hmac(&[SECRET, b"\n"].concat(), m))
        }),
        ("EdDSA by a key that is not here", token(r#"{"alg":"EdDSA"}"#, GOOD, by_other)),
        ("RS256 by a key that is not here", {
            token(r#"{"alg":"RS256"}"#, GOOD, |m| {
                let mut signature = vec![0; PAIRS.small_rsa.public_modulus_len()];
                let signed = PAIRS.small_rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), m, &mut signature);
                signed.map(|()| signature).unwrap()
            })
        }),
        ("EdDSA with a signature of zeros", token(r#"{"alg":"EdDSA"}"#, GOOD, |_| vec![0; 64])),
        ("ES256 with r and s of zero", token(r#"{"alg":"ES256"}"#, GOOD, |_| vec![0; 64])),
        ("ES256 with a signature in DER", {
            token(r#"{"alg":"ES256"}"#, GOOD, |m| {
                let pair = ec(&ECDSA_P256_SHA256_ASN1_SIGNING);
                pair.sign(&SystemRandom::new(), m).unwrap().as_ref().to_vec()
            })
        }),
        ("RS256 with a signature of one byte", token(r#"{"alg":"RS256"}"#, GOOD, |_| vec![1])),
        // What its header asks for.
        ("crit that nobody knows", header(r#""crit":["http://example.com/x"],"http://example.com/x":1"#)),
        ("crit exp", header(r#""crit":["exp"]"#)),
        ("crit empty", header(r#""crit":[]"#)),
        ("crit null", header(r#""crit":null"#)),
        ("b64 false", header(r#""b64":false"#)),
        ("b64 false and critical", header(r#""crit":["b64"],"b64":false"#)),
        ("a token within", header(r#""cty":"JWT""#)),
        ("compressed", header(r#""zip":"DEF""#)),
        ("encrypted", header(r#""enc":"A256GCM""#)),
        ("typ of something else", header(r#""typ":"JOSE+JSON""#)),
        ("its own key in the header", token(&own_key, GOOD, by_other)),
        ("its own key's address", header(r#""jku":"https://evil.example/keys""#)),
        ("its own certificate's address", header(r#""x5u":"https://evil.example/cert""#)),
        ("its own certificate", header(r#""x5c":["MIIB"]"#)),
        ("kid a number", header(r#""kid":1"#)),
        ("kid twice", header(r#""kid":"a","kid":"b""#)),
        ("a header that is a list", hs_header(r#"["HS256"]"#)),
        ("a header that is no JSON", hs_header("alg: HS256")),
        // How it is written.
        ("empty", String::new()),
        ("two dots", "..".to_owned()),
        ("without a signature", format!("{head}.{body}")),
        ("with an empty signature", format!("{head}.{body}.")),
        ("with a fourth part", format!("{good}.{body}")),
        ("of five parts, as encrypted ones are", format!("{good}.{body}.{signature}")),
        ("with another's claims", {
            format!("{head}.{}.{signature}", URL_SAFE_NO_PAD.encode(GOOD.replace("drawer", "moderator")))
        }),
        ("with a cut signature", good[..good.len() - 2].to_owned()),
        ("with a longer signature", format!("{good}AAAA")),
        ("with the bits changed that base64 does not use", {
            let (start, end) = good.split_at(good.len() - 1);
            let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let value = digits.iter().position(|digit| *digit == end.as_bytes()[0]).unwrap();
            format!("{start}{}", char::from(digits[value ^ 1]))
        }),
        ("with padding", format!("{head}.{}.{signature}", URL_SAFE.encode(format!("{GOOD} ")))),
        ("with a line break", format!("{good}\n")),
        ("with a space before it", format!(" {good}")),
        ("with Bearer before it", format!("Bearer {good}")),
        ("with a NUL", format!("{good}\0")),
        ("in letters that look alike", good.replace('A', "\u{0391}").replace("ey", "е\u{443}")),
        ("as JSON", format!(r#"{{"protected":"{head}","payload":"{body}","signature":"{signature}"}}"#)),
        ("longer than 8 KiB", claims(&format!(r#""pad":"{}""#, "x".repeat(8192)))),
        // What it says.
        ("claims that are no JSON", hs("room=a")),
        ("claims that are a list", hs(r#"["a"]"#)),
        ("claims that are null", hs("null")),
        ("claims that end early", hs(&GOOD[..GOOD.len() - 1])),
        ("no exp", hs(r#"{"room":"a","role":"drawer"}"#)),
        ("exp null", exp("null")),
        ("exp as text", exp(r#""1800000600""#)),
        ("exp as words", exp(r#""never""#)),
        ("exp true", exp("true")),
        ("exp a list", exp("[1800000600]")),
        ("exp below zero", exp("-1")),
        ("exp zero", exp("0")),
        ("exp beyond all time", exp("1e300")),
        ("exp beyond all numbers", exp("1e400")),
        ("exp as infinite", exp("Infinity")),
        ("exp over, by more than clocks may differ", exp("1799999995")),
        ("exp in milliseconds of long ago", exp("1700000000")),
        ("exp twice", exp(r#"1700000000,"exp":1800000600"#)),
        ("nbf to come", claims(r#""nbf":1800000006"#)),
        ("nbf as text", claims(r#""nbf":"0""#)),
        ("iat to come", claims(r#""iat":1800000100"#)),
        ("iat after exp", hs(r#"{"room":"a","exp":1799999998,"iat":1800000003}"#)),
        ("iat as text", claims(r#""iat":"2020-01-01""#)),
        ("no room", hs(r#"{"exp":1800000600,"role":"moderator"}"#)),
        ("room null", room("null")),
        ("room empty", room(r#""""#)),
        ("room a list", room(r#"["a"]"#)),
        ("another room", room(r#""b""#)),
        ("a room whose name differs in case", room(r#""A""#)),
        ("a room whose name goes on", room(r#""ab""#)),
        ("a room with a space", room(r#""a ""#)),
        ("a room on a path", room(r#""../a""#)),
        ("a room with a NUL", room(r#""a\u0000""#)),
        ("the beginning of other rooms", room(r#""b*""#)),
        ("a star in the middle", room(r#""*a""#)),
        ("two stars", room(r#""**""#)),
        ("another pattern's sign", room(r#""?""#)),
        ("room twice", room(r#""b","room":"a""#)),
        ("role unknown", claims(r#""role":"admin""#)),
        ("role in capitals", claims(r#""role":"Moderator""#)),
        ("role as a number", claims(r#""role":2"#)),
        ("role a list", claims(r#""role":["moderator"]"#)),
        ("role twice", claims(r#""role":"viewer","role":"moderator""#)),
        ("sub empty", claims(r#""sub":"""#)),
        ("sub a number", claims(r#""sub":1"#)),
        ("sub of a kilobyte", claims(&format!(r#""sub":"{}""#, "s".repeat(1024)))),
        ("jti empty", claims(r#""jti":"""#)),
        ("jti of a kilobyte", claims(&format!(r#""jti":"{}""#, "j".repeat(1024)))),
        ("jti a list", claims(r#""jti":["one"]"#)),
        ("name a number", claims(r#""name":1"#)),
        ("an audience, where none is asked for", claims(r#""aud":"elsewhere""#)),
    ];
    assert!(table.len() >= 40);
    let names: HashSet<_> = table.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), table.len(), "each has a name of its own");
    for (name, hostile) in &table {
        let refused = check(&tokens, hostile).expect_err(name);
        assert!(!refused.0.contains("evil") && refused.0.is_ascii(), "{name}: {refused:?}");
    }
    assert_eq!(check(&tokens, &good), Ok(Role::Drawer), "and nothing of this harms a good one");
}

/// T-3.
#[test]
fn a_key_is_chosen_by_its_id_and_several_are_good_for_rotation() {
    let mut files = Files::new(&[&jwks("old", &PAIRS.ed), &jwks("new", &PAIRS.other_ed)]);
    let tokens = files.open();
    let by_other = |message: &[u8]| PAIRS.other_ed.sign(message).as_ref().to_vec();
    let named = |kid: &str| format!(r#"{{"alg":"EdDSA","kid":"{kid}"}}"#);
    for good in [
        token(&named("old"), GOOD, sign_ed),
        token(&named("new"), GOOD, by_other),
        token(r#"{"alg":"EdDSA"}"#, GOOD, sign_ed),
        token(r#"{"alg":"EdDSA"}"#, GOOD, by_other),
    ] {
        assert_eq!(check(&tokens, &good), Ok(Role::Drawer));
    }
    for kid in ["old", "", "../../etc/passwd", "' or 1=1"] {
        assert!(check(&tokens, &token(&named(kid), GOOD, by_other)).is_err(), "{kid}");
    }
    let old = token(&named("old"), GOOD, sign_ed);
    let grant = tokens.check(&"a".parse().unwrap(), &old, now()).unwrap();
    assert!(grant.stands());
    std::fs::write(&files.settings.keys[0], jwks("new", &PAIRS.other_ed)).unwrap();
    assert!(tokens.reload().unwrap() && !tokens.reload().unwrap(), "it tells whether there is another key");
    assert!(check(&tokens, &old).is_err() && !grant.stands(), "a key that is gone ends its grants");
    // A file that is no longer good changes nothing.
    std::fs::write(&files.settings.keys[1], "short").unwrap();
    assert!(tokens.reload().is_err());
    assert_eq!(check(&tokens, &token(&named("new"), GOOD, by_other)), Ok(Role::Drawer));
    files.settings.keys.clear();
    assert!(Tokens::open(files.settings).unwrap().is_none(), "without keys no tokens are asked for");
}

/// T-4.
#[test]
fn audience_and_issuer_are_asked_for_where_they_are_set() {
    let mut files = Files::of_all_kinds();
    files.settings.audience = Some("board".to_owned());
    files.settings.issuer = Some("https://id.example".to_owned());
    let tokens = files.open();
    let with = |text: &str| hs(&format!(r#"{{"room":"a","exp":1800000600{text}}}"#));
    for good in [
        r#","aud":"board","iss":"https://id.example""#,
        r#","aud":["other","board"],"iss":"https://id.example""#,
    ] {
        assert_eq!(check(&tokens, &with(good)), Ok(Role::Viewer), "{good}");
    }
    for bad in [
        "",
        r#","aud":"board""#,
        r#","iss":"https://id.example""#,
        r#","aud":"Board","iss":"https://id.example""#,
        r#","aud":"board2","iss":"https://id.example""#,
        r#","aud":[],"iss":"https://id.example""#,
        r#","aud":["other"],"iss":"https://id.example""#,
        r#","aud":null,"iss":"https://id.example""#,
        r#","aud":{"board":1},"iss":"https://id.example""#,
        r#","aud":"board","iss":"https://id.example.evil""#,
        r#","aud":"board","iss":"http://id.example""#,
        r#","aud":"board","iss":["evil","x"]"#,
        r#","aud":"board","iss":"""#,
    ] {
        assert!(check(&tokens, &with(bad)).is_err(), "{bad}");
    }
}

/// T-9.
#[tokio::test]
async fn a_revoked_token_is_refused_and_its_grant_ends() {
    let mut files = Files::of_all_kinds();
    let list = files.folder.path().join("revoked");
    std::fs::write(&list, "long-gone\n").unwrap();
    files.settings.revoked = Some(list.clone());
    let tokens = files.open();
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 3600;
    let claims =
        |id: &str, sub: &str| hs(&format!(r#"{{"room":"a","exp":{expires},"jti":"{id}","sub":"{sub}"}}"#));
    let room = "a".parse().unwrap();
    let check = |token: &str| tokens.check(&room, token, SystemTime::now());
    assert!(check(&claims("long-gone", "ann")).is_err());
    let (ann, bob) = (claims("one", "ann"), claims("two", "bob"));
    let (anns, bobs) = (check(&ann).unwrap(), check(&bob).unwrap());
    std::fs::write(&list, "one\nsub:bob\n").unwrap();
    tokio::select! {
        () = async { tokio::join!(anns.ended(), bobs.ended()); } => {}
        () = tokens.follow_revoked() => {}
    }
    assert!(anns.has_ended() && bobs.has_ended() && check(&ann).is_err() && check(&bob).is_err());
    assert!(check(&claims("long-gone", "cleo")).is_ok(), "what was taken off the list is good again");
    // Without its file, the list stays as it was.
    std::fs::remove_file(&list).unwrap();
    drop(tokio::time::timeout(Duration::from_millis(2500), tokens.follow_revoked()).await);
    assert!(check(&ann).is_err());
}

/// T-2: files that would make a key of what is none.
#[test]
fn files_that_hold_no_such_key_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let refused = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let why = load(std::slice::from_ref(&file)).expect_err(text).to_string();
        assert!(why.starts_with(&format!("token-keys: {}", file.display())), "{why}");
        why
    };
    for (text, says) in [
        ("", "at least 32 bytes"),
        ("too short\n", "at least 32 bytes"),
        ("root:x:0:0:root:/root:/bin/bash\nbin:x:1:1:bin:/bin:/bin/sh\n", "one line"),
        ("{}", "neither a JWK nor"),
        (r#"{"keys":[]}"#, "no key"),
        (r#"{"kty":"oct","k":"c2hvcnQ"}"#, "at least 32 bytes"),
        (r#"{"kty":"OKP","crv":"Ed448","x":"AAAA"}"#, "no key"),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA"}"#, "32 bytes"),
        (r#"{"kty":"OKP","crv":"Ed25519","x":"AAAA","d":"AAAA"}"#, "private"),
        (r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}"#, "uncompressed point"),
        (r#"{"kty":"EC","crv":"P-256","x":"AAAA"}"#, "lacks"),
        (r#"{"kty":"RSA","alg":"HS256","n":"AAAA","e":"AQAB"}"#, "no key"),
        (r#"{"kty":"RSA","n":"AAAA","e":"AQAB"}"#, "2,048 bits"),
        ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "private key"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "CERTIFICATE"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "another kind"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n", "no end"),
    ] {
        assert!(refused(text).contains(says), "{text}");
    }
    assert!(load(&[PathBuf::from("/nowhere/at-all")]).is_err());
}
