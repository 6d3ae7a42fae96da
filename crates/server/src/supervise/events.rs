//! What the supervisor hears of its processes, and what follows from it. Runs in: server.

use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

use ipc::control::{Fork, FromWorker, FromZygote, Sender};
use ipc::scoreboard::Command;
use ipc::slot::{Incarnation, WorkerId};
use tracing::{debug, error, info, warn};

use super::ending::Ending;
use super::identity::{self, Attested, Refusal};
use super::limits::Limits;
use super::process::Process;
use super::socket::{Received, close_elsewhere};
use super::worker::{Cause, Figures, Lost, Unborn, Who};
use super::zygote::{self, NONSENSE, Zygote};
use super::{Booted, StartError, Supervisor};
use crate::dispatch::Reruns;

/// A worker and a zygote that die within this time may have died of the same request.
const TOGETHER: Duration = Duration::from_secs(1);

impl Supervisor {
    pub(super) fn note_message(&mut self, generation: u32, message: FromZygote, sender: Sender) {
        let Some(zygote) = self.zygote.as_mut().filter(|zygote| !zygote.is_condemned) else {
            return;
        };
        if let Err(nonsense) = zygote.expect(&message) {
            self.replace_zygote(&format!("{NONSENSE}: {nonsense}"));
            return;
        }
        match message {
            FromZygote::Ready {
                php_version,
                boot_ms,
                undoing,
                ini,
            } => {
                zygote.identity = Some(sender);
                zygote.limits = Limits::of(zygote.process.pid());
                self.oom.follow(zygote.process.pid());
                self.note_booted(Booted {
                    generation,
                    php_version,
                    boot_ms,
                    undoing,
                    ini,
                });
            }
            FromZygote::BootFailed { reason } => {
                let pool = &self.settings.name;
                if self.booted.is_empty() && self.state.failed_boots() == 0 {
                    // Whoever waits for the start says why there is none.
                    debug!(pool, generation, reason, "application not booted");
                } else {
                    error!(pool, generation, reason, "application not booted");
                }
                zygote.boot_failure = Some(reason);
            }
            // Only `inspect` asks.
            FromZygote::Report(_) | FromZygote::Checked { .. } => {}
            FromZygote::Forked(fork) => self.note_forked(fork),
            FromZygote::ForkFailed {
                worker,
                incarnation,
                reason,
            } => {
                let who = (WorkerId(worker), Incarnation(incarnation));
                self.note_fork_failed(generation, who, &reason);
            }
            FromZygote::Exited {
                worker,
                incarnation,
                code,
                signal,
            } => {
                let who = (WorkerId(worker), Incarnation(incarnation));
                self.note_exited(who, Ending::reported(code, signal));
            }
        }
    }

    fn note_forked(&mut self, fork: Fork) {
        let who = (WorkerId(fork.worker), Incarnation(fork.incarnation));
        if self.unborn(who).is_some() {
            self.state.worker_forked(fork.worker, Instant::now());
        }
    }

    fn note_booted(&mut self, booted: Booted) {
        self.pool.set_post_max_size(booted.ini.post_max_size);
        zygote::log_ready(&self.settings, &booted);
        self.booted.push(booted);
        self.state.zygote_ready();
        self.trouble = None;
    }

