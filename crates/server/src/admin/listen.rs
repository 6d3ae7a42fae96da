//! The admin socket: bound where the settings say, shared with a successor. Runs in: server, on the main thread.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Ask, client, place, serve};
use crate::config::{AdminSocket, Config};
use crate::sockets::{Access, PATIENCE, SocketFile, add_name, bind};

/// Listen queue.
const BACKLOG: i32 = 64;

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    /// It belongs to a server that runs.
    #[error(
        "another server of {dir} is running{process} and answers on {path}: `hearth reload {dir}` gives it new code and settings; \
         stop it before you start another, or give this one an admin_socket of its own"
    )]
    InUse {
        /// The project folder.
        dir: String,
        /// ` (pid 7)`, if it has said so.
        process: String,
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

/// A bound admin socket. Its files go with it.
#[derive(Debug)]
pub(crate) struct AdminListener {
    listener: UnixListener,
    files: Arc<Files>,
}

/// Another handle of an admin socket, for the server's successor.
#[derive(Debug)]
pub(crate) struct Share {
    /// The socket.
    pub(crate) listener: UnixListener,
    files: Arc<Files>,
}

/// The names that the socket has.
#[derive(Debug)]
struct Files {
    first: SocketFile,
    /// One for each other path of the project folder; all of one socket (link(2)).
    others: Mutex<Vec<SocketFile>>,
    /// The folder that they are in is the server's choice.
    is_default: bool,
}

impl Files {
    fn new(first: SocketFile, is_default: bool) -> Self {
        Self {
            first,
            others: Mutex::default(),
            is_default,
        }
    }

    /// Where a folder with these paths has a socket beside the first.
    fn places<'a>(&'a self, dirs: &'a [PathBuf]) -> impl Iterator<Item = PathBuf> + 'a {
        let folder = self.first.path().parent().filter(|_| self.is_default);
        let places = folder.map(|folder| dirs.iter().map(|dir| place::place_in(folder, dir)));
        places
            .into_iter()
            .flatten()
            .filter(|path| path != self.first.path())
    }

    /// The socket answers for a folder with these paths, and no more for others that it had. The first error ends it.
    fn answer_for(&self, dirs: &[PathBuf]) -> Result<(), (PathBuf, io::Error)> {
        let mut others = self.others();
        let places: Vec<PathBuf> = self.places(dirs).collect();
        others.retain(|file| places.iter().any(|path| path == file.path()));
        for path in places {
            if others.iter().any(|file| file.path() == path && file.is_there()) {
                continue;
            }
            add_name(self.first.path(), &path).map_err(|error| (path.clone(), error))?;
            others.push(SocketFile::new(path));
        }
        Ok(())
    }

    fn others(&self) -> MutexGuard<'_, Vec<SocketFile>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) {
        self.first.own();
        self.others().iter().for_each(SocketFile::own);
    }

    fn give_away(&self) {
        self.first.give_away();
        self.others().iter().for_each(SocketFile::give_away);
    }
}

impl AdminListener {
    /// Binds where the configuration says. `None`: nowhere, as set, or since no default place can be used, which is logged.
    pub(crate) fn bind(config: &Config) -> Result<Option<Self>, BindError> {
        let set = &config.admin_socket;
        let is_default = *set == AdminSocket::Default;
        for path in place::candidates(config.names.get(..1).unwrap_or_default(), set) {
            let bound = bind_at(&path, is_default, PATIENCE).map_err(|error| (path.clone(), error));
            let named = bound.and_then(|listener| {
                let files = Arc::new(Files::new(SocketFile::new(path), is_default));
                files.answer_for(&config.names)?;
                Ok(Self { listener, files })
            });
            let (path, error) = match named {
                Ok(bound) => return Ok(Some(bound)),
                Err((path, error)) => (path, error),
            };
            let shown = path.display().to_string();
            if error.kind() == io::ErrorKind::AddrInUse {
                let pid = client::pid_of_server(&path);
                return Err(BindError::InUse {
                    dir: config.dir.display().to_string(),
                    process: pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(),
                    path: shown,
                });
            }
            if !is_default {
                return Err(BindError::Io { path: shown, error });
            }
            debug!(path = shown, %error, "admin socket not bound");
        }
        if is_default {
            warn!(
                "no admin socket: hearth status will not find this server; set admin_socket to a path that can be bound"
            );
        }
        Ok(None)
    }

    /// One that another server has bound at `path` and shares with this one. Its files are that server's until [`Self::own`].
    pub(crate) fn adopt(listener: UnixListener, path: PathBuf, config: &Config) -> Self {
        let is_default = config.admin_socket == AdminSocket::Default;
        let files = Files::new(SocketFile::of_another(path), is_default);
        let others: Vec<SocketFile> = files
            .places(&config.names)
            .map(SocketFile::of_another)
            .filter(|file| file.is_same(&files.first))
            .collect();
        *files.others() = others;
        Self {
            listener,
            files: Arc::new(files),
        }
    }

    /// The files are ours from now on.
    pub(crate) fn own(&self) {
        self.files.own();
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
            files: Arc::clone(&self.files),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.files.first.path()
    }

    /// Answers until then. What is asked goes to `asks`.
    pub(crate) async fn serve(self, asks: mpsc::Sender<Ask>, until: CancellationToken) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(self.listener)?;
        serve::all(listener, &asks, until).await;
        Ok(())
    }
}

impl Share {
    /// Yet another.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            listener: self.listener.try_clone()?,
            files: Arc::clone(&self.files),
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.files.first.path()
    }

    /// Another folder is served from now on: the socket is found by its paths, too.
    pub(crate) fn answer_for(&self, dirs: &[PathBuf]) {
        if let Err((path, error)) = self.files.answer_for(dirs) {
            warn!(path = %path.display(), %error, "hearth status finds this server by the former path of its folder only");
        }
    }

    /// Binds the path again if its file is no more, or another: somebody has cleaned up. `None`: there is no need to.
    pub(crate) fn repair(&self) -> Option<io::Result<AdminListener>> {
        if self.files.first.is_there() {
            return None;
        }
        let path = self.path().to_owned();
        let is_default = self.files.is_default;
        // Whoever holds the lock does not hold up the server: it looks again in a moment.
        let bound = bind_at(&path, is_default, Duration::ZERO).map(|listener| {
            let files = Files::new(SocketFile::new(path), is_default);
            // Those that are left lead to the old socket, and go with it.
            for other in self.files.others().drain(..) {
                let path = other.path().to_owned();
                drop(other);
                match add_name(files.first.path(), &path) {
                    Ok(()) => files.others().push(SocketFile::new(path)),
                    Err(error) => {
                        warn!(path = %path.display(), %error, "admin socket not given its other name");
                    }
                }
            }
            AdminListener {
                listener,
                files: Arc::new(files),
            }
        });
        Some(bound)
    }

    /// The files are the successor's from now on.
    pub(crate) fn give_away(&self) {
        self.files.give_away();
    }
}

/// Binds `path`, whose folder is made where it is the server's choice.
fn bind_at(path: &Path, is_default: bool, patience: Duration) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|_| is_default) {
        place::prepare(folder)?;
    }
    bind(path, (Access::Owner, BACKLOG), patience)
}
