//! A folder of a test, removed with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{App, Server};

/// A folder that nobody else uses, empty at first. Every user may read it. It stays when the test fails.
#[derive(Debug)]
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// `name` is for people who find it.
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hearth-{name}-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    /// With these files.
    pub(crate) fn with(name: &str, files: &[(&str, &str)]) -> Self {
        let folder = Self::new(name);
        for (file, text) in files {
            folder.write(file, text);
        }
        folder
    }

    /// A server of it, with one worker.
    pub(crate) fn serve(&self) -> Server {
        Server::start(&self.app(), &["pool.web.workers=1"])
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of something in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file, with the folders that it needs.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The application that it is.
    pub(crate) fn app(&self) -> App {
        App::at(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}
