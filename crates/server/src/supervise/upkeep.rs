//! Looks after live workers: how many there are to be (`scale`), which has served long enough (`recycle`).
//!
//! Looks every few milliseconds at the scoreboard, where a setting asks for it; memory is measured on a thread of its own, since the
//! kernel walks each worker's pages for it. Runs in: server.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use ipc::scoreboard::{Command, Stage};
use ipc::slot::WorkerId;
use tracing::{debug, info, warn};

use super::recycle::{self, Candidate, Life, Limits};
use super::scale::{Demand, Scale};
use super::worker::{Figures, Who};
use super::{Event, Supervisor, status};
use crate::config;

/// Time between two looks where requests count: a pool grows after two of them.
const LOOK: Duration = Duration::from_millis(40);
/// Time between two looks where only age and memory count.
const LOOK_AT_AGE: Duration = Duration::from_secs(1);
/// Shortest time between two measurements of memory.
const MEASURE: Duration = Duration::from_secs(3);
/// How long a worker that was told to end may go on without a request: for what its script does behind the loop.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Measuring takes at most this part of the time.
const SHARE: u32 = 50;

/// When what is due.
#[derive(Debug)]
pub(super) struct Upkeep {
    scale: Scale,
    /// `None`: nothing is to be looked at.
    next_look: Option<Instant>,
    /// `None`: nothing is to be measured, or it is just being done.
    next_measurement: Option<Instant>,
    every: Duration,
    /// Workers over a limit wait for one that is being replaced.
    others_wait: bool,
    /// It was said that memory cannot be measured.
    told: bool,
}

/// What is kept of a worker from look to look.
#[derive(Debug)]
pub(super) struct Vitals {
    limits: Limits,
    /// Private bytes when they were last measured.
    memory: Option<u64>,
    requests: u64,
    /// It was seen running a request.
    runs: bool,
    /// Since when nothing has been seen of it but that it waits.
    idle_since: Instant,
    /// When it was told to end.
    leaving: Option<Instant>,
}

/// What came of measuring: private bytes of each worker, the reason if one could not be measured, and the time it took.
#[derive(Debug)]
pub(super) struct Measured {
    bytes: Vec<(Who, u64)>,
    failure: Option<String>,
    took: Duration,
}

impl Vitals {
    /// Of a worker that has just been forked.
    pub(super) fn new(settings: &config::Recycling, now: Instant) -> Self {
        Self {
            // A hasher's keys are as good a chance as any.
            limits: Limits::draw(settings, RandomState::new().hash_one(0)),
            memory: None,
            requests: 0,
            runs: false,
            idle_since: now,
            leaving: None,
        }
    }

    /// Whether it was told to end.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Whether it was told to end, runs no request, and does not end.
    fn hangs(&self, now: Instant) -> bool {
        let since = self.leaving.filter(|_| !self.runs);
        since.is_some_and(|since| now.saturating_duration_since(since) >= END_TIMEOUT)
    }

    fn look(&mut self, figures: &Figures, now: Instant) {
        if figures.stage != Some(Stage::Idle) || figures.requests != self.requests {
            self.idle_since = now;
        }
        self.requests = figures.requests;
        self.runs = figures.stage == Some(Stage::Running);
    }
}

impl Upkeep {
    pub(super) fn new(settings: &config::Pool) -> Self {
        let scale = Scale::new(settings);
        let config::Recycling {
            requests,
            memory,
            age,
        } = settings.recycling;
        let often = scale.is_dynamic() || requests > 0;
        let measured = memory.0 > 0;
        let now = Instant::now();
        Self {
            scale,
            next_look: (often || measured || !age.is_zero()).then_some(now),
            next_measurement: measured.then_some(now),
            every: if often { LOOK } else { LOOK_AT_AGE },
            others_wait: false,
            told: false,
        }
    }

    /// How many workers there are at first.
    pub(super) fn fewest(&self) -> usize {
        self.scale.fewest()
    }

    /// A worker is there, perhaps the successor of one that was recycled.
    pub(super) fn note_forked(&mut self) {
        if self.others_wait {
            self.next_look = Some(Instant::now());
        }
    }

    /// When it is time for the next look.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.next_look
    }
}

impl Supervisor {
    /// Looks after the workers, if it is time.
    pub(super) fn look_after(&mut self, now: Instant) {
        if self.upkeep.next_look.is_none_or(|at| at > now) {
            return;
        }
        self.upkeep.next_look = Some(now + self.upkeep.every);
        if self.state.is_stopping() || self.state.wanted() == 0 || self.purge.is_some() {
            return;
        }
        for (&number, worker) in &mut self.workers {
            let who = (WorkerId(number), worker.incarnation);
            worker.vitals.look(&Figures::read(&self.pool, who), now);
            if worker.vitals.hangs(now) && worker.killed().is_none() {
                let reason = "it did not end after it was told to";
                warn!(
                    pool = self.settings.name,
                    worker = number,
                    reason,
                    "worker killed"
                );
                worker.kill(reason);
            }
        }
        if self.upkeep.scale.is_dynamic() {
            self.scale(now);
        }
        self.recycle(now);
        if self.upkeep.next_measurement.is_some_and(|at| at <= now) {
            self.measure();
        }
    }

