//! What dispatch wants dead: one worker, or all of them since shared memory was damaged. Runs in: server.

use tracing::{error, info, warn};

use super::Supervisor;
use crate::dispatch::KillRequest;

impl Supervisor {
    pub(super) fn kill(&mut self, kill: &KillRequest) {
        match *kill {
            KillRequest::One {
                worker,
                incarnation,
                request,
                reason,
            } => {
                let running = self.figures(worker).running;
                let elsewhere = request.is_some() && running.is_some() && running != request;
                if let Some(victim) = self.workers.get_mut(&worker.0)
                    && victim.incarnation == incarnation
                    && !elsewhere
                    && victim.killed().is_none()
                {
                    warn!(
                        worker = worker.0,
                        incarnation = incarnation.0,
                        request = request.map(tracing::field::display),
                        reason,
                        "worker killed"
                    );
                    victim.kill(reason);
                }
            }
            KillRequest::All { reason } => {
                if self.purge.is_none() {
                    error!(workers = self.workers.len(), reason, "all workers killed");
                    self.purge = Some(reason);
                    self.state.hold(true);
                    self.pool.close_queue();
                    self.workers.values_mut().for_each(|worker| worker.kill(reason));
                }
            }
        }
    }

    /// After the death of the last worker that may have damaged shared memory.
    pub(super) fn end_purge(&mut self) {
        if self.purge.is_some() && self.no_workers() {
            self.purge = None;
            self.state.hold(false);
            self.pool.reset_queue();
            // Asked for because of what was there before; the sweeps ask again for what is still true.
            while self.kills.try_recv().is_ok() {}
            info!("queue reset");
        }
    }
}
