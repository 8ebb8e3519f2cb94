//! TLS on the public port: the certificate, and how it is exchanged while the relay runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ServerConfig;
use tokio_rustls::TlsAcceptor;

use super::lingering::Lingering;
use crate::lock::lock;
use crate::metrics::Gauge;

/// An encrypted connection.
pub type TlsStream = tokio_rustls::server::TlsStream<Lingering>;

/// HTTP/1.1 is all that is spoken here (RFC 7301).
const ALPN: &[u8] = b"http/1.1";
/// Bytes that are encrypted and not sent, of one connection at most, and some for each record's frame.
const UNSENT_BYTES: usize = 64 * 1024;
/// Files that are exchanged without a reload are noticed after this time.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// What is wrong with a certificate or its key, for whoever runs the relay.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

/// The certificate that is shown to clients, with its key, from two files.
pub struct Certificates {
    chain: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
    /// When the first of the chain's certificates expires, in seconds since 1970; 0 when it is not known.
    expiry: Arc<Gauge>,
}

struct Current {
    config: Arc<ServerConfig>,
    /// What it shows.
    shown: Vec<CertificateDer<'static>>,
    /// When the files that were looked at last had been written.
    written: Written,
}

/// When the two files were written, as far as that is known.
type Written = [Option<SystemTime>; 2];

impl Certificates {
    /// Reads a chain of certificates, the server's own first, and its key: PEM, the key as PKCS#8, PKCS#1 or SEC1.
    ///
    /// # Errors
    /// In plain words, when a file cannot be used, or when the two do not belong together.
    pub fn load(chain: &Path, key: &Path) -> Result<Self, TlsError> {
        let (chain, key) = (chain.to_owned(), key.to_owned());
        let written = written(&chain, &key);
        let (config, shown) = read(&chain, &key)?;
        let expiry = Arc::new(Gauge::default());
        expiry.set(expires_at(&shown));
        let current = Mutex::new(Current { config: Arc::new(config), shown, written });
        Ok(Self { chain, key, current, expiry })
    }

    /// When the first of the chain's certificates expires, in seconds since 1970; follows what is read again.
    pub(super) fn expiry(&self) -> Arc<Gauge> {
        Arc::clone(&self.expiry)
    }

    /// Reads the files again, and returns whether they hold another certificate. Connections from now on are shown that one;
    /// open ones stay as they are. When the files cannot be used, what was there before stays.
    ///
    /// # Errors
    /// As [`Certificates::load`].
    pub fn reload(&self) -> Result<bool, TlsError> {
        let written = written(&self.chain, &self.key);
        let read = read(&self.chain, &self.key);
        let mut current = lock(&self.current);
        // Also when they are wrong: that is said once, and not at every look.
        current.written = written;
        let (config, shown) = read?;
        // The key of a certificate is always the same one.
        let is_new = current.shown != shown;
        if is_new {
            self.expiry.set(expires_at(&shown));
            (current.config, current.shown) = (Arc::new(config), shown);
        }
        Ok(is_new)
    }

    /// Reads the files again when one was written, as those who renew certificates do. Never ends.
    pub async fn keep_fresh(&self) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            if self.have_changed() {
                self.reload_and_tell();
            }
        }
    }

    /// Whether a file was written since they were looked at.
    fn have_changed(&self) -> bool {
        let written = written(&self.chain, &self.key);
        written != lock(&self.current).written
    }

    fn reload_and_tell(&self) {
        match self.reload() {
            Ok(true) => tracing::info!(certificate = %self.chain.display(), "there is a new certificate"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the certificate is kept as it was"),
        }
    }

    /// Shakes hands.
    ///
    /// # Errors
    /// When the client goes, or does not agree.
    pub(super) async fn accept(&self, stream: Lingering) -> std::io::Result<TlsStream> {
        let config = Arc::clone(&lock(&self.current).config);
        let bounded = |session: &mut rustls::ServerConnection| session.set_buffer_limit(Some(UNSENT_BYTES));
        TlsAcceptor::from(config).accept_with(stream, bounded).await
    }
}

