//! Keeps a pool's zygote and workers running, and ends them.
//!
//! [`Supervisor`] owns the processes. Everything that happens comes to it as an [`Event`], `policy` says what to do about it. It
//! tells dispatch which workers live, and kills those that dispatch wants dead. It knows nothing of requests but the numbers
//! that the scoreboard shows. Called by `app`. Runs in: server, on the main thread, which lives as long as the server: the
//! kernel ends a zygote with the *thread* that started it.
//!
//! | module | what |
//! |---|---|
//! | `policy` | what to do, and when: pure |
//! | `zygote`, `worker` | one process each, with its sockets and pipes |
//! | `process` | a pidfd: end, status, kill |
//! | `socket` | control messages without blocking |
//! | `output` | what processes print |
//! | `orders` | what dispatch wants done about workers, and damaged queues |
//! | `stacks` | where requests stand, for the log |
//! | `leaks` | what requests leave behind in workers |
//! | `ending` | how processes end, in words |
//! | `error` | why there is no pool |
//! | `status` | what is said of all of them |
//! | `inspect` | a boot that serves nothing |

mod ending;
mod error;
mod inspect;
mod leaks;
mod orders;
mod output;
mod policy;
mod process;
mod socket;
mod stacks;
pub(crate) mod status;
mod stop;
mod worker;
mod zygote;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use ipc::control::{Fork, FromZygote, Undoing};
use ipc::scoreboard::Command;
use ipc::server_side::WorkerMemory;
use ipc::slot::{Incarnation, WorkerId};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info, warn};

use self::ending::Ending;
pub(crate) use self::error::StartError;
pub(crate) use self::inspect::{Inspection, inspect};
use self::policy::{Action, State};
pub(crate) use self::process::Family;
use self::process::Process;
use self::worker::{Cause, Figures, Lost, Surroundings, Unborn, Who, Worker};
use self::zygote::{Recipe, Zygote};
use crate::config;
use crate::dispatch::{PoolShared, WorkerOrder};
use crate::report;

/// Events that may wait for the supervisor; who sends more of them waits.
const EVENTS: usize = 1024;

/// The pool is up.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    /// Number of the zygote.
    pub(crate) generation: u32,
    /// `8.2.36`.
    pub(crate) php_version: String,
    /// How long the boot took.
    pub(crate) boot_ms: u64,
}

/// What the supervisors of a server share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kin {
    numbers: Numbers,
    family: Family,
}

/// Numbers of generations.
#[derive(Clone, Debug, Default)]
struct Numbers(Arc<AtomicU32>);

