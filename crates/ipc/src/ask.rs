//! What the server asks of a worker while PHP runs: where the request stands, or to end it. By signals, since a worker in the
//! midst of a request listens to nothing else.
//!
//! Which request is meant stands in the worker's block ([`WorkerBlock::ask`](crate::scoreboard::WorkerBlock::ask)): a signal that
//! comes too late must not hit the next one. The answer comes as a record of [`crate::logline`]. Runs in: server | worker.

use std::io;
use std::os::fd::AsFd;

use rustix::process::{Signal, pidfd_send_signal};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Say where the request stands; nothing else changes for it.
    Look,
    /// Say where it stands, and end it by an error.
    End,
}

impl Ask {
    /// The signal that asks: the C library's `SIGRTMAX - 2` and `SIGRTMAX - 3`. No program is known to use them, and scripts
    /// in a worker cannot get hold of them. Linux numbers signals up to 64 on all machines that we build for.
    pub const fn signal(self) -> i32 {
        match self {
            Self::Look => 62,
            Self::End => 61,
        }
    }

    /// Sends it. The worker ignores it unless it runs the request that its block names.
    pub fn send(self, pidfd: impl AsFd) -> io::Result<()> {
        // SAFETY: valid numbers. rustix asks to leave real-time signals to libc, which keeps two for itself: 32 and 33.
        let signal = unsafe { Signal::from_raw_unchecked(self.signal()) };
        Ok(pidfd_send_signal(pidfd, signal)?)
    }
}
