//! Sockets that this server does not have to open, since whoever started it hands them down: a service manager (socket activation),
//! or the server that this one is to replace.
//!
//! Called by `cli`, before anything else is opened, and by `app`. Runs in: server, on the main thread.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use ipc::control;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use tracing::warn;

use super::handover::{FromSuccessor, Handed, PREDECESSOR, ToSuccessor};
use crate::admin::listen::{AdminListener, BindError};
use crate::admin::probes::ProbeListener;
use crate::config::{Config, Listen, Protocol};
use crate::edge::Listener;
use crate::supervise::{Received, Socket};

/// Longest time for a message of the other server that is due at once.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was handed down.
#[derive(Debug, Default)]
pub struct Inherited {
    listeners: Vec<(Handed, OwnedFd)>,
    admin: Option<(PathBuf, UnixListener)>,
    probes: Option<(SocketAddr, TcpListener)>,
    dir: Option<PathBuf>,
    predecessor: Option<OwnedFd>,
    /// Pools of the server that this one replaces.
    scripted: Vec<String>,
}

/// The server that this one replaces.
#[derive(Debug)]
pub(crate) struct Predecessor {
    /// The other end of the channel to it.
    socket: Socket,
    /// Those of its pools that have a script.
    pub(super) scripted: Vec<String>,
}

/// Tells the server that this one was to replace why it does not.
#[derive(Debug)]
pub(crate) struct Complaint(Option<OwnedFd>);

impl Inherited {
    /// Takes what there is; can be done once. Blocks for a moment if another server is to be replaced.
    pub(crate) fn take() -> anyhow::Result<Self> {
        match channel()? {
            Some(channel) => Self::from_predecessor(channel).context("taking over from another server"),
            None => Self::from_manager()
                .context("taking the sockets that a service manager hands down (LISTEN_FDS)"),
        }
    }

    fn from_manager() -> anyhow::Result<Self> {
        let listeners = ipc::inherited::take()?.into_iter().map(|(socket, name)| {
            let protocol = Protocol::of_scheme(&name).unwrap_or(Protocol::Http);
            let handed = Handed {
                named: None,
                scheme: protocol.scheme().to_owned(),
            };
            (handed, socket)
        });
        Ok(Self {
            listeners: listeners.collect(),
            ..Self::default()
        })
    }

    fn from_predecessor(channel: OwnedFd) -> anyhow::Result<Self> {
        if !is_readable(&channel, PATIENCE)? {
            bail!("it says nothing");
        }
        let (message, sockets) = control::receive(channel.as_fd())?.ok_or_else(|| anyhow!("it has ended"))?;
        let ToSuccessor::Belongings {
            dir,
            listen,
            admin,
            admin_listen,
            scripted,
        } = message
        else {
            bail!("it says what makes no sense");
        };
        let mut sockets = sockets.into_iter();
        let mut next = || sockets.next().ok_or_else(|| anyhow!("a socket is missing"));
        Ok(Self {
            listeners: listen
                .into_iter()
                .map(|handed| Ok((handed, next()?)))
                .collect::<anyhow::Result<_>>()?,
            admin: match admin {
                Some(path) => Some((PathBuf::from(path), next()?.into())),
                None => None,
            },
            probes: match admin_listen {
                Some(address) => Some((address, next()?.into())),
                None => None,
            },
            dir: Some(PathBuf::from(dir)),
            predecessor: Some(channel),
            scripted,
        })
    }

    /// Whether nothing was handed down.
    pub(crate) fn is_empty(&self) -> bool {
        self.listeners.is_empty() && self.predecessor.is_none()
    }

    /// The project folder, if it is not to be that of the command line.
    pub(crate) fn dir(&self) -> Option<PathBuf> {
        self.dir.clone()
    }

    /// Where the reason goes if this server does not start.
    pub(crate) fn complaint(&self) -> Complaint {
        Complaint(
            self.predecessor
                .as_ref()
                .and_then(|channel| channel.try_clone().ok()),
        )
    }

    /// The places of the sockets that a service manager has opened; none: the settings say where to listen.
    pub(crate) fn activated(&self) -> Vec<String> {
        let opened = self.listeners.iter().filter(|(handed, _)| handed.named.is_none());
        let places = opened.filter_map(|(handed, socket)| adopt(handed, socket.try_clone().ok()?, None).ok());
        places.map(|listener| listener.listen.to_string()).collect()
    }

