//! Answers what the admin socket is asked, from what the parts say of themselves.
//!
//! Called by `app`, between the events that it waits for. Runs in: server, on the main thread.

use std::net::SocketAddr;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{info, warn};

use crate::admin::Ask;
use crate::admin::listen::AdminListener;
use crate::config::Config;
use crate::report::{Leaks, ServerState, Status};
use crate::supervise::Supervisor;
use crate::supervise::status::{measure, seconds};

/// Questions that may wait; who asks more waits to ask.
const ASKS: usize = 16;

/// The admin socket, and what is known without asking a part.
#[derive(Debug)]
pub(super) struct Answers {
    asks: mpsc::Receiver<Ask>,
    /// Keeps the channel open, also without a listener.
    _ask: mpsc::Sender<Ask>,
    /// The listener, and answers that take a moment. They end when this is dropped.
    tasks: JoinSet<()>,
    since: Instant,
    listen: SocketAddr,
    dir: String,
    pub(super) state: ServerState,
}

impl Answers {
    /// Listens from now on. `listen` is the address that is bound. Must be called within the supervisor's runtime.
    pub(super) fn start(config: &Config, listen: SocketAddr, socket: Option<AdminListener>) -> Self {
        let (ask, asks) = mpsc::channel(ASKS);
        let mut tasks = JoinSet::new();
        if let Some(socket) = socket {
            info!(path = %socket.path().display(), "admin socket ready");
            let ask = ask.clone();
            tasks.spawn(async move {
                if let Err(error) = socket.serve(ask).await {
                    warn!(%error, "admin socket given up");
                }
            });
        }
        Self {
            asks,
            _ask: ask,
            tasks,
            since: Instant::now(),
            listen,
            dir: config.dir.display().to_string(),
            state: ServerState::Starting,
        }
    }

    /// The next question. Cancel-safe.
    pub(super) async fn next(&mut self) -> Ask {
        match self.asks.recv().await {
            Some(ask) => ask,
            // Never: a sender is kept.
            None => std::future::pending().await,
        }
    }

    /// Answers, or has a thread answer soon.
    pub(super) fn answer(&mut self, ask: Ask, supervisor: &Supervisor) {
        while self.tasks.try_join_next().is_some() {}
        match ask {
            Ask::Status(reply) => {
                let mut status = self.status(supervisor);
                self.tasks.spawn_blocking(move || {
                    status.pools.iter_mut().for_each(measure);
                    // Who asked may have gone.
                    let _ = reply.send(status);
                });
            }
            Ask::Leaks(reply) => {
                // As above.
                let _ = reply.send(Leaks {
                    pools: vec![supervisor.report_leaks()],
                });
            }
        }
    }

    fn status(&self, supervisor: &Supervisor) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: self.state,
            uptime_seconds: seconds(self.since.elapsed()),
            listen: self.listen.to_string(),
            dir: self.dir.clone(),
            pools: vec![supervisor.report()],
        }
    }
}