fn written(chain: &Path, key: &Path) -> Written {
    [chain, key].map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
}

type Read = (ServerConfig, Vec<CertificateDer<'static>>);

fn read(chain_path: &Path, key_path: &Path) -> Result<Read, TlsError> {
    let mut chain = Vec::new();
    let unreadable = |setting: &str, path: &Path, error: pem::Error| {
        let path = path.display();
        TlsError(match error {
            pem::Error::Io(error) => format!("{setting}: cannot read {path}: {error}; it takes a PEM file"),
            error => format!("{setting}: {path} is no PEM file: {error}"),
        })
    };
    for certificate in CertificateDer::pem_file_iter(chain_path)
        .map_err(|error| unreadable("tls-cert", chain_path, error))?
    {
        chain.push(certificate.map_err(|error| unreadable("tls-cert", chain_path, error))?);
    }
    if chain.is_empty() {
        let path = chain_path.display();
        return Err(TlsError(format!(
            "tls-cert: {path} holds no certificate: it takes a PEM file with -----BEGIN CERTIFICATE-----"
        )));
    }
    let key = PrivateKeyDer::from_pem_file(key_path).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError(format!(
            "tls-key: {} holds no key: it takes a PEM file with -----BEGIN PRIVATE KEY-----, and not encrypted",
            key_path.display()
        )),
        error => unreadable("tls-key", key_path, error),
    })?;
    let config = config(chain.clone(), key).map_err(|error| {
        let (chain, key) = (chain_path.display(), key_path.display());
        TlsError(match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("tls-key: the key in {key} is not that of the first certificate in {chain}, which tls-cert names")
            }
            error => format!("tls-cert: the certificate in {chain} cannot be used with the key in {key}: {error}"),
        })
    })?;
    Ok((config, chain))
}

/// When the first of them expires, in seconds since 1970; 0 when none can be read so far, which is no reason not to show them.
fn expires_at(chain: &[CertificateDer<'_>]) -> i64 {
    let read = |certificate: &CertificateDer<'_>| {
        let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
        Some(certificate.validity().not_after.timestamp())
    };
    chain.iter().filter_map(read).min().unwrap_or(0)
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    // TLS 1.2 and 1.3.
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    // Whoever comes back, as all do after a restart of something on the way, is spared the signature; and nothing is
    // kept for them here.
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever renews certificates may know of no signal. What is wrong is told once.
    #[test]
    fn files_that_were_written_are_read_again_once() {
        let folder = tempfile::tempdir().unwrap();
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
        let (mut at, mut year) = (SystemTime::now(), 2100);
        let mut write = |is_whole: bool| {
            let own = rcgen::KeyPair::generate().unwrap();
            let mut params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
            year += 1;
            params.not_after = rcgen::date_time_ymd(year, 3, 1);
            std::fs::write(&chain, params.self_signed(&own).unwrap().pem()).unwrap();
            if is_whole {
                std::fs::write(&key, own.serialize_pem()).unwrap();
            }
            // Some file systems tell times by the second.
            at += Duration::from_secs(2);
            std::fs::File::options().write(true).open(&chain).unwrap().set_modified(at).unwrap();
        };
        write(true);
        let certificates = Certificates::load(&chain, &key).unwrap();
        let config = || Arc::clone(&lock(&certificates.current).config);
        let first = config();
        // The first of March of 2101, and of 2103: seconds since 1970.
        assert_eq!(certificates.expiry().get(), 4_139_078_400);
        assert!(!certificates.have_changed());
        write(false);
        assert!(certificates.have_changed());
        certificates.reload_and_tell();
        assert!(Arc::ptr_eq(&config(), &first) && !certificates.have_changed());
        assert_eq!(certificates.expiry().get(), 4_139_078_400);
        write(true);
        assert!(certificates.have_changed());
        certificates.reload_and_tell();
        assert!(!Arc::ptr_eq(&config(), &first) && !certificates.have_changed());
        assert_eq!(certificates.expiry().get(), 4_202_150_400);
    }
}
