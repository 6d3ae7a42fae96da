//! Files that the log and the access log are written to, and opening them anew once they have been renamed.
//!
//! No line is lost: until the new file is open the old one is written to, and each line goes whole to one of the two. Opened by
//! `cli` before anything is logged, told to reopen by `app`. Runs in: server.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tracing::{info, warn};

use crate::config::Log;

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
#[error("opening {path} ({setting}): {error}")]
pub(crate) struct OpenError {
    path: String,
    setting: &'static str,
    error: io::Error,
}

/// A file that is appended to. Clones write to the same.
#[derive(Clone, Debug)]
pub(crate) struct LogFile(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: ArcSwap<File>,
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

    /// Opens each anew by its path. One that cannot be opened is written to as before.
    pub(crate) fn reopen(&self) {
        let files = [&self.log, &self.access];
        let mut count = 0;
        for file in files.into_iter().flatten() {
            match file.reopen() {
                Ok(()) => count += 1,
                Err(error) => warn!(
                    path = %file.0.path.display(),
                    %error,
                    "log file not reopened, the old one is written to"
                ),
            }
        }
        info!(count, "log files reopened");
    }
}

impl LogFile {
    fn open(path: &Path, setting: &'static str) -> Result<Self, OpenError> {
        let file = append(path).map_err(|error| OpenError {
            path: path.display().to_string(),
            setting,
            error,
        })?;
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

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o640)
        .open(path)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