impl Numbers {
    fn next(&self) -> u32 {
        // Relaxed: a number, no more.
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// What a zygote said when it had booted.
#[derive(Clone, Debug)]
struct Booted {
    generation: u32,
    php_version: String,
    boot_ms: u64,
    undoing: Option<Undoing>,
}

/// Something happened.
#[derive(Debug)]
enum Event {
    /// A zygote said something.
    Zygote {
        generation: u32,
        message: FromZygote,
        fds: Vec<OwnedFd>,
    },
    /// A zygote is dead, and all that it said has been handed on.
    ZygoteGone { generation: u32 },
    /// A worker's pidfd fired, or it is certain that a lost one is gone.
    WorkerGone {
        worker: WorkerId,
        incarnation: Incarnation,
    },
    /// The application of a worker wants its code to be read anew.
    ReloadWanted { worker: WorkerId },
}

impl Event {
    fn said(generation: u32, (message, fds): (FromZygote, Vec<OwnedFd>)) -> Self {
        Self::Zygote {
            generation,
            message,
            fds,
        }
    }
}

/// One pool's processes.
#[derive(Debug)]
pub(crate) struct Supervisor {
    settings: config::Pool,
    pool: Arc<PoolShared>,
    recipe: Recipe,
    state: State,
    zygote: Option<Zygote>,
    numbers: Numbers,
    family: Family,
    /// What booted, of which a process may live.
    booted: Vec<Booted>,
    totals: report::Totals,
    leaks: Arc<leaks::Book>,
    /// Asked for, not forked yet.
    unborn: BTreeMap<u16, Unborn>,
    workers: BTreeMap<u16, Worker>,
    /// Perhaps forked, perhaps still alive: their numbers are not forked again before it is certain that they are gone.
    lost: BTreeMap<u16, Lost>,
    /// No worker is wanted.
    resting: bool,
    /// Why all workers are being killed; none is forked until the last is gone and the queue was emptied.
    purge: Option<&'static str>,
    incarnations: Vec<Incarnation>,
    start_error: Option<StartError>,
    inbox: mpsc::Receiver<Event>,
    events: mpsc::Sender<Event>,
    orders: mpsc::Receiver<WorkerOrder>,
    children: Signal,
    tasks: TaskTracker,
}

impl Supervisor {
    /// Nothing is started yet. `warmup_requests` are the heads of the requests that warm a resident application. Must be
    /// called within the runtime that supervises.
    pub(crate) fn new(
        settings: &config::Pool,
        pool: Arc<PoolShared>,
        (eventfds, orders): (Vec<OwnedFd>, mpsc::Receiver<WorkerOrder>),
        (warmup_requests, kin): (Vec<Vec<u8>>, Kin),
    ) -> io::Result<Self> {
        // Workers outlive their zygote; then they become our children, and we see how they end.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (events, inbox) = mpsc::channel(EVENTS);
        let workers = settings.workers;
        Ok(Self {
            settings: settings.clone(),
            recipe: Recipe::new(settings, pool.memory(), eventfds, warmup_requests),
            pool,
            state: State::new(workers, settings.boot_timeout),
            zygote: None,
            numbers: kin.numbers,
            family: kin.family,
            booted: Vec::new(),
            totals: report::Totals::default(),
            leaks: Arc::new(leaks::Book::new(&settings.name, &settings.dir)),
            unborn: BTreeMap::new(),
            workers: BTreeMap::new(),
            lost: BTreeMap::new(),
            resting: false,
            purge: None,
            incarnations: vec![Incarnation(0); usize::from(workers)],
            start_error: None,
            inbox,
            events,
            orders,
            children: signal(SignalKind::child())?,
            tasks: TaskTracker::new(),
        })
    }

    /// What became of the boot, once the first `enough` workers run or a zygote has failed; a failure is told once.
    pub(crate) fn started(&mut self, enough: usize) -> Option<Result<Started, StartError>> {
        if let Some(error) = self.start_error.take() {
            return Some(Err(error));
        }
        let booted = self.booted.last().filter(|_| self.workers.len() >= enough)?;
        Some(Ok(Started {
            generation: booted.generation,
            php_version: booted.php_version.clone(),
            boot_ms: booted.boot_ms,
        }))
    }

    /// Does what is due, waits for the next thing to happen and notes it; to be called over and over. Cancel-safe: it waits in one
    /// place only.
    pub(crate) async fn step(&mut self) {
        self.end_purge();
        let plan = self.state.plan(Instant::now());
        for action in plan.actions {
            self.perform(action);
        }
        let reports = self.workers.values().filter_map(Worker::report_due);
        let wake_at = reports.chain(plan.wake_at).min();
        let alarm = async {
            match wake_at {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        // Cancel-safe: receiving from channels and signals, and a timer that `plan` sets anew.
        tokio::select! {
            Some(event) = self.inbox.recv() => self.note(event),
            Some(order) = self.orders.recv() => self.follow(&order),
            _ = self.children.recv() => process::reap_strangers(&self.family),
            () = alarm => self.settle_unexplained(Instant::now()),
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartZygote => self.start_zygote(),
            Action::KillZygote(reason) => {
                if let Some(zygote) = &mut self.zygote {
                    error!(generation = zygote.generation, reason, "zygote killed");
                    zygote.boot_failure.get_or_insert_with(|| reason.to_owned());
                    zygote.process.kill();
                }
            }
            Action::Fork(number) => {
                if let Err(error) = self.fork(number) {
                    error!(worker = number, %error, "worker not forked");
                    self.state.fork_failed(number, Instant::now());
                }
            }
        }
    }

    fn start_zygote(&mut self) {
        let number = self.numbers.next();
        let in_use = |generation| {
            self.workers
                .values()
                .any(|worker| worker.generation == generation)
        };
        self.booted.retain(|booted| in_use(booted.generation));
        let started = self.recipe.start(
            number,
            self.pool.memory(),
            self.events.clone(),
            (&self.tasks, &self.family),
        );
        match started {
            Ok(zygote) => {
                debug!(
                    generation = zygote.generation,
                    pid = zygote.process.pid(),
                    "zygote started"
                );
                self.zygote = Some(zygote);
            }
            Err(error) => {
                error!(binary = %self.recipe.binary(), %error, "zygote not started");
                self.start_error.get_or_insert(StartError::Spawn {
                    binary: self.recipe.binary(),
                    error,
                });
                self.state.zygote_gone(Instant::now());
            }
        }
    }

    fn fork(&mut self, number: u16) -> io::Result<()> {
        let no_zygote = || io::Error::other("the zygote takes no orders");
        let worker = WorkerId(number);
        let incarnation = self.next_incarnation(number);
        let memory = Arc::new(WorkerMemory::create()?);
        let (unborn, fds) = Unborn::create(incarnation, Arc::clone(&memory))?;
        if let Some(block) = self.pool.memory().worker(worker) {
            block.reset();
        }
        self.pool.worker_starts(worker, incarnation, &memory);
        let fork = Fork {
            worker: number,
            incarnation: incarnation.0,
        };
        let zygote = self.zygote.as_ref().ok_or_else(no_zygote)?;
        if !zygote.fork(fork, fds) {
            return Err(no_zygote());
        }
        self.unborn.insert(number, unborn);
        Ok(())
    }

    fn next_incarnation(&mut self, number: u16) -> Incarnation {
        let Some(last) = self.incarnations.get_mut(usize::from(number)) else {
            return Incarnation(0);
        };
        *last = Incarnation(last.0.wrapping_add(1));
        *last
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Zygote {
                generation,
                message,
                fds,
            } => self.note_message(generation, message, fds),
            Event::ZygoteGone { generation } => self.note_zygote_gone(generation),
            Event::WorkerGone { worker, incarnation } => self.note_worker_gone((worker, incarnation)),
            Event::ReloadWanted { worker } => {
                info!(worker = worker.0, "opcache_reset() asked for a reload");
            }
        }
    }

    fn note_message(&mut self, generation: u32, message: FromZygote, fds: Vec<OwnedFd>) {
        match message {
            FromZygote::Ready {
                php_version,
                boot_ms,
                undoing,
            } => {
                zygote::log_ready(generation, &php_version, boot_ms, undoing.as_ref());
                self.booted.push(Booted {
                    generation,
                    php_version,
                    boot_ms,
                    undoing,
                });
                self.state.zygote_ready();
            }
            FromZygote::BootFailed { reason } => {
                error!(generation, reason, "application not booted");
                if let Some(zygote) = &mut self.zygote {
                    zygote.boot_failure = Some(reason);
                }
            }
            // Only `inspect` asks.
            FromZygote::Report(_) => debug!(generation, "report not asked for"),
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
                error!(worker, incarnation, reason, "worker not forked");
                if self
                    .take_unborn((WorkerId(worker), Incarnation(incarnation)))
                    .is_some()
                {
                    self.state.fork_failed(worker, Instant::now());
                }
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
        let process = pidfd.map(|pidfd| Process::new(pid, pidfd, &self.family));
        match (expected, process) {
            (Some(unborn), Some(Ok(process))) => {
                let worker = unborn.born((generation, who), process, &self.surroundings());
                self.totals.forked += 1;
                self.workers.insert(number, worker);
                self.state.worker_started(number);
                if let Some(reason) = self.purge
                    && let Some(worker) = self.workers.get_mut(&number)
                {
                    worker.kill(reason);
                }
                info!(worker = number, incarnation = incarnation.0, pid, "worker ready");
                if self.state.is_stopping() || self.resting {
                    self.pool.memory().command(who.0, Command::Drain);
                }
            }
            (expected, _) => {
                // If nobody expected it, its lifeline closed long ago.
                error!(
                    worker = number,
                    pid, "worker given up: the zygote's report makes no sense"
                );
                if let Some(unborn) = expected {
                    self.give_up(number, unborn, Cause::SenselessReport);
                }
            }
        }
    }

    fn note_zygote_gone(&mut self, generation: u32) {
        let Some(zygote) = self.zygote.take_if(|zygote| zygote.generation == generation) else {
            return;
        };
        let why = zygote.process.reap().unwrap_or(Ending::Unknown);
        if self.state.is_stopping() {
            debug!(generation, %why, "zygote ended");
        } else if self.state.is_booting() {
            let error = match zygote.boot_failure {
                Some(reason) => StartError::Boot { reason },
                None => StartError::unexplained(why, &zygote.tail.text()),
            };
            error!(generation, %why, "zygote did not boot");
            self.start_error.get_or_insert(error);
        } else {
            warn!(generation, %why, workers = self.workers.len(), "zygote died");
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

    fn note_worker_gone(&mut self, who: Who) {
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
            Cause::SenselessReport => self.state.fork_failed(worker.0, Instant::now()),
        }
    }

    /// Settles dead workers about which nothing was said in time.
    fn settle_unexplained(&mut self, now: Instant) {
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
        let figures = self.figures(who.0);
        let why = worker
            .killed()
            .map_or_else(|| ending.to_string(), |reason| format!("killed: {reason}"));
        self.pool.worker_died(who.0, who.1, &why);
        let delay = self
            .state
            .worker_ended(number, ending, figures.record(), Instant::now());
        let (pid, requests) = (worker.process.pid(), figures.requests);
        self.totals.requests += requests;
        self.totals.died += u64::from(!ending.is_planned());
        let request = figures.running.map(tracing::field::display);
        if ending.is_planned() {
            info!(worker = number, incarnation, pid, requests, why, "worker ended");
        } else {
            warn!(
                worker = number,
                incarnation, pid, requests, request, why, "worker died"
            );
        }
        if !delay.is_zero() {
            warn!(worker = number, ?delay, "worker crashes in a row, replaced later");
        }
    }

    fn worker(&self, (worker, incarnation): Who) -> Option<&Worker> {
        self.workers
            .get(&worker.0)
            .filter(|found| found.incarnation == incarnation)
    }

    fn take_unborn(&mut self, (worker, incarnation): Who) -> Option<Unborn> {
        let found = self.unborn.get(&worker.0)?.incarnation == incarnation;
        found.then(|| self.unborn.remove(&worker.0)).flatten()
    }

    fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            pool: &self.pool,
            leaks: &self.leaks,
            events: &self.events,
            tasks: &self.tasks,
        }
    }

    fn each_worker<T>(&self, each: impl Fn(Who, &Worker) -> Option<T>) -> Vec<T> {
        self.workers
            .iter()
            .filter_map(|(&number, worker)| each((WorkerId(number), worker.incarnation), worker))
            .collect()
    }

    fn figures(&self, worker: WorkerId) -> Figures {
        self.pool
            .memory()
            .worker(worker)
            .map(Figures::read)
            .unwrap_or_default()
    }
}
