//! Folders that an application closes by a `.htaccess`: nothing below them is sent or run.
//!
//! Applications bring such files for Apache, and rely on them. Each folder between the document root and a file is looked at once in
//! [`TTL`] while it is asked for; `file` reads what is said there, `survey` names the closed folders at the start. Called by `route`. Runs in:
//! server, on a reactor.

mod file;
pub(crate) mod survey;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use self::file::{Htaccess, Said};
use crate::rights::Rights;

/// How long it is taken for granted what a folder's file says.
const TTL: Duration = Duration::from_secs(1);
/// Folders that are remembered.
const FOLDERS: usize = 4096;
/// Longest path of such a folder, in bytes: clients make up names.
const LONGEST: usize = 1024;
/// Largest file that is read; a larger one closes its folder.
const LARGEST: u64 = 1024 * 1024;
/// The file's name.
const NAME: &str = ".htaccess";

/// What is known of folders. One a reactor.
#[derive(Debug, Default)]
pub(super) struct Folders {
    known: Mutex<ByPath>,
}

/// By their absolute paths, with the rights they were looked at with: another user has to look again.
type ByPath = HashMap<Box<[u8]>, (Rights, Known)>;

/// One folder.
#[derive(Clone, Debug)]
struct Known {
    until: Instant,
    /// False: there is no such folder, so there are none below it.
    is_there: bool,
    /// `None`: there is no file, or it could not be read, so that it is tried again.
    version: Option<Version>,
    said: Option<Arc<Htaccess>>,
}

/// What tells one version of a file from another: device, number, size, and times of the last changes.
type Version = (u64, u64, u64, (i64, i64), (i64, i64));

/// What may become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It is sent or run.
    Open,
    /// It is sent if it is no script.
    NoScripts,
    /// Neither.
    Closed,
}

impl Folders {
    /// What may become of the file at `full` for this thread, which has these `rights`. The first `root` bytes of `full` are the
    /// document root; a folder ends in `/`.
    pub(super) fn access(&self, full: &[u8], root: usize, rights: &Rights, now: Instant) -> Access {
        let mut chain = Vec::new();
        let mut name = full;
        let slashes = full.iter().enumerate().skip(root).filter(|(_, b)| **b == b'/');
        for (at, _) in slashes {
            let Some((folder, rest)) = full.split_at_checked(at) else {
                break;
            };
            name = rest.get(1..).unwrap_or_default();
            let known = self.know(folder, rights, now);
            if !known.is_there {
                break;
            }
            chain.extend(known.said);
        }
        if chain.is_empty() {
            return Access::Open;
        }
        let name = name.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let folders = chain.iter().map(|file| file.of_folder());
        // As Apache does: what is said of files comes last, wherever it is said.
        let files = chain.iter().flat_map(|file| file.of_file(name));
        let said = folders.chain(files).fold(Said::default(), Said::and_then);
        match (said.is_open(), said.runs_scripts()) {
            (false, _) => Access::Closed,
            (true, false) => Access::NoScripts,
            (true, true) => Access::Open,
        }
    }

    fn know(&self, folder: &[u8], rights: &Rights, now: Instant) -> Known {
        let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let old = all
            .get(folder)
            .filter(|(of, _)| of == rights)
            .map(|(_, known)| known);
        if let Some(known) = old.filter(|known| now < known.until) {
            return known.clone();
        }
        let known = look(Path::new(OsStr::from_bytes(folder)), rights, old, now + TTL);
        if all.len() >= FOLDERS {
            all.clear();
        }
        if folder.len() <= LONGEST {
            all.insert(folder.into(), (rights.clone(), known.clone()));
        }
        known
    }
}

/// Looks at a folder; a file that is the same as in `old` is not read again.
fn look(folder: &Path, rights: &Rights, old: Option<&Known>, until: Instant) -> Known {
    let path = folder.join(NAME);
    let known = |is_there, version, said| Known {
        until,
        is_there,
        version,
        said,
    };
    let error = match path.metadata() {
        Ok(meta) => {
            let version = Some(version(&meta));
            let same = old.filter(|old| old.version == version);
            if let Some(said) = same.and_then(|old| old.said.clone()) {
                return known(true, version, Some(said));
            }
            // As with Apache, a file that cannot be read closes its folder: until it is looked at again.
            return match read(&path, rights) {
                Ok(said) => known(true, version, Some(Arc::new(said))),
                Err(_) => known(true, None, Some(Arc::new(Htaccess::closed()))),
            };
        }
        Err(error) => error,
    };
    match error.kind() {
        io::ErrorKind::PermissionDenied => known(true, None, Some(Arc::new(Htaccess::closed()))),
        // Not there, or a link that leads nowhere.
        _ => known(folder.is_dir(), None, None),
    }
}

fn version(meta: &Metadata) -> Version {
    let modified = (meta.mtime(), meta.mtime_nsec());
    let changed = (meta.ctime(), meta.ctime_nsec());
    (meta.dev(), meta.ino(), meta.len(), modified, changed)
}

/// What the file at `path` says.
fn read(path: &Path, rights: &Rights) -> io::Result<Htaccess> {
    let file = rights.open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Ok(Htaccess::closed());
    }
    Ok(Htaccess::read(&text))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ipc::account::Account;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hearth-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_file_that_could_not_be_read_is_tried_again() {
        let folder = folder("htaccess-unread");
        // As if reading had failed: this is no plain file.
        std::fs::create_dir_all(folder.join(NAME)).unwrap();
        let failed = look(&folder, &Rights::Server, None, Instant::now());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!failed.said.unwrap().of_folder().is_open());
        assert_eq!(failed.version, None, "without a version the next look reads it");
    }

    #[test]
    fn what_one_user_has_seen_is_nothing_to_another() {
        let folder = folder("htaccess-users");
        let file = folder.join("a.txt");
        let root = folder.as_os_str().len();
        let folders = Folders::default();
        let now = Instant::now();
        let access = |rights: &Rights| folders.access(file.as_os_str().as_bytes(), root, rights, now);
        assert_eq!(access(&Rights::Server), Access::Open);
        std::fs::write(folder.join(NAME), "Require all denied\n").unwrap();
        assert_eq!(access(&Rights::Server), Access::Open, "within the TTL");
        let other = Rights::Of(Arc::new(Account {
            uid: 1,
            gid: 1,
            groups: vec![1],
        }));
        // In a thread of its own, since it keeps the other user's rights.
        let seen = std::thread::scope(|threads| threads.spawn(|| access(&other)).join().unwrap());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(seen, Access::Closed);
    }
}
