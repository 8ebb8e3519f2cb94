//! The commands that work on a store itself: list rooms, delete one, export and import.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::{Args, Subcommand};
use inkrelay_protocol::RoomId;
use inkrelay_server::export::{self, ExportError, Progress, Source, Which};
use inkrelay_server::store::{EmbeddedReader, EmbeddedStore, RedisConfig, RedisStore, Store, SyncPolicy};

/// Rooms that are listed at once.
const PAGE_ROOMS: usize = 256;
/// How often progress is told.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Bytes that are read and written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A command that works on a store.
#[derive(Subcommand)]
pub enum Upkeep {
    /// List the rooms of a store: name, records, bytes, time of the last draw (without one, of the last change of rules)
    Rooms {
        #[command(flatten)]
        place: Place,
    },
    /// Delete a room of a store, for ever
    Delete {
        /// The room's name
        room: RoomId,
        #[command(flatten)]
        place: Place,
    },
    /// Write a room, or all, into a file; also while a relay runs on the store
    Export {
        /// The room's name
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        room: Option<RoomId>,
        /// All rooms
        #[arg(long)]
        all: bool,
        /// The file, which is there only when it is complete; without it, or with -, the standard output
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
        #[command(flatten)]
        place: Place,
    },
    /// Bring the rooms of a file into a store
    Import {
        /// The file, a pipe, or - for the standard input
        file: PathBuf,
        /// Replace rooms that are there already, instead of leaving them as they are
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        place: Place,
    },
}

/// Which store.
#[derive(Args)]
pub struct Place {
    /// Folder of an embedded store
    #[arg(long, env = "INKRELAY_DATA", default_value = "./inkrelay-data", value_name = "DIR")]
    data: PathBuf,
    /// A Redis, instead of that
    #[arg(long, env = "INKRELAY_REDIS", value_name = "URL", hide_env_values = true)]
    redis: Option<String>,
}

impl Place {
    async fn redis(&self) -> Result<Option<Arc<dyn Store>>, String> {
        let Some(url) = &self.redis else { return Ok(None) };
        let store = RedisStore::connect(url, RedisConfig::default()).await;
        Ok(Some(Arc::new(store.map_err(|error| error.to_string())?)))
    }

    /// To read from, also beside a relay.
    async fn source(&self) -> Result<Source, String> {
        if let Some(store) = self.redis().await? {
            return Ok(Source::Store(store));
        }
        EmbeddedReader::open(&self.data).map(Source::File).map_err(|error| error.to_string())
    }

    /// To write to. The folder of a relay that runs is that relay's.
    async fn store(&self) -> Result<Arc<dyn Store>, String> {
        if let Some(store) = self.redis().await? {
            return Ok(store);
        }
        if !self.data.exists() {
            return Err(format!("there is no folder {}", self.data.display()));
        }
        let store = EmbeddedStore::open(&self.data, SyncPolicy::Always).map_err(|error| error.to_string())?;
        Ok(Arc::new(store))
    }
}

/// Runs a command to its end.
pub async fn run(command: Upkeep) -> Result<(), String> {
    match command {
        Upkeep::Rooms { place } => list(&place.source().await?).await.map_err(|error| error.to_string()),
        Upkeep::Delete { room, place } => {
            let store = place.store().await?;
            let deleted = store.delete(&room).await;
            store.close().await;
            match deleted {
                Ok(true) => {
                    eprintln!("deleted room {room} with its rules");
                    Ok(())
                }
                Ok(false) => {
                    Err(format!("there is no room {room}: nobody has drawn in it or laid down rules"))
                }
                Err(error) => Err(error.to_string()),
            }
        }
        Upkeep::Export { room, out, place, all: _ } => {
            let source = place.source().await?;
            let rooms = room.as_ref().map_or(Which::All, Which::One);
            let done = match out.as_deref().filter(|file| !is_standard(file)) {
                Some(file) if is_no_file(file) => export_along(&source, rooms, file).await,
                Some(file) => export_into(&source, rooms, file).await,
                None => export_to(&source, rooms, io::stdout().lock()).await,
            };
            tell("exported", &done.map_err(|error| error.to_string())?);
            Ok(())
        }
        Upkeep::Import { file, replace, place } => import(&file, replace, &place).await,
    }
}

