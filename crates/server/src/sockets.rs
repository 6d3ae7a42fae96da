//! Sockets that listen. Here those of unix, and their files: made, found to be served, taken over, removed.
//!
//! Called by `edge` and `admin`. Runs in: server, on the main thread.

pub(crate) mod tcp;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, chownat, fchmod, flock};
use rustix::io::Errno;
use rustix::process::{Gid, geteuid};
use socket2::{Domain, SockAddr, Socket, Type};
use tracing::warn;

use crate::trust;

/// How long a server that starts waits for another one that is just binding the same path.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks whether it has finished.
const RETRY: Duration = Duration::from_millis(10);

/// Who may connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// The user of the server, and root.
    Owner,
    /// Also the members of a group: of this one, or of the server's.
    Group(Option<u32>),
    /// Whoever can reach the folder, as with nginx.
    All,
}

/// Removed when dropped if it is ours, and the path does not lead to another file by then.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    identity: Option<Identity>,
    ours: AtomicBool,
}

impl SocketFile {
    /// The file at `path`, which is ours.
    pub(crate) fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self {
            path,
            identity,
            ours: AtomicBool::new(true),
        }
    }

    /// One of another process, which removes it unless [`Self::own`] is called.
    pub(crate) fn of_another(path: PathBuf) -> Self {
        let file = Self::new(path);
        file.give_away();
        file
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still leads to it.
    pub(crate) fn is_there(&self) -> bool {
        let place = |identity: Identity| (identity.0, identity.1);
        identity(&self.path).map(place) == self.identity.map(place)
    }

    /// Whether both lead to one socket.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.identity.is_some() && self.identity == other.identity
    }

    /// It is ours from now on.
    pub(crate) fn own(&self) {
        // Relaxed, here and below: a flag on its own, used on one thread.
        self.ours.store(true, Ordering::Relaxed);
    }

    /// It is another process's from now on.
    pub(crate) fn give_away(&self) {
        self.ours.store(false, Ordering::Relaxed);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some()
            && self.ours.load(Ordering::Relaxed)
            && identity(&self.path) == self.identity
            && let Err(error) = fs::remove_file(&self.path)
        {
            warn!(path = %self.path.display(), %error, "socket not removed");
        }
    }
}

/// Device, inode, and when it was made: inodes are used anew.
type Identity = (u64, u64, SystemTime);

fn identity(path: &Path) -> Option<Identity> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.modified().ok()?))
}

/// Binds `path`, in place of a socket on which nobody listens any more. `AddrInUse`: somebody does. `WouldBlock`: another process
/// is at it, and has not finished within `patience`.
pub(crate) fn bind(
    path: &Path,
    (access, backlog): (Access, i32),
    patience: Duration,
) -> io::Result<UnixListener> {
    trust::folder_of(path).map_err(with_remedy)?;
    let _lock = Lock::of(path, patience)?;
    let address = SockAddr::unix(path)?;
    vacate(path, &address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The mode of the socket, but for the umask, becomes that of the file (unix(7)), which so is never open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&address)?;
    match access {
        Access::Owner => {}
        Access::Group(group) => open_to(path, group, 0o660)?,
        Access::All => open_to(path, None, 0o666)?,
    }
    socket.listen(backlog)?;
    Ok(socket.into())
}

/// Gives the socket at `path` its group and mode, by a handle: what is there by then may be another file, or a link to one.
fn open_to(path: &Path, group: Option<u32>, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, Mode::empty())?;
    let about = rustix::fs::fstat(&handle)?;
    if FileType::from_raw_mode(about.st_mode) != FileType::Socket || about.st_uid != geteuid().as_raw() {
        let text = "another file has been put in the place of the socket";
        return Err(io::Error::other(text));
    }
    if let Some(group) = group {
        chownat(&handle, "", None, Some(Gid::from_raw(group)), AtFlags::EMPTY_PATH)?;
    }
    // Linux changes the mode by such a handle only since 6.6 (fchmodat2).
    let by_handle = format!("/proc/self/fd/{}", handle.as_raw_fd());
    fs::set_permissions(by_handle, fs::Permissions::from_mode(mode))
}

fn with_remedy(error: io::Error) -> io::Error {
    if !trust::is_refusal(&error) {
        return error;
    }
    let remedy = "put the socket into a folder of root's, such as /run/hearth, or have root own this one";
    io::Error::new(error.kind(), format!("{error}; {remedy}"))
}

/// Of servers that start at the same moment, one at a time looks and binds. The file of the lock is the server's own: a folder can be
/// locked by everybody who may read it. It goes with the lock.
struct Lock(File, PathBuf);

