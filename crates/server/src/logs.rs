//! Files that the log and the access log are written to, and opening them anew once they have been renamed.
//!
//! No line is lost: until the new file is open the old one is written to, and each line goes whole to one of the two. Opened by
//! `cli` before anything is logged, told to reopen by `app`. Runs in: server.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tracing::{info, warn};

use crate::config::Log;
use crate::rights;
use crate::trust;

/// How long a line of the log waits for a reader that takes none; then lines are dropped until it takes some again.
const PATIENCE: Duration = Duration::from_millis(200);
/// Links by which the system names the standard streams.
const STANDARD: [&str; 2] = ["/dev/stdout", "/dev/stderr"];
/// What a pipe takes without waiting, once it takes anything (pipe(7)).
const PIECE: usize = 4096;

/// The files that the settings name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Logs {
    /// Of the log; else it goes to standard error.
    pub(crate) log: Option<LogFile>,
    /// Of the access log; else it goes to standard output.
    pub(crate) access: Option<LogFile>,
}

/// A file is not to be written to.
#[derive(Debug, thiserror::Error)]
#[error("opening {path} ({setting}): {error}{hint}")]
pub(crate) struct OpenError {
    path: String,
    setting: &'static str,
    error: io::Error,
    hint: &'static str,
}

impl OpenError {
    fn new(path: &Path, setting: &'static str, error: io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "; make its folder first",
            io::ErrorKind::PermissionDenied if trust::is_refusal(&error) => {
                "; name a file in a folder of root's, such as /var/log/hearth, or have root own this one"
            }
            io::ErrorKind::PermissionDenied => "; the server's user must be permitted to write there",
            io::ErrorKind::ReadOnlyFilesystem => "; name a file on a file system that is writable",
            _ => "",
        };
        Self {
            path: path.display().to_string(),
            setting,
            error,
            hint,
        }
    }
}

/// A file that is appended to. Clones write to the same.
#[derive(Clone, Debug)]
pub(crate) struct LogFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: ArcSwap<File>,
}

/// Where lines of the log go. What is not read is dropped and counted: a log must not hold up what it tells of.
#[derive(Clone, Debug)]
pub(crate) struct LogWriter {
    file: Option<LogFile>,
    lost: Arc<Mutex<u64>>,
}

impl Logs {
    /// Opens what `log` names.
    pub(crate) fn open(log: &Log) -> Result<Self, OpenError> {
        let open =
            |path: Option<&PathBuf>, setting| path.map(|path| LogFile::open(path, setting)).transpose();
        Ok(Self {
            log: open(log.file.as_ref(), "log.file")?,
            access: open(log.access_file.as_ref().filter(|_| log.access), "log.access_file")?,
        })
    }

    /// Whether [`Self::open`] would succeed, by the setting that is wrong; no file is made.
    pub(crate) fn check(log: &Log) -> Vec<(&'static str, OpenError)> {
        let files = [
            (log.file.as_ref(), "log.file"),
            (log.access_file.as_ref().filter(|_| log.access), "log.access_file"),
        ];
        let wrong = files.into_iter().filter_map(|(path, setting)| {
            let path = path?;
            let checked = match path.symlink_metadata() {
                Ok(_) => append(path).map(drop),
                Err(_) => may_create(path),
            };
            Some((setting, OpenError::new(path, setting, checked.err()?)))
        });
        wrong.collect()
    }

    /// Opens each anew by its path. One that cannot be opened is written to as before.
    pub(crate) fn reopen(&self) {
        let files = [&self.log, &self.access];
        let mut count = 0;
        for file in files.into_iter().flatten() {
            match file.reopen() {
                Ok(()) => count += 1,
                Err(error) => self.complain(&file.0.path, &error),
            }
        }
        info!(count, "log files reopened");
    }

    /// Nobody may find the old file of the log any more: it is said on standard error, too.
    fn complain(&self, path: &Path, error: &io::Error) {
        const MESSAGE: &str = "log file not reopened, the old one is written to";
        warn!(path = %path.display(), %error, "{MESSAGE}");
        if self.log.is_some() {
            let line = format!("hearth: {MESSAGE}: {}: {error}\n", path.display());
            deliver(io::stderr(), line.as_bytes(), PATIENCE);
        }
    }
}

impl LogFile {
    fn open(path: &Path, setting: &'static str) -> Result<Self, OpenError> {
        let file = append(path).map_err(|error| OpenError::new(path, setting, error))?;
        Ok(Self(Arc::new(Inner {
            path: path.to_owned(),
            file: ArcSwap::from_pointee(file),
        })))
    }

