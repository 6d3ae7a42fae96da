//! Resident mode, each request in a fork of the worker: what the request does to the process ends with the fork.
//!
//! The fork is the worker as far as the exchange is concerned: it writes the response to the same lanes, and its parent waits
//! meanwhile and passes the server's signals on. If it dies, the worker dies of the same cause, so that the server sees what it always sees.
//!
//! Runs in: worker.

use std::io;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, set_parent_process_death_signal, waitid,
    waitpid,
};

use super::Step;
use crate::host::Host;
use crate::php::{self, Php, Request};
use crate::process::{self, Forked};

/// Serves one request.
pub(super) fn serve(php: &mut Php<Host>, host: &mut Host, request: &Request<'_>) -> io::Result<Step> {
    match process::fork()? {
        Forked::Child => {
            // If the worker has been killed already, its parent is another one now; the lifeline's owner is gone, too.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            php.after_fork();
            php.serve(host, request);
            // The parent counts it.
            host.complete();
            process::quit(0)
        }
        Forked::Parent(child) => {
            let status = wait(child)?;
            if status.exit_status() == Some(0) {
                host.ended_elsewhere();
                return Ok(Step::Next);
            }
            die_like(status)
        }
    }
}

fn wait(child: Pid) -> io::Result<WaitStatus> {
    php::depute(Some(child));
    // Until it is reaped, its number is nobody else's.
    let waiting = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(child), waiting), Err(rustix::io::Errno::INTR)) {}
    php::depute(None);
    loop {
        match waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Ends this process as its child ended.
fn die_like(status: WaitStatus) -> ! {
    if let Some(signal) = status.terminating_signal() {
        process::die_of(signal);
    }
    process::quit(status.exit_status().unwrap_or(ipc::control::exit::PROTOCOL))
}