impl Lock {
    fn of(socket: &Path, patience: Duration) -> io::Result<Self> {
        let mut path = socket.to_owned().into_os_string();
        path.push(".lock");
        let path = PathBuf::from(path);
        let until = Instant::now() + patience;
        loop {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
                .open(&path)?;
            trust::opened(&path, &file)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                // Else it was the file of a lock that has ended since.
                Ok(()) if is_at(&file, &path) => return Ok(Self(file, path)),
                Ok(()) | Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(RETRY),
                Ok(()) | Err(Errno::WOULDBLOCK) => {
                    let text = format!(
                        "another process holds the lock {}, or replaces it",
                        path.display()
                    );
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.0, &self.1) {
            let _ = fs::remove_file(&self.1);
        }
    }
}

/// Whether the path leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    let there = fs::symlink_metadata(path).map(place).ok();
    there.is_some() && there == file.metadata().map(place).ok()
}

/// Whether [`bind`] would succeed, as far as can be seen without making a file. `AddrInUse`: somebody listens.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    trust::folder_of(path).map_err(with_remedy)?;
    let address = SockAddr::unix(path)?;
    if let Ok(about) = fs::symlink_metadata(path) {
        if !about.file_type().is_socket() {
            return Err(not_a_socket());
        }
        if is_served(&address)? {
            return Err(io::ErrorKind::AddrInUse.into());
        }
    }
    trust::may_create(path)
}

/// Gives the socket at `path` another name, in place of a socket on which nobody listens any more. `AddrInUse`: somebody does.
pub(crate) fn add_name(path: &Path, name: &Path) -> io::Result<()> {
    if identity(path) == identity(name) {
        return Ok(());
    }
    vacate(name, &SockAddr::unix(name)?)?;
    // Fails if another server has taken the name since.
    fs::hard_link(path, name).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::ErrorKind::AddrInUse.into(),
        _ => error,
    })
}

/// Removes the socket at `path`, if there is one on which nobody listens.
fn vacate(path: &Path, address: &SockAddr) -> io::Result<()> {
    let Ok(about) = fs::symlink_metadata(path) else {
        return Ok(());
    };
    if !about.file_type().is_socket() {
        return Err(not_a_socket());
    }
    if is_served(address)? {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    fs::remove_file(path)
}

fn not_a_socket() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket")
}

/// Whether somebody listens.
fn is_served(address: &SockAddr) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            // Its listen queue is full.
            io::ErrorKind::WouldBlock => Ok(true),
            _ => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path for a socket in a folder of its own, removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("hearth-sockets-{}-{name}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("a.sock")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn who_may_connect_is_said() {
        let folder = Folder::new("mode");
        let listener = bind(&folder.socket(), (Access::Owner, 64), PATIENCE).unwrap();
        let mode = || fs::metadata(folder.socket()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        drop(listener);
        let listener = bind(&folder.socket(), (Access::All, 64), PATIENCE).unwrap();
        assert_eq!(mode(), 0o666);
        drop(listener);
        let _listener = bind(&folder.socket(), (Access::Group(None), 64), PATIENCE).unwrap();
        assert_eq!(mode(), 0o660);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = Folder::new("stale");
        let live = bind(&folder.socket(), (Access::Owner, 64), PATIENCE).unwrap();
        assert_eq!(
            bind(&folder.socket(), (Access::Owner, 64), PATIENCE)
                .unwrap_err()
                .kind(),
            io::ErrorKind::AddrInUse
        );
        drop(live);
        bind(&folder.socket(), (Access::Owner, 64), PATIENCE).unwrap();
    }

    #[test]
    fn a_socket_has_several_names_and_takes_none_from_another() {
        let folder = Folder::new("names");
        let (first, name) = (folder.socket(), folder.0.join("b.sock"));
        let _listener = bind(&first, (Access::Owner, 64), PATIENCE).unwrap();
        let other = bind(&name, (Access::Owner, 64), PATIENCE).unwrap();
        assert_eq!(
            add_name(&first, &name).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(other);
        add_name(&first, &name).unwrap();
        add_name(&first, &name).unwrap();
        assert!(std::os::unix::net::UnixStream::connect(&name).is_ok());
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = Folder::new("file");
        fs::write(folder.socket(), "precious").unwrap();
        assert_eq!(
            bind(&folder.socket(), (Access::Owner, 64), PATIENCE)
                .unwrap_err()
                .kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(folder.socket()).unwrap(), "precious");
    }

    #[test]
    fn the_file_goes_with_the_listener_unless_it_is_anothers_by_then() {
        let folder = Folder::new("gone");
        let listener = bind(&folder.socket(), (Access::Owner, 64), PATIENCE).unwrap();
        let file = SocketFile::new(folder.socket());
        drop(listener);
        let successor = bind(&folder.socket(), (Access::Owner, 64), PATIENCE).unwrap();
        drop(file);
        assert!(folder.socket().exists());
        drop(SocketFile::new(folder.socket()));
        assert!(!folder.socket().exists());
        drop(successor);
    }
}
