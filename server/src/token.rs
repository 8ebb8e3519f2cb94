//! `inkrelay token`: makes keys, tokens and links with a token in them, and looks into tokens.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use clap::{Args, Subcommand, ValueEnum};
use inkrelay_protocol::limits::CREDENTIAL_BYTES;
use inkrelay_protocol::{Role, RoomId};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::access::{TokenSettings, Tokens, pem_blocks, read_key_file};
use crate::random;

/// Bytes of a new secret.
const SECRET_BYTES: usize = 32;
/// Tokens that are good for longer are warned of.
const LONG: Duration = Duration::from_secs(31 * 24 * 3600);
/// Characters of a line in PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// What is to be done.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Make a key that signs tokens, in a new file that only you can read
    NewKey(NewKey),
    /// Make a token and print it
    Issue(Issue),
    /// Make a token, and print a link that opens a board with it
    Link(Link),
    /// Show what stands in a token, and whether a relay would take it
    Inspect(Inspect),
}

/// Arguments of `new-key`.
#[derive(Args)]
pub struct NewKey {
    /// The new file. It is never written over
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Ed25519: FILE signs, and the relay is given FILE.jwks, which can only check. hs256: one secret for both
    #[arg(long, value_enum, default_value_t = KeyType::Ed25519, value_name = "TYPE")]
    r#type: KeyType,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KeyType {
    Ed25519,
    Hs256,
}

/// Arguments of `issue`.
#[derive(Args)]
pub struct Issue {
    /// The file with the key that signs, from `inkrelay token new-key`
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The room that the token is for; class-* is for all rooms whose names begin with class-, and * for every room
    #[arg(long, value_name = "ROOM", value_parser = room_pattern)]
    room: String,
    /// What its bearer may do: viewer, drawer or moderator
    #[arg(long, default_value = "viewer", value_name = "ROLE", value_parser = role)]
    role: Role,
    /// For how long it is good
    #[arg(long = "for", default_value = "12h", value_name = "TIME", value_parser = lifetime)]
    lifetime: Duration,
    /// Whom it is made out to. Bans, revocations and limits go by it, and its draws stay its own
    #[arg(long, value_name = "TEXT")]
    subject: Option<String>,
    /// The name that others see; its bearer cannot change it then
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Which relay it is meant for, where that is set to look (--token-audience)
    #[arg(long, value_name = "TEXT")]
    audience: Option<String>,
    /// Who made it, where the relay is set to look (--token-issuer)
    #[arg(long, value_name = "TEXT")]
    issuer: Option<String>,
}

/// Arguments of `link`.
#[derive(Args)]
pub struct Link {
    /// The address that people open the board at
    #[arg(long, value_name = "https://HOST", value_parser = address)]
    server: String,
    #[command(flatten)]
    issue: Issue,
}

/// Arguments of `inspect`.
#[derive(Args)]
pub struct Inspect {
    /// The token; - reads it from standard input, which keeps it out of the shell's history
    #[arg(default_value = "-", value_name = "TOKEN")]
    token: String,
    /// Files of keys to check it with, as the relay has them
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    token_keys: Vec<PathBuf>,
    /// The room to try it for, where it is good for many
    #[arg(long, value_name = "ROOM")]
    room: Option<RoomId>,
    /// As the relay has it
    #[arg(long, value_name = "TEXT")]
    audience: Option<String>,
    /// As the relay has it
    #[arg(long, value_name = "TEXT")]
    issuer: Option<String>,
}

/// Does it.
///
/// # Errors
/// Why it cannot be done, in plain words.
pub fn run(command: TokenCommand) -> Result<(), String> {
    match command {
        TokenCommand::NewKey(new) => new_key(&new),
        TokenCommand::Issue(issue) => {
            println!("{}", issue.token()?);
            Ok(())
        }
        TokenCommand::Link(link) => {
            println!("{}", link.text()?);
            Ok(())
        }
        TokenCommand::Inspect(inspect) => inspect.show(),
    }
}

fn role(text: &str) -> Result<Role, String> {
    text.parse().map_err(str::to_owned)
}

fn room_pattern(text: &str) -> Result<String, String> {
    // One character more than the pattern makes a room's name of every beginning.
    let is_pattern =
        text.strip_suffix('*').is_some_and(|start| start.is_empty() || start.parse::<RoomId>().is_ok());
    if is_pattern || text.parse::<RoomId>().is_ok() {
        Ok(text.to_owned())
    } else {
        Err("write a room's name, or the beginning of names and a *".to_owned())
    }
}

fn lifetime(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it like 30min, 12h or 7days"))?;
    if time.is_zero() { Err("write a time from now, like 12h".to_owned()) } else { Ok(time) }
}

