//! Keys: what tokens are signed with, read from files. Each key has one algorithm, and checks no other.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use sha2::{Digest, Sha256};

/// Bytes of one file of keys at most.
const FILE_BYTES: u64 = 1 << 20;
/// Keys in all files together at most: a token may be tried with each.
const KEYS: usize = 64;
/// Bytes of a secret at least (RFC 7518, section 3.2).
pub(super) const SECRET_BYTES: usize = 32;
/// Bytes of an RSA modulus at least: 2,048 bits (RFC 7518, section 3.3).
const MODULUS_BYTES: usize = 256;
/// Bytes of an Ed25519 public key (RFC 8032, section 5.1.5).
pub(super) const ED25519_BYTES: usize = 32;
/// Bytes of one coordinate of a P-256 point.
const P256_BYTES: usize = 32;

/// Before the 32 bytes of an Ed25519 public key in DER (RFC 8410, section 4).
pub(super) const ED25519_PUBLIC: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
/// Before the 65 bytes of a P-256 public point in DER (RFC 5480, section 2).
const P256_PUBLIC: &[u8] = &[
    0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3,
    1, 7, 3, 0x42, 0,
];
/// Names RSA in a public key in DER (RFC 3279, section 2.3.1).
const RSA_ALGORITHM: &[u8] = &[0x30, 0x0d, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];

/// Why a file of keys, or of revoked tokens, is not taken. Says nothing of what stands in it.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {why}", setting.map(|setting| format!("{setting}: ")).unwrap_or_default(), file.display())]
pub struct KeyError {
    /// Which setting names it, if one does.
    setting: Option<&'static str>,
    file: PathBuf,
    why: String,
}

impl KeyError {
    pub(super) fn new(file: &Path, why: impl Into<String>) -> Self {
        Self { setting: None, file: file.to_owned(), why: why.into() }
    }

    /// The same of a file that a setting names, with what such a file is.
    pub(super) fn of(self, setting: &'static str, takes: &str) -> Self {
        Self { setting: Some(setting), why: format!("{}; it takes {takes}", self.why), ..self }
    }
}

/// Tells keys apart, also after they were read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint([u8; 32]);

/// A key, for one algorithm.
#[derive(Clone)]
pub(super) struct Key {
    pub fingerprint: Fingerprint,
    /// The `kid` that it goes by, where it has one.
    pub id: Option<String>,
    pub algorithm: Algorithm,
    pub decoding: DecodingKey,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key for {:?}", self.algorithm)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        (self.fingerprint, &self.id) == (other.fingerprint, &other.id)
    }
}

impl Key {
    fn new(algorithm: Algorithm, bytes: &[u8], decoding: DecodingKey) -> Self {
        let hash = Sha256::new().chain_update(format!("{algorithm:?} ")).chain_update(bytes).finalize();
        Self { fingerprint: Fingerprint(hash.into()), id: None, algorithm, decoding }
    }

    fn secret(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < SECRET_BYTES {
            return Err(format!(
                "a secret has at least {SECRET_BYTES} bytes, and is made by `inkrelay token new-key`"
            ));
        }
        let decoding = DecodingKey::from_secret(bytes).map_err(|_| "is no secret")?;
        Ok(Self::new(Algorithm::HS256, bytes, decoding))
    }

    fn ed25519(public: &[u8]) -> Result<Self, String> {
        if public.len() != ED25519_BYTES {
            return Err("an Ed25519 public key has 32 bytes".to_owned());
        }
        Ok(Self::new(Algorithm::EdDSA, public, DecodingKey::from_ed_der(public)))
    }

    /// Of an uncompressed point (SEC 1, section 2.3.3).
    fn p256(point: &[u8]) -> Result<Self, String> {
        if point.len() != 1 + 2 * P256_BYTES || point[0] != 4 {
            return Err("a P-256 public key is an uncompressed point".to_owned());
        }
        Ok(Self::new(Algorithm::ES256, point, DecodingKey::from_ec_der(point)))
    }

    fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, String> {
        let modulus = &modulus[modulus.iter().take_while(|byte| **byte == 0).count()..];
        if modulus.len() < MODULUS_BYTES {
            return Err("an RSA key has at least 2,048 bits".to_owned());
        }
        let bytes = [modulus, exponent].concat();
        Ok(Self::new(Algorithm::RS256, &bytes, DecodingKey::from_rsa_raw_components(modulus, exponent)))
    }
}

/// Reads all files.
///
/// # Errors
/// Which file is not taken, and why.
pub(super) fn load(files: &[PathBuf]) -> Result<Vec<Key>, KeyError> {
    let wrong = |error: KeyError| error.of("token-keys", "a secret, public keys in PEM, or a JWK Set");
    let mut keys = Vec::new();
    for file in files {
        let text = read_file(file).map_err(wrong)?;
        keys.extend(read(&text).map_err(|why| wrong(KeyError::new(file, why)))?);
        if keys.len() > KEYS {
            let why = format!("there are more than {KEYS} keys with those of this file");
            return Err(wrong(KeyError::new(file, why)));
        }
    }
    Ok(keys)
}

/// Reads a file of keys or secrets, of a bounded size.
pub(crate) fn read_file(file: &Path) -> Result<Vec<u8>, KeyError> {
    let too_long = || KeyError::new(file, "is too long to hold keys");
    let length = std::fs::metadata(file).map_err(|error| KeyError::new(file, error.to_string()))?.len();
    if length > FILE_BYTES {
        return Err(too_long());
    }
    let text = std::fs::read(file).map_err(|error| KeyError::new(file, error.to_string()))?;
    if text.len() as u64 > FILE_BYTES { Err(too_long()) } else { Ok(text) }
}

/// Reads what stands in a file: a JWK or a JWK Set (RFC 7517), public keys in PEM, or else a secret, which is the
/// whole text without the line break at its end: bytes, or one line.
fn read(text: &[u8]) -> Result<Vec<Key>, String> {
    let start = text.trim_ascii_start();
    if start.starts_with(b"{") {
        read_json(start)
    } else if start.starts_with(b"-----BEGIN") {
        let text = std::str::from_utf8(start).map_err(|_| "is no text")?;
        read_pem(text)
    } else {
        let secret = text.strip_suffix(b"\n").map_or(text, |text| text.strip_suffix(b"\r").unwrap_or(text));
        // What others can read as well makes a poor secret, and a wrong file would be one.
        if std::str::from_utf8(secret).is_ok_and(|text| text.contains('\n')) {
            return Err("is neither a JWK Set, nor public keys in PEM, nor a secret, which is one line: \
                        `inkrelay token new-key` makes keys"
                .to_owned());
        }
        Ok(vec![Key::secret(secret)?])
    }
}

/// The blocks of a PEM file (RFC 7468): what each is called, and its bytes.
pub(crate) fn pem_blocks(text: &str) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut blocks = Vec::new();
    for block in text.split("-----BEGIN ").skip(1) {
        let (label, rest) = block.split_once("-----").ok_or("is no PEM")?;
        let end = format!("-----END {label}-----");
        let body = rest.split_once(&end).ok_or("a PEM block has no end")?.0;
        let body: String = body.split_ascii_whitespace().collect();
        blocks.push((label.to_owned(), STANDARD.decode(body).map_err(|_| "a PEM block is no base64")?));
    }
    Ok(blocks)
}

fn read_pem(text: &str) -> Result<Vec<Key>, String> {
    pem_blocks(text)?.into_iter().map(|(label, der)| read_pem_block(&label, &der)).collect()
}

fn read_pem_block(label: &str, der: &[u8]) -> Result<Key, String> {
    if label.contains("PRIVATE") {
        return Err(
            "holds a private key, which only whoever makes tokens needs: give the relay the public one, \
                    as `openssl pkey -pubout` tells it"
                .to_owned(),
        );
    }
    if label != "PUBLIC KEY" {
        return Err(format!("holds a {label}: a PUBLIC KEY is needed, as `openssl pkey -pubout` tells it"));
    }
    if let Some(public) = der.strip_prefix(ED25519_PUBLIC) {
        return Key::ed25519(public);
    }
    if let Some(point) = der.strip_prefix(P256_PUBLIC) {
        return Key::p256(point);
    }
    let (modulus, exponent) = rsa_parts(der)
        .ok_or("holds a key of another kind: Ed25519, P-256 and RSA keys of 2,048 bits and more are taken")?;
    Key::rsa(modulus, exponent)
}

