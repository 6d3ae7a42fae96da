//! The slots of one reactor, and who waits for each: plain data without a lock of its own.

use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use ipc::queue::Ticket;
use ipc::server_side::{PoolMemory, Requeue, WorkerMemory};
use ipc::slot::{Gen, SlotId, WorkerId};
use tracing::warn;

use super::deadlines::Asked;
use super::spool::SpoolFile;
use super::{DispatchError, RequestId};

#[derive(Debug)]
pub(super) struct Slots {
    /// Last in, first out: the same request areas stay hot.
    pub(super) free: Vec<SlotId>,
    first: u16,
    pub(super) entries: Vec<Entry>,
    /// Requests queued since workers were last woken.
    pub(super) unannounced: u32,
    /// Requests that workers have answered to the end, by the server's own count.
    pub(super) answered: u64,
    /// The ticket that no worker gets past, and since when.
    pub(super) stuck: Option<(Ticket, Instant)>,
}

/// Who waits for a slot's exchange.
#[derive(Debug, Default)]
pub(super) enum Owner {
    /// The slot is free.
    #[default]
    Nobody,
    /// A lease; its task is woken.
    Lease(Option<Waker>),
    /// The client has gone, or was answered with an error while the worker is being killed; the slot is freed when the worker
    /// has finished or is dead.
    Abandoned,
}

/// One slot.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) generation: Gen,
    pub(super) owner: Owner,
    pub(super) request: RequestId,
    /// Set once the exchange has failed.
    pub(super) failure: Option<DispatchError>,
    /// Set when the worker that holds the exchange has died: what it published is still read from here.
    pub(super) dead: Option<(WorkerId, Arc<WorkerMemory>)>,
    pub(super) spool: Option<Arc<SpoolFile>>,
    /// `None`: no worker has it or can get it. It is not queued yet, was taken back, or its worker is dead.
    pub(super) ticket: Option<Ticket>,
    /// Since when that ticket has been seen pulled by a worker that has not claimed it.
    pub(super) pulled: Option<Instant>,
    /// It waits for the queue to be put in order.
    pub(super) parked: bool,
    pub(super) tries: u8,
    pub(super) idempotent: bool,
    /// When it was queued, for the first time or after its worker died.
    pub(super) since: Instant,
    /// When a worker has claimed it, once the sweep has seen that.
    pub(super) running_since: Option<Instant>,
    /// What that worker was asked about it.
    pub(super) asked: Asked,
}

/// What a lease starts with.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) request: RequestId,
    pub(super) idempotent: bool,
    pub(super) since: Instant,
    pub(super) spool: Option<Arc<SpoolFile>>,
}

impl Slots {
    pub(super) fn new(slots: impl Iterator<Item = SlotId>) -> Self {
        let all: Vec<SlotId> = slots.collect();
        Self {
            first: all.first().map_or(0, |slot| slot.0),
            entries: all.iter().map(|_| Entry::free()).collect(),
            free: all.into_iter().rev().collect(),
            unannounced: 0,
            answered: 0,
            stuck: None,
        }
    }

    pub(super) fn entry(&mut self, slot: SlotId) -> Option<&mut Entry> {
        self.entries.get_mut(usize::from(slot.0.checked_sub(self.first)?))
    }

    pub(super) fn in_use(&self) -> impl Iterator<Item = SlotId> {
        self.used().map(|(slot, _)| slot)
    }

    /// The slot that is used for `request`, if there is one.
    pub(super) fn of_request(&self, request: RequestId) -> impl Iterator<Item = (SlotId, &Entry)> {
        self.used().filter(move |(_, entry)| entry.request == request)
    }

    fn used(&self) -> impl Iterator<Item = (SlotId, &Entry)> {
        let slots = (self.first..).map(SlotId).zip(&self.entries);
        slots.filter(|(_, entry)| !matches!(entry.owner, Owner::Nobody))
    }

    pub(super) fn give_back(&mut self, memory: &PoolMemory, slot: SlotId) {
        let Some(entry) = self.entry(slot) else { return };
        memory.free(slot, entry.generation);
        entry.owner = Owner::Nobody;
        entry.failure = None;
        entry.dead = None;
        entry.spool = None;
        self.free.push(slot);
    }
}

impl Entry {
    pub(super) fn free() -> Self {
        Self {
            generation: Gen::ZERO,
            owner: Owner::Nobody,
            request: RequestId(0),
            failure: None,
            dead: None,
            spool: None,
            ticket: None,
            pulled: None,
            parked: false,
            tries: 0,
            idempotent: false,
            since: Instant::now(),
            running_since: None,
            asked: Asked::default(),
        }
    }

    /// Queues it; parks it if the queue is damaged. False: the queue is full.
    pub(super) fn enqueue(&mut self, memory: &PoolMemory, slot: SlotId) -> bool {
        self.parked = false;
        self.ticket = None;
        self.pulled = None;
        match memory.enqueue(slot, self.generation) {
            Ok(ticket) => {
                self.ticket = Some(ticket);
                true
            }
            Err(_) if memory.is_poisoned() => {
                self.parked = true;
                true
            }
            Err(full) => {
                warn!(request = %self.request, error = %full, "request not queued");
                false
            }
        }
    }

    /// Whether a worker may have it, or get it.
    pub(super) fn is_out(&self) -> bool {
        self.ticket.is_some() && self.dead.is_none()
    }

    /// Takes it back from the queue. False: a worker was faster.
    pub(super) fn take_back(&mut self, memory: &PoolMemory, slot: SlotId) -> bool {
        let mine = memory.cancel_queued(slot, self.generation);
        if mine {
            self.generation = self.generation.next();
            self.ticket = None;
        }
        mine
    }

    /// Gives it another ticket if the worker that has pulled the last one does not claim it within `patience`: it was stopped
    /// between the two, which take nanoseconds. Returns how long that still is.
    pub(super) fn renew_ticket(
        &mut self,
        memory: &PoolMemory,
        slot: SlotId,
        (now, patience): (Instant, Duration),
    ) -> Option<Duration> {
        let pulled = self.ticket.is_some_and(|ticket| memory.ticket_has_passed(ticket));
        if !pulled {
            self.pulled = None;
            return None;
        }
        let since = *self.pulled.get_or_insert(now);
        let left = patience.saturating_sub(now.saturating_duration_since(since));
        if left.is_zero() {
            self.pulled = None;
            self.requeue_lost(memory, slot);
        }
        (!left.is_zero()).then_some(left)
    }

    /// If its ticket went with a worker, or with a damaged queue, it gets another.
    pub(super) fn requeue_lost(&mut self, memory: &PoolMemory, slot: SlotId) {
        let Some(ticket) = self.ticket else { return };
        match memory.requeue(slot, self.generation, ticket) {
            Requeue::Waiting | Requeue::Taken => {}
            Requeue::Queued(generation, ticket) => {
                self.generation = generation;
                self.ticket = Some(ticket);
            }
            Requeue::Full(generation) => {
                self.generation = generation;
                self.enqueue_or_fail(memory, slot);
            }
        }
    }

    /// Queues it, or lets the exchange fail.
    pub(super) fn enqueue_or_fail(&mut self, memory: &PoolMemory, slot: SlotId) {
        if !self.enqueue(memory, slot) {
            self.failure = Some(DispatchError::QueueFull { pool: String::new() });
            self.wake();
        }
    }

    /// Wakes the task that waits for the exchange.
    pub(super) fn wake(&mut self) {
        if let Owner::Lease(waker) = &mut self.owner
            && let Some(waker) = waker.take()
        {
            waker.wake();
        }
    }
}
