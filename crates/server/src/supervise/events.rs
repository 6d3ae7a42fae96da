//! What the supervisor hears of its processes, and what follows from it. Runs in: server.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use ipc::control::FromZygote;
use ipc::scoreboard::Command;
use ipc::slot::{Incarnation, WorkerId};
use tracing::{debug, error, info, warn};

use super::ending::Ending;
use super::process::Process;
use super::worker::{Cause, Figures, Lost, Unborn, Who};
use super::{Booted, StartError, Supervisor, zygote};

/// A fork that is tried again no sooner than this has failed often enough: about two seconds after the first attempt.
const HOPELESS: Duration = Duration::from_millis(1600);

impl Supervisor {
    pub(super) fn note_message(&mut self, generation: u32, message: FromZygote, fds: Vec<OwnedFd>) {
        match message {
            FromZygote::Ready {
                php_version,
                boot_ms,
                undoing,
                ini,
            } => {
                let booted = Booted {
                    generation,
                    php_version,
                    boot_ms,
                    undoing,
                    ini,
                };
                zygote::log_ready(&self.settings, &booted);
                if let Some(zygote) = &self.zygote {
                    self.oom.follow(zygote.process.pid());
                }
                self.booted.push(booted);
                self.state.zygote_ready();
                self.trouble = None;
            }
            FromZygote::BootFailed { reason } => {
                error!(
                    pool = self.settings.name,
                    generation, reason, "application not booted"
                );
                if let Some(zygote) = &mut self.zygote {
                    zygote.boot_failure = Some(reason);
                }
            }
            // Only `inspect` asks.
            FromZygote::Report(_) | FromZygote::Checked { .. } => {
                debug!(pool = self.settings.name, generation, "report not asked for");
            }
            FromZygote::Forked {
                worker,
                incarnation,
                pid,
            } => {
                let who = (WorkerId(worker), Incarnation(incarnation));
                self.note_forked(generation, who, (pid, fds));
            }
            FromZygote::ForkFailed {
                worker,
                incarnation,
                reason,
            } => {
                let who = (WorkerId(worker), Incarnation(incarnation));
                self.note_fork_failed(generation, who, reason);
            }
            FromZygote::Exited {
                worker,
                incarnation,
                code,
                signal,
            } => {
                let who = (WorkerId(worker), Incarnation(incarnation));
                self.settle(who, Ending::reported(code, signal));
            }
        }
    }

    fn note_forked(&mut self, generation: u32, who: Who, (pid, fds): (i32, Vec<OwnedFd>)) {
        let (number, incarnation) = (who.0.0, who.1);
        let expected = self.take_unborn(who);
        let pidfd = fds.into_iter().next();
        let process = pidfd.map(|pidfd| Process::new(pid, pidfd, &self.kin.family));
        match (expected, process) {
            (Some(unborn), Some(Ok(process))) => {
                let worker = unborn.born((generation, who), process, &self.surroundings());
                self.totals.forked += 1;
                self.trouble = None;
                self.workers.insert(number, worker);
                self.state.worker_started(number);
                if let Some(reason) = self.purge
                    && let Some(worker) = self.workers.get_mut(&number)
                {
                    worker.kill(reason);
                }
                info!(
                    pool = self.settings.name,
                    generation,
                    worker = number,
                    incarnation = incarnation.0,
                    pid,
                    "worker ready"
                );
                self.upkeep.note_forked();
                if self.state.is_stopping() || usize::from(number) >= self.state.wanted() {
                    self.pool.memory().command(who.0, Command::Drain);
                }
            }
            (expected, _) => {
                // If nobody expected it, its lifeline closed long ago.
                error!(
                    pool = self.settings.name,
                    generation,
                    worker = number,
                    pid,
                    "worker given up: the zygote's report makes no sense"
                );
                if let Some(unborn) = expected {
                    self.give_up(number, unborn, Cause::SenselessReport);
                }
            }
        }
    }

    fn note_fork_failed(&mut self, generation: u32, who: Who, reason: String) {
        let (worker, incarnation) = (who.0.0, who.1.0);
        error!(
            pool = self.settings.name,
            generation, worker, incarnation, reason, "worker not forked"
        );
        if self.take_unborn(who).is_some() {
            self.note_not_forked(worker, reason);
        }
    }

    /// A worker could not be forked. Once that has failed several times in a row, whoever waits for the start waits in vain.
    pub(super) fn note_not_forked(&mut self, number: u16, reason: String) {
        self.trouble = Some(format!("worker {number} was not forked: {reason}"));
        if self.state.fork_failed(number, Instant::now()) >= HOPELESS {
            self.start_error.get_or_insert(StartError::Fork { reason });
        }
    }

