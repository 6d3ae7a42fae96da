//! Watches the files of the applications for `hearth serve --watch`: requests wait from the first change on, and a moment later, when
//! no more comes, the server is told.
//!
//! What an application writes itself is not looked at: folders for caches, logs and data, and everything hidden but `.env` files; nor are
//! installed libraries, whose list in `vendor/composer` changes with them. What boots write themselves is the affair of `boots`. Called by `app`. Runs in: server; the kernel's events on a
//! thread of `notify`.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::boots::{Boots, Content, Meaning};
use crate::config::Config;

/// No further change for so long: whoever saves several files, or one in several steps, has done.
const QUIET: Duration = Duration::from_millis(15);
/// Folders that are not watched, wherever they are.
const PASSED_OVER: [&str; 9] = [
    "cache",
    "log",
    "logs",
    "node_modules",
    "storage",
    "temp",
    "tmp",
    "var",
    "vendor",
];
/// What code and its settings are written in.
const SUFFIXES: [&str; 13] = [
    "ini", "inc", "json", "latte", "neon", "php", "phtml", "toml", "tpl", "twig", "xml", "yaml", "yml",
];

/// Time between two looks whether a folder was exchanged as a whole, which nothing in it tells.
const LOOK: Duration = Duration::from_millis(500);
/// Folders that are watched beyond links: one may lead anywhere.
const LINKED: usize = 2000;

/// Changes to come.
#[derive(Debug)]
pub(super) struct Changes {
    told: mpsc::Receiver<()>,
    shared: Arc<Shared>,
    /// A change that was told too early.
    put_off: bool,
}

/// What the kernel's events, the task that gathers them, and the server know of each other.
struct Shared {
    boots: Mutex<Boots>,
    /// Something has changed that no boot has done.
    is_news: AtomicBool,
    hold: Box<dyn Fn() + Send + Sync>,
}

impl Changes {
    /// Watches the folders of `config`; `hold` is called at each change, on another thread.
    pub(super) fn watch(config: &Config, hold: impl Fn() + Send + Sync + 'static) -> anyhow::Result<Self> {
        let (tell, told) = mpsc::channel(1);
        let (event, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            boots: Mutex::default(),
            is_news: AtomicBool::new(false),
            hold: Box::new(hold),
        });
        let judge = Arc::clone(&shared);
        let mut watcher = notify::recommended_watcher(move |found: notify::Result<Event>| match found {
            Ok(found) if is_change(&found) && judge.is_new(&found.paths) => {
                debug!(paths = ?found.paths, "files changed");
                // The receiver is gone only when the server has stopped.
                let _ = event.send(found.paths);
            }
            Ok(_) => {}
            Err(error) => warn!(%error, "watching files failed"),
        })
        .context("watching files")?;
        let folders: BTreeSet<&Path> = std::iter::once(&*config.dir)
            .chain(config.pools.iter().map(|pool| &*pool.dir))
            .collect();
        let mut roots = Vec::new();
        for folder in folders {
            watch_below(&mut watcher, folder);
            roots.push((folder.to_owned(), identity(folder)));
        }
        tokio::spawn(settle(watcher, (roots, events), (Arc::clone(&shared), tell)));
        Ok(Self {
            told,
            shared,
            put_off: false,
        })
    }

    /// Returns a moment after files have changed; never [`Meaning::Nothing`]. Cancel-safe.
    pub(super) async fn next(&mut self) -> Meaning {
        if std::mem::take(&mut self.put_off) {
            return Meaning::Suspect;
        }
        if self.told.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
        // Relaxed: the channel orders it.
        if self.shared.is_news.swap(false, Ordering::Relaxed) {
            Meaning::News
        } else {
            Meaning::Suspect
        }
    }

    /// What was told last is to be told again.
    pub(super) fn put_off(&mut self) {
        self.put_off = true;
    }

    /// What is there now is booted, perhaps in the place of what was booting.
    pub(super) fn boot_begins(&mut self) {
        self.put_off = false;
        self.shared.boots().begin(Instant::now());
    }

    /// It serves, or failed. Says once which files it keeps writing.
    pub(super) fn boot_ended(&self) {
        let mut boots = self.shared.boots();
        boots.end(Instant::now());
        let found = boots.found();
        if let Some(file) = found.first() {
            warn!(
                file = %file.display(),
                files = found.len(),
                hint = "have it write them to a folder called var or cache, which is not watched",
                "the application writes watched files whenever it boots: no reason for a reload"
            );
        }
    }
}

impl Shared {
    fn boots(&self) -> MutexGuard<'_, Boots> {
        self.boots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether `paths`, which have changed, are a reason for a reload: then requests wait from now on.
    fn is_new(&self, paths: &[PathBuf]) -> bool {
        let now = Instant::now();
        let code = paths.iter().filter(|path| is_code(path));
        let meaning = code.fold(Meaning::Nothing, |meaning, path| {
            let content = Content::read(path);
            meaning.max(self.boots().judge(path, content, now))
        });
        if meaning == Meaning::Nothing {
            return false;
        }
        self.note(meaning);
        true
    }

    fn note(&self, meaning: Meaning) {
        // Relaxed: as in `next`.
        self.is_news.fetch_or(meaning == Meaning::News, Ordering::Relaxed);
        (self.hold)();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("boots", &self.boots)
            .finish_non_exhaustive()
    }
}

/// A watched folder that may be exchanged as a whole, and which one it was.
type Root = (PathBuf, Option<Identity>);
/// Device and number of a folder.
type Identity = (u64, u64);

