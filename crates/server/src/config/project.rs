//! The project folder: where it is, and the paths by which it is known. Called by `resolve`. Runs in: server, and the commands.

use std::path::{Component, Path, PathBuf};

use super::file::{Errors, Origin, Problem};

/// The folder itself, links followed.
pub(super) fn project_folder(dir: &Path) -> Result<PathBuf, Errors> {
    let wrong = |why: &str| {
        let text = format!("opening the project folder: {why}");
        Errors(vec![Problem {
            origin: Origin::Dir(dir.display().to_string()),
            text,
        }])
    };
    let hint = "name the folder of a PHP application";
    let path = dir
        .canonicalize()
        .map_err(|error| wrong(&format!("{error}; {hint}")))?;
    if !path.is_dir() {
        return Err(wrong(&format!("not a folder; {hint}")));
    }
    // The zygote gets its path, and paths below it, as text.
    if path.to_str().is_none() {
        return Err(wrong(&format!(
            "{} is not UTF-8; rename the folder",
            path.display()
        )));
    }
    Ok(path)
}

/// See `Config::names`. Between the two that it speaks of: the name that the folder has where it lies, which may be a link.
pub(super) fn names(dir: &Path) -> Vec<PathBuf> {
    let first = named(dir);
    let lies_in = first.parent().and_then(|parent| parent.canonicalize().ok());
    let lies_at = lies_in
        .zip(first.file_name())
        .map(|(parent, name)| parent.join(name));
    let real = first.canonicalize().ok();
    let mut all = vec![first];
    for path in lies_at.into_iter().chain(real) {
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// `dir`, absolute, by the way it was named: a shell knows by which links it came to its folder.
fn named(dir: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    // Behind a link `..` leads elsewhere than the name says: what stands before the last one is followed.
    let parts: Vec<Component<'_>> = dir.components().collect();
    if let Some(last) = parts.iter().rposition(|part| *part == Component::ParentDir) {
        let (before, behind) = parts.split_at(last + 1);
        let before = here.join(before.iter().collect::<PathBuf>());
        return before
            .canonicalize()
            .unwrap_or(before)
            .join(behind.iter().collect::<PathBuf>());
    }
    let shells = std::env::var_os("PWD").map(PathBuf::from);
    let shells = shells.filter(|path| path.is_absolute() && path.canonicalize().ok().as_ref() == Some(&here));
    // No `.` is left, nor a slash at the end.
    shells.unwrap_or(here).join(dir).components().collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn a_folder_whose_path_is_not_utf_8_is_refused() {
        let name = format!("hearth-config-latin-1-{}-", std::process::id()).into_bytes();
        let name = std::ffi::OsString::from_vec([name, b"caf\xe9".to_vec()].concat());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        let error = project_folder(&dir).unwrap_err().to_string();
        std::fs::remove_dir(&dir).unwrap();
        assert!(
            error.contains("opening the project folder: ")
                && error.ends_with("is not UTF-8; rename the folder"),
            "{error}"
        );
    }
}
