//! What one reactor knows about its slots: private memory, so that shared memory never has to be believed.
//!
//! Completions and deaths of workers come in here and wake the exchange that they concern; `sweep` does so for deadlines.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use ipc::server_side::{PoolMemory, ReactorId, Seen, WorkerMemory};
use ipc::slot::{Incarnation, SlotId, WorkerId};
use tokio::sync::{Notify, Semaphore, mpsc};
use tracing::{debug, warn};

use super::deadlines::{Asked, Deadlines};
use super::glance::{Glance, Running};
use super::slots::{Entry, Owner, Slots, Start};
use super::workers::{WorkerOrder, Workers};
use super::{DispatchError, RequestId, lock};

/// How often a request may run: the first time, and again after its worker died.
const MAX_TRIES: u8 = 3;
/// Requests queued in one turn of the reactor before workers are woken for them.
const MAX_BATCH: u32 = 8;

/// One reactor's side of a pool.
#[derive(Debug)]
pub(super) struct Desk {
    /// Name of the pool.
    pub(super) pool: String,
    pub(super) reactor: ReactorId,
    pub(super) memory: Arc<PoolMemory>,
    pub(super) workers: Workers,
    /// Free slots; its waiters are the queue.
    pub(super) free: Semaphore,
    /// No worker will come for what waits, or runs and loses its worker.
    pub(super) given_up: AtomicBool,
    /// How many workers the pool has.
    pub(super) workers_there: AtomicU32,
    pub(super) limits: Limits,
    pub(super) orders: mpsc::Sender<WorkerOrder>,
    /// Told when requests wait although workers sleep, since enough are at work; the reactor looks again in a moment.
    pub(super) left_behind: Notify,
    /// Told when a slot comes into use, for the sweep.
    pub(super) busy: Notify,
    pub(super) slots: Mutex<Slots>,
    drain: Mutex<Option<Waker>>,
    news: Mutex<VecDeque<News>>,
}

/// Deadlines of an exchange, and how much is done at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) queue_timeout: Duration,
    pub(super) deadlines: Deadlines,
    /// Processors: so many workers at work are enough as long as they are quick.
    pub(super) cores: u32,
}

/// What a reactor is told by supervise.
#[derive(Clone, Debug)]
enum News {
    Death(Death),
    /// Damaged memory was put in order: all workers are gone, the queue is empty and takes tickets again.
    QueueReset,
}

/// A worker is gone.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) worker: WorkerId,
    pub(super) incarnation: Incarnation,
    pub(super) memory: Option<Arc<WorkerMemory>>,
    pub(super) why: Arc<str>,
    pub(super) reruns: Reruns,
}

/// What becomes of the idempotent requests that a dead worker ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reruns {
    /// They may run again.
    Allowed,
    /// One of them may be to blame for more than that worker's death: none runs again.
    Refused,
}

impl Desk {
    pub(super) fn new(
        (pool, reactor): (String, ReactorId),
        memory: Arc<PoolMemory>,
        limits: Limits,
        orders: mpsc::Sender<WorkerOrder>,
    ) -> Self {
        let slots = Slots::new(memory.slots_of(reactor));
        Self {
            pool,
            reactor,
            free: Semaphore::new(slots.entries.len()),
            given_up: AtomicBool::new(false),
            workers_there: AtomicU32::new(0),
            slots: Mutex::new(slots),
            memory,
            workers: Workers::default(),
            limits,
            orders,
            left_behind: Notify::new(),
            busy: Notify::new(),
            drain: Mutex::default(),
            news: Mutex::default(),
        }
    }

    /// A free slot, now in use with its next generation. The caller holds a permit of `free`, so there is one.
    pub(super) fn take(&self, start: Start) -> Option<SlotId> {
        let mut slots = lock(&self.slots);
        let was_idle = slots.free.len() == slots.entries.len();
        let slot = slots.free.pop()?;
        let entry = slots.entry(slot)?;
        let generation = entry.generation.next();
        *entry = Entry {
            generation,
            owner: Owner::Lease(None),
            request: start.request,
            failure: None,
            dead: None,
            spool: start.spool,
            ticket: None,
            pulled: None,
            parked: false,
            tries: 1,
            idempotent: start.idempotent,
            since: start.since,
            running_since: None,
            asked: Asked::default(),
        };
        drop(slots);
        if was_idle {
            self.busy.notify_one();
        }
        Some(slot)
    }

    /// Queues a filled slot. False: the ring is full or damaged.
    pub(super) fn enqueue(&self, slot: SlotId) -> bool {
        let mut slots = lock(&self.slots);
        let queued = slots
            .entry(slot)
            .is_some_and(|entry| entry.enqueue(&self.memory, slot));
        slots.unannounced += 1;
        let batch = slots.unannounced;
        if batch == MAX_BATCH {
            slots.unannounced = 0;
        }
        drop(slots);
        match batch {
            // The drain runs when the tasks that are ready now have had their turn.
            1 => self.wake_drain(),
            MAX_BATCH => self.announce(),
            _ => {}
        }
        queued
    }

