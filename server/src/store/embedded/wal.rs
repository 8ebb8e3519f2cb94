//! Whether SQLite's write-ahead log was damaged before its end.
//!
//! SQLite takes the log up to the first frame that does not fit its checksum, and what follows for the rest of
//! an older log: that is what a crash leaves. But a byte that changed by itself looks the same, and then
//! acknowledged appends follow, which SQLite drops without a word. They give themselves away by the two random
//! numbers ("salts") of the current log, and by the mark that ends a commit. A commit that failed, for want of space,
//! leaves frames without that mark. (A power cut may leave frames with it, of the last commit, which
//! nobody was told of. That cannot be told from damage, and counts as such; it costs a new epoch.)
//!
//! The format: <https://www.sqlite.org/fileformat2.html#the_write_ahead_log>.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Its lowest bit says that checksums take the words in big-endian order.
const MAGIC: u32 = 0x377f_0682;

/// Whether commits of the current log follow a frame that SQLite will not take.
pub(super) fn is_damaged(wal: &Path) -> io::Result<bool> {
    let file = match File::open(wal) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let has_frames = file.metadata()?.len() > HEADER as u64;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut header = [0; HEADER];
    // Without a frame there is nothing to lose.
    if !has_frames || !fill(&mut file, &mut header)? {
        return Ok(false);
    }
    let (magic, page_bytes) = (word(&header, 0), word(&header, 8));
    let mut sum = Checksum { big_endian: magic & 1 == 1, sum: (0, 0) };
    sum.add(&header[..24]);
    if magic & !1 != MAGIC || !sum.is(&header[24..]) || !(512..=65_536).contains(&page_bytes) {
        return Ok(true);
    }
    let mut frame = vec![0; FRAME_HEADER + page_bytes as usize];
    let mut is_cut = false;
    while fill(&mut file, &mut frame)? {
        let is_current = frame[8..16] == header[16..24];
        let ends_commit = word(&frame, 4) != 0;
        if is_cut && is_current && ends_commit {
            return Ok(true);
        }
        if !is_cut {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER..]);
            is_cut = !is_current || !sum.is(&frame[16..24]);
        }
    }
    Ok(false)
}

/// The running checksum of header and frames.
struct Checksum {
    big_endian: bool,
    sum: (u32, u32),
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        let (mut first, mut second) = self.sum;
        for pair in bytes.chunks_exact(8) {
            let (a, b) = (word(pair, 0), word(pair, 4));
            let (a, b) = if self.big_endian { (a, b) } else { (a.swap_bytes(), b.swap_bytes()) };
            first = first.wrapping_add(a).wrapping_add(second);
            second = second.wrapping_add(b).wrapping_add(first);
        }
        self.sum = (first, second);
    }

    fn is(&self, bytes: &[u8]) -> bool {
        self.sum == (word(bytes, 0), word(bytes, 4))
    }
}

/// The four bytes at `at`, in big-endian order.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// Whether there were as many bytes.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A commit that failed for want of space, over the beginning of which a smaller one was written, is no loss.
    #[test]
    fn frames_without_the_end_of_a_commit_are_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let connection = rusqlite::Connection::open(folder.path().join("a")).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (bytes BLOB); INSERT INTO t VALUES (x'00')").unwrap();
        let log = folder.path().join("a-wal");
        let before = fs::read(&log).unwrap().len();
        connection.execute_batch("INSERT INTO t VALUES (zeroblob(30000))").unwrap();
        let mut whole = fs::read(&log).unwrap();
        let page = word(&whole, 8) as usize;
        assert!(whole.len() > before + 4 * (FRAME_HEADER + page), "the commit has several frames");
        assert!(!is_damaged(&log).unwrap());

        // SQLite takes nothing from here on.
        whole[before + FRAME_HEADER] ^= 1;
        let cut = folder.path().join("cut");
        fs::write(&cut, &whole[..whole.len() - FRAME_HEADER - page]).unwrap();
        assert!(!is_damaged(&cut).unwrap());
        fs::write(&cut, &whole).unwrap();
        assert!(is_damaged(&cut).unwrap());
    }
}
