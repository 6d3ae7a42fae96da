//! Files for bodies that are too big for memory, on either way, and the bound for all of them together.
//!
//! Each byte is counted before it is written, and until its file is closed or empty. Called by `relay`, and by `edge`. Runs in: server,
//! off the reactors, except for what only counts.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags, fstatvfs, statvfs};
use rustix::io::Errno;
use tracing::warn;

use super::RequestId;
use super::seldom::Seldom;
use crate::config::ByteSize;
use crate::rights;

/// Bytes of all spool files. Every access is relaxed: it counts, it guards no memory.
static ALL: AtomicU64 = AtomicU64::new(0);

/// Of a file system's size one part in so many is left free, but no more than [`LEFT_FREE`].
const PART_LEFT_FREE: u64 = 20;
const LEFT_FREE: u64 = 1 << 30;
/// What all may have where the system does not say how much is free.
const UNKNOWN: ByteSize = ByteSize::gib(1);

/// A file without a name. It goes when its last descriptor does, also when the server is killed.
#[derive(Debug)]
pub struct SpoolFile {
    file: File,
    /// Its bytes in [`ALL`].
    counted: AtomicU64,
}

/// Why a spool file may not become larger now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    /// All of them together have as much as they may have.
    #[error("all spool files together have as much as limits.spool_bytes")]
    Limit,
    /// A single body has more than that.
    #[error("a body is larger than limits.spool_bytes")]
    TooLarge,
    /// The file system has little left.
    #[error("the file system of spool_dir is nearly full")]
    FileSystem,
}

/// Bytes that all spool files together may have: `set`, or a tenth of what was free in `folder` when this was first asked.
pub fn limit(set: Option<ByteSize>, folder: &Path) -> ByteSize {
    static TENTH: OnceLock<ByteSize> = OnceLock::new();
    set.unwrap_or_else(|| *TENTH.get_or_init(|| tenth_of_free(folder)))
}

fn tenth_of_free(folder: &Path) -> ByteSize {
    let about = rights::as_server(|| statvfs(folder).map_err(io::Error::from)).flatten();
    let free = about.map(|about| about.f_bavail.saturating_mul(about.f_frsize));
    free.map_or(UNKNOWN, |free| ByteSize(free / 10))
}

impl SpoolFile {
    /// One in `folder`. File systems that know no files without a name get a named one that is unlinked at once. Blocks.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let file = rights::as_server(|| open(folder)).flatten()?;
        Ok(Self {
            file,
            counted: AtomicU64::new(0),
        })
    }

    /// What is read and written.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Counts so many more bytes, if all files together may have them.
    pub fn count(&self, bytes: u64, limit: u64) -> Result<(), NoRoom> {
        let within = |all: u64| all.checked_add(bytes).filter(|all| *all <= limit);
        match ALL.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(_) => {
                self.counted.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(_) => Err(NoRoom::Limit),
        }
    }

    /// It has so many bytes, no more than were counted: gives the others back.
    pub fn settle(&self, bytes: u64) {
        let counted = self.counted.swap(bytes, Ordering::Relaxed);
        ALL.fetch_sub(counted.saturating_sub(bytes), Ordering::Relaxed);
    }

    /// Whether so many more bytes leave its file system enough. Blocks.
    pub fn check_space(&self, bytes: u64) -> Result<(), NoRoom> {
        let Ok(about) = fstatvfs(&self.file) else {
            return Ok(());
        };
        let total = about.f_blocks.saturating_mul(about.f_frsize);
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        // Some file systems do not say how large they are.
        if total == 0 || free >= bytes.saturating_add(LEFT_FREE.min(total / PART_LEFT_FREE)) {
            return Ok(());
        }
        Err(NoRoom::FileSystem)
    }
}

fn open(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match rustix::fs::open(folder, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let path = folder.join(format!("hearth-{}-{}", std::process::id(), RequestId::next()));
            rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)
                .and_then(|file| rustix::fs::unlink(&path).map(|()| file))
        }
        other => other,
    };
    let file = opened
        .map_err(io::Error::from)
        .map_err(|e| io::Error::new(e.kind(), format!("creating a file in {}: {e}", folder.display())))?;
    Ok(File::from(file))
}

impl Drop for SpoolFile {
    fn drop(&mut self) {
        self.settle(0);
    }
}

/// Says that there is no room, once in a while.
pub fn say(why: NoRoom) {
    static REFUSALS: Seldom = Seldom::new();
    if let Some(times) = REFUSALS.add(std::time::Instant::now()) {
        warn!(
            reason = %why,
            times,
            spooled = ALL.load(Ordering::Relaxed),
            "no room for spool files: large requests are refused, and workers wait for slow clients"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far more than other tests spool at the same time.
    const MUCH: u64 = 1 << 50;

    #[test]
    fn what_is_counted_is_given_back() {
        let folder = std::env::temp_dir();
        let (one, other) = (
            SpoolFile::create(&folder).unwrap(),
            SpoolFile::create(&folder).unwrap(),
        );
        let limit = 3 * MUCH;
        one.count(2 * MUCH, limit).unwrap();
        assert_eq!(other.count(2 * MUCH, limit), Err(NoRoom::Limit));
        one.settle(MUCH / 2);
        other.count(2 * MUCH, limit).unwrap();
        assert_eq!(one.count(MUCH, limit), Err(NoRoom::Limit));
        drop(other);
        one.count(2 * MUCH, limit).unwrap();
        assert_eq!(one.count(u64::MAX, u64::MAX), Err(NoRoom::Limit));
        drop(one);
        assert!(ALL.load(Ordering::Relaxed) < MUCH);
    }

    #[test]
    fn a_file_system_is_not_filled() {
        let file = SpoolFile::create(&std::env::temp_dir()).unwrap();
        assert_eq!(file.check_space(0), Ok(()));
        assert_eq!(file.check_space(u64::MAX / 2), Err(NoRoom::FileSystem));
    }
}
