//! The readers: a few connections that only read, used on the runtime's threads for blocking work.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::file;
use super::log::Fault;
use crate::store::StoreError;

/// Reads that run at the same time. Further ones wait without holding a thread.
const READERS: usize = 4;

/// Connections that only read.
pub(super) struct Readers {
    file: Arc<PathBuf>,
    places: Arc<Semaphore>,
    /// Those that nobody uses just now; made when needed.
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl Readers {
    pub fn new(file: PathBuf) -> Self {
        Self { file: Arc::new(file), places: Arc::new(Semaphore::new(READERS)), idle: Arc::default() }
    }

    /// Runs one read on a thread that may block.
    pub async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError::Unavailable("the store is closed".to_owned());
        let place = self.places.clone().acquire_owned().await.map_err(closed)?;
        let (file, idle) = (self.file.clone(), self.idle.clone());
        let work = move || {
            // Held until the work is done, also when nobody waits for it any more.
            let _place = place;
            let connection = lock(&idle).pop();
            let connection = connection.map_or_else(|| file::open_reader(&file), Ok).map_err(Fault::from)?;
            let result = read(&connection)?;
            // One that failed is not used again: the next is opened from scratch.
            lock(&idle).push(connection);
            Ok(result)
        };
        let joined = tokio::task::spawn_blocking(work).await;
        joined.unwrap_or_else(|_| Err(StoreError::Unavailable("the read was broken off".to_owned())))
    }

    /// Lets no further read begin, and closes the connections that nobody uses.
    pub fn close(&self) {
        self.places.close();
        lock(&self.idle).clear();
    }
}

fn lock(idle: &Mutex<Vec<Connection>>) -> std::sync::MutexGuard<'_, Vec<Connection>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}