/// Modulus and exponent of an RSA public key in DER (RFC 8017, appendix A.1.1, within RFC 5280's frame).
fn rsa_parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (whole, rest) = der_value(der, 0x30)?;
    let bits = whole.strip_prefix(RSA_ALGORITHM).filter(|_| rest.is_empty())?;
    let (bits, rest) = der_value(bits, 3)?;
    let key = bits.strip_prefix(&[0]).filter(|_| rest.is_empty())?;
    let (key, rest) = der_value(key, 0x30)?;
    let (modulus, exponent) = der_value(key, 2).filter(|_| rest.is_empty())?;
    let (exponent, rest) = der_value(exponent, 2)?;
    rest.is_empty().then_some((modulus, exponent))
}

/// The value of that tag at the start, and what follows it. Lengths of up to 64 KiB are read.
fn der_value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = der.strip_prefix(&[tag])?;
    let (length, rest) = match rest {
        [0x81, length, rest @ ..] => (usize::from(*length), rest),
        [0x82, high, low, rest @ ..] => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        [length @ ..=0x7f, rest @ ..] => (usize::from(*length), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// A JSON Web Key (RFC 7517), as far as it is looked at.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    k: Option<String>,
    d: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Jwks {
    Set { keys: Vec<Jwk> },
    One(Box<Jwk>),
}

fn read_json(text: &[u8]) -> Result<Vec<Key>, String> {
    // What serde_json says would quote the text, and so perhaps a secret.
    let jwks: Jwks = serde_json::from_slice(text).map_err(|_| "is neither a JWK nor a JWK Set")?;
    let jwks = match jwks {
        Jwks::Set { keys } => keys,
        Jwks::One(key) => vec![*key],
    };
    let mut keys = Vec::new();
    for jwk in jwks {
        // The set of an identity provider may hold keys for other things beside.
        match jwk.algorithm() {
            Some(algorithm) => keys.push(jwk.read(algorithm)?),
            None => tracing::warn!(kty = jwk.kty, alg = jwk.alg, "a key of a JWK Set is for something else"),
        }
    }
    if keys.is_empty() { Err("holds no key for HS256, EdDSA, ES256 or RS256".to_owned()) } else { Ok(keys) }
}

impl Jwk {
    /// The one algorithm that the key is for; none when it is for something else.
    fn algorithm(&self) -> Option<Algorithm> {
        if self.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let (name, algorithm) = match (self.kty.as_str(), self.crv.as_deref()) {
            ("oct", None) => ("HS256", Algorithm::HS256),
            ("OKP", Some("Ed25519")) => ("EdDSA", Algorithm::EdDSA),
            ("EC", Some("P-256")) => ("ES256", Algorithm::ES256),
            ("RSA", None) => ("RS256", Algorithm::RS256),
            _ => return None,
        };
        self.alg.as_deref().is_none_or(|alg| alg == name).then_some(algorithm)
    }

    fn read(self, algorithm: Algorithm) -> Result<Key, String> {
        if self.d.is_some() {
            return Err("holds a private key, which only whoever makes tokens needs".to_owned());
        }
        let part = |text: &Option<String>, name: &str| {
            let text = text.as_deref().ok_or_else(|| format!("a key lacks {name:?}"))?;
            URL_SAFE_NO_PAD.decode(text).map_err(|_| format!("{name:?} of a key is no base64url"))
        };
        let key = match algorithm {
            Algorithm::HS256 => Key::secret(&part(&self.k, "k")?),
            Algorithm::EdDSA => Key::ed25519(&part(&self.x, "x")?),
            Algorithm::ES256 => Key::p256(&[&[4][..], &part(&self.x, "x")?, &part(&self.y, "y")?].concat()),
            _ => Key::rsa(&part(&self.n, "n")?, &part(&self.e, "e")?),
        }?;
        Ok(Key { id: self.kid, ..key })
    }
}
