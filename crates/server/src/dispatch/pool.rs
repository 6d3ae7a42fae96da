//! The door: [`Pool::send`]. And what reactors share with `supervise`: [`PoolShared`].

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use ipc::head::BodyKind;
use ipc::layout::{Layout, MAX_WORKERS};
use ipc::server_side::{PoolMemory, ReactorId, Seen, WorkerMemory};
use ipc::slot::{Gen, Incarnation, SlotId, WorkerId};
use rustix::event::{EventfdFlags, eventfd};
use tokio::sync::{SemaphorePermit, mpsc};
use tracing::warn;

use super::deadlines::Deadlines;
use super::desk::{Death, Desk, Limits, Reruns};
use super::exchange::respond;
use super::full;
use super::glance::Glance;
use super::lease::Lease;
use super::reactor::Side;
use super::relay::Buffering;
use super::seldom::Seldom;
use super::slots::Start;
use super::spool::SpoolFile;
use super::workers::WorkerOrder;
use super::{DispatchError, Request, RequestBody, RequestId, Response};
use crate::config;

/// Orders that may wait for supervise.
const ORDERS: usize = 256;

/// One pool, shared by the reactors and supervise.
#[derive(Debug)]
pub struct PoolShared {
    name: String,
    memory: Arc<PoolMemory>,
    desks: Vec<Arc<Desk>>,
    buffering: Buffering,
    /// Requests at a time: one a worker, and `queue_length` that wait.
    most: usize,
    /// Requests that wait for a slot.
    waiting: AtomicUsize,
    queue_timeout: std::time::Duration,
    stopping: AtomicBool,
    refusals: Seldom,
    /// Bytes; 0 until PHP has said it.
    post_max_size: AtomicU64,
}

/// What [`PoolShared::create`] makes.
#[derive(Debug)]
pub struct Created {
    /// For supervise and, by [`PoolShared::doors`], for the edge.
    pub shared: Arc<PoolShared>,
    /// One a reactor, in order, for [`super::Reactor::adopt`].
    pub sides: Vec<Side>,
    /// An eventfd a reactor, in order, for the zygote.
    pub eventfds: Vec<OwnedFd>,
    /// What supervise is to do about workers.
    pub orders: mpsc::Receiver<WorkerOrder>,
}

impl PoolShared {
    /// Sizes that fit the configuration.
    pub fn layout(pool: &config::Pool, limits: &config::Limits, reactors: usize) -> Layout {
        let per_reactor = (2 * usize::from(pool.workers)).div_ceil(reactors.max(1));
        let head = limits.header_bytes.0 * 2 + 16 * 1024;
        let area = usize::try_from(head + limits.body_memory.0).unwrap_or(usize::MAX / 2);
        Layout {
            reactors,
            slots_per_reactor: per_reactor
                .next_multiple_of(64)
                .clamp(64, ipc::layout::MAX_SLOTS_PER_REACTOR),
            request_area: area.next_multiple_of(4096),
        }
    }

    /// Creates the shared memory and each reactor's side of it.
    pub fn create(pool: &config::Pool, config: &config::Config) -> io::Result<Created> {
        debug_assert!(usize::from(pool.workers) <= MAX_WORKERS, "validated by config");
        let layout = Self::layout(pool, &config.limits, config.reactors);
        let memory = Arc::new(PoolMemory::create(layout)?);
        let (order, orders) = mpsc::channel(ORDERS);
        let limits = Limits {
            queue_timeout: pool.queue_timeout,
            deadlines: Deadlines {
                slow_log: pool.slow_log,
                request_timeout: pool.request_timeout,
                request_grace: pool.request_grace,
            },
            cores: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
        };
        let (mut desks, mut sides, mut eventfds) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..layout.reactors {
            let desk = Arc::new(Desk::new(
                (pool.name.clone(), ReactorId(number)),
                Arc::clone(&memory),
                limits,
                order.clone(),
            ));
            let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            eventfds.push(eventfd.try_clone()?);
            sides.push(Side {
                desk: Arc::clone(&desk),
                eventfd,
            });
            desks.push(desk);
        }
        let shared = Arc::new(Self {
            name: pool.name.clone(),
            memory,
            desks,
            buffering: Buffering::new(&config.limits, &config.spool_dir),
            most: pool.queue_length.saturating_add(usize::from(pool.workers)),
            queue_timeout: pool.queue_timeout,
            waiting: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            refusals: Seldom::default(),
            post_max_size: AtomicU64::new(0),
        });
        Ok(Created {
            shared,
            sides,
            eventfds,
            orders,
        })
    }

    /// The pool as each reactor uses it, in order.
    pub fn doors(self: &Arc<Self>) -> Vec<Pool> {
        let door = |desk| Pool {
            shared: Arc::clone(self),
            desk: Arc::clone(desk),
        };
        self.desks.iter().map(door).collect()
    }

