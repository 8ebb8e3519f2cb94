//! Export and import: rooms in a file, for backups and for moving from one store to another. `docs/EXPORT.md` has the
//! format.

mod frame;
mod read;
mod write;

use std::io;
use std::sync::Arc;

use inkrelay_protocol::{RoomId, Seq};

use crate::store::{Chunk, EmbeddedReader, ReadLimit, RoomSummary, Rules, Store, StoreError};

pub use read::{Imported, check, import};
pub use write::{Which, export};

/// Where rooms are exported from.
pub enum Source {
    /// A store that is open.
    Store(Arc<dyn Store>),
    /// The file of an embedded store, which a server may have open.
    File(EmbeddedReader),
}

impl Source {
    /// As [`Store::rooms`].
    ///
    /// # Errors
    /// When the store does not answer, or is damaged.
    pub async fn rooms(&self, after: Option<&RoomId>, limit: usize) -> Result<Vec<RoomSummary>, StoreError> {
        match self {
            Self::Store(store) => store.rooms(after, limit).await,
            Self::File(file) => file.rooms(after, limit),
        }
    }

    async fn rules(&self, room: &RoomId) -> Result<Rules, StoreError> {
        match self {
            Self::Store(store) => store.rules(room).await,
            Self::File(file) => file.rules(room),
        }
    }

    async fn read(&self, room: &RoomId, from: Seq, limit: ReadLimit) -> Result<Chunk, StoreError> {
        match self {
            Self::Store(store) => store.read(room, from, limit).await,
            Self::File(file) => file.read(room, from, limit),
        }
    }
}

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rooms that are done.
    pub rooms: u64,
    /// Records of all rooms, also of one that is under way.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
}

/// Why rooms were not, or not all, exported or imported. The words are for the operator.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store does not answer, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file cannot be read or written.
    #[error("the file cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// The file is not as it was written, or ends too early.
    #[error("the file is damaged at byte {at}: {what}")]
    Damaged {
        /// Where the part begins that is wrong.
        at: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The file is something else.
    #[error("this is no export of Inkrelay: {0}")]
    NoExport(String),
    /// There is nothing, or nothing that could be kept.
    #[error("{0}")]
    Refused(String),
}