    /// The first message of a worker, if there is one.
    pub(super) fn note_greeting(&mut self, who: Who, heard: Option<io::Result<Received<FromWorker>>>) {
        let Some(heard) = heard else {
            if let Some(unborn) = self.unborn(who) {
                unborn.is_silent = true;
                self.give_up_silent(who);
            }
            return;
        };
        let Some(unborn) = self.take_unborn(who) else {
            // It was given up meanwhile: its lifeline has ended it.
            close_elsewhere(heard.map(|received| received.fds).unwrap_or_default());
            return;
        };
        let number = who.0.0;
        let zygote = self.zygote.as_ref();
        let generation = zygote.map_or(0, |zygote| zygote.generation);
        let attested = identity::attest(heard, zygote.and_then(|zygote| zygote.identity));
        let taken = attested.and_then(|Attested { pid, pidfd, rollup }| {
            let process = Process::new(pid, pidfd, &self.kin.family);
            process
                .map(|process| (process, rollup))
                .map_err(|error| Refusal::Unseen(format!("watching its pidfd: {error}")))
        });
        match taken {
            Ok(process) => {
                let ended = unborn.ended;
                self.note_ready(generation, who, (unborn, process));
                if let Some(ending) = ended {
                    self.settle(who, ending);
                }
            }
            Err(Refusal::Unseen(reason)) => {
                error!(
                    pool = self.settings.name,
                    generation,
                    worker = number,
                    reason,
                    "worker given up: the server could not look at it"
                );
                self.give_up(number, unborn, Cause::Unseen(reason));
            }
            Err(Refusal::Untrue(reason)) => {
                error!(
                    pool = self.settings.name,
                    generation,
                    worker = number,
                    reason,
                    "worker given up: it is not what it was said to be"
                );
                self.give_up(number, unborn, Cause::Untrue);
                self.replace_zygote("another process took the place of a worker");
            }
        }
    }

