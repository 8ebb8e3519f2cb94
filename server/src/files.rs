//! The files that settings name: keys of tokens, revoked tokens, certificates. All are read before anything starts, and
//! again at a reload.

use std::sync::Arc;

use crate::access::{KeyError, Tokens};
use crate::config::Config;
use crate::transport::{Certificates, TlsError};

/// What stands in them, as it is held to.
#[derive(Clone)]
pub struct Files {
    /// Where tokens are asked for.
    pub tokens: Option<Arc<Tokens>>,
    /// Where TLS is spoken.
    pub certificates: Option<Arc<Certificates>>,
}

/// Why a file is not taken. Names its setting.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Of keys, or of revoked tokens.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// Of a certificate, or its key.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Files {
    /// Reads them.
    ///
    /// # Errors
    /// Which is not taken, and what would be right.
    pub fn read(config: &Config) -> Result<Self, FileError> {
        let tokens = Tokens::open(config.tokens())?.map(Arc::new);
        let certificates = match (&config.tls_cert, &config.tls_key) {
            (Some(chain), Some(key)) => Some(Arc::new(Certificates::load(chain, key)?)),
            _ => None,
        };
        Ok(Self { tokens, certificates })
    }

    /// Reads them again. Returns what is another than it was, in plain words, and which could not be taken: what those said
    /// before holds on.
    pub fn reload(&self) -> (Vec<&'static str>, Vec<FileError>) {
        let mut reads: Vec<(&'static str, Result<bool, FileError>)> = Vec::new();
        if let Some(tokens) = &self.tokens {
            reads.push(("the keys of tokens", tokens.reload().map_err(FileError::from)));
            reads.push(("the list of revoked tokens", tokens.reload_revoked().map_err(FileError::from)));
        }
        if let Some(certificates) = &self.certificates {
            reads.push(("the certificate", certificates.reload().map_err(FileError::from)));
        }
        let (mut changed, mut wrong) = (Vec::new(), Vec::new());
        for (what, read) in reads {
            match read {
                Ok(true) => changed.push(what),
                Ok(false) => {}
                Err(error) => wrong.push(error),
            }
        }
        (changed, wrong)
    }
}
