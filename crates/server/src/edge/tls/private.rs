//! Files with keys: for their owner alone, and never there in part. Used by `app` and `cli`. Runs in: server.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::trust;

/// Makes a folder, with those above it, that only its owner may look into.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes a folder, and sees whether a file can be written in it, and that by nobody else.
pub(crate) fn try_folder(path: &Path) -> io::Result<()> {
    if let Some(there) = path.ancestors().find(|path| path.exists()) {
        trust::folder(there)?;
    }
    folder(path)?;
    let probe = path.join("probe");
    write(&probe, "")?;
    fs::remove_file(probe)
}

/// Writes a file in the place of the one that may be there. Who reads it meanwhile, or after the power has failed, sees one or the
/// other.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = Path::new(&name);
    let written = || -> io::Result<()> {
        // One that a server left which had this number: its mode would stay.
        let _ = fs::remove_file(part);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(part)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(part, path)
    };
    written().inspect_err(|_| {
        let _ = fs::remove_file(part);
    })
}
