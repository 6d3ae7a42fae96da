//! The server that is to replace this one: the binary as it is on disk by now, started with the same arguments.
//!
//! Called by `app`. Runs in: server, on the main thread.

use std::env;
use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use ipc::control;

use super::handover::{FromSuccessor, Handed, PREDECESSOR, ToSuccessor};
use crate::admin::listen::Share;
use crate::config::Listen;
use crate::edge::Listener;
use crate::supervise::{Family, Process, Received, Socket};

/// What it is given.
#[derive(Debug)]
pub(super) struct Belongings {
    /// The project folder that is served.
    pub(super) dir: PathBuf,
    /// The listening sockets.
    pub(super) listeners: Vec<Listener>,
    /// The admin socket.
    pub(super) admin: Option<Share>,
    /// The socket of probes, as `admin_listen` names it.
    pub(super) probes: Option<(SocketAddr, TcpListener)>,
    /// The pools that have a script.
    pub(super) scripted: Vec<String>,
}

/// The process. Dropping it kills it, unless it has taken over.
#[derive(Debug)]
pub(super) struct Successor {
    process: Process,
    socket: Socket,
    admin: Option<Share>,
    is_heir: bool,
}

/// The path of this server's binary, as it was called. Another file may be there by the time that it is wanted.
pub(super) fn own_binary() -> anyhow::Result<PathBuf> {
    let this = env::current_exe().context("finding the server's own binary")?;
    let called = env::args_os().next().and_then(|name| as_called(&name));
    let is_this = |path: &PathBuf| path.canonicalize().is_ok_and(|found| found == this);
    Ok(called.filter(is_this).unwrap_or(this))
}

fn handed(listener: &Listener) -> Handed {
    Handed {
        named: listener.named.as_ref().map(Listen::url),
        scheme: listener.listen.protocol.scheme().to_owned(),
    }
}

fn as_called(name: &OsString) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return std::path::absolute(name).ok();
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

impl Successor {
    /// Starts `binary` and waits until it serves, at most for `patience`.
    pub(super) async fn start(
        binary: PathBuf,
        belongings: Belongings,
        (family, patience): (Family, Duration),
    ) -> anyhow::Result<Self> {
        let starting = || format!("starting {}", binary.display());
        let mut successor = Self::spawn(&binary, belongings.admin, &family).with_context(starting)?;
        let message = ToSuccessor::Belongings {
            dir: belongings.dir.to_string_lossy().into_owned(),
            listen: belongings.listeners.iter().map(handed).collect(),
            admin: successor
                .admin
                .as_ref()
                .map(|admin| admin.path().to_string_lossy().into_owned()),
            admin_listen: belongings.probes.as_ref().map(|(address, _)| *address),
            scripted: belongings.scripted,
        };
        let mut sockets: Vec<BorrowedFd<'_>> = belongings.listeners.iter().map(AsFd::as_fd).collect();
        sockets.extend(successor.admin.as_ref().map(|admin| admin.listener.as_fd()));
        sockets.extend(belongings.probes.as_ref().map(|(_, listener)| listener.as_fd()));
        let talk = async {
            successor.socket.send(&message, &sockets).await?;
            let received = successor.socket.receive().await?;
            received.map(Received::bare).transpose()
        };
        let answer = tokio::time::timeout(patience, talk).await;
        match answer {
            Ok(Ok(Some(FromSuccessor::Ready { admin }))) => {
                successor.admin = successor.admin.take().filter(|_| admin);
                Ok(successor)
            }
            Ok(Ok(Some(FromSuccessor::Failed { reason }))) => {
                successor.end().await;
                bail!("the new server did not start: {reason}")
            }
            // It closes the channel when it ends, or fails to.
            Ok(Ok(None) | Err(_)) => bail!("the new server ended: {}", successor.end().await),
            Err(_elapsed) => {
                successor.end().await;
                bail!("the new server was not ready within {patience:?}")
            }
        }
    }

    fn spawn(binary: &Path, admin: Option<Share>, family: &Family) -> anyhow::Result<Self> {
        let (ours, theirs) = control::pair()?;
        let mut command = Command::new(binary);
        command
            .args(env::args_os().skip(1))
            .env(PREDECESSOR, std::process::id().to_string())
            .stdin(Stdio::from(theirs));
        // They were for this process.
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        let child = command.spawn()?;
        Ok(Self {
            process: Process::of_child(&child, family)?,
            socket: Socket::new(ours)?,
            admin,
            is_heir: false,
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Everything is its own from now on.
    pub(super) async fn take_over(mut self) {
        self.is_heir = true;
        if let Some(admin) = &self.admin {
            admin.give_away();
        }
        // If it does not hear it, it serves all the same.
        let _ = self.socket.send(&ToSuccessor::Yours, &[]).await;
    }

    /// Ends it; how it ended.
    async fn end(&mut self) -> String {
        const LAST_MOMENTS: Duration = Duration::from_secs(1);
        if tokio::time::timeout(LAST_MOMENTS, self.process.ended())
            .await
            .is_err()
        {
            self.process.kill();
            self.process.ended().await;
        }
        self.is_heir = true;
        self.process
            .reap()
            .map_or_else(|| "it is gone".to_owned(), |ending| ending.to_string())
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if !self.is_heir {
            self.process.kill();
        }
    }
}
