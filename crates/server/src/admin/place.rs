//! Where the admin socket of a project is.
//!
//! Server and command find it without talking to each other: its name follows from the project folder, and it lies in the first
//! usable of a few folders. Runs in: server, and the command that asks.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::config::AdminSocket;

/// Characters of the project folder's name that the socket's name shows.
const NAME_SHOWN: usize = 32;

/// Every path at which the folder with the paths `dirs` may have a socket, the likeliest first. Empty: it has none.
pub(crate) fn candidates(dirs: &[PathBuf], set: &AdminSocket) -> Vec<PathBuf> {
    match set {
        AdminSocket::Off => Vec::new(),
        AdminSocket::At(path) => vec![path.clone()],
        AdminSocket::Default => {
            let folders = folders();
            let places = dirs
                .iter()
                .flat_map(|dir| folders.iter().map(|folder| place_in(folder, dir)));
            places.collect()
        }
    }
}

/// The path of the socket of `dir` in one of the folders for sockets.
pub(crate) fn place_in(folder: &Path, dir: &Path) -> PathBuf {
    folder.join(name_of(dir))
}

/// Every path at which a command looks for a server: [`candidates`], and for root, who may ask every server, those of other users.
pub(crate) fn to_ask(dirs: &[PathBuf], set: &AdminSocket) -> Vec<PathBuf> {
    let mut places = candidates(dirs, set);
    if *set == AdminSocket::Default && getuid().is_root() {
        for folder in folders_of_users(&std::env::temp_dir()) {
            let of_user = dirs.iter().map(|dir| place_in(&folder, dir));
            let new: Vec<_> = of_user.filter(|place| !places.contains(place)).collect();
            places.extend(new);
        }
    }
    places
}

/// Folders in `temporary` as [`folders`] has them for any user, each in the hands of the user that it names.
fn folders_of_users(temporary: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| {
        let name = entry.file_name();
        let user = name
            .to_str()
            .and_then(|name| name.strip_prefix("hearth-")?.parse().ok());
        user.is_some_and(|user| belongs_to(&entry.path(), user).is_ok_and(|does| does))
    });
    folders.map(|entry| entry.path()).collect()
}

/// The folders for sockets that have no place of their own.
fn folders() -> Vec<PathBuf> {
    let system = PathBuf::from("/run/hearth");
    let uid = getuid();
    let temporary = std::env::temp_dir().join(format!("hearth-{}", uid.as_raw()));
    // A session of root's has a runtime folder of its own, a service of root's has none: both must meet.
    let session = std::env::var_os("XDG_RUNTIME_DIR")
        .filter(|_| !uid.is_root())
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .map(|path| path.join("hearth"));
    session.into_iter().chain([system, temporary]).collect()
}

/// Makes sure that the folder of a default place is there and in nobody else's hands.
pub(crate) fn prepare(folder: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if !belongs_to(folder, getuid().as_raw())? {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "not a folder that belongs to this user alone",
        ));
    }
    Ok(())
}

/// Whether it is a folder that nobody but this user, and root, writes to.
fn belongs_to(folder: &Path, user: u32) -> io::Result<bool> {
    let about = std::fs::symlink_metadata(folder)?;
    Ok(about.is_dir() && about.uid() == user && about.mode() & 0o022 == 0)
}

/// `shop-1f0a….sock`: readable, and unlike that of any other folder.
fn name_of(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        .take(NAME_SHOWN)
        .collect();
    format!("{plain}-{:016x}.sock", hash(dir.as_os_str().as_encoded_bytes())).into()
}

/// FNV-1a: the same in every build, as the server's and the command's may differ.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_name_and_another_folder_another() {
        let name = name_of(Path::new("/srv/shop"));
        assert_eq!(name, Path::new("shop-23924b8039499120.sock"));
        assert_ne!(name, name_of(Path::new("/home/shop")));
        assert_eq!(name_of(Path::new("/")).to_str().unwrap().len(), 1 + 16 + 5);
    }

    #[test]
    fn a_set_path_is_the_only_one() {
        let set = AdminSocket::At("/run/x.sock".into());
        assert_eq!(candidates(&["/srv".into()], &set), [Path::new("/run/x.sock")]);
        assert_eq!(
            candidates(&["/srv".into()], &AdminSocket::Off),
            Vec::<PathBuf>::new()
        );
    }

    #[test]
    fn only_folders_of_the_users_that_they_name_are_looked_into() {
        let temporary = std::env::temp_dir().join(format!("hearth-users-{}", std::process::id()));
        let own = temporary.join(format!("hearth-{}", getuid().as_raw()));
        for folder in [&own, &temporary.join("hearth-1"), &temporary.join("hearth-it")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        std::os::unix::fs::symlink(&own, temporary.join("hearth-00")).unwrap();
        let found = folders_of_users(&temporary);
        std::fs::remove_dir_all(&temporary).unwrap();
        assert_eq!(found, [own]);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("hearth-place-{}", std::process::id()));
        prepare(&folder).unwrap();
        prepare(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let refused = prepare(&folder);
        std::fs::remove_dir(&folder).unwrap();
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
