//! A connection from its first byte to its end: what it is, and who serves it.
//!
//! Called by `listen` for each accepted connection. Runs in: server, on one reactor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::access_log::AccessLog;
use super::addresses::Addresses;
use super::route::Lookup;
use super::transport::Transport;
use super::wire::{Progress, Wire};
use super::{Backend, Sites, h1};
use crate::config::Config;

/// What the connections of one reactor share.
pub(super) struct Shared<B: Backend> {
    pub(super) sites: Arc<Sites<B::Pools>>,
    pub(super) backend: B,
    pub(super) files: Lookup,
    tasks: TaskTracker,
    leaving: AtomicBool,
    stopping: AtomicBool,
    /// Notified with `stop`.
    pub(super) stopped: Notify,
}

impl<B: Backend> Shared<B> {
    pub(super) fn new(sites: Arc<Sites<B::Pools>>, backend: B) -> Self {
        let (files, tasks) = (Lookup::default(), TaskTracker::new());
        Self {
            sites,
            backend,
            files,
            tasks,
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
        }
    }

    /// Every task of this reactor.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// From now on each connection ends with the request it is at, or with its next one: an idle one is not closed, which its client
    /// might see only behind a request it has sent.
    pub(super) fn leave(&self) {
        // Relaxed: the connections run on this thread.
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether [`Shared::leave`] was called.
    pub(super) fn is_leaving(&self) -> bool {
        // Relaxed: as above.
        self.leaving.load(Ordering::Relaxed)
    }

    /// Whether [`Shared::stop`] was called; it stays as it is during a poll.
    pub(super) fn is_stopping(&self) -> bool {
        // Relaxed: as above.
        self.stopping.load(Ordering::Relaxed)
    }

    /// From now on each connection ends with the request it is at, an idle one at once.
    pub(super) fn stop(&self) {
        self.leave();
        // Relaxed: as above.
        self.stopping.store(true, Ordering::Relaxed);
        self.stopped.notify_waiters();
    }
}

/// The connection, as its requests see it.
pub(super) struct Client {
    /// That of the connection's first moment: its limits hold to its end.
    pub(super) config: Arc<Config>,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) tasks: TaskTracker,
    pub(super) addresses: Addresses,
    pub(super) progress: Arc<Progress>,
}

/// Serves `socket` until either side ends it.
pub(super) async fn serve<B: Backend>(socket: Transport, shared: Arc<Shared<B>>) {
    let Ok(addresses) = socket.addresses() else { return };
    let config = Arc::clone(&shared.sites.now().config);
    let progress = Arc::new(Progress::new(Instant::now()));
    let wire = Wire::new(socket, Arc::clone(&progress), &config.limits);
    let client = Arc::new(Client {
        config,
        log: shared.sites.log.clone(),
        tasks: shared.tasks.clone(),
        addresses,
        progress,
    });
    h1::serve(wire, &shared, &client).await;
}