fn address(text: &str) -> Result<String, String> {
    let authority = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match authority.map(|authority| authority.trim_end_matches('/')) {
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', '@']) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err("write it like https://draw.example or http://192.168.1.5:8080".to_owned()),
    }
}

/// Creates a file that nobody else can read, and that was not there.
fn write_new(file: &Path, mode: u32, text: &str) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut created = OpenOptions::new().write(true).create_new(true).mode(mode).open(file).map_err(told)?;
    created.write_all(text.as_bytes()).and_then(|()| created.sync_all()).map_err(told)
}

fn new_key(new: &NewKey) -> Result<(), String> {
    let file = &new.file;
    let shown = file.display();
    if new.r#type == KeyType::Hs256 {
        let secret: [u8; SECRET_BYTES] = random::bytes();
        write_new(file, 0o600, &format!("{}\n", URL_SAFE_NO_PAD.encode(secret)))?;
        println!(
            "Wrote the secret {shown}. Start the relay with --token-keys {shown}, and make tokens with --key {shown}."
        );
        println!("Whoever has this file can make tokens for every room: keep it to yourself.");
        return Ok(());
    }
    let mut public_file = file.clone().into_os_string();
    public_file.push(".jwks");
    let public_file = PathBuf::from(public_file);
    if public_file.exists() {
        return Err(format!("{} is there already", public_file.display()));
    }
    let failed = |_| "no key could be made".to_owned();
    let der = Ed25519KeyPair::generate_pkcs8v1(&SystemRandom::new()).map_err(failed)?;
    let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).map_err(|_| "no key could be made".to_owned())?;
    write_new(file, 0o600, &pem("PRIVATE KEY", der.as_ref()))?;
    let public = pair.public_key().as_ref();
    let jwks = json!({"keys": [{
        "kty": "OKP",
        "crv": "Ed25519",
        "x": URL_SAFE_NO_PAD.encode(public),
        "kid": thumbprint(public),
        "alg": "EdDSA",
        "use": "sig",
    }]});
    write_new(&public_file, 0o644, &format!("{jwks:#}\n"))?;
    let public_file = public_file.display();
    println!("Wrote {shown}, which makes tokens (--key {shown}), and {public_file}, which checks them.");
    println!("Start the relay with --token-keys {public_file}.");
    println!(
        "Whoever has {shown} can make tokens for every room: keep it to yourself, and off the relay's machine."
    );
    Ok(())
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(PEM_LINE).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// The key's name, made of the key itself (RFC 7638, RFC 8037, appendix A.3).
fn thumbprint(public: &[u8]) -> String {
    let members = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, URL_SAFE_NO_PAD.encode(public));
    URL_SAFE_NO_PAD.encode(Sha256::digest(members))
}

/// What signs, as its file has it: DER, or a secret.
struct Signer {
    header: Header,
    bytes: Vec<u8>,
}

impl Signer {
    fn read(file: &Path) -> Result<Self, String> {
        let told = |why: &str| format!("{}: {why}", file.display());
        let text = read_key_file(file).map_err(|error| error.to_string())?;
        if text.trim_ascii_start().starts_with(b"-----BEGIN") {
            let text = std::str::from_utf8(&text).map_err(|_| told("is no text"))?;
            let blocks = pem_blocks(text).map_err(|why| told(&why))?;
            let block = blocks.into_iter().find(|(label, _)| label == "PRIVATE KEY");
            let (_, der) = block.ok_or_else(|| told("holds no private key, which signing needs"))?;
            let pair = Ed25519KeyPair::from_pkcs8(&der)
                .map_err(|_| told("holds no Ed25519 key: `inkrelay token new-key` makes one"))?;
            let header =
                Header { kid: Some(thumbprint(pair.public_key().as_ref())), ..Header::new(Algorithm::EdDSA) };
            return Ok(Self { header, bytes: der });
        }
        if text.trim_ascii_start().starts_with(b"{") {
            return Err(told(
                "only checks tokens: the file that `inkrelay token new-key` wrote beside it makes them",
            ));
        }
        let secret =
            text.strip_suffix(b"\n").map_or(&text[..], |text| text.strip_suffix(b"\r").unwrap_or(text));
        if secret.len() < SECRET_BYTES {
            return Err(told("is shorter than a secret may be: `inkrelay token new-key` makes one"));
        }
        Ok(Self { header: Header::new(Algorithm::HS256), bytes: secret.to_vec() })
    }

    fn sign(&self, claims: &Map<String, Value>) -> Result<String, String> {
        let key = match self.header.alg {
            Algorithm::HS256 => EncodingKey::from_secret(&self.bytes),
            _ => Ok(EncodingKey::from_ed_der(&self.bytes)),
        };
        let signed = key.and_then(|key| encode(&self.header, claims, &key));
        signed.map_err(|_| "the key does not sign".to_owned())
    }
}

