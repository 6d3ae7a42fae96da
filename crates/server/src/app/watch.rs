//! Watches the files of the applications for `hearth serve --watch`: requests wait from the first change on, and a moment later, when
//! no more comes, the server is told.
//!
//! What an application writes itself is not looked at: folders for caches, logs and data, and everything hidden but `.env` files; nor are
//! installed libraries, whose list in `vendor/composer` changes with them. Called by `app`. Runs in: server; the kernel's events on a
//! thread of `notify`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tracing::{debug, warn};

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

/// Changes to come.
#[derive(Debug)]
pub(super) struct Changes(mpsc::Receiver<PathBuf>);

impl Changes {
    /// Watches the folders of `config`; `hold` is called at each change, on another thread.
    pub(super) fn watch(config: &Config, hold: impl Fn() + Send + 'static) -> anyhow::Result<Self> {
        let (tell, told) = mpsc::channel(1);
        let (event, events) = mpsc::unbounded_channel();
        let mut watcher = notify::recommended_watcher(move |found: notify::Result<Event>| match found {
            Ok(found) if matters(&found) => {
                hold();
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
        for folder in folders {
            watch_below(&mut watcher, folder);
        }
        tokio::spawn(settle(watcher, events, tell));
        Ok(Self(told))
    }

    /// Returns a moment after files have changed: one of them. Cancel-safe.
    pub(super) async fn next(&mut self) -> PathBuf {
        match self.0.recv().await {
            Some(path) => path,
            None => std::future::pending().await,
        }
    }
}

/// Tells of changes when no more come, and watches folders that are new.
async fn settle(
    mut watcher: RecommendedWatcher,
    mut events: mpsc::UnboundedReceiver<Vec<PathBuf>>,
    tell: mpsc::Sender<PathBuf>,
) {
    while let Some(mut paths) = events.recv().await {
        let first = paths.iter().find(|path| is_code(path)).cloned();
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
        let _ = tell.try_send(first.unwrap_or_default());
    }
}

/// Watches a folder and those in it. One that cannot be watched is said, and changes in it are not noticed.
fn watch_below(watcher: &mut RecommendedWatcher, folder: &Path) {
    if let Err(error) = watcher.watch(folder, RecursiveMode::NonRecursive) {
        warn!(
            folder = %folder.display(),
            %error,
            "folder not watched: more may be with a higher fs.inotify.max_user_watches"
        );
        return;
    }
    let composer = folder.join("vendor/composer");
    if composer.is_dir() {
        watch_below(watcher, &composer);
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && !is_passed_over(&entry.file_name()) {
            watch_below(watcher, &entry.path());
        }
    }
}

fn is_passed_over(folder: &OsStr) -> bool {
    let name = folder.to_string_lossy();
    name.starts_with('.') || PASSED_OVER.contains(&&*name)
}

/// Whether the application may be another after this.
fn matters(event: &Event) -> bool {
    let is_change = matches!(
        event.kind,
        EventKind::Create(_)
            | EventKind::Remove(_)
            | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Name(_) | ModifyKind::Any)
    );
    is_change && event.paths.iter().any(|path| is_code(path))
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
