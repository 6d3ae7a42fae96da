//! Signals, as what they mean. Runs in: server, on the main thread.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a signal tells the server to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGHUP: read settings and code anew.
    Reload,
    /// SIGUSR1: open log files anew.
    Reopen,
    /// SIGUSR2: replace the binary.
    Replace,
    /// SIGTERM, SIGINT: end when running requests have. The name is for the log.
    Stop(&'static str),
    /// SIGQUIT: end now.
    StopAtOnce(&'static str),
}

/// Those that are watched.
#[derive(Debug)]
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    hangup: Signal,
    user1: Signal,
    user2: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Order {
        tokio::select! {
            _ = self.terminate.recv() => Order::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Order::Stop("SIGINT"),
            _ = self.quit.recv() => Order::StopAtOnce("SIGQUIT"),
            _ = self.hangup.recv() => Order::Reload,
            _ = self.user1.recv() => Order::Reopen,
            _ = self.user2.recv() => Order::Replace,
        }
    }

    /// The next one that ends the server. Cancel-safe.
    pub(super) async fn stop(&mut self) {
        while matches!(self.next().await, Order::Reload | Order::Reopen | Order::Replace) {}
    }
}
