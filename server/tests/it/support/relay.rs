//! A relay that runs in this process, on a port of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use inkrelay_server::config::{Config, OperatorsListen};
use inkrelay_server::store::{MemoryStore, Store};
use inkrelay_server::transport::{Certificates, Listener, listen};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running relay; it is stopped when this is dropped.
pub struct Relay {
    pub address: SocketAddr,
    /// Where operators are served, if the test asked for it.
    pub operators: Option<SocketAddr>,
    pub store: Arc<dyn Store>,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
}

impl Relay {
    /// With a store in memory and what the test sets.
    pub async fn start(set: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(Arc::new(MemoryStore::new()), set).await
    }

    /// Over that store.
    pub async fn start_on(store: Arc<dyn Store>, set: impl FnOnce(&mut Config)) -> Self {
        Self::start_with(store, Listener::from, set)
    }

    /// Over TLS, with a store in memory.
    pub fn encrypted(certificates: Arc<Certificates>, set: impl FnOnce(&mut Config)) -> Self {
        let listener = |socket| Listener::encrypted(socket, certificates);
        Self::start_with(Arc::new(MemoryStore::new()), listener, set)
    }

    /// Over that store, and a listener made of a socket.
    pub fn start_with(
        store: Arc<dyn Store>,
        listener: impl FnOnce(TcpListener) -> Listener,
        set: impl FnOnce(&mut Config),
    ) -> Self {
        let mut config = Config { operators_listen: OperatorsListen::Off, ..Config::default() };
        set(&mut config);
        let socket = listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let address = socket.local_addr().unwrap();
        let listener = listener(socket);
        let operators = match config.operators_listen {
            OperatorsListen::Off => None,
            OperatorsListen::At(at) => Some(inkrelay_server::operators::listen(at).unwrap()),
        };
        let operators_address = operators.as_ref().map(|listener| listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let shutdown = async move { drop(stopped.await) };
                inkrelay_server::run(config, store, listener, operators, shutdown).await.unwrap();
            })
        };
        Self { address, operators: operators_address, store, stop: Some(stop), running }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Tells it to stop, as SIGTERM does. [`Relay::stopped`] waits for the end.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }

    /// Waits until it has stopped.
    pub async fn stopped(mut self) {
        self.stop();
        tokio::time::timeout(super::PATIENCE, self.running).await.expect("the relay stops").unwrap();
    }
}
