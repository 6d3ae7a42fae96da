//! Ending the pool: drain, or cut. Runs in: server.

use std::time::{Duration, Instant};

use ipc::scoreboard::Command;
use tracing::{error, info, warn};

use super::Supervisor;

/// How long a killed process may take to be gone, and an idle zygote to end.
const DEATH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long tasks may read what ended processes have left in their pipes.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Supervisor {
    /// Lets workers finish the request that they run, then ends them and the zygote; kills what is left at `until`. Nothing is
    /// started any more. Cancel-safe: call [`Supervisor::cut`] instead to hurry.
    pub(crate) async fn drain(&mut self, until: Instant) {
        self.state.stop();
        self.note_children();
        self.drain_workers();
        // Cancel-safe, as `step` is.
        while !self.no_workers() && tokio::time::timeout_at(until.into(), self.step()).await.is_ok() {}
        let killed = self.kill_workers("it did not end within stop_timeout");
        self.end_zygote().await;
        self.last_words().await;
        info!(pool = self.settings.name, killed, "workers stopped");
    }

    /// Lets workers finish the request that they run, then ends them. The zygote stays, to fork again at [`Supervisor::wake`].
    pub(crate) fn rest(&mut self) {
        self.want(0);
        self.drain_workers();
    }

    /// Forks workers again after [`Supervisor::rest`].
    pub(crate) fn wake(&mut self) {
        self.pool.give_up(false);
        // What went wrong before is no answer to whoever waits for this.
        self.start_error = None;
        self.want(self.upkeep.fewest());
    }

    /// Kills the workers that are left although they were to finish, and says what they run. What they ran, or what waits for them,
    /// fails.
    pub(crate) fn hurry(&mut self, reason: &'static str) {
        self.pool.give_up(true);
        self.kill_workers(reason);
    }

    /// Kills everything at once.
    pub(crate) async fn cut(&mut self) {
        self.state.stop();
        let killed = self.kill_workers("the server was told to stop at once");
        if let Some(zygote) = &self.zygote {
            zygote.process.kill();
        }
        self.end_zygote().await;
        info!(pool = self.settings.name, killed, "workers stopped");
    }

    /// No process is left, or may be left, that can write to shared memory.
    pub(crate) fn no_workers(&self) -> bool {
        self.workers.is_empty() && self.unborn.is_empty() && self.lost.is_empty()
    }

    fn drain_workers(&self) {
        for worker in self.each_worker(|(worker, _), _| Some(worker)) {
            self.pool.memory().command(worker, Command::Drain);
        }
    }

    fn kill_workers(&mut self, reason: &'static str) -> usize {
        let glance = self.pool.glance();
        for (&number, worker) in &mut self.workers {
            let run = glance
                .running
                .iter()
                .find(|run| (run.worker.0, run.incarnation) == (number, worker.incarnation));
            warn!(
                pool = self.settings.name,
                worker = number,
                request = run.map(|run| tracing::field::display(run.request)),
                method = run.map(|run| &*run.method),
                uri = run.map(|run| &*run.uri),
                reason,
                "worker killed"
            );
            worker.kill(reason);
        }
        self.workers.len()
    }

    /// Waits for the deaths of killed workers and of the zygote, which is asked to end first.
    async fn end_zygote(&mut self) {
        if let Some(zygote) = &self.zygote {
            zygote.stop();
        }
        if self.gone_in_time().await {
            return;
        }
        if let Some(zygote) = &self.zygote {
            warn!(
                pool = self.settings.name,
                generation = zygote.generation,
                "zygote killed: it did not end when asked"
            );
            zygote.process.kill();
        }
        if !self.gone_in_time().await {
            error!(
                pool = self.settings.name,
                workers = self.workers.len(),
                "processes left behind: killed, but not gone"
            );
        }
    }

    async fn gone_in_time(&mut self) -> bool {
        let until = Instant::now() + DEATH_TIMEOUT;
        while !self.workers.is_empty() || self.zygote.is_some() {
            if tokio::time::timeout_at(until.into(), self.step()).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Children of PHP may hold a worker's pipe open; they are not waited for long.
    async fn last_words(&mut self) {
        self.tasks.close();
        if let Some(zygote) = self.zygote.take() {
            drop(zygote);
        }
        let _ = tokio::time::timeout(LAST_WORDS, self.tasks.wait()).await;
    }
}
