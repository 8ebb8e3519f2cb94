//! An authority of a test's own, the certificates that it issues, and clients that trust it alone.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::Connector;

use super::socket::Socket;

/// An authority, with one between it and the certificates of servers: a server's chain has two.
pub struct Authority {
    folder: tempfile::TempDir,
    root: String,
    between: String,
    issuer: Issuer<'static, KeyPair>,
}

/// The authority's certificate parameters.
fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub fn new() -> Self {
        let root_key = KeyPair::generate().unwrap();
        let root_params = authority("a test's root");
        let root = root_params.self_signed(&root_key).unwrap().pem();
        let key = KeyPair::generate().unwrap();
        let params = authority("a test's authority");
        let between = params.signed_by(&key, &Issuer::new(root_params, root_key)).unwrap().pem();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), &root).unwrap();
        Self { folder, root, between, issuer: Issuer::new(params, key) }
    }

    /// A file in the authority's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file in the authority's folder.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// The file with the authority's own certificate.
    pub fn ca(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// A chain for `localhost` and 127.0.0.1, for that key.
    pub fn chain(&self, key: &KeyPair) -> String {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let own = CertificateParams::new(names).unwrap().signed_by(key, &self.issuer).unwrap();
        own.pem() + &self.between
    }

    /// Writes a new chain and its key to these two files: `chain.pem` and `key.pem`.
    pub fn issue(&self) -> [PathBuf; 2] {
        let key = KeyPair::generate().unwrap();
        [self.write("chain.pem", &self.chain(&key)), self.write("key.pem", &key.serialize_pem())]
    }

    /// What a client that trusts this authority alone encrypts with.
    pub fn trusting(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.root.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        config.with_root_certificates(roots).with_no_client_auth()
    }

    /// A client over HTTP.
    pub fn http(&self) -> reqwest::Client {
        let config = self.trusting(rustls::ALL_VERSIONS);
        reqwest::Client::builder().tls_backend_preconfigured(config).build().unwrap()
    }

    /// A bare connection.
    ///
    /// # Errors
    /// When the handshake fails.
    pub async fn connect(
        &self,
        address: SocketAddr,
        set: impl FnOnce(&mut ClientConfig),
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let mut config = self.trusting(rustls::ALL_VERSIONS);
        set(&mut config);
        let stream = TcpStream::connect(address).await?;
        TlsConnector::from(Arc::new(config)).connect(address.ip().into(), stream).await
    }

    /// A WebSocket after its handshakes, over a connection that takes that many bytes before somebody reads them, or as
    /// many as usual.
    pub async fn socket(&self, address: SocketAddr, room: &str, receive_bytes: Option<u32>) -> Socket {
        let socket = TcpSocket::new_v4().unwrap();
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes).unwrap();
        }
        let stream = socket.connect(address).await.unwrap();
        let connector = Connector::Rustls(Arc::new(self.trusting(rustls::ALL_VERSIONS)));
        let url = format!("wss://{address}/v1/rooms/{room}/ws");
        let (stream, _) = tokio_tungstenite::client_async_tls_with_config(url, stream, None, Some(connector))
            .await
            .unwrap();
        Socket::over(stream)
    }

    /// Opens a session as a new client, from the start.
    pub async fn join(&self, address: SocketAddr, room: &str) -> Socket {
        let mut socket = self.socket(address, room, None).await;
        socket.hello(&inkrelay_protocol::frame::Hello::default()).await.unwrap();
        socket
    }
}

/// The server's own certificate, as a client was shown it.
pub fn shown(connection: &ClientConnection) -> Vec<u8> {
    connection.peer_certificates().expect("a server shows one")[0].to_vec()
}
