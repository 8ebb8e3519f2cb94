//! TLS: what both transports encrypt with, and whom they trust.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// For a server whose certificate leads to an authority that this machine trusts, or, with a PEM file, to one of those
/// in it and to no other.
///
/// # Errors
/// In plain words, when there is nobody to trust.
pub(crate) fn config(authorities: Option<&Path>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(path) => {
            let unreadable = |error| format!("cannot read the authorities in {}: {error}", path.display());
            for certificate in
                CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?
            {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unreadable("it holds no certificate".to_owned()));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // Some systems carry certificates that nobody can read any more.
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                return Err(
                    "this machine has no list of authorities to trust: name a file with one".to_owned()
                );
            }
        }
    }
    Ok(trusting(roots))
}

/// Where nothing is encrypted.
pub(crate) fn none() -> Arc<ClientConfig> {
    trusting(RootCertStore::empty())
}

fn trusting(roots: RootCertStore) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has ciphers for every version")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}
