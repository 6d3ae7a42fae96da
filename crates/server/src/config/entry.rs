//! What runs for a request: document root, mode and script, as set, else as detected; and why.
//!
//! Called by `resolve`. Runs in: server.

use std::path::{Path, PathBuf};

use super::Mode;
use super::detect::{Found, detect, reason_not_to_publish, shown, worker_call};
use super::file::Origin;
use super::process::variable_of_pool;
use super::reader::Reader;
use super::resolve::{existing, folder};

/// What runs for a request.
pub(super) struct Entry {
    /// Folder of the application.
    pub(super) dir: PathBuf,
    pub(super) root: PathBuf,
    pub(super) mode: Mode,
    pub(super) script: Option<PathBuf>,
}

/// Root, mode and script of the pool at hand: as set, else as detected; with the reasons, as sentences.
pub(super) fn entry(reader: &mut Reader, project: &Path) -> (Entry, Vec<String>) {
    // The project is that of the first pool, which so has keys of its own for them.
    let (other_dir, root_key) = if reader.is_at_first() {
        (None, "root")
    } else {
        (folder(reader, "pool.web.dir", project), "pool.web.root")
    };
    let dir = &*other_dir.unwrap_or_else(|| project.to_owned());
    let modes = [("classic", Mode::Classic), ("resident", Mode::Resident)];
    let mode = reader.word("pool.web.mode", &modes);
    let script = existing(
        reader,
        "pool.web.script",
        dir,
        "the worker script or front controller",
        Path::is_file,
    );
    let root = folder(reader, root_key, dir);
    let runtime = variable_of_pool(reader, "APP_RUNTIME");
    let mut found = detect(dir, runtime.as_deref().filter(|class| !class.is_empty()));
    if let Some(root) = &root {
        found.front = Some(root.join("index.php")).filter(|path| path.is_file());
        found.root.clone_from(root);
    }
    if root.is_none() && script.is_none() {
        refuse_project(reader, root_key, (&found, dir));
    }
    let mut reasons = Vec::new();
    let (mode, script) = match script {
        Some(script) => with_script(mode.map(|(mode, _)| mode), script, dir, (&found, &mut reasons)),
        None => without_script(reader, mode, dir, (&found, &mut reasons)),
    };
    if root.is_some() {
        reasons.push(format!("as set: document root {}", shown(&found.root, dir)));
    }
    (
        Entry {
            dir: dir.to_owned(),
            root: found.root,
            mode,
            script,
        },
        reasons,
    )
}

/// A problem where the folder of a project would be published for lack of another.
fn refuse_project(reader: &mut Reader, root_key: &str, (found, dir): (&Found, &Path)) {
    if let Some(reason) = reason_not_to_publish(found, dir) {
        let key = reader.key(root_key);
        let text =
            format!("{reason}: set `{key}` to the folder that clients may see; `{key} = \".\"` is all of it");
        reader.problem(Origin::Dir(dir.display().to_string()), text);
    }
}

fn with_script(
    mode: Option<Mode>,
    script: PathBuf,
    dir: &Path,
    (found, reasons): (&Found, &mut Vec<String>),
) -> (Mode, Option<PathBuf>) {
    let name = shown(&script, dir);
    let (mode, reason) = if let Some(mode) = mode {
        (mode, format!("as set: {mode} mode with {name}"))
    } else if let Some(call) = worker_call(&script) {
        (
            Mode::Resident,
            format!("as set: script {name}; it calls {call}(): resident mode"),
        )
    } else if found.worker.as_ref() == Some(&script) {
        (
            Mode::Resident,
            format!("as set: script {name}; it can stay resident: resident mode"),
        )
    } else {
        (
            Mode::Classic,
            format!("as set: script {name}; it is no worker script: classic mode"),
        )
    };
    reasons.push(reason);
    (mode, Some(script))
}

fn without_script(
    reader: &mut Reader,
    mode: Option<(Mode, Origin)>,
    dir: &Path,
    (found, reasons): (&Found, &mut Vec<String>),
) -> (Mode, Option<PathBuf>) {
    match mode {
        None => {
            reasons.extend_from_slice(&found.reasons);
            match &found.worker {
                Some(worker) => (Mode::Resident, Some(worker.clone())),
                None => (Mode::Classic, found.front.clone()),
            }
        }
        Some((Mode::Classic, _)) => {
            let front = found
                .front
                .as_deref()
                .map(|front| format!(" with front controller {}", shown(front, dir)));
            reasons.push(format!("as set: classic mode{}", front.unwrap_or_default()));
            (Mode::Classic, found.front.clone())
        }
        Some((Mode::Resident, origin)) => {
            let script = found.worker.as_ref().or(found.resident_front.as_ref());
            match script {
                Some(script) => reasons.push(format!("as set: resident mode; found {}", shown(script, dir))),
                None => reader.problem(
                    origin,
                    "`pool.web.mode` is \"resident\", but no worker script was found; set `pool.web.script` to a script \
                     that calls hearth_handle_request()"
                        .to_owned(),
                ),
            }
            (Mode::Resident, script.cloned())
        }
    }
}
