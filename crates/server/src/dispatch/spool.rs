//! Files for bodies that are too big for memory, on either way. Runs in: server, off the reactors.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::RequestId;

/// A file without a name in `dir`: it goes when its last descriptor does, also when the server is killed. File systems that know no
/// such files get a named one that is unlinked at once.
pub fn unnamed_file(dir: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let opened = match rustix::fs::open(dir, flags | OFlags::TMPFILE, mode) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let path = dir.join(format!("hearth-{}-{}", std::process::id(), RequestId::next()));
            rustix::fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)
                .and_then(|file| rustix::fs::unlink(&path).map(|()| file))
        }
        other => other,
    };
    let file = opened
        .map_err(io::Error::from)
        .map_err(|e| io::Error::new(e.kind(), format!("creating a file in {}: {e}", dir.display())))?;
    Ok(File::from(file))
}
