//! A process by its pidfd: waiting for its end, its status, killing it. Runs in: server.
//!
//! A pidfd names one process for ever, so a signal never reaches a stranger that got the same number.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipc::ask::Ask;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use tokio::io::unix::AsyncFd;

use super::ending::Ending;
use crate::dispatch::reactor;

/// The processes that somebody looks after, of all releases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Family(Arc<Mutex<HashSet<i32>>>);

impl Family {
    fn members(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process. It is of its family until this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    pid: i32,
    pidfd: AsyncFd<OwnedFd>,
    family: Family,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.family.members().remove(&self.pid);
    }
}

impl Process {
    /// A process whose pidfd came in a message.
    pub(super) fn new(pid: i32, pidfd: OwnedFd, family: &Family) -> io::Result<Self> {
        let pidfd = reactor::watch(pidfd)?;
        family.members().insert(pid);
        Ok(Self {
            pid,
            pidfd,
            family: family.clone(),
        })
    }

    /// A child of this process that has not been waited for.
    pub(crate) fn of_child(child: &std::process::Child, family: &Family) -> io::Result<Self> {
        let pid = Pid::from_child(child);
        Self::new(
            pid.as_raw_nonzero().get(),
            pidfd_open(pid, PidfdFlags::empty())?,
            family,
        )
    }

    /// Its number, for the log.
    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns once the process has ended. Cancel-safe.
    pub(crate) async fn ended(&self) {
        // An error means that the runtime is shutting down: then nobody asks for the answer either.
        let _ = self.pidfd.readable().await;
    }

    /// Its status, if it has ended and is our child (the zygote is; a worker once its zygote is gone). Reaps it.
    pub(crate) fn reap(&self) -> Option<Ending> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), options)
            .ok()
            .flatten()?;
        Some(Ending::waited(&status))
    }

    /// Sends it the signal of a question. A process that has ended already is no error.
    pub(super) fn ask(&self, ask: Ask) {
        if let Err(error) = ask.send(&self.pidfd)
            && error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error())
        {
            tracing::error!(pid = self.pid, %error, "process not asked");
        }
    }

    /// Whether it has ended, reaped or not.
    pub(super) fn has_ended(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&now)) == Ok(1)
    }

    /// Whether a signal has stopped it, so that it hears nothing. It must be our child.
    pub(super) fn is_stopped(&self) -> bool {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stopped = waitid(WaitId::PidFd(self.pidfd.as_fd()), options);
        stopped.is_ok_and(|status| status.is_some())
    }

    /// Kills it. A process that has ended already is no error.
    pub(crate) fn kill(&self) {
        if let Err(error) = pidfd_send_signal(&self.pidfd, Signal::KILL)
            && error != rustix::io::Errno::SRCH
        {
            tracing::error!(pid = self.pid, %error, "process not killed");
        }
    }
}

/// Reaps ended processes that PHP left behind: as the child subreaper the server inherits what workers started (`exec("… &")`)
/// and did not wait for. Those of the `family` are never touched here.
pub(super) fn reap_strangers(family: &Family) {
    let this = rustix::process::getpid().as_raw_nonzero();
    // Orphans go to the main thread. Without CONFIG_PROC_CHILDREN the file is missing; then they stay until the server ends.
    let Ok(children) = std::fs::read_to_string(format!("/proc/self/task/{this}/children")) else {
        return;
    };
    let strangers: Vec<i32> = {
        let members = family.members();
        let all = children
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok());
        all.filter(|pid| !members.contains(pid)).collect()
    };
    for pid in strangers.into_iter().filter_map(Pid::from_raw) {
        if let Ok(Some(_)) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            tracing::debug!(pid = pid.as_raw_nonzero().get(), "orphaned process reaped");
        }
    }
}
