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
//! | `scale`, `recycle` | how many workers, and for how long: pure |
//! | `upkeep` | has both looked at |
//! | `events` | what is heard of the processes |
//! | `zygote`, `worker` | one process each, with its sockets and pipes |
//! | `identity` | who a worker is, as the kernel says |
//! | `process` | a pidfd: end, status, kill |
//! | `socket` | control messages without blocking |
//! | `output`, `grade` | what processes print, and its level |
//! | `orders` | what dispatch wants done about workers, and damaged queues |
//! | `ini` | which ini files PHP has read |
//! | `stacks` | where requests stand, for the log |
//! | `words` | server errors that nothing in the log explains |
//! | `leaks` | what requests leave behind in workers |
//! | `ending` | how processes end, in words |
//! | `error` | why there is no pool |
//! | `status` | what is said of all of them |
//! | `inspect` | a boot that serves nothing |
//! | `oom` | whether the kernel killed for lack of memory |
//! | `limits` | limits that a script has lowered |
//! | `kin` | what supervisors share |

mod ending;
mod error;
mod events;
mod grade;
mod identity;
pub(crate) mod ini;
mod inspect;
mod kin;
mod leaks;
mod limits;
mod oom;
mod orders;
mod output;
mod policy;
mod process;
mod recycle;
mod scale;
mod socket;
mod stacks;
pub(crate) mod status;
mod stop;
mod upkeep;
mod words;
mod worker;
mod zygote;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use ipc::control::{Fork, FromWorker, FromZygote, Ini, Sender, Undoing};
use ipc::server_side::WorkerMemory;
use ipc::slot::{Incarnation, WorkerId};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info};

pub(crate) use self::error::StartError;
pub(crate) use self::inspect::{Inspection, check, inspect};
pub(crate) use self::kin::Kin;
use self::oom::OomWatch;
use self::policy::{Action, State};
pub(crate) use self::process::{Family, Process};
pub(crate) use self::socket::{Received, Socket};
use self::upkeep::{Measured, Upkeep};
use self::words::Words;
use self::worker::{Lost, Surroundings, Unborn, Who, Worker};
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

/// What a zygote said when it had booted.
#[derive(Clone, Debug)]
struct Booted {
    generation: u32,
    php_version: String,
    boot_ms: u64,
    undoing: Option<Undoing>,
    ini: Ini,
}

/// Something happened.
#[derive(Debug)]
enum Event {
    /// A zygote said something.
    Zygote {
        generation: u32,
        message: FromZygote,
        sender: Sender,
    },
    /// A zygote is dead, and all that it said has been handed on.
    ZygoteGone { generation: u32 },
    /// A worker that was asked for has sent its first message; `None`: nobody holds its socket any more.
    WorkerReady {
        worker: WorkerId,
        incarnation: Incarnation,
        heard: Option<io::Result<Received<FromWorker>>>,
    },
    /// A worker's pidfd fired, or it is certain that a lost one is gone.
    WorkerGone {
        worker: WorkerId,
        incarnation: Incarnation,
    },
    /// The application of a worker wants its code to be read anew.
    ReloadWanted { worker: WorkerId },
    /// The memory of workers was measured.
    Measured(Measured),
}