async fn list(source: &Source) -> Result<(), ExportError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut after = None;
    loop {
        let page = source.rooms(after.as_ref(), PAGE_ROOMS).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.room.clone());
        for found in page {
            let last_at = match found.last_at {
                0 => "-".to_owned(),
                at => humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(at)).to_string(),
            };
            writeln!(out, "{}\t{}\t{}\t{last_at}", found.room, found.position.seq, found.bytes)?;
        }
    }
    Ok(out.flush()?)
}

async fn export_to(source: &Source, rooms: Which<'_>, out: impl Write) -> Result<Progress, ExportError> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let done = export::export(source, rooms, &mut out, now_and_then("exported")).await?;
    out.flush()?;
    Ok(done)
}

/// Into a pipe or a device, which stays what it is.
async fn export_along(source: &Source, rooms: Which<'_>, file: &Path) -> Result<Progress, ExportError> {
    export_to(source, rooms, OpenOptions::new().write(true).open(file)?).await
}

/// Under another name until it is complete and synced: a file of that name is never half an export.
async fn export_into(source: &Source, rooms: Which<'_>, file: &Path) -> Result<Progress, ExportError> {
    let not_a_file = || ExportError::Refused(format!("{} is no name of a file", file.display()));
    let name = file.file_name().ok_or_else(not_a_file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = folder.join(format!(".{}.{}.part", name.to_string_lossy(), process::id()));
    let written = async {
        // What is drawn is not for every user of the machine.
        let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let done = export_to(source, rooms, &out).await?;
        out.sync_all()?;
        fs::rename(&part, file)?;
        File::open(folder)?.sync_all()?;
        Ok(done)
    };
    let written = written.await;
    if written.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&part);
    }
    written
}

async fn import(file: &Path, replace: bool, place: &Place) -> Result<(), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let open = || -> Result<Box<dyn Read>, String> {
        if is_standard(file) {
            return Ok(Box::new(io::stdin()));
        }
        let file = File::open(file).map_err(|error| named(&error))?;
        Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, file)))
    };
    // Read once before anything is changed: then a damaged file changes nothing. A pipe can be read only once.
    if !is_standard(file) && !is_no_file(file) {
        export::check(open()?).map_err(|error| named(&error))?;
    }
    let store = place.store().await?;
    let imported = match open() {
        Ok(input) => export::import(input, &*store, replace, now_and_then("imported")).await,
        Err(error) => Err(ExportError::Refused(error)),
    };
    store.close().await;
    let imported = imported.map_err(|error| named(&error))?;
    tell("imported", &imported.done);
    match &imported.existing[..] {
        [] => Ok(()),
        [first, ..] => Err(format!(
            "{} rooms were there already and stay as they are, as {first}; --replace replaces them",
            imported.existing.len()
        )),
    }
}

/// Whether the standard input or output is meant.
fn is_standard(file: &Path) -> bool {
    file == Path::new("-")
}

/// Whether a pipe, a device or a folder has that name: what is read or written there is not there a second time.
fn is_no_file(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| !found.is_file())
}

fn now_and_then(what: &'static str) -> impl FnMut(&Progress) {
    let mut last = Instant::now();
    move |progress| {
        if last.elapsed() >= TELL_EVERY {
            last = Instant::now();
            tell(what, progress);
        }
    }
}

fn tell(what: &str, progress: &Progress) {
    let Progress { rooms, records, bytes } = progress;
    eprintln!("{what} {rooms} rooms, {records} records, {}", bytesize::ByteSize(*bytes));
}