    /// Wakes workers for what was queued.
    pub(super) fn announce(&self) {
        // Relaxed: see `PoolShared::set_workers`.
        let workers = self.workers_there.load(Ordering::Relaxed);
        if self.memory.wake_for_backlog(workers, self.limits.cores) {
            self.left_behind.notify_one();
        }
    }

    /// The response has been read to the end.
    pub(super) fn finish(&self, slot: SlotId) {
        self.give_back(&mut lock(&self.slots), slot);
        self.free.add_permits(1);
    }

    /// Frees a slot, and remembers who held it.
    fn give_back(&self, slots: &mut Slots, slot: SlotId) {
        let Some(entry) = slots.entry(slot) else { return };
        match self.memory.look(slot, entry.generation) {
            Seen::Done(worker, inc, _) => {
                self.workers.note_held((worker, inc), entry.request, true);
                slots.answered += 1;
            }
            Seen::Running(worker, inc) | Seen::Streaming(worker, inc, _) => {
                self.workers.note_held((worker, inc), entry.request, false);
            }
            Seen::Queued | Seen::Garbage => {}
        }
        slots.give_back(&self.memory, slot);
    }

    /// Requests that have been answered to the end.
    pub(super) fn answered(&self) -> u64 {
        lock(&self.slots).answered
    }

    /// Whether a worker holds `request`, or has held it of late.
    pub(super) fn has_held(&self, who: (WorkerId, Incarnation), request: RequestId) -> bool {
        let slots = lock(&self.slots);
        let holds =
            slots
                .of_request(request)
                .any(|(slot, entry)| match self.memory.look(slot, entry.generation) {
                    Seen::Running(w, inc) | Seen::Streaming(w, inc, _) | Seen::Done(w, inc, _) => {
                        (w, inc) == who
                    }
                    Seen::Queued | Seen::Garbage => false,
                });
        holds || self.workers.has_held(who, request)
    }

    /// The exchange's owner lets go of it, answered or not.
    pub(super) fn release(&self, slot: SlotId) {
        let freed = self.settle(&mut lock(&self.slots), slot);
        if freed {
            self.free.add_permits(1);
        }
    }

    /// Reads or changes a slot's entry.
    pub(super) fn with<T>(&self, slot: SlotId, act: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        lock(&self.slots).entry(slot).map(act)
    }

    /// Any thread: a worker has died; the reactor is told.
    pub(super) fn tell_death(&self, death: Death) {
        self.tell(News::Death(death));
    }

    /// Any thread: the queue was emptied; what was in it or waits for it is queued anew.
    pub(super) fn tell_queue_reset(&self) {
        self.tell(News::QueueReset);
    }

    fn tell(&self, news: News) {
        lock(&self.news).push_back(news);
        self.wake_drain();
    }

    /// Any thread: looks for completions and deaths soon.
    pub(super) fn wake_drain(&self) {
        if let Some(waker) = lock(&self.drain).take() {
            waker.wake();
        }
    }

    /// Any thread: adds what waits and what runs. The lock keeps the slots, and so the heads, from being used anew meanwhile.
    pub(super) fn glance(&self, into: &mut Glance) {
        let mut slots = lock(&self.slots);
        let all: Vec<SlotId> = slots.in_use().collect();
        for slot in all {
            let Some(entry) = slots.entry(slot) else { continue };
            if entry.parked {
                into.waiting += 1;
            }
            if !entry.is_out() {
                continue;
            }
            match self.memory.look(slot, entry.generation) {
                Seen::Queued => into.waiting += 1,
                Seen::Running(worker, inc) | Seen::Streaming(worker, inc, _) => {
                    into.running
                        .push(self.running((worker, inc), slot, entry.request));
                }
                Seen::Done(..) | Seen::Garbage => {}
            }
        }
    }

    pub(super) fn running(&self, who: (WorkerId, Incarnation), slot: SlotId, request: RequestId) -> Running {
        let elapsed = self.elapsed(who.0, request).unwrap_or_default();
        Running::new(who, request, &self.memory.head(slot), elapsed)
    }

    /// How long a worker says it has run a request.
    pub(super) fn elapsed(&self, worker: WorkerId, request: RequestId) -> Option<Duration> {
        self.memory.worker(worker)?.running_for(request.0)
    }

    /// Reactor: has the drain run if something has come in.
    pub(super) fn look(&self) {
        if self.memory.any_done(self.reactor) {
            self.wake_drain();
        }
    }

    /// Reactor: handles what has come in, and leaves its waker for the next time.
    pub(super) fn poll_drain(&self, waker: &Waker) {
        // Before looking, so that what comes in meanwhile wakes again.
        *lock(&self.drain) = Some(waker.clone());
        let mut slots = lock(&self.slots);
        let (mut freed, mut told) = (0, false);
        self.memory.take_done(self.reactor, |slot| {
            freed += usize::from(self.progress(&mut slots, slot));
        });
        loop {
            let Some(news) = lock(&self.news).pop_front() else {
                break;
            };
            told = true;
            match news {
                News::Death(death) => freed += self.bury(&mut slots, &death),
                News::QueueReset => self.requeue_all(&mut slots),
            }
        }
        // Requests may have been queued anew.
        let announce = std::mem::take(&mut slots.unannounced) > 0 || told;
        drop(slots);
        if announce {
            self.announce();
        }
        if freed > 0 {
            self.free.add_permits(freed);
        }
    }

