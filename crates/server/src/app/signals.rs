//! Signals, as what they mean. Runs in: server, on the main thread.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::logs::Logs;

/// What a signal tells the server to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// SIGHUP: read settings and code anew.
    Reload,
    /// SIGUSR1: open log files anew.
    Reopen,
    /// SIGUSR2: replace the binary.
    Replace,
    /// SIGTERM, SIGQUIT, SIGINT: end when running requests have; a second one: end now.
    Stop(Cause),
}

/// Who ends the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// SIGTERM.
    Terminate,
    /// SIGQUIT: the same, as with php-fpm and nginx.
    Quit,
    /// SIGINT: somebody at a terminal, who has no load balancer.
    Interrupt,
    /// `hearth stop`.
    Command,
}

impl Cause {
    /// For the log.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "SIGTERM",
            Self::Quit => "SIGQUIT",
            Self::Interrupt => "SIGINT",
            Self::Command => "hearth stop",
        }
    }

    /// Whether `stop_delay` holds.
    pub(super) const fn may_wait(self) -> bool {
        match self {
            Self::Terminate | Self::Quit | Self::Command => true,
            Self::Interrupt => false,
        }
    }
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
            _ = self.terminate.recv() => Order::Stop(Cause::Terminate),
            _ = self.interrupt.recv() => Order::Stop(Cause::Interrupt),
            _ = self.quit.recv() => Order::Stop(Cause::Quit),
            _ = self.hangup.recv() => Order::Reload,
            _ = self.user1.recv() => Order::Reopen,
            _ = self.user2.recv() => Order::Replace,
        }
    }

    /// The next one that ends the server. Of the others, files of `logs` are opened anew still. Cancel-safe.
    pub(super) async fn stop(&mut self, logs: &Logs) {
        loop {
            match self.next().await {
                Order::Stop(_) => return,
                Order::Reopen => logs.reopen(),
                Order::Reload | Order::Replace => {}
            }
        }
    }
}