    fn reopen(&self) -> io::Result<()> {
        self.0.file.store(Arc::new(append(&self.0.path)?));
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&**self.0.file.load()).write(bytes)
    }

    /// All to one file, whatever is opened meanwhile.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&**self.0.file.load()).write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogWriter {
    /// Writes to `file`, else to standard error.
    pub(crate) fn new(file: Option<&LogFile>) -> Self {
        Self {
            file: file.cloned(),
            lost: Arc::default(),
        }
    }

    /// Writes a line, if there is room for it.
    fn put(&self, line: &[u8]) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever waited in vain once does not wait again.
        let patience = if *lost == 0 { PATIENCE } else { Duration::ZERO };
        let written = match &self.file {
            Some(file) => deliver(&**file.0.file.load(), line, patience),
            None => deliver(io::stderr(), line, patience),
        };
        if !written {
            *lost += 1;
            return;
        }
        let lost = {
            let count = std::mem::take(&mut *lost);
            drop(lost);
            count
        };
        if lost > 0 {
            warn!(lost, "log lines dropped, nobody read them");
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.put(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether `out` took `line`, or failed to: then no wait would help.
fn deliver(out: impl AsFd, line: &[u8], patience: Duration) -> bool {
    line.chunks(PIECE).all(|piece| {
        let takes = takes(out.as_fd(), patience);
        if takes {
            let mut rest = piece;
            while let Ok(count @ 1..) = rustix::io::retry_on_intr(|| rustix::io::write(out.as_fd(), rest)) {
                rest = rest.get(count..).unwrap_or_default();
            }
        }
        takes
    })
}

/// Whether `out` takes something within `patience`.
fn takes(out: BorrowedFd<'_>, patience: Duration) -> bool {
    let mut fds = [PollFd::new(&out, PollFlags::OUT)];
    let timeout = Timespec::try_from(patience).unwrap_or_default();
    // One that has failed says so when it is written to.
    !matches!(poll(&mut fds, Some(&timeout)), Ok(0))
}

/// Whether this process may make a file at `path`.
fn may_create(path: &Path) -> io::Result<()> {
    if is_checked(path) {
        trust::folder_of(path)?;
    }
    trust::may_create(path)
}

fn is_checked(path: &Path) -> bool {
    rights::is_privileged() && !STANDARD.iter().any(|name| path == Path::new(name))
}

/// A named pipe that nobody reads is an error, and not waited for. A server that may act as other users follows no link, and
/// writes to no file that one of them has put there.
fn append(path: &Path) -> io::Result<File> {
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let is_checked = is_checked(path);
    if is_checked {
        trust::folder_of(path)?;
        flags |= OFlags::NOFOLLOW;
    }
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => io::Error::new(error.kind(), "it is a link; name the file that it leads to"),
            _ => error,
        })?;
    if is_checked {
        trust::opened(path, &file)?;
    }
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A named pipe, and its reader.
    fn pipe(name: &str) -> (PathBuf, File) {
        let path = std::env::temp_dir().join(format!("hearth-{name}-{}", std::process::id()));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        LogFile::open(&path, "log.file").unwrap_err();
        let reader = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(&path)
            .unwrap();
        (path, reader)
    }

    #[test]
    fn a_reader_that_takes_nothing_is_not_waited_for_and_gets_later_lines() {
        use std::io::Read;
        let (path, mut reader) = pipe("stalled");
        let file = LogFile::open(&path, "log.file").unwrap();
        fs::remove_file(&path).unwrap();
        let mut writer = LogWriter::new(Some(&file));
        let line = [b'x'; 1000];
        for _ in 0..1000 {
            writer.write_all(&line).unwrap();
        }
        assert!(*writer.lost.lock().unwrap() > 900);
        let mut taken = vec![0; 1 << 20];
        let mut drain = || reader.read(&mut taken).unwrap_or_default();
        while drain() > 0 {}
        writer.write_all(b"again").unwrap();
        assert_eq!(*writer.lost.lock().unwrap(), 0);
        assert_eq!(drain(), 5);
    }

    #[test]
    fn after_a_rename_the_old_file_is_written_to_until_the_file_is_opened_anew() {
        let dir = std::env::temp_dir().join(format!("hearth-logs-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (path, rotated) = (dir.join("log"), dir.join("log.1"));
        let file = LogFile::open(&path, "log.file").unwrap();
        let mut writer = file.clone();
        writer.write_all(b"one\n").unwrap();
        fs::rename(&path, &rotated).unwrap();
        writer.write_all(b"two\n").unwrap();
        // A folder in its place cannot be opened.
        fs::create_dir(&path).unwrap();
        file.reopen().unwrap_err();
        writer.write_all(b"three\n").unwrap();
        fs::remove_dir(&path).unwrap();
        file.reopen().unwrap();
        writer.write_all(b"four\n").unwrap();
        let contents = [&rotated, &path].map(|path| fs::read_to_string(path).unwrap());
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(contents, ["one\ntwo\nthree\n", "four\n"]);
    }
}