    /// As in `[pool.web]`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The shared memory, for the zygote and the scoreboard.
    pub fn memory(&self) -> &PoolMemory {
        &self.memory
    }

    /// Supervise, before the fork: a worker is about to start.
    pub fn worker_starts(&self, worker: WorkerId, incarnation: Incarnation, memory: &Arc<WorkerMemory>) {
        for desk in &self.desks {
            desk.workers.set(worker, incarnation, Arc::clone(memory));
        }
    }

    /// Supervise, when the pidfd fired and before that number is forked again: the reactors settle what the worker held. `why`
    /// goes into the log.
    pub fn worker_died(&self, (worker, incarnation): (WorkerId, Incarnation), (why, reruns): (&str, Reruns)) {
        self.memory.worker_gone(worker);
        let why: Arc<str> = why.into();
        for desk in &self.desks {
            desk.tell_death(Death {
                worker,
                incarnation,
                memory: desk.workers.get(worker, incarnation),
                why: Arc::clone(&why),
                reruns,
            });
        }
    }

    /// Supervise, before it kills all workers since shared memory was damaged: nothing is queued until [`Self::reset_queue`].
    pub fn close_queue(&self) {
        self.memory.close_queue();
    }

    /// Supervise, when no worker is left after [`Self::close_queue`], and before the next is forked: requests that wait are queued
    /// anew.
    pub fn reset_queue(&self) {
        self.memory.reset_queue();
        for desk in &self.desks {
            desk.tell_queue_reset();
        }
    }

    /// Supervise: PHP takes bodies of so many bytes; 0: of any size.
    pub fn set_post_max_size(&self, bytes: u64) {
        let bytes = if bytes == 0 { u64::MAX } else { bytes };
        // Relaxed: a number, no more.
        self.post_max_size.store(bytes, Ordering::Relaxed);
    }

    /// Supervise: a worker asks for the spooled body of the exchange that it runs. `None`: it does not run it.
    pub fn spooled_body(
        &self,
        holder: (WorkerId, Incarnation),
        slot: SlotId,
        generation: Gen,
    ) -> Option<Arc<SpoolFile>> {
        let per_reactor = self.memory.layout().slots_per_reactor;
        let desk = self.desks.get(usize::from(slot.0) / per_reactor)?;
        match self.memory.look(slot, generation) {
            Seen::Running(w, inc) | Seen::Streaming(w, inc, _) if (w, inc) == holder => {}
            _ => return None,
        }
        desk.with(slot, |entry| {
            (entry.generation == generation)
                .then(|| entry.spool.clone())
                .flatten()
        })?
    }

    /// Requests that workers have answered to the end, by the server's own count.
    pub fn answered(&self) -> u64 {
        self.desks.iter().map(|desk| desk.answered()).sum()
    }

    /// Those that one worker has answered.
    pub fn answered_by(&self, who: (WorkerId, Incarnation)) -> u64 {
        self.desks.iter().map(|desk| desk.workers.answered(who)).sum()
    }

    /// Whether a worker holds `request`, or has held it of late: only then is its word about it taken.
    pub fn has_held(&self, who: (WorkerId, Incarnation), request: RequestId) -> bool {
        self.desks.iter().any(|desk| desk.has_held(who, request))
    }

    /// Requests that a worker runs or that wait for one.
    pub fn under_way(&self) -> usize {
        let slots = self.memory.layout().slots_per_reactor;
        let in_use = |desk: &Arc<Desk>| slots.saturating_sub(desk.free.available_permits());
        // Relaxed: as in `Waiting`.
        self.desks.iter().map(in_use).sum::<usize>() + self.waiting.load(Ordering::Relaxed)
    }

    /// Requests that wait for a worker, as far as the queue can be believed.
    pub fn queued(&self) -> usize {
        // Relaxed: as in `Waiting`.
        self.memory.backlog() + self.waiting.load(Ordering::Relaxed)
    }

    /// Supervise: so many workers there are from now on, or will be in a moment.
    pub fn set_workers(&self, workers: usize) {
        for desk in &self.desks {
            let workers = u32::try_from(workers).unwrap_or(u32::MAX);
            // Relaxed: it only decides how many are woken at a time.
            desk.workers_there.store(workers, Ordering::Relaxed);
        }
    }

    /// What the pool is at, for people.
    pub fn glance(&self) -> Glance {
        let mut glance = Glance {
            // Relaxed: as in `Waiting`.
            waiting: self.waiting.load(Ordering::Relaxed),
            running: Vec::new(),
        };
        for desk in &self.desks {
            desk.glance(&mut glance);
        }
        glance
    }

    /// Whether there will be no workers any more: requests that wait then fail, and none that lost its worker runs again.
    pub fn give_up(&self, given_up: bool) {
        for desk in &self.desks {
            // Relaxed: as in `Desk::is_given_up`.
            desk.given_up.store(given_up, Ordering::Relaxed);
        }
    }

