//! The admin socket: bound where the settings say, shared with a successor. Runs in: server, on the main thread.

use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::serve::{self, Scope};
use super::{Ask, place};
use crate::config::{AdminSocket, Config};
use crate::sockets::{Access, SocketFile, bind};

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
    /// Its folder is the server's choice.
    is_default: bool,
}

/// Another handle of an admin socket, for the server's successor.
#[derive(Debug)]
pub(crate) struct Share {
    /// The socket.
    pub(crate) listener: UnixListener,
    file: Arc<SocketFile>,
    is_default: bool,
}

impl AdminListener {
    /// Binds where the configuration says. `None`: nowhere, as set, or since no default place can be used, which is logged.
    pub(crate) fn bind(config: &Config) -> Result<Option<Self>, BindError> {
        let set = &config.admin_socket;
        for path in place::candidates(&[&config.name], set) {
            let is_default = *set == AdminSocket::Default;
            let bound = bind_at(&path, is_default);
            let shown = path.display().to_string();
            match bound {
                Ok(listener) => {
                    return Ok(Some(Self::new(listener, path, is_default)));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let dir = config.dir.display().to_string();
                    return Err(BindError::InUse { dir, path: shown });
                }
                Err(error) if is_default => {
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
    pub(crate) fn adopt(listener: UnixListener, path: PathBuf, config: &Config) -> Self {
        Self {
            listener,
            file: Arc::new(SocketFile::of_another(path)),
            is_default: config.admin_socket == AdminSocket::Default,
        }
    }

    fn new(listener: UnixListener, path: PathBuf, is_default: bool) -> Self {
        Self {
            listener,
            file: Arc::new(SocketFile::new(path)),
            is_default,
        }
    }

    /// The file is ours from now on.
    pub(crate) fn own(&self) {
        self.file.own();
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
            is_default: self.is_default,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
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
            is_default: self.is_default,
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Binds the path anew if its file is no more, or another: somebody has cleaned up. `None`: there is no need to.
    pub(crate) fn repair(&self) -> Option<io::Result<AdminListener>> {
        if self.file.is_there() {
            return None;
        }
        let path = self.path().to_owned();
        let bound = bind_at(&path, self.is_default);
        Some(bound.map(|listener| AdminListener::new(listener, path, self.is_default)))
    }

    /// The file is the successor's from now on.
    pub(crate) fn give_away(&self) {
        self.file.give_away();
    }
}

/// Binds `path`, whose folder is made where it is the server's choice.
fn bind_at(path: &Path, is_default: bool) -> io::Result<UnixListener> {
    if let Some(folder) = path.parent().filter(|_| is_default) {
        place::prepare(folder)?;
    }
    bind(path, Access::Owner, BACKLOG)
}