    fn note_ready(
        &mut self,
        generation: u32,
        who: Who,
        (unborn, (process, rollup)): (Unborn, (Process, Option<File>)),
    ) {
        let (number, pid) = (who.0.0, process.pid());
        let worker = unborn.born((generation, who), (process, rollup), &self.surroundings());
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
            incarnation = who.1.0,
            pid,
            "worker ready"
        );
        self.check_newborn(number);
        self.upkeep.note_forked();
        if self.state.is_stopping() || usize::from(number) >= self.state.wanted() {
            self.pool.memory().command(who.0, Command::Drain);
        }
    }

    /// The zygote says that a worker has ended.
    fn note_exited(&mut self, who: Who, ending: Ending) {
        if let Some(unborn) = self.unborn(who) {
            unborn.ended = Some(ending);
            self.give_up_silent(who);
        } else if self.worker(who).is_some_and(|worker| !worker.process.has_ended()) {
            self.replace_zygote("it said that a worker has ended that has not");
        } else {
            self.settle(who, ending);
        }
    }

    fn note_fork_failed(&mut self, generation: u32, who: Who, reason: &str) {
        let (worker, incarnation) = (who.0.0, who.1.0);
        error!(
            pool = self.settings.name,
            generation, worker, incarnation, reason, "worker not forked"
        );
        if self.take_unborn(who).is_some() {
            self.note_unable_to_fork(worker, reason);
        }
    }

    /// A worker could not be forked. True: that has failed several times in a row, and whoever waits for the start waits in vain.
    pub(super) fn note_not_forked(&mut self, number: u16, reason: String) -> bool {
        self.trouble = Some(format!("worker {number} was not forked: {reason}"));
        let is_hopeless = self.state.fork_failed(number, Instant::now());
        if is_hopeless {
            self.start_error.get_or_insert(StartError::Fork { reason });
        }
        is_hopeless
    }

    /// The same if it is the zygote that fails. Another one may do better, and costs nothing once no worker is left.
    fn note_unable_to_fork(&mut self, number: u16, reason: &str) {
        if self.note_not_forked(number, reason.to_owned()) && self.state.give_up_zygote() {
            self.replace_zygote(&format!(
                "no worker is left and it forks none: {reason}; if that goes on, raise what limits the processes, memory and open files of \
                 the pool's user, unit or cgroup"
            ));
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
            let (pool, ended) = (&self.settings.name, why.of_zygote());
            let error = if let Some(reason) = zygote.boot_failure {
                // The reason has been logged.
                debug!(pool, generation, why = ended, "zygote did not boot");
                StartError::Boot { reason }
            } else {
                error!(pool, generation, why = ended, "zygote did not boot");
                StartError::unexplained(why, &zygote.tail.text())
            };
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
        self.zygote_gone_at = Some(Instant::now());
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

    /// Children of the server have ended or were stopped. A stopped zygote would neither fork, nor say how workers end, nor end when
    /// asked: it is killed.
    pub(super) fn note_children(&mut self) {
        super::process::reap_strangers(&self.kin.family);
        let zygote = self.zygote.as_ref();
        if zygote.is_some_and(|zygote| zygote.process.is_stopped()) {
            self.replace_zygote("it was stopped by a signal");
        }
    }

    /// Whether the zygote has just ended, or was stopped. What a worker ran that dies at the same time may have done both.
    fn is_zygote_down(&self) -> bool {
        let gone = self.zygote_gone_at.is_some_and(|at| at.elapsed() < TOGETHER);
        let falls = |zygote: &Zygote| zygote.process.has_ended() || zygote.process.is_stopped();
        gone || self.zygote.as_ref().is_some_and(falls)
    }

    fn unborn(&mut self, (worker, incarnation): Who) -> Option<&mut Unborn> {
        self.unborn
            .get_mut(&worker.0)
            .filter(|unborn| unborn.incarnation == incarnation)
    }

    /// Gives up a worker that has ended without a word. Until both is known, either may be on its way.
    fn give_up_silent(&mut self, who: Who) {
        let unborn = self.unborn(who);
        let Some(ending) = unborn.and_then(|unborn| unborn.ended.filter(|_| unborn.is_silent)) else {
            return;
        };
        let why = ending.to_string();
        error!(
            pool = self.settings.name,
            worker = who.0.0,
            incarnation = who.1.0,
            why,
            "worker given up: it ended as soon as it was forked"
        );
        if let Some(unborn) = self.take_unborn(who) {
            self.give_up(who.0.0, unborn, Cause::Ended);
        }
    }

    /// Gives up a worker that was forked and says nothing: something has stopped it, or it hangs.
    pub(super) fn give_up_mute(&mut self, number: u16) {
        let Some(unborn) = self.unborn.remove(&number) else {
            return;
        };
        error!(
            pool = self.settings.name,
            worker = number,
            incarnation = unborn.incarnation.0,
            "worker given up: it was forked and said nothing"
        );
        self.give_up(number, unborn, Cause::Mute);
    }

    fn give_up(&mut self, number: u16, unborn: Unborn, cause: Cause) {
        let lost = unborn.give_up(WorkerId(number), cause, &self.surroundings());
        self.lost.insert(number, lost);
        self.state.worker_lost(number);
    }

    /// A lost worker is certainly gone: dispatch settles what it may have claimed, and its number may be forked again.
    fn note_lost_gone(&mut self, (worker, incarnation): Who) {
        // Its predecessor's end may be told only now.
        let is_it = |lost: &Lost| lost.incarnation == incarnation;
        if !self.lost.get(&worker.0).is_some_and(is_it) {
            return;
        }
        let Some(Lost { cause, .. }) = self.lost.remove(&worker.0) else {
            return;
        };
        let why = cause.to_string();
        self.pool
            .worker_died((worker, incarnation), (&why, Reruns::Allowed));
        match cause {
            Cause::ZygoteDied => self.state.lost_is_gone(worker.0),
            Cause::Untrue | Cause::Unseen(_) => {
                self.note_not_forked(worker.0, why);
            }
            Cause::Ended | Cause::Mute => self.note_unable_to_fork(worker.0, &why),
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
        let mut why = worker
            .killed()
            .map_or_else(|| self.oom.explain(ending), |reason| format!("killed: {reason}"));
        let mut reruns = Reruns::Allowed;
        if worker.killed().is_none() && !ending.is_planned() && self.is_zygote_down() {
            why.push_str("; its zygote ended or was stopped with it, so no request of it runs again");
            reruns = Reruns::Refused;
        }
        self.pool.worker_died(who, (&why, reruns));
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