    fn scale(&mut self, now: Instant) {
        let workers = self.state.wanted();
        let idle: Vec<Option<Duration>> = (0_u16..)
            .take(workers)
            .map(|number| match self.workers.get(&number) {
                Some(worker) if worker.vitals.leaving.is_some() => Some(Duration::ZERO),
                Some(worker) => Some(now.saturating_duration_since(worker.vitals.idle_since)),
                // One that is forked later, since it has crashed, is no help.
                None => (!self.unborn.contains_key(&number)).then_some(Duration::ZERO),
            })
            .collect();
        let waiting = self.pool.queued();
        let wanted = self.upkeep.scale.want(&Demand { waiting, idle: &idle });
        if wanted == workers {
            return;
        }
        self.want(wanted);
        if wanted > workers {
            info!(
                pool = self.settings.name,
                workers = wanted,
                waiting,
                "workers added"
            );
            return;
        }
        info!(
            pool = self.settings.name,
            workers = wanted,
            "idle workers retired"
        );
        for (&number, worker) in &mut self.workers {
            if usize::from(number) >= wanted {
                worker.vitals.leaving.get_or_insert(now);
                self.pool.memory().command(WorkerId(number), Command::Drain);
            }
        }
    }

    /// Has so many workers; those beyond are told to end by whoever calls this.
    pub(super) fn want(&mut self, workers: usize) {
        self.state.want(workers);
        self.pool.set_workers(workers);
    }

    /// Has one worker end that has served long enough, if its predecessor is there again.
    fn recycle(&mut self, now: Instant) {
        if self.state.expects_workers(now) {
            return;
        }
        let candidates = self.workers.iter().map(|(&number, worker)| {
            let vitals = &worker.vitals;
            Candidate {
                worker: number,
                leaving: vitals.leaving.map(|at| now.saturating_duration_since(at)),
                runs: vitals.runs,
                excess: vitals.limits.exceeded(&Life {
                    requests: vitals.requests,
                    memory: vitals.memory,
                    age: now.saturating_duration_since(worker.born),
                }),
            }
        });
        let (next, others_wait) = recycle::next(candidates);
        self.upkeep.others_wait = others_wait;
        if let Some((number, excess)) = next
            && let Some(worker) = self.workers.get_mut(&number)
        {
            worker.vitals.leaving = Some(now);
            info!(
                pool = self.settings.name,
                worker = number,
                incarnation = worker.incarnation.0,
                reason = excess.reason,
                value = excess.value,
                limit = excess.limit,
                "worker recycled"
            );
            self.pool.memory().command(WorkerId(number), Command::Drain);
        }
    }

    /// Measures every worker's memory; what comes of it is an event.
    fn measure(&mut self) {
        self.upkeep.next_measurement = None;
        let workers = self.each_worker(|who, worker| Some((who, worker.smaps.clone())));
        let events = self.events.clone();
        self.tasks.spawn_blocking(move || {
            let begun = Instant::now();
            let (mut bytes, mut failure) = (Vec::new(), None);
            for (who, smaps) in workers {
                match status::private_bytes(&smaps) {
                    Ok(private) => bytes.push((who, private)),
                    Err(error) => failure = Some(error.to_string()),
                }
            }
            // The supervisor is gone only when the server has stopped.
            let _ = events.blocking_send(Event::Measured(Measured {
                bytes,
                failure,
                took: begun.elapsed(),
            }));
        });
    }

    pub(super) fn note_measured(&mut self, measured: Measured) {
        self.upkeep.next_measurement = Some(Instant::now() + (measured.took * SHARE).max(MEASURE));
        debug!(pool = self.settings.name, workers = measured.bytes.len(), took = ?measured.took, "memory measured");
        // A worker that has just ended cannot be measured, either.
        if let Some(error) = measured
            .failure
            .filter(|_| measured.bytes.is_empty() && !self.upkeep.told)
        {
            self.upkeep.told = true;
            warn!(
                pool = self.settings.name,
                error, "max_memory without effect: the memory of workers cannot be measured"
            );
        }
        for ((number, incarnation), bytes) in measured.bytes {
            if let Some(worker) = self.workers.get_mut(&number.0)
                && worker.incarnation == incarnation
            {
                worker.vitals.memory = Some(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_hangs_in_its_end_only_without_a_request() {
        let now = Instant::now();
        let mut vitals = Vitals::new(&config::Recycling::default(), now);
        assert!(!vitals.hangs(now + 2 * END_TIMEOUT));
        vitals.leaving = Some(now);
        assert!(!vitals.hangs(now + END_TIMEOUT / 2));
        assert!(vitals.hangs(now + END_TIMEOUT));
        vitals.runs = true;
        assert!(!vitals.hangs(now + END_TIMEOUT));
    }
}