impl Issue {
    fn token(&self) -> Result<String, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = now.checked_add(self.lifetime).ok_or("that is too far from now")?;
        let id: [u8; 12] = random::bytes();
        let id = URL_SAFE_NO_PAD.encode(id);
        let mut claims = Map::new();
        claims.insert("room".to_owned(), self.room.as_str().into());
        claims.insert("role".to_owned(), role_name(self.role).into());
        claims.insert("iat".to_owned(), now.as_secs().into());
        claims.insert("exp".to_owned(), until.as_secs().into());
        claims.insert("jti".to_owned(), id.as_str().into());
        let optional =
            [("sub", &self.subject), ("name", &self.name), ("aud", &self.audience), ("iss", &self.issuer)];
        for (claim, value) in optional {
            if let Some(value) = value {
                claims.insert(claim.to_owned(), value.as_str().into());
            }
        }
        let token = Signer::read(&self.key)?.sign(&claims)?;
        if token.len() > CREDENTIAL_BYTES {
            return Err(format!("the token would be longer than {CREDENTIAL_BYTES} bytes"));
        }
        self.warn(&id, UNIX_EPOCH + until);
        Ok(token)
    }

    /// Says what whoever has the token can do, beside the output.
    fn warn(&self, id: &str, until: SystemTime) {
        let rooms = match self.room.strip_suffix('*') {
            Some("") => "every room".to_owned(),
            Some(start) => format!("every room whose name begins with {start}"),
            None => format!("the room {}", self.room),
        };
        let may = match self.role {
            Role::Viewer => "look at",
            Role::Drawer => "draw in",
            Role::Moderator => "draw in, clear and moderate",
        };
        eprintln!(
            "Whoever has it can {may} {rooms} until {}. To take it back before, add the line {id} to the relay's \
             --revoked file.",
            humantime::format_rfc3339_seconds(until)
        );
        if self.lifetime > LONG {
            eprintln!("That is long: what is lost or passed on stays good until then.");
        }
    }
}

impl Link {
    fn text(&self) -> Result<String, String> {
        if self.issue.room.ends_with('*') {
            return Err("a link opens one room: name it whole".to_owned());
        }
        let host = self.server.strip_prefix("http://");
        if host.is_some_and(|host| !["localhost", "127.", "[::1]"].iter().any(|own| host.starts_with(own))) {
            eprintln!("Without https everyone between a reader and the server can read the token along.");
        }
        // Behind the #, browsers keep it: it is in no request and in no server's log.
        Ok(format!("{}/b/{}#token={}", self.server, self.issue.room, self.issue.token()?))
    }
}

impl Inspect {
    fn show(&self) -> Result<(), String> {
        let mut token = self.token.clone();
        if token == "-" {
            token.clear();
            let mut input = std::io::stdin().take(2 * CREDENTIAL_BYTES as u64);
            input.read_to_string(&mut token).map_err(|error| error.to_string())?;
        }
        // A whole link is taken too.
        let token = token.rsplit("#token=").next().unwrap_or_default().trim();
        let mut parts = token.split('.');
        let (header, claims) = (part(parts.next())?, part(parts.next())?);
        println!("{header:#}\n{claims:#}");
        for (claim, what) in [("iat", "made"), ("nbf", "good from"), ("exp", "good until")] {
            let time = claims
                .get(claim)
                .and_then(Value::as_f64)
                .filter(|time| (0.0..253_402_300_800.0).contains(time));
            if let Some(seconds) = time {
                let time = UNIX_EPOCH + Duration::from_secs_f64(seconds);
                println!("{what} {}", humantime::format_rfc3339_seconds(time));
            }
        }
        self.check(token, claims.get("room").and_then(Value::as_str))
    }

    /// Says whether a relay with these keys would take it.
    fn check(&self, token: &str, room: Option<&str>) -> Result<(), String> {
        let settings = TokenSettings {
            keys: self.token_keys.clone(),
            revoked: None,
            audience: self.audience.clone(),
            issuer: self.issuer.clone(),
        };
        let Some(tokens) = Tokens::open(settings).map_err(|error| error.to_string())? else {
            println!(
                "Nothing of this was checked: anyone can write it. Give --token-keys to check the signature."
            );
            return Ok(());
        };
        let room = self.room.clone().or_else(|| room.and_then(|room| room.parse().ok()));
        let room = room.ok_or("which room shall it be tried for? Give --room")?;
        let grant =
            tokens.check(&room, token, SystemTime::now()).map_err(|why| format!("refused: {}", why.0))?;
        println!("A relay with these keys takes it, for the room {room}, as {}.", role_name(grant.role));
        Ok(())
    }
}

/// A part of a token, as JSON.
fn part(text: Option<&str>) -> Result<Value, String> {
    let bytes = text.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or("this is no token".to_owned())
}

const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Drawer => "drawer",
        Role::Moderator => "moderator",
    }
}
