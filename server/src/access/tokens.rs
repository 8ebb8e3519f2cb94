//! Tokens: JSON Web Tokens (RFC 7519) that say who may do what in which room, and until when.
//!
//! Nothing in a token chooses how it is checked: each key has one algorithm, and a token of another is not tried with
//! it. What a header asks for beyond `alg`, `kid` and `typ` is refused where it would change what is checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use inkrelay_protocol::limits::{CREDENTIAL_BYTES, PROFILE_NAME_CHARS, ROOM_NAME_CHARS, SAFE_INTEGER_MAX};
use inkrelay_protocol::{Role, RoomId};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Validation, decode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use tokio::sync::watch;

use super::grant::{Grant, Held};
use super::keys::{self, Key, KeyError};
use super::revocation::Revoked;

/// By how much the clocks of whoever makes tokens and of this server may differ.
pub const LEEWAY: Duration = Duration::from_secs(5);
/// Bytes of a subject or of a token's id at most.
const NAME_BYTES: usize = 256;
/// The file of revoked tokens is read this often.
const REVOKED_INTERVAL: Duration = Duration::from_secs(2);

/// What tokens are held against, now. Whoever holds a grant sees when it changes.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    keys: Arc<Vec<Key>>,
    revoked: Arc<Revoked>,
}

impl Standing {
    /// Whether what a grant was given for still stands.
    pub fn upholds(&self, grant: &Grant, held: &Held) -> bool {
        let is_revoked = self.revoked.holds(grant.token_id.as_deref(), grant.subject.as_deref());
        !is_revoked && self.keys.iter().any(|key| key.fingerprint == held.key)
    }
}

/// Where keys and revoked tokens stand, and for whom tokens have to be made.
#[derive(Clone, Debug, Default)]
pub struct TokenSettings {
    /// Files of keys; tokens are asked for when there is one.
    pub keys: Vec<PathBuf>,
    /// The file of revoked tokens.
    pub revoked: Option<PathBuf>,
    /// What `aud` has to name.
    pub audience: Option<String>,
    /// What `iss` has to be.
    pub issuer: Option<String>,
}

/// Checks tokens.
#[derive(Debug)]
pub struct Tokens {
    settings: TokenSettings,
    standing: watch::Sender<Standing>,
}

/// Why a token is not taken, for whoever shows it. Says nothing of what stands in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotTaken(pub &'static str);

/// Something that is there, whatever it is; also null.
#[derive(Default)]
struct Present(bool);

impl<'de> Deserialize<'de> for Present {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self(true))
    }
}

/// A header (RFC 7515, section 4). A member that comes twice makes it none.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    /// Extensions that have to be understood: none are.
    #[serde(default)]
    crit: Present,
    #[serde(default)]
    b64: Present,
    /// A token within this one.
    #[serde(default)]
    cty: Present,
    #[serde(default)]
    enc: Present,
    #[serde(default)]
    zip: Present,
    /// Keys that the token brings along, or says where to get.
    #[serde(default)]
    jwk: Present,
    #[serde(default)]
    jku: Present,
    #[serde(default)]
    x5c: Present,
    #[serde(default)]
    x5u: Present,
}

impl Header {
    fn read(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (header, _, _) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = parts.next().is_none() && !token.split('.').any(str::is_empty);
        let bytes = is_whole.then(|| URL_SAFE_NO_PAD.decode(header).ok()).flatten()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Whether it changes how the token would have to be checked.
    fn asks_for_more(&self) -> bool {
        let is_jwt = |typ: &String| ["jwt", "at+jwt"].iter().any(|known| typ.eq_ignore_ascii_case(known));
        let present =
            [&self.crit, &self.b64, &self.cty, &self.enc, &self.zip, &self.jwk, &self.jku, &self.x5c];
        self.x5u.0 || present.iter().any(|member| member.0) || !self.typ.as_ref().is_none_or(is_jwt)
    }

    fn algorithm(&self) -> Option<Algorithm> {
        match self.alg.as_str() {
            "HS256" => Some(Algorithm::HS256),
            "EdDSA" => Some(Algorithm::EdDSA),
            "ES256" => Some(Algorithm::ES256),
            "RS256" => Some(Algorithm::RS256),
            _ => None,
        }
    }
}

/// What a token says (RFC 7519, section 4). Times are numbers, and never text.
#[derive(Deserialize)]
struct Claims {
    room: Option<String>,
    role: Option<String>,
    name: Option<String>,
    sub: Option<String>,
    jti: Option<String>,
    exp: Option<f64>,
    nbf: Option<f64>,
    iat: Option<f64>,
}

impl Tokens {
    /// Reads the files. `None` when there are no keys: then no tokens are asked for.
    ///
    /// # Errors
    /// Which file is not taken, and why.
    pub fn open(settings: TokenSettings) -> Result<Option<Self>, KeyError> {
        if settings.keys.is_empty() {
            return Ok(None);
        }
        let keys = Arc::new(keys::load(&settings.keys)?);
        let revoked = match &settings.revoked {
            Some(file) => read_revoked(file)?,
            None => Revoked::default(),
        };
        let standing = watch::Sender::new(Standing { keys, revoked: Arc::new(revoked) });
        Ok(Some(Self { settings, standing }))
    }

