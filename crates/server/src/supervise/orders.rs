//! What dispatch wants done about workers: asking one where its request stands, killing one, or killing all of them since shared
//! memory was damaged. Runs in: server.

use std::sync::Arc;
use std::time::Duration;

use ipc::ask::Ask;
use tracing::{error, info, warn};

use super::worker::Who;
use super::{Supervisor, ini, stacks, words};
use crate::dispatch::glance::Running;
use crate::dispatch::workers::About;
use crate::dispatch::{RequestId, WorkerOrder};

impl Supervisor {
    pub(super) fn follow(&mut self, order: &WorkerOrder) {
        match *order {
            WorkerOrder::Ask { ref running, about } => self.ask(running, about),
            WorkerOrder::Kill {
                worker,
                incarnation,
                request,
                reason,
            } => self.kill((worker, incarnation), request, reason),
            WorkerOrder::ServerError { ref running, status } => {
                self.tasks.spawn(words::tell(
                    self.settings.name.clone(),
                    Arc::clone(&self.words),
                    (running.clone(), status, self.booted.last().and_then(ini::hint)),
                ));
            }
            WorkerOrder::KillAll { reason } => {
                if self.purge.is_none() {
                    error!(
                        pool = self.settings.name,
                        workers = self.workers.len(),
                        reason,
                        "all workers killed"
                    );
                    self.purge = Some(reason);
                    self.state.hold(true);
                    self.pool.close_queue();
                    self.workers.values_mut().for_each(|worker| worker.kill(reason));
                }
            }
        }
    }

    /// Kills a worker, if it still runs `request`: by its slot, since a worker may say anything of itself.
    fn kill(&mut self, who: Who, request: Option<RequestId>, reason: &'static str) {
        if self.worker(who).is_none_or(|worker| worker.killed().is_some()) {
            return;
        }
        let running = self.pool.glance().running;
        let run = running.iter().find(|run| (run.worker, run.incarnation) == who);
        if request.is_some() && run.map(|run| run.request) != request {
            return;
        }
        warn!(
            pool = self.settings.name,
            worker = who.0.0,
            incarnation = who.1.0,
            request = request.map(tracing::field::display),
            method = run.map(|run| &*run.method),
            uri = run.map(|run| &*run.uri),
            reason,
            "worker killed"
        );
        if let Some(victim) = self.workers.get_mut(&who.0.0) {
            victim.kill(reason);
        }
    }

    /// Has the log say where a request stands.
    fn ask(&self, running: &Running, about: About) {
        let worker = self.worker((running.worker, running.incarnation));
        let (Some(worker), Some(block)) = (worker, self.pool.memory().worker(running.worker)) else {
            return;
        };
        if worker.killed().is_some() {
            return;
        }
        let (ask, limit) = match about {
            About::Slow => (Ask::Look, Duration::ZERO),
            About::Timeout { limit } => (Ask::End, limit),
        };
        let answer = worker.stacks.expect(running.request);
        block.ask(running.request.0, limit);
        worker.process.ask(ask);
        self.tasks.spawn(stacks::tell(
            self.settings.name.clone(),
            running.clone(),
            about,
            answer,
        ));
    }

    /// After the death of the last worker that may have damaged shared memory.
    pub(super) fn end_purge(&mut self) {
        if self.purge.is_some() && self.no_workers() {
            self.purge = None;
            self.state.hold(false);
            self.pool.reset_queue();
            // Asked for because of what was there before; the sweeps ask again for what is still true.
            while self.orders.try_recv().is_ok() {}
            info!(pool = self.settings.name, "queue reset");
        }
    }
}