fn identity(folder: &Path) -> Option<Identity> {
    let found = folder.metadata().ok().filter(Metadata::is_dir)?;
    Some((found.dev(), found.ino()))
}

/// Tells of changes when no more come, and watches folders that are new.
async fn settle(
    mut watcher: RecommendedWatcher,
    (mut roots, mut events): (Vec<Root>, mpsc::UnboundedReceiver<Vec<PathBuf>>),
    (shared, tell): (Arc<Shared>, mpsc::Sender<()>),
) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        // Cancel-safe: both are.
        let mut paths = tokio::select! {
            found = events.recv() => match found {
                Some(paths) => paths,
                None => return,
            },
            _ = look.tick() => {
                let back = come_back(&mut roots);
                if back.is_empty() {
                    continue;
                }
                debug!(paths = ?back, "files changed");
                shared.note(Meaning::News);
                back
            }
        };
        loop {
            // Not where the event comes in: the watcher waits for that thread.
            for folder in paths.iter().filter(|path| path.is_dir()) {
                watch_below(&mut watcher, folder);
            }
            match tokio::time::timeout(QUIET, events.recv()).await {
                Ok(Some(more)) => paths = more,
                Ok(None) | Err(_) => break,
            }
        }
        // A full channel: it is told already.
        let _ = tell.try_send(());
    }
}

/// The folders that are there again, or in the place of others.
fn come_back(roots: &mut [Root]) -> Vec<PathBuf> {
    let mut back = Vec::new();
    for (folder, known) in roots {
        let now = identity(folder);
        if now.is_some() && now != *known {
            back.push(folder.clone());
        }
        *known = now;
    }
    back
}

/// Watches a folder and those in it, also by links.
fn watch_below(watcher: &mut RecommendedWatcher, root: &Path) {
    let mut walk = Walk {
        watcher,
        seen: BTreeSet::new(),
        links: VecDeque::new(),
        left: usize::MAX,
    };
    walk.folder(root);
    // Afterwards: what is in the project is watched by its own name.
    walk.left = LINKED;
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    while let Some(link) = walk.links.pop_front() {
        if leads_to_code(&root, &link) {
            walk.folder(&link);
        }
    }
    if walk.left == 0 {
        warn!(
            folder = %root.display(),
            limit = LINKED,
            "linked folders not all watched: they lead to more folders than an application has"
        );
    }
}

/// Whether a link to a folder, of the application at `root`, is to be followed.
fn leads_to_code(root: &Path, link: &Path) -> bool {
    let Ok(target) = link.canonicalize() else {
        return false;
    };
    let below = match target.strip_prefix(root) {
        Ok(inside) => inside,
        Err(_) => Path::new(target.file_name().unwrap_or_default()),
    };
    // Whatever is around the application is not of it.
    !root.starts_with(&target) && !below.iter().any(is_passed_over)
}

/// One look for folders to watch.
struct Walk<'a> {
    watcher: &'a mut RecommendedWatcher,
    /// Where it has been, by names without links.
    seen: BTreeSet<PathBuf>,
    links: VecDeque<PathBuf>,
    /// So many more folders.
    left: usize,
}

impl Walk<'_> {
    /// Watches a folder and those in it. One that cannot be watched is said, and changes in it are not noticed.
    fn folder(&mut self, folder: &Path) {
        let is_new = folder.canonicalize().is_ok_and(|name| self.seen.insert(name));
        if !is_new || self.left == 0 {
            return;
        }
        self.left -= 1;
        if let Err(error) = self.watcher.watch(folder, RecursiveMode::NonRecursive) {
            warn!(
                folder = %folder.display(),
                %error,
                "folder not watched: more may be with a higher fs.inotify.max_user_watches"
            );
            return;
        }
        let composer = folder.join("vendor/composer");
        if composer.is_dir() {
            self.folder(&composer);
        }
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| !is_passed_over(&entry.file_name())) {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.folder(&path),
                Ok(kind) if kind.is_symlink() && path.is_dir() => self.links.push_back(path),
                _ => {}
            }
        }
    }
}

fn is_passed_over(folder: &OsStr) -> bool {
    let name = folder.to_string_lossy();
    name.starts_with('.') || PASSED_OVER.contains(&&*name)
}

/// Whether files may say something else after this.
fn is_change(event: &Event) -> bool {
    matches!(
        event.kind,
        EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Name(_) | ModifyKind::Any)
    )
}

/// Code, settings, or a folder that may have some.
fn is_code(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    if name.to_string_lossy().starts_with(".env") {
        return true;
    }
    match path.extension() {
        Some(suffix) => SUFFIXES.contains(&&*suffix.to_string_lossy()),
        None => path.is_dir() && !is_passed_over(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_and_settings_matter_and_nothing_else() {
        let table = [
            ("/srv/src/Kernel.php", true),
            ("/srv/templates/page.html.twig", true),
            ("/srv/config/services.yaml", true),
            ("/srv/.env.local", true),
            ("/srv/hearth.toml", true),
            ("/srv/public/style.css", false),
            ("/srv/data.sqlite", false),
            ("/srv/src/.Kernel.php.swp", false),
            ("/srv/README", false),
        ];
        for (path, expected) in table {
            assert_eq!(is_code(Path::new(path)), expected, "{path}");
        }
        assert!(is_passed_over(OsStr::new("var")) && is_passed_over(OsStr::new(".git")));
        assert!(!is_passed_over(OsStr::new("src")));
    }
}