    /// Reads the keys anew, and returns whether they are others. Grants whose key is gone are over.
    ///
    /// # Errors
    /// Which file is not taken, and why; the keys stay as they were.
    pub fn reload(&self) -> Result<bool, KeyError> {
        let keys = keys::load(&self.settings.keys)?;
        Ok(self.standing.send_if_modified(|standing| {
            let are_new = *standing.keys != keys;
            if are_new {
                standing.keys = Arc::new(keys);
            }
            are_new
        }))
    }

    /// Reads the revoked tokens anew, and returns whether they are others.
    ///
    /// # Errors
    /// Why the file is not taken; what it last said holds.
    pub fn reload_revoked(&self) -> Result<bool, KeyError> {
        let Some(file) = &self.settings.revoked else { return Ok(false) };
        Ok(self.revoke(read_revoked(file)?))
    }

    /// Holds to that list, and returns whether it is another.
    fn revoke(&self, revoked: Revoked) -> bool {
        self.standing.send_if_modified(|standing| {
            let is_new = *standing.revoked != revoked;
            if is_new {
                standing.revoked = Arc::new(revoked);
            }
            is_new
        })
    }

    /// Follows the file of revoked tokens, for as long as this is polled. While the file cannot be read, what it last said
    /// holds.
    pub async fn follow_revoked(&self) {
        let Some(file) = self.settings.revoked.clone() else { return std::future::pending().await };
        let mut is_missing = false;
        loop {
            tokio::time::sleep(REVOKED_INTERVAL).await;
            let file = file.clone();
            let read = tokio::task::spawn_blocking(move || Revoked::read(&file)).await;
            match read.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(revoked) => {
                    is_missing = false;
                    let listed = revoked.len();
                    if self.revoke(revoked) {
                        tracing::info!(listed, "the list of revoked tokens has changed");
                    }
                }
                Err(why) if !is_missing => {
                    is_missing = true;
                    tracing::error!(
                        why,
                        "the list of revoked tokens cannot be read: what it last said holds"
                    );
                }
                Err(_) => {}
            }
        }
    }