/// One pool's processes.
#[derive(Debug)]
pub(crate) struct Supervisor {
    settings: config::Pool,
    pool: Arc<PoolShared>,
    recipe: Recipe,
    state: State,
    zygote: Option<Zygote>,
    /// When the last one ended.
    zygote_gone_at: Option<Instant>,
    kin: Kin,
    oom: OomWatch,
    /// What booted, of which a process may live.
    booted: Vec<Booted>,
    totals: report::Totals,
    leaks: Arc<leaks::Book>,
    words: Arc<Words>,
    /// Asked for, not forked yet.
    unborn: BTreeMap<u16, Unborn>,
    workers: BTreeMap<u16, Worker>,
    /// Perhaps forked, perhaps still alive: their numbers are not forked again before it is certain that they are gone.
    lost: BTreeMap<u16, Lost>,
    upkeep: Upkeep,
    /// Why all workers are being killed; none is forked until the last is gone and the queue was emptied.
    purge: Option<&'static str>,
    incarnations: Vec<Incarnation>,
    start_error: Option<StartError>,
    /// What went wrong last, while processes are missing for it.
    trouble: Option<String>,
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
        let mut state = State::new(settings.workers, settings.boot_timeout);
        let upkeep = Upkeep::new(settings);
        state.want(upkeep.fewest());
        pool.set_workers(upkeep.fewest());
        Ok(Self {
            settings: settings.clone(),
            recipe: Recipe::new(settings, pool.memory(), eventfds, warmup_requests),
            pool,
            state,
            zygote: None,
            zygote_gone_at: None,
            kin,
            oom: OomWatch::new(),
            booted: Vec::new(),
            totals: report::Totals::default(),
            leaks: Arc::new(leaks::Book::new(&settings.name, &settings.dir)),
            words: Arc::default(),
            unborn: BTreeMap::new(),
            workers: BTreeMap::new(),
            lost: BTreeMap::new(),
            upkeep,
            purge: None,
            incarnations: vec![Incarnation(0); usize::from(settings.workers)],
            start_error: None,
            trouble: None,
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
        let now = Instant::now();
        self.look_after(now);
        let plan = self.state.plan(now);
        for action in plan.actions {
            self.perform(action);
        }
        let oom = self.oom.look(now);
        let reports = self.workers.values().filter_map(Worker::report_due);
        let wake_at = reports
            .chain(plan.wake_at)
            .chain(self.upkeep.next_look())
            .chain([oom])
            .min();
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
            _ = self.children.recv() => self.note_children(),
            () = alarm => self.settle_unexplained(Instant::now()),
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::StartZygote => self.start_zygote(),
            Action::KillZygote(reason) => self.replace_zygote(reason),
            Action::GiveUp(number) => self.give_up_mute(number),
            // Once the zygote is gone another one forks it.
            Action::Fork(_) if !self.may_zygote_fork() => {}
            Action::Fork(number) => {
                if let Err(error) = self.fork(number) {
                    error!(pool = self.settings.name, worker = number, %error, "worker not forked");
                    self.note_not_forked(number, error.to_string());
                }
            }
        }
    }

    fn start_zygote(&mut self) {
        let number = self.kin.next_generation();
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
            (&self.tasks, &self.kin.family),
        );
        match started {
            Ok(zygote) => {
                debug!(
                    pool = self.settings.name,
                    generation = zygote.generation,
                    pid = zygote.process.pid(),
                    "zygote started"
                );
                self.zygote = Some(zygote);
            }
            Err(error) => {
                error!(pool = self.settings.name, binary = %self.recipe.binary(), %error, "zygote not started");
                let error = StartError::spawn(self.recipe.binary(), error);
                self.trouble = Some(error.to_string());
                self.start_error.get_or_insert(error);
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
        let zygote = self.zygote.as_mut().ok_or_else(no_zygote)?;
        if !zygote.fork(fork, fds) {
            return Err(no_zygote());
        }
        unborn.listen(worker, &self.surroundings());
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
                sender,
            } => self.note_message(generation, message, sender),
            Event::ZygoteGone { generation } => self.note_zygote_gone(generation),
            Event::WorkerReady {
                worker,
                incarnation,
                heard,
            } => self.note_greeting((worker, incarnation), heard),
            Event::WorkerGone { worker, incarnation } => self.note_worker_gone((worker, incarnation)),
            Event::Measured(measured) => self.note_measured(measured),
            Event::ReloadWanted { worker } => {
                if self.kin.want_reload() {
                    info!(
                        pool = self.settings.name,
                        worker = worker.0,
                        "opcache_reset() asked for a reload"
                    );
                }
            }
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
            words: &self.words,
            recycling: &self.settings.recycling,
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
}