    /// Its sockets.
    pub(super) fn opened(&mut self) -> anyhow::Result<Vec<Listener>> {
        let opened = self
            .listeners
            .extract_if(.., |(handed, _)| handed.named.is_none());
        opened
            .map(|(handed, socket)| adopt(&handed, socket, None))
            .collect()
    }

    /// The socket that is listening as `listen` says, if there is one.
    pub(super) fn listener(&mut self, listen: &Listen) -> anyhow::Result<Option<Listener>> {
        let url = Some(listen.url());
        let Some(number) = self.listeners.iter().position(|(handed, _)| handed.named == url) else {
            return Ok(None);
        };
        let (handed, socket) = self.listeners.remove(number);
        adopt(&handed, socket, Some(listen.clone())).map(Some)
    }

    /// The admin socket that these settings want; whether it was handed down.
    pub(super) fn admin(&mut self, config: &Config) -> Result<(Option<AdminListener>, bool), BindError> {
        match self.admin.take() {
            Some((path, listener)) if AdminListener::is_meant(config, &path) => {
                Ok((Some(AdminListener::adopt(listener, path, config)), true))
            }
            _ => Ok((AdminListener::bind(config)?, false)),
        }
    }

    /// The socket for probes that these settings want.
    pub(super) fn probes(&mut self, config: &Config) -> anyhow::Result<Option<ProbeListener>> {
        let Some(address) = config.admin_listen else {
            return Ok(None);
        };
        if let Some((_, listener)) = self.probes.take().filter(|(named, _)| *named == address) {
            return Ok(Some(ProbeListener::adopt(listener, config)));
        }
        let bound =
            ProbeListener::bind(address, config).with_context(|| format!("binding {address} (admin_listen)"));
        bound.map(Some)
    }

    /// The server that this one replaces. Must be called within the main runtime.
    pub(super) fn predecessor(&mut self) -> anyhow::Result<Option<Predecessor>> {
        let socket = self.predecessor.take().map(Socket::new).transpose();
        let scripted = std::mem::take(&mut self.scripted);
        Ok(socket
            .context("watching the other server")?
            .map(|socket| Predecessor { socket, scripted }))
    }
}

impl Predecessor {
    /// Returns when it has ended. Cancel-safe.
    pub(super) async fn gone(&self) {
        self.socket.closed().await;
    }

    /// Says that this server can serve, and waits until everything is its own. If the other one says nothing more it has ended.
    pub(super) async fn take_over(self, admin: bool) {
        let talk = async {
            self.socket.send(&FromSuccessor::Ready { admin }, &[]).await?;
            let received = self.socket.receive().await?;
            received.map(Received::bare).transpose()
        };
        match tokio::time::timeout(PATIENCE, talk).await {
            Ok(Ok(Some(ToSuccessor::Yours))) => {}
            other => warn!(?other, "the server that was replaced has not said good-bye"),
        }
    }
}

impl Complaint {
    pub(crate) fn send(self, reason: &str) {
        if let Some(channel) = self.0 {
            let reason = reason.to_owned();
            // Whoever does not hear it sees the exit status.
            let _ = control::send(channel.as_fd(), &FromSuccessor::Failed { reason }, &[]);
        }
    }
}

fn adopt(handed: &Handed, socket: OwnedFd, named: Option<Listen>) -> anyhow::Result<Listener> {
    let protocol = Protocol::of_scheme(&handed.scheme);
    let protocol = protocol.ok_or_else(|| anyhow!("no protocol is called {}", handed.scheme))?;
    Listener::adopt(socket, protocol, named)
        .context("a socket that was handed down (ListenStream= in a socket unit, with Accept=no)")
}

/// The channel to the server that has started this one to be replaced. Standard input is empty from then on.
fn channel() -> anyhow::Result<Option<OwnedFd>> {
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
    if parent.is_none() || std::env::var(PREDECESSOR).ok() != parent {
        return Ok(None);
    }
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let null = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(Some(channel))
}

fn is_readable(channel: &OwnedFd, patience: Duration) -> anyhow::Result<bool> {
    let mut fds = [PollFd::new(channel, PollFlags::IN)];
    let patience = Timespec::try_from(patience)?;
    Ok(poll(&mut fds, Some(&patience))? > 0)
}