    /// What that token grants in a room.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn check(&self, room: &RoomId, token: &str, now: SystemTime) -> Result<Grant, NotTaken> {
        const NONE: NotTaken = NotTaken("this is no token that is taken here");
        if token.len() > CREDENTIAL_BYTES {
            return Err(NotTaken("the token is longer than 8 KiB"));
        }
        let header = Header::read(token).ok_or(NONE)?;
        let algorithm = header.algorithm().filter(|_| !header.asks_for_more()).ok_or(NONE)?;
        let standing = self.standing.subscribe();
        let keys = Arc::clone(&standing.borrow().keys);
        let is_named =
            |key: &&Key| key.id.as_ref().zip(header.kid.as_ref()).is_none_or(|(own, asked)| own == asked);
        for key in keys.iter().filter(|key| key.algorithm == algorithm).filter(is_named) {
            let claims = match self.verify(token, key) {
                // A signature of another key says nothing against this one.
                Err(why) if why == FOREIGN => continue,
                verified => verified?,
            };
            let grant = claims.grant(room, now, Held { key: key.fingerprint, standing })?;
            return if grant.stands() { Ok(grant) } else { Err(NotTaken("the token was revoked")) };
        }
        Err(FOREIGN)
    }

    /// The claims, when the key signed them and they are meant for this relay.
    fn verify(&self, token: &str, key: &Key) -> Result<Claims, NotTaken> {
        let mut validation = Validation::new(key.algorithm);
        // Times are looked at below, at one time for all.
        (validation.validate_exp, validation.validate_nbf) = (false, false);
        validation.required_spec_claims.clear();
        if let Some(audience) = &self.settings.audience {
            validation.set_audience(&[audience]);
            validation.required_spec_claims.insert("aud".to_owned());
        }
        if let Some(issuer) = &self.settings.issuer {
            validation.set_issuer(&[issuer]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        let decoded = decode::<Claims>(token, &key.decoding, &validation);
        decoded.map(|decoded| decoded.claims).map_err(|error| match error.kind() {
            ErrorKind::InvalidAudience => NotTaken("the token is meant for another audience"),
            ErrorKind::InvalidIssuer => NotTaken("the token is from another issuer"),
            ErrorKind::MissingRequiredClaim(_) => NotTaken("the token lacks its audience or issuer"),
            ErrorKind::Json(_)
            | ErrorKind::Base64(_)
            | ErrorKind::Utf8(_)
            | ErrorKind::InvalidClaimFormat(_) => NotTaken("the token cannot be read"),
            _ => FOREIGN,
        })
    }
}

fn read_revoked(file: &Path) -> Result<Revoked, KeyError> {
    const TAKES: &str = "a token id, or sub: and a subject, on each line; an empty file revokes nothing";
    Revoked::read(file).map_err(|why| KeyError::new(file, why).of("revoked", TAKES))
}

/// No key here signed it.
const FOREIGN: NotTaken = NotTaken("the token is not signed with a key of this server");

impl Claims {
    fn grant(self, room: &RoomId, now: SystemTime, held: Held) -> Result<Grant, NotTaken> {
        let expires = time(self.exp.ok_or(NotTaken("the token says no time at which it ends"))?)?;
        let not_before = self.nbf.map(time).transpose()?;
        let issued = self.iat.map(time).transpose()?;
        let until = expires.checked_add(LEEWAY).ok_or(NotTaken("the token ends at no time"))?;
        if until <= now {
            return Err(NotTaken("the token has expired"));
        }
        if not_before.into_iter().chain(issued).any(|from| from > now + LEEWAY) {
            return Err(NotTaken("the token is not valid yet"));
        }
        if issued.is_some_and(|issued| issued > expires) {
            return Err(NotTaken("the token ends before it was made"));
        }
        let pattern = self.room.ok_or(NotTaken("the token names no room"))?;
        if !admits(&pattern, room)? {
            return Err(NotTaken("the token is for another room"));
        }
        let role = match self.role.as_deref() {
            None => Role::Viewer,
            Some(role) => role.parse().map_err(|_| NotTaken("the token names no role that there is"))?,
        };
        let short = |text: Option<String>| match text {
            Some(text) if text.is_empty() || text.len() > NAME_BYTES => {
                Err(NotTaken("the token's subject or id is empty or too long"))
            }
            text => Ok(text.map(Arc::from)),
        };
        // What an identity provider calls people may be longer than what a board shows.
        let name = self.name.map(|name| name.chars().take(PROFILE_NAME_CHARS).collect::<String>().into());
        Ok(Grant {
            role,
            subject: short(self.sub)?,
            token_id: short(self.jti)?,
            name,
            expires: Some(until),
            held: Some(held),
        })
    }
}

/// A time in seconds since 1970 (RFC 7519, section 2), with or without a fraction.
fn time(seconds: f64) -> Result<SystemTime, NotTaken> {
    let duration =
        (0.0..=SAFE_INTEGER_MAX as f64).contains(&seconds).then(|| Duration::from_secs_f64(seconds));
    duration
        .and_then(|duration| UNIX_EPOCH.checked_add(duration))
        .ok_or(NotTaken("a time in the token is none"))
}

/// Whether a room is one that the claim `room` names: a room's name, or the beginning of names and a `*`.
fn admits(pattern: &str, room: &RoomId) -> Result<bool, NotTaken> {
    let is_part = |text: &str| {
        let is_of_names = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
        text.len() <= ROOM_NAME_CHARS && text.chars().all(is_of_names)
    };
    match pattern.strip_suffix('*') {
        Some(start) if is_part(start) => Ok(room.as_str().starts_with(start)),
        None if pattern.parse::<RoomId>().is_ok() => Ok(room.as_str() == pattern),
        _ => Err(NotTaken("the token names no room that there can be")),
    }
}
