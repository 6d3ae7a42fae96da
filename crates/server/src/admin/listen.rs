//! The admin socket's file: made, found to be served, taken over, removed. Runs in: server, on the main thread.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::serve::{self, Scope};
use super::{Ask, place};
use crate::config::{AdminSocket, Config};

/// Listen queue.
const BACKLOG: i32 = 64;

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    /// It belongs to a server that runs.
    #[error(
        "another server of {dir} is running and answers on {path}: stop it first, or give this one an admin_socket of its own"
    )]
    InUse {
        /// The project folder.
        dir: String,
        /// The socket.
        path: String,
    },
    /// The system does not let us.
    #[error("binding the admin socket {path}: {error}; choose another path with admin_socket, or \"off\"")]
    Io {
        /// The socket.
        path: String,
        /// What the system said.
        error: io::Error,
    },
}

/// A bound admin socket. Its file goes with it.
#[derive(Debug)]
pub(crate) struct AdminListener {
    listener: UnixListener,
    file: Arc<SocketFile>,
}

/// Another handle of an admin socket, for the server's successor.
#[derive(Debug)]
pub(crate) struct Share {
    /// The socket.
    pub(crate) listener: UnixListener,
    file: Arc<SocketFile>,
}

/// Removed when dropped if it is ours, and the path does not lead to another file by then.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: Option<Identity>,
    ours: AtomicBool,
}

impl AdminListener {
    /// Binds where the configuration says. `None`: nowhere, as set, or since no default place can be used, which is logged.
    pub(crate) fn bind(config: &Config) -> Result<Option<Self>, BindError> {
        let set = &config.admin_socket;
        for path in place::candidates(&[&config.name], set) {
            let bound = if *set == AdminSocket::Default {
                path.parent()
                    .map_or(Ok(()), place::prepare)
                    .and_then(|()| bind(&path))
            } else {
                bind(&path)
            };
            let shown = path.display().to_string();
            match bound {
                Ok(listener) => {
                    return Ok(Some(Self::new(listener, path)));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let dir = config.dir.display().to_string();
                    return Err(BindError::InUse { dir, path: shown });
                }
                Err(error) if *set == AdminSocket::Default => {
                    debug!(path = shown, %error, "admin socket not bound");
                }
                Err(error) => return Err(BindError::Io { path: shown, error }),
            }
        }
        if *set == AdminSocket::Default {
            warn!(
                "no admin socket: hearth status will not find this server; set admin_socket to a path that can be bound"
            );
        }
        Ok(None)
    }

    /// One that another server has bound at `path` and shares with this one. The file is that server's until [`Self::own`].
    pub(crate) fn adopt(listener: UnixListener, path: PathBuf) -> Self {
        let listener = Self::new(listener, path);
        // Relaxed: as below.
        listener.file.ours.store(false, Ordering::Relaxed);
        listener
    }

    fn new(listener: UnixListener, path: PathBuf) -> Self {
        let file = Arc::new(SocketFile::new(path));
        Self { listener, file }
    }

    /// The file is ours from now on.
    pub(crate) fn own(&self) {
        // Relaxed: as below.
        self.file.ours.store(true, Ordering::Relaxed);
    }

    /// Whether a server with these settings that gets the one at `path` needs no other.
    pub(crate) fn is_meant(config: &Config, path: &Path) -> bool {
        match &config.admin_socket {
            AdminSocket::Default => true,
            AdminSocket::At(set) => set == path,
            AdminSocket::Off => false,
        }
    }

    /// Another handle of it, for a successor.
    pub(crate) fn share(&self) -> io::Result<Share> {
        Ok(Share {
            listener: self.listener.try_clone()?,
            file: Arc::clone(&self.file),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Answers until then. What is asked goes to `asks`.
    pub(crate) async fn serve(self, asks: mpsc::Sender<Ask>, until: CancellationToken) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(self.listener)?;
        serve::all(listener, &asks, (Scope::Everything, until)).await;
        Ok(())
    }
}

impl Share {
    /// Yet another.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            listener: self.listener.try_clone()?,
            file: Arc::clone(&self.file),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// The file is the successor's from now on.
    pub(crate) fn give_away(&self) {
        // Relaxed: as below.
        self.file.ours.store(false, Ordering::Relaxed);
    }
}

impl SocketFile {
    fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self {
            path,
            identity,
            ours: AtomicBool::new(true),
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some()
            // Relaxed: a flag on its own, used on one thread.
            && self.ours.load(Ordering::Relaxed)
            && identity(&self.path) == self.identity
            && let Err(error) = fs::remove_file(&self.path)
        {
            warn!(path = %self.path.display(), %error, "admin socket not removed");
        }
    }
}

/// Device, inode, and when it was made: inodes are used anew.
type Identity = (u64, u64, SystemTime);

fn identity(path: &Path) -> Option<Identity> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.modified().ok()?))
}

/// Binds `path`, in place of a socket on which nobody listens any more.
fn bind(path: &Path) -> io::Result<UnixListener> {
    // Of servers that start at the same moment, one at a time looks and binds. The lock ends with the file.
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    flock(&folder, FlockOperation::LockExclusive)?;
    let address = SockAddr::unix(path)?;
    if let Ok(about) = fs::symlink_metadata(path) {
        if !about.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file that is no socket",
            ));
        }
        if is_served(&address)? {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The mode of the socket becomes that of the file (unix(7)), which so is never open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
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
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A path for a socket in a folder of its own, removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("hearth-admin-{}-{name}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("admin.sock")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_its_owner_may_connect() {
        let folder = Folder::new("mode");
        let _listener = bind(&folder.socket()).unwrap();
        let mode = fs::metadata(folder.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = Folder::new("stale");
        let live = bind(&folder.socket()).unwrap();
        assert_eq!(
            bind(&folder.socket()).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(live);
        bind(&folder.socket()).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = Folder::new("file");
        fs::write(folder.socket(), "precious").unwrap();
        assert_eq!(
            bind(&folder.socket()).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(folder.socket()).unwrap(), "precious");
    }

    #[test]
    fn the_file_goes_with_the_listener_unless_it_is_anothers_by_then() {
        let folder = Folder::new("gone");
        let listener = bind(&folder.socket()).unwrap();
        let file = SocketFile::new(folder.socket());
        drop(listener);
        let successor = bind(&folder.socket()).unwrap();
        drop(file);
        assert!(folder.socket().exists());
        drop(SocketFile::new(folder.socket()));
        assert!(!folder.socket().exists());
        drop(successor);
    }
}