    /// Says now and then, when requests are refused, what the workers are doing.
    fn note_refusal(&self) {
        let Some(refused) = self.refusals.add(Instant::now()) else {
            return;
        };
        let glance = self.glance();
        warn!(
            pool = self.name,
            workers = glance.running.len(),
            waiting = glance.waiting,
            refused,
            doing = full::summary(&glance.running),
            "pool is full"
        );
    }

    /// New requests are refused from now on.
    pub fn begin_stop(&self) {
        // Relaxed: a flag of its own; a request that slips in is served.
        self.stopping.store(true, Ordering::Relaxed);
    }
}

/// A pool, as one reactor uses it.
#[derive(Clone, Debug)]
pub struct Pool {
    shared: Arc<PoolShared>,
    desk: Arc<Desk>,
}

impl Pool {
    /// Bytes of a body that PHP takes; 0 until it has said so.
    pub fn post_max_size(&self) -> u64 {
        // Relaxed: a number, no more.
        self.shared.post_max_size.load(Ordering::Relaxed)
    }

    /// Runs the request in a worker. Dropping the future abandons the request: it is taken back if no worker has it yet, else PHP is
    /// told that the client has gone.
    pub async fn send(&self, request: Request) -> Result<Response, DispatchError> {
        // Relaxed: see `begin_stop`.
        if self.shared.stopping.load(Ordering::Relaxed) {
            return Err(DispatchError::Stopping);
        }
        let area = self.shared.memory.layout().request_area;
        let in_slot = if matches!(request.body, RequestBody::Memory(_)) {
            request.body.len()
        } else {
            0
        };
        let size = request.head.len() + usize::try_from(in_slot).unwrap_or(usize::MAX / 2);
        if size > area {
            return Err(DispatchError::HeadTooLarge { size, limit: area });
        }
        let response = self.respond(request).await;
        if let Err(DispatchError::QueueFull { .. } | DispatchError::QueueTimeout { .. }) = &response {
            self.shared.note_refusal();
        }
        response
    }

    async fn respond(&self, request: Request) -> Result<Response, DispatchError> {
        let since = Instant::now();
        let permit = self.permit().await?;
        let interim = request.interim.clone();
        let lease = self.lease(request, since, permit)?;
        respond(lease, &self.shared.buffering, interim.as_deref())
            .await
            .map_err(|error| self.named(error))
    }

    async fn permit(&self) -> Result<SemaphorePermit<'_>, DispatchError> {
        if self.shared.under_way() >= self.shared.most {
            return Err(self.full());
        }
        if let Ok(permit) = self.desk.free.try_acquire() {
            return Ok(permit);
        }
        let _waiting = Waiting::enter(&self.shared.waiting);
        let waited = self.shared.queue_timeout;
        match tokio::time::timeout(waited, self.desk.free.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_closed)) => Err(DispatchError::Stopping),
            Err(_elapsed) => Err(DispatchError::QueueTimeout {
                pool: self.shared.name.clone(),
                waited,
            }),
        }
    }

    /// Fills a slot and queues it.
    fn lease(
        &self,
        request: Request,
        since: Instant,
        permit: SemaphorePermit<'_>,
    ) -> Result<Lease, DispatchError> {
        let Request {
            id,
            mut head,
            body,
            idempotent,
            interim: _,
        } = request;
        let len = body.len();
        let (kind, parts, spool) = match body {
            RequestBody::Empty => (BodyKind::Empty, Vec::new(), None),
            RequestBody::Spooled { file, .. } => (BodyKind::Spooled, Vec::new(), Some(Arc::new(file))),
            RequestBody::Memory(parts) => (BodyKind::InSlot, parts, None),
        };
        let start = Start {
            request: id,
            idempotent,
            since,
            spool,
        };
        let slot = self.desk.take(start).ok_or_else(|| self.full())?;
        // The slot gives its permit back when it is freed.
        permit.forget();
        let lease = Lease::new(Arc::clone(&self.desk), slot);
        self.shared
            .memory
            .fill(slot, &mut head, kind, len, parts.iter().map(|part| &**part));
        if self.desk.enqueue(slot) {
            Ok(lease)
        } else {
            Err(self.full())
        }
    }

    fn full(&self) -> DispatchError {
        DispatchError::QueueFull {
            pool: self.shared.name.clone(),
        }
    }

    /// Slots do not know the pool's name.
    fn named(&self, error: DispatchError) -> DispatchError {
        match error {
            DispatchError::QueueFull { .. } => self.full(),
            other => other,
        }
    }
}

/// Counts a waiting request for as long as it waits.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Self {
        // Relaxed: a limit, not a protocol.
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        // Relaxed: as above.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