    pub(super) fn note_zygote_gone(&mut self, generation: u32) {
        let Some(zygote) = self.zygote.take_if(|zygote| zygote.generation == generation) else {
            return;
        };
        let why = zygote.process.reap().unwrap_or(Ending::Unknown);
        if self.state.is_stopping() {
            debug!(pool = self.settings.name, generation, %why, "zygote ended");
        } else if self.state.is_booting() {
            let error = match zygote.boot_failure {
                Some(reason) => StartError::Boot { reason },
                None => StartError::unexplained(why, &zygote.tail.text()),
            };
            let why = why.of_zygote();
            error!(pool = self.settings.name, generation, why, "zygote did not boot");
            self.trouble = Some(error.to_string());
            self.start_error.get_or_insert(error);
        } else {
            let why = self.oom.explain(why);
            warn!(
                pool = self.settings.name,
                generation,
                why,
                workers = self.workers.len(),
                "zygote died"
            );
        }
        for (number, unborn) in std::mem::take(&mut self.unborn) {
            self.give_up(number, unborn, Cause::ZygoteDied);
        }
        self.state.zygote_gone(Instant::now());
        // What it had not reaped has become ours.
        let ended: Vec<(Who, Ending)> = self.each_worker(|who, worker| Some((who, worker.process.reap()?)));
        for (who, ending) in ended {
            self.settle(who, ending);
        }
    }

    pub(super) fn note_worker_gone(&mut self, who: Who) {
        self.note_lost_gone(who);
        let Some(worker) = self.worker(who) else { return };
        if let Some(ending) = worker.process.reap() {
            self.settle(who, ending);
            return;
        }
        // The zygote is its parent and says how it ended, soon.
        if let Some(worker) = self.workers.get_mut(&who.0.0) {
            worker.gone_since.get_or_insert_with(Instant::now);
        }
    }

    fn give_up(&mut self, number: u16, unborn: Unborn, cause: Cause) {
        let lost = unborn.give_up(WorkerId(number), cause, &self.surroundings());
        self.lost.insert(number, lost);
        self.state.worker_lost(number);
    }

    /// A lost worker is certainly gone: dispatch settles what it may have claimed, and its number may be forked again.
    fn note_lost_gone(&mut self, (worker, incarnation): Who) {
        // Its predecessor's end may be told only now.
        let Some(&Lost { cause, .. }) = self
            .lost
            .get(&worker.0)
            .filter(|lost| lost.incarnation == incarnation)
        else {
            return;
        };
        self.lost.remove(&worker.0);
        self.pool.worker_died(worker, incarnation, &cause.to_string());
        match cause {
            Cause::ZygoteDied => self.state.lost_is_gone(worker.0),
            Cause::SenselessReport => {
                self.state.fork_failed(worker.0, Instant::now());
            }
        }
    }

    /// Settles dead workers about which nothing was said in time.
    pub(super) fn settle_unexplained(&mut self, now: Instant) {
        let overdue = self.each_worker(|who, worker| (worker.report_due()? <= now).then_some(who));
        for who in overdue {
            self.settle(who, Ending::Unknown);
        }
    }

    /// A worker is dead: dispatch settles what it held, the log says why, policy says when it is replaced.
    fn settle(&mut self, who: Who, ending: Ending) {
        if self.worker(who).is_none() {
            return;
        }
        let (number, incarnation) = (who.0.0, who.1.0);
        let Some(worker) = self.workers.remove(&number) else {
            return;
        };
        let figures = Figures::read(&self.pool, who);
        let why = worker
            .killed()
            .map_or_else(|| self.oom.explain(ending), |reason| format!("killed: {reason}"));
        self.pool.worker_died(who.0, who.1, &why);
        let delay = self
            .state
            .worker_ended(number, ending, figures.record(), Instant::now());
        let (pid, requests, generation) = (worker.process.pid(), figures.requests, worker.generation);
        self.totals.died += u64::from(!ending.is_planned());
        let request = figures.running.map(tracing::field::display);
        if ending.is_planned() {
            info!(
                pool = self.settings.name,
                generation,
                worker = number,
                incarnation,
                pid,
                requests,
                why,
                "worker ended"
            );
        } else {
            warn!(
                pool = self.settings.name,
                generation,
                worker = number,
                incarnation,
                pid,
                requests,
                request,
                why,
                "worker died"
            );
        }
        if !delay.is_zero() {
            warn!(
                pool = self.settings.name,
                worker = number,
                ?delay,
                "worker crashes in a row, replaced later"
            );
            self.trouble = Some(format!("worker {number} crashes in a row: {why}"));
        }
    }
}