    /// Something was published for a slot. True: the slot was freed.
    fn progress(&self, slots: &mut Slots, slot: SlotId) -> bool {
        let Some(entry) = slots.entry(slot) else {
            return false;
        };
        match &mut entry.owner {
            Owner::Lease(waker) => {
                if let Some(waker) = waker.take() {
                    waker.wake();
                }
                false
            }
            Owner::Abandoned => self.settle(slots, slot),
            // A stray bit of an earlier use.
            Owner::Nobody => false,
        }
    }

    /// Nobody wants the response: frees the slot once the worker has finished, or is dead. True: it was freed.
    fn settle(&self, slots: &mut Slots, slot: SlotId) -> bool {
        let Some(entry) = slots.entry(slot) else {
            return false;
        };
        if entry.is_out() {
            match self.memory.look(slot, entry.generation) {
                // Freeing the slot hands the lane back, read or not.
                Seen::Done(..) => {}
                Seen::Queued if entry.take_back(&self.memory, slot) => {}
                _ => {
                    entry.owner = Owner::Abandoned;
                    self.memory.client_gone(slot, entry.generation);
                    return false;
                }
            }
        }
        self.give_back(slots, slot);
        true
    }

    /// A worker has died: settles what it held. Returns how many slots were freed.
    fn bury(&self, slots: &mut Slots, death: &Death) -> usize {
        let mut freed = 0;
        let all: Vec<SlotId> = slots.in_use().collect();
        for slot in all {
            let Some(entry) = slots.entry(slot).filter(|entry| entry.is_out()) else {
                continue;
            };
            let held = match self.memory.look(slot, entry.generation) {
                Seen::Running(w, inc) | Seen::Streaming(w, inc, _) | Seen::Done(w, inc, _) => {
                    (w, inc) == (death.worker, death.incarnation)
                }
                Seen::Queued => {
                    entry.requeue_lost(&self.memory, slot);
                    false
                }
                // A wild write; whoever did it, this exchange has lost its worker.
                Seen::Garbage => true,
            };
            if held {
                freed += usize::from(self.bury_one(slots, slot, death));
            }
        }
        freed
    }

    pub(super) fn is_given_up(&self) -> bool {
        // Relaxed: who sees it late sees it at the next sweep.
        self.given_up.load(Ordering::Relaxed)
    }

    fn bury_one(&self, slots: &mut Slots, slot: SlotId, death: &Death) -> bool {
        let Some(entry) = slots.entry(slot) else {
            return false;
        };
        if matches!(entry.owner, Owner::Abandoned) {
            self.give_back(slots, slot);
            return true;
        }
        let worker = death.worker;
        self.workers
            .note_held((worker, death.incarnation), entry.request, false);
        match (self.memory.look(slot, entry.generation), &death.memory) {
            (Seen::Done(..) | Seen::Streaming(..), Some(memory)) => {
                entry.dead = Some((worker, Arc::clone(memory)));
            }
            _ if entry.idempotent
                && death.reruns == Reruns::Allowed
                && entry.tries < MAX_TRIES
                && !self.is_given_up() =>
            {
                debug!(pool = self.pool, request = %entry.request, worker = worker.0, why = &*death.why, "request runs again");
                entry.tries += 1;
                entry.running_since = None;
                entry.asked = Asked::default();
                entry.since = Instant::now();
                entry.generation = entry.generation.next();
                if entry.enqueue(&self.memory, slot) {
                    return false;
                }
                entry.failure = Some(DispatchError::WorkerDied { worker: worker.0 });
            }
            _ => {
                let lost = self.running((worker, death.incarnation), slot, entry.request);
                warn!(
                    pool = self.pool,
                    request = %entry.request,
                    method = lost.method,
                    uri = lost.uri,
                    runs = entry.tries,
                    worker = worker.0,
                    why = &*death.why,
                    "request lost with its worker"
                );
                entry.ticket = None;
                entry.failure = Some(DispatchError::WorkerDied { worker: worker.0 });
            }
        }
        entry.wake();
        false
    }

    /// Queues anew what was in the queue or waits for it.
    fn requeue_all(&self, slots: &mut Slots) {
        slots.stuck = None;
        let all: Vec<SlotId> = slots.in_use().collect();
        for slot in all {
            let Some(entry) = slots.entry(slot) else { continue };
            if entry.parked {
                entry.enqueue_or_fail(&self.memory, slot);
            } else if entry.is_out() && self.memory.look(slot, entry.generation) == Seen::Queued {
                entry.requeue_lost(&self.memory, slot);
            }
        }
    }
}
