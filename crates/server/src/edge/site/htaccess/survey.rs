//! Names the folders that an application closes by `.htaccess`, for those who start it. Looks around within bounds; other folders
//! are found when a client asks for them.
//!
//! Called by `cli`. Runs in: server, before it serves, and the command.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::{NAME, Said, look};
use crate::config::Pool;
use crate::rights::Rights;

/// Most entries of folders, and longest time, that are spent on a pool.
const ENTRIES: usize = 100_000;
const TIME: Duration = Duration::from_millis(250);
/// Folders with nothing that a site is made of.
const SKIPPED: [&str; 1] = ["node_modules"];

/// What was found. Folders and files are named as paths of URLs.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// Folders of which nothing is sent or run; those below them are not named.
    pub(crate) closed: Vec<String>,
    /// Files that say what is not done, and what that is.
    pub(crate) ignored: Vec<String>,
    /// Whether all folders were looked at.
    pub(crate) is_complete: bool,
}

/// Looks around in the document root of `pool`, as far as its user may.
pub(crate) fn survey(pool: &Pool) -> Survey {
    if !pool.htaccess {
        return Survey {
            is_complete: true,
            ..Survey::default()
        };
    }
    let (dir, root, rights) = (pool.dir.clone(), pool.root.clone(), pool.rights.clone());
    let looked = pool
        .rights
        .lend(&pool.root, move || look_around(&dir, &root, &rights));
    looked.unwrap_or_else(|error| {
        warn!(pool = pool.name, %error, "folders not looked at for .htaccess");
        Survey::default()
    })
}

/// In the document root `root` of the application at `dir`, on a thread with these rights.
fn look_around(dir: &Path, root: &Path, rights: &Rights) -> Survey {
    let mut survey = Survey::default();
    let until = Instant::now() + TIME;
    let mut entries = ENTRIES;
    // Links may lead to what was seen already.
    let mut seen = HashSet::new();
    let mut folders = VecDeque::from([(root.to_owned(), Said::default())]);
    while let Some((folder, above)) = folders.pop_front() {
        if !folder
            .metadata()
            .is_ok_and(|meta| seen.insert((meta.dev(), meta.ino())))
        {
            continue;
        }
        if entries == 0 || Instant::now() > until {
            return survey;
        }
        let said = above.and_then(survey.look(&folder, root, rights));
        if !said.is_open() {
            survey.closed.push(named(&folder, root));
            continue;
        }
        let Ok(list) = fs::read_dir(&folder) else { continue };
        for entry in list.flatten().take(entries) {
            entries -= 1;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let skipped =
                name.starts_with('.') || SKIPPED.contains(&&*name) || name == "vendor" && folder == dir;
            let is_folder = entry
                .file_type()
                .is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
            if is_folder && !skipped && entry.path().is_dir() {
                folders.push_back((entry.path(), said));
            }
        }
    }
    survey.closed.sort();
    survey.is_complete = true;
    survey
}

impl Survey {
    /// What is said of a folder in it.
    fn look(&mut self, folder: &Path, root: &Path, rights: &Rights) -> Said {
        let Some(file) = look(folder, rights, None, Instant::now()).said else {
            return Said::default();
        };
        if !file.ignored.is_empty() {
            let what: Vec<&str> = file.ignored.iter().copied().collect();
            let path = named(&folder.join(NAME), root);
            self.ignored.push(format!("{path} ({})", what.join(", ")));
        }
        file.of_folder()
    }
}

/// `path` as a path of a URL.
fn named(path: &Path, root: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    PathBuf::from("/").join(below).display().to_string()
}
