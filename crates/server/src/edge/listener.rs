//! A listening socket: opened as the settings say, or handed down; with the file of a unix socket.
//!
//! Called by `app`; `listen` accepts on it. Runs in: server.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use socket2::{SockRef, Type};

use super::transport::Accepted;
use crate::config::{Listen, Place, Protocol};
use crate::sockets::tcp::BACKLOG;
use crate::sockets::{self, Access, SocketFile};

/// A listening socket that does not block. A unix socket's file goes with the last handle of it.
#[derive(Debug)]
pub(crate) struct Listener {
    /// Where it is, with its real port.
    pub(crate) listen: Listen,
    /// As the settings name it; `None` where a service manager has opened it instead.
    pub(crate) named: Option<Listen>,
    pub(super) socket: Listening,
    file: Option<Arc<SocketFile>>,
}

/// A socket of either family.
#[derive(Debug)]
pub(super) enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens as `listen` says. `AddrInUse`: another server does. `group` may connect where not everybody may.
    pub(crate) fn bind(listen: &Listen, group: Option<u32>) -> io::Result<Self> {
        match &listen.place {
            Place::Tcp(address) => {
                let socket = sockets::tcp::bind(*address)?;
                socket.listen(BACKLOG)?;
                Self::adopt(socket.into(), listen.protocol, Some(listen.clone()))
            }
            Place::Unix(path) => {
                let access = match listen.protocol {
                    Protocol::Http | Protocol::Https => Access::All,
                    // Who connects says which script runs.
                    Protocol::FastCgi => Access::Group(group),
                };
                let socket = sockets::bind(path, (access, BACKLOG), sockets::PATIENCE)?;
                let listener = Self::adopt(socket.into(), listen.protocol, Some(listen.clone()))?;
                listener.own();
                Ok(listener)
            }
        }
    }

    /// Whether [`Self::bind`] would succeed; nobody can connect meanwhile, and no file is made.
    pub(crate) fn check(listen: &Listen) -> io::Result<()> {
        match &listen.place {
            Place::Tcp(address) => sockets::tcp::bind(*address).map(drop),
            Place::Unix(path) => sockets::check(path),
        }
    }

    /// Takes what listens already. The file of a unix socket is another process's until [`Self::own`].
    pub(crate) fn adopt(socket: OwnedFd, protocol: Protocol, named: Option<Listen>) -> io::Result<Self> {
        let about = SockRef::from(&socket);
        about.set_nonblocking(true)?;
        let address = about.local_addr()?;
        let listens = about.r#type()? == Type::STREAM && about.is_listener()?;
        let place = match (address.as_socket(), address.as_pathname()) {
            (Some(address), _) if listens => Place::Tcp(address),
            (None, Some(path)) if listens => Place::Unix(path.to_owned()),
            _ => {
                let what = "it is no listening TCP or unix socket";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
            }
        };
        let (socket, file) = match &place {
            Place::Tcp(_) => (Listening::Tcp(socket.into()), None),
            Place::Unix(path) => {
                let file = Arc::new(SocketFile::of_another(path.clone()));
                (Listening::Unix(socket.into()), Some(file))
            }
        };
        Ok(Self {
            listen: Listen { place, protocol },
            named,
            socket,
            file,
        })
    }

    /// Another handle of it.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            listen: self.listen.clone(),
            named: self.named.clone(),
            socket: match &self.socket {
                Listening::Tcp(socket) => Listening::Tcp(socket.try_clone()?),
                Listening::Unix(socket) => Listening::Unix(socket.try_clone()?),
            },
            file: self.file.clone(),
        })
    }

    /// The file of a unix socket is ours from now on.
    pub(crate) fn own(&self) {
        if let Some(file) = &self.file {
            file.own();
        }
    }

    /// The file of a unix socket is the successor's from now on.
    pub(crate) fn give_away(&self) {
        if let Some(file) = &self.file {
            file.give_away();
        }
    }
}

impl Listening {
    /// A connection that waits.
    pub(super) fn accept_now(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(socket) => Ok(Accepted::Tcp(socket.accept()?.0)),
            Self::Unix(socket) => Ok(Accepted::Unix(socket.accept()?.0)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Listening::Tcp(socket) => socket.as_fd(),
            Listening::Unix(socket) => socket.as_fd(),
        }
    }
}
