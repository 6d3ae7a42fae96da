//! Paths of the server's own: logs, sockets, keys, settings.
//!
//! A server that may act as other users must neither write nor believe what one of them puts in its way: a link in the place of a log, a
//! settings file that a script has changed. So what it uses must lie where only root and the server's user can put something else, as
//! sshd asks of `authorized_keys`. Another server has no rights that its user has not, and is not held to it. Runs in: server.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

use crate::rights;

/// Links that may be met on the way, as many as the kernel follows.
const LINKS: usize = 40;
const EVERYBODY: u32 = 0o002;
const GROUP: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Which groups may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Root's alone: nothing is known of the pools yet.
    Root,
    /// Those that PHP runs as no member of.
    NotOfPools,
}

/// Refuses a file that others may change or replace.
pub(crate) fn file(path: &Path, groups: Groups) -> io::Result<()> {
    walk(path, groups)
}

/// Refuses a folder in which others may replace what the server puts there.
pub(crate) fn folder(path: &Path) -> io::Result<()> {
    walk(path, Groups::NotOfPools)
}

/// The same for the folder that a file is in.
pub(crate) fn folder_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => folder(parent),
        _ => folder(Path::new(".")),
    }
}

/// Refuses a path at which this process may not make a file, by the rights of the folder.
pub(crate) fn may_create(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let needed = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(CWD, folder, needed, AtFlags::EACCESS)?)
}

/// Refuses an open file that others have put in a folder of all, such as `/tmp`.
pub(crate) fn opened(path: &Path, file: &File) -> io::Result<()> {
    let about = file.metadata()?;
    if !rights::is_privileged() {
        return Ok(());
    }
    belongs_to_us(path, &about)?;
    if about.is_file() && about.nlink() > 1 {
        return Err(refused(path, "has another name as well"));
    }
    Ok(())
}

/// Goes from the root to `path`, through links, and looks at each step.
fn walk(path: &Path, groups: Groups) -> io::Result<()> {
    if !rights::is_privileged() {
        return Ok(());
    }
    let mut rest = steps(&std::path::absolute(path)?);
    let (mut here, mut links) = (PathBuf::from("/"), 0);
    is_ours(&here, &fs::symlink_metadata(&here)?, groups)?;
    while let Some(step) = rest.pop() {
        if step == Path::new("..") {
            here.pop();
            continue;
        }
        let next = here.join(&step);
        let about = fs::symlink_metadata(&next)?;
        if about.is_symlink() {
            belongs_to_us(&next, &about)?;
            links += 1;
            if links > LINKS {
                return Err(refused(path, "leads through too many links"));
            }
            let target = fs::read_link(&next)?;
            if target.is_absolute() {
                here = PathBuf::from("/");
            }
            rest.extend(steps(&target));
            continue;
        }
        is_ours(&next, &about, groups)?;
        here = next;
    }
    Ok(())
}

/// The names in a path, the last one first.
fn steps(path: &Path) -> Vec<PathBuf> {
    let names = path.components().rev();
    let names = names.filter(|step| matches!(step, Component::Normal(_) | Component::ParentDir));
    names.map(|step| PathBuf::from(step.as_os_str())).collect()
}

fn belongs_to_us(path: &Path, about: &Metadata) -> io::Result<()> {
    let owner = about.uid();
    if owner == 0 || owner == geteuid().as_raw() || is_of_nobody_here(owner) {
        return Ok(());
    }
    Err(refused(path, &format!("belongs to user {owner}")))
}

/// Whether the owner is outside of this user namespace: a user who is none here, whom this server can neither act as nor run PHP as
/// (`user_namespaces(7)`).
fn is_of_nobody_here(owner: u32) -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    read("/proc/sys/kernel/overflowuid").trim() == owner.to_string()
        && !is_mapped(&read("/proc/self/uid_map"), owner)
}

/// Whether `map` has the user: first number inside, first number outside, how many. Without a map, all are.
fn is_mapped(map: &str, user: u32) -> bool {
    let mut ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u64>);
        Some((numbers.next()?.ok()?, numbers.nth(1)?.ok()?))
    });
    let has = |range: (u64, u64)| (range.0..range.0 + range.1).contains(&u64::from(user));
    map.is_empty() || ranges.any(has)
}

fn is_ours(path: &Path, about: &Metadata, groups: Groups) -> io::Result<()> {
    belongs_to_us(path, about)?;
    // In a sticky folder everybody replaces his own files alone (inode(7)).
    if about.is_dir() && about.mode() & STICKY != 0 {
        return Ok(());
    }
    if about.mode() & EVERYBODY != 0 && !is_device(about) {
        return Err(refused(path, "may be written by everybody"));
    }
    let group = about.gid();
    let is_bent = match groups {
        Groups::Root => group != 0,
        Groups::NotOfPools => rights::is_group_of_pools(group),
    };
    // With an access list these bits are its mask: anybody may be in it (acl(5)).
    if about.mode() & GROUP != 0 && (is_bent || has_access_list(path)) {
        return Err(refused(path, &format!("may be written by group {group}")));
    }
    Ok(())
}

fn is_device(about: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    about.file_type().is_char_device()
}

fn has_access_list(path: &Path) -> bool {
    let mut list = [0_u8; 0];
    rustix::fs::lgetxattr(path, "system.posix_acl_access", &mut list).is_ok_and(|length| length > 0)
}

/// Whether an error is one of this module's.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<Refusal>)
}

/// Why a path is not used.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path} {why}, and this server may act as other users: it uses only what nobody but root and its own user can change"
)]
struct Refusal {
    path: String,
    why: String,
}

fn refused(path: &Path, why: &str) -> io::Error {
    let (path, why) = (path.display().to_string(), why.to_owned());
    io::Error::new(io::ErrorKind::PermissionDenied, Refusal { path, why })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn why(path: &Path) -> String {
        file(path, Groups::Root).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_user_namespace_has_the_users_of_its_map() {
        let whole = "         0          0 4294967295\n";
        assert!(is_mapped(whole, 65_534));
        assert!(!is_mapped("0 1000 1\n", 65_534));
        assert!(!is_mapped("0 1000 1\n1 100000 65533\n", 65_534));
        assert!(is_mapped("0 1000 1\n1 100000 65536\n", 65_534));
        assert!(is_mapped("", 65_534));
    }

    #[test]
    fn every_step_to_a_file_must_be_ours() {
        if !geteuid().is_root() {
            return;
        }
        let dir = std::env::temp_dir().join(format!("hearth-trust-{}", std::process::id()));
        let deep = dir.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        let target = deep.join("file");
        fs::write(&target, "").unwrap();
        assert_eq!(why(&target), "");
        symlink("../b/file", deep.join("link")).unwrap();
        assert_eq!(why(&deep.join("link")), "");
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&dir.join("a"), 0o777);
        assert!(why(&deep.join("link")).contains("/a may be written by everybody"));
        mode(&dir.join("a"), 0o1777);
        assert_eq!(why(&target), "");
        mode(&dir.join("a"), 0o775);
        assert_eq!(why(&target), "");
        chown(dir.join("a"), None, Some(54_321)).unwrap();
        assert!(why(&target).contains("/a may be written by group 54321"));
        assert!(folder(&deep).is_ok(), "no pool is in it");
        chown(&target, Some(33), Some(33)).unwrap();
        mode(&dir.join("a"), 0o755);
        assert!(why(&target).contains("/file belongs to user 33"));
        fs::remove_file(deep.join("link")).unwrap();
        symlink("link", deep.join("link")).unwrap();
        assert!(why(&deep.join("link")).contains("too many links"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
