//! The protocol as the server uses it. Runs in: server.
//!
//! [`PoolMemory`] is one pool's CTL, EST and REQ; [`WorkerMemory`] one worker's RESP and ACK. Which slot belongs to which request
//! is the caller's private knowledge: nothing here trusts shared memory to know what is outstanding.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool as PrivateAtomicBool, AtomicU64 as PrivateAtomicU64};

use crate::body::{Position, stretches, waiting};
use crate::head::{BodyKind, set_body};
use crate::layout::{Ack, Ctl, Est, LANES, Layout, MAX_WORKERS, Resp};
use crate::queue::{Ring, Ticket};
use crate::region::{Access, Bytes, Map, Share, create};
use crate::scoreboard::{Command, WorkerBlock};
use crate::slot::{self, Gen, Incarnation, SlotId, State, Word, WorkerId};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::wake::{self, Sleepers};

/// Number of a reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactorId(pub usize);

/// One pool's shared memory. `Sync`: each reactor touches only its own slots and bitmap.
#[derive(Debug)]
pub struct PoolMemory {
    layout: Layout,
    ctl: Map<Ctl>,
    est: Map<Est>,
    req: Bytes,
    fds: PoolFds,
    tail: PrivateAtomicU64,
    closed: PrivateAtomicBool,
}

/// Descriptors for the zygote, in the order of [`crate::control`].
#[derive(Debug)]
pub struct PoolFds {
    /// CTL.
    pub ctl: OwnedFd,
    /// EST.
    pub est: OwnedFd,
    /// REQ.
    pub req: OwnedFd,
}

/// What the server finds when it looks at a slot of which it knows the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// No worker has it.
    Queued,
    /// A worker runs it and has published nothing.
    Running(WorkerId, Incarnation),
    /// The response is on its way.
    Streaming(WorkerId, Incarnation, Lane),
    /// The response is complete.
    Done(WorkerId, Incarnation, Lane),
    /// No protocol leads here: a wild write.
    Garbage,
}

/// What became of a queued slot whose ticket may be lost. See [`PoolMemory::requeue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Its ticket is still in the queue.
    Waiting,
    /// A worker has claimed it.
    Taken,
    /// It is queued again, with this generation and ticket.
    Queued(Gen, Ticket),
    /// The queue takes no ticket; the slot is free, with this generation.
    Full(Gen),
}

/// Index of a lane, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(u8);

/// The ring cannot take another ticket.
#[derive(Debug, thiserror::Error)]
#[error("the ring of tickets is full or damaged")]
pub struct RingFull;

impl PoolMemory {
    /// Creates the memory of one pool.
    pub fn create(layout: Layout) -> io::Result<Self> {
        layout
            .check()
            .map_err(|problem| io::Error::new(io::ErrorKind::InvalidInput, problem))?;
        let (ctl_fd, ctl) = Map::create("hearth-ctl", Share::Writable)?;
        let (est_fd, est) = Map::create("hearth-est", Share::ReadOnly)?;
        let (req_fd, req) = create("hearth-req", layout.request_bytes(), Share::ReadOnly)?;
        let fds = PoolFds {
            ctl: ctl_fd,
            est: est_fd,
            req: req_fd,
        };
        Ok(Self {
            layout,
            ctl,
            est,
            req,
            fds,
            tail: PrivateAtomicU64::new(0),
            closed: PrivateAtomicBool::new(false),
        })
    }

    /// Sizes.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// What the zygote gets.
    pub const fn fds(&self) -> &PoolFds {
        &self.fds
    }

    /// The slots of a reactor.
    pub fn slots_of(&self, reactor: ReactorId) -> impl Iterator<Item = SlotId> + use<> {
        let first = reactor.0 * self.layout.slots_per_reactor;
        (first..first + self.layout.slots_per_reactor).filter_map(|n| u16::try_from(n).ok().map(SlotId))
    }

    /// Copies head and body (the caller checked that they fit) into a slot that it owns.
    ///
    /// # Panics
    /// When they do not fit.
    #[expect(
        clippy::too_many_arguments,
        reason = "they are the parts of one request, and this is the hot path"
    )]
    pub fn fill<'a>(
        &self,
        slot: SlotId,
        head: &mut [u8],
        kind: BodyKind,
        body_len: u64,
        body: impl Iterator<Item = &'a [u8]>,
    ) {
        set_body(head, kind, body_len);
        let area = usize::from(slot.0) * self.layout.request_area;
        self.req.copy_in(area, head);
        let mut at = head.len();
        for part in body {
            assert!(
                at + part.len() <= self.layout.request_area,
                "the body fits into the request area"
            );
            self.req.copy_in(area + at, part);
            at += part.len();
        }
    }

    /// A copy of the head that [`Self::fill`] put into the slot's request area, for `crate::head::RequestReader`. Sound only while
    /// the slot stays in use: else the bytes are those of whatever comes next, or torn.
    pub fn head(&self, slot: SlotId) -> Vec<u8> {
        let area = usize::from(slot.0) * self.layout.request_area;
        let mut bytes = Vec::new();
        self.req.copy_out(area, 4, &mut bytes);
        let len = bytes.first_chunk().copied().map_or(0, u32::from_le_bytes) as usize;
        self.req
            .copy_out(area + 4, len.clamp(4, self.layout.request_area) - 4, &mut bytes);
        bytes
    }

    /// Queues a filled slot. Workers are woken by [`Self::wake_for_backlog`], once for a batch.
    pub fn enqueue(&self, slot: SlotId, generation: Gen) -> Result<Ticket, RingFull> {
        let ring = self.ring();
        // Room is kept for as many tickets as reactors may append at the same moment.
        let room = ring.cells.len() as u64 - crate::layout::MAX_REACTORS as u64;
        // Acquire: pairs with the Release in `reset_queue`.
        if self.closed.load(Ordering::Acquire)
            || ring.backlog(&self.tail).is_none_or(|backlog| backlog >= room)
        {
            return Err(RingFull);
        }
        self.clear_client_gone(slot);
        slot::enqueue(&self.slot(slot).word, generation);
        let ticket = ring.push(&self.tail, slot, generation);
        Ok(ticket)
    }

    /// Wakes workers for the tickets that nobody has pulled. After [`Self::enqueue`], once for a batch: a worker that is awake
    /// pulls several tickets and costs no wake-up. No more workers are woken than bring `busy` of `workers` to work, but
    /// always one. True: tickets still wait while workers sleep; call again in a moment, in case those at work are slow.
    pub fn wake_for_backlog(&self, workers: u32, busy: u32) -> bool {
        let sleepers = Sleepers(&self.ctl.sleepers.0);
        let at_work = workers.saturating_sub(sleepers.count());
        let most = busy.saturating_sub(at_work).max(1);
        wake::wake_for_backlog(self.ring(), &self.tail, most, || self.wake_one()) && sleepers.count() > 0
    }

    /// Requests that no worker has taken, as far as workers say; 0 when what they say is impossible.
    pub fn backlog(&self) -> usize {
        let backlog = self.ring().backlog(&self.tail).unwrap_or(0);
        usize::try_from(backlog).unwrap_or(usize::MAX)
    }

    /// Wakes a sleeping worker, if there is one.
    pub fn wake_one(&self) -> bool {
        let Some(worker) = Sleepers(&self.ctl.sleepers.0).take() else {
            return false;
        };
        if let Some(block) = self.worker(worker) {
            wake::wake(&block.futex);
        }
        true
    }

    /// After a worker's death, before its successor is forked: its bit is cleared, and a wake-up that may have been lost with
    /// it is repeated.
    pub fn worker_gone(&self, worker: WorkerId) {
        Sleepers(&self.ctl.sleepers.0).withdraw(worker);
        if !self.ring().is_empty() {
            self.wake_one();
        }
    }

    /// Gives a queued slot whose ticket has passed a new ticket, with the next generation. To be asked for every queued slot
    /// after a worker's death, and now and then in case the head of the queue was scribbled on. A live worker between pop and
    /// claim loses its claim to this and pulls again: never wrong, only slower.
    pub fn requeue(&self, slot: SlotId, generation: Gen, ticket: Ticket) -> Requeue {
        if !self.ticket_has_passed(ticket) {
            return Requeue::Waiting;
        }
        if !self.cancel_queued(slot, generation) {
            return Requeue::Taken;
        }
        let generation = generation.next();
        match self.enqueue(slot, generation) {
            Ok(ticket) => Requeue::Queued(generation, ticket),
            Err(RingFull) => Requeue::Full(generation),
        }
    }

    /// Whether the queue's head is impossible: a worker has scribbled on it, and [`Self::enqueue`] refuses everything.
    ///
    /// The way out: [`Self::close_queue`]; kill all workers of the pool and wait for all their pidfds; [`Self::reset_queue`]; then
    /// each reactor looks at its slots in use: `Done` is delivered, `Queued` is given to [`Self::requeue`] (its ticket has passed now), what was
    /// running is treated as after any death; then new workers.
    /// True as well between [`Self::close_queue`] and [`Self::reset_queue`].
    pub fn is_poisoned(&self) -> bool {
        // Acquire: as in `enqueue`.
        if self.closed.load(Ordering::Acquire) {
            return true;
        }
        self.ring().backlog(&self.tail).is_none()
    }

    /// The ticket at the head of the queue if no worker can pull it. For a moment that is normal; the same answer a second
    /// later means a damaged cell: treat as [`Self::is_poisoned`].
    pub fn stuck_ticket(&self) -> Option<Ticket> {
        self.ring().stuck(&self.tail)
    }

    /// From now on, until [`Self::reset_queue`], the queue takes nothing: it is about to be emptied.
    pub fn close_queue(&self) {
        // Relaxed: the workers' deaths are waited for before it matters.
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Empties the queue and forgets all sleepers. Only while no worker of the pool lives.
    pub fn reset_queue(&self) {
        for word in &self.ctl.sleepers.0 {
            // Relaxed: workers that see this are forked later.
            word.store(0, Ordering::Relaxed);
        }
        self.ring().reset(&self.tail);
        // Release: pairs with the Acquire in `enqueue`; who finds it open finds it empty.
        self.closed.store(false, Ordering::Release);
    }

    /// Whether the ticket has been pulled: then a slot that is still queued has lost its ticket with a worker.
    pub fn ticket_has_passed(&self, ticket: Ticket) -> bool {
        self.ring().has_passed(ticket)
    }

    /// Looks at a slot.
    pub fn look(&self, slot: SlotId, generation: Gen) -> Seen {
        let block = self.slot(slot);
        let word = slot::observe(&block.word);
        if word.generation() != generation {
            return Seen::Garbage;
        }
        let (worker, inc) = (word.worker(), word.incarnation());
        let known = usize::from(worker.0) < MAX_WORKERS;
        // Relaxed: ordered by the Acquire of `observe`.
        let lane = u8::try_from(block.lane.load(Ordering::Relaxed))
            .ok()
            .filter(|&l| usize::from(l) < LANES);
        match (word.state(), known, lane) {
            (Some(State::Queued), ..) => Seen::Queued,
            (Some(State::Running), true, _) => Seen::Running(worker, inc),
            (Some(State::Streaming), true, Some(lane)) => Seen::Streaming(worker, inc, Lane(lane)),
            (Some(State::Done), true, Some(lane)) => Seen::Done(worker, inc, Lane(lane)),
            _ => Seen::Garbage,
        }
    }

    /// Takes a queued request back. False: a worker was faster.
    pub fn cancel_queued(&self, slot: SlotId, generation: Gen) -> bool {
        slot::cancel(&self.slot(slot).word, generation)
    }

    /// Tells the worker that runs this exchange that its client has gone, also if it waits for space.
    pub fn client_gone(&self, slot: SlotId, generation: Gen) {
        if let Some(flag) = self.est.cancelled.get(usize::from(slot.0)) {
            // Relaxed: a hint; the fence in `wake_worker_for_space` orders it before the look at the worker's flag.
            flag.store(generation.get() + 1, Ordering::Relaxed);
        }
        if let Seen::Running(worker, _) | Seen::Streaming(worker, ..) = self.look(slot, generation) {
            self.wake_worker_for_space(worker);
        }
    }

    /// Generations wrap: an old word about a client must not be taken for one about this use.
    fn clear_client_gone(&self, slot: SlotId) {
        // Relaxed, both: only the slot's reactor writes it; the Release of `slot::enqueue` publishes.
        if let Some(flag) = self.est.cancelled.get(usize::from(slot.0))
            && flag.load(Ordering::Relaxed) != 0
        {
            flag.store(0, Ordering::Relaxed);
        }
    }

    /// The exchange is over, and no live worker runs it. Its response's lane, read to the end or not, goes back to the worker.
    pub fn free(&self, slot: SlotId, generation: Gen) {
        let last = slot::free(&self.slot(slot).word, generation);
        if last.state() == Some(State::Done) {
            self.wake_worker_for_space(last.worker());
        }
    }

    /// Takes the bits of the slots of `reactor` for which something was published.
    pub fn take_done(&self, reactor: ReactorId, mut each: impl FnMut(SlotId)) {
        for (index, word) in self.done(reactor).iter().enumerate() {
            // Relaxed first: mostly there is nothing, and the swap would take the line from the workers.
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            // AcqRel: pairs with the worker's SeqCst `fetch_or`.
            let mut bits = word.swap(0, Ordering::AcqRel);
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let local = index * 64 + bit;
                if local < self.layout.slots_per_reactor
                    && let Ok(slot) = u16::try_from(reactor.0 * self.layout.slots_per_reactor + local)
                {
                    each(SlotId(slot));
                }
            }
        }
    }

    /// The reactor is about to block; true: it must not, something was published.
    pub fn park(&self, reactor: ReactorId) -> bool {
        wake::park(self.epoch(reactor), self.done(reactor))
    }

    /// The reactor is awake; true: something was published.
    pub fn unpark(&self, reactor: ReactorId) -> bool {
        wake::unpark(self.epoch(reactor));
        wake::any_done(self.done(reactor))
    }

    /// Whether something was published.
    pub fn any_done(&self, reactor: ReactorId) -> bool {
        wake::any_done(self.done(reactor))
    }

    /// Figures of a worker; `None` beyond [`MAX_WORKERS`].
    pub fn worker(&self, worker: WorkerId) -> Option<&WorkerBlock> {
        self.ctl.workers.get(usize::from(worker.0))
    }

    /// Tells a worker what to do and wakes it to see it.
    pub fn command(&self, worker: WorkerId, command: Command) {
        if let Some(block) = self.worker(worker) {
            // Release: pairs with the Acquire of `WorkerSide::must_end`.
            block.command.store(command as u32, Ordering::Release);
            wake::wake(&block.futex);
        }
    }

    fn ring(&self) -> Ring<'_> {
        Ring {
            head: &self.ctl.head.0,
            cells: &self.ctl.cells,
        }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "slot numbers come from `slots_of` and are below MAX_SLOTS"
    )]
    fn slot(&self, slot: SlotId) -> &crate::layout::SlotBlock {
        &self.ctl.slots[usize::from(slot.0)]
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "reactor numbers are below `layout.reactors`, checked at creation"
    )]
    fn epoch(&self, reactor: ReactorId) -> &AtomicU32 {
        &self.est.epochs[reactor.0].0
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "as in `epoch`; the words cover slots_per_reactor"
    )]
    fn done(&self, reactor: ReactorId) -> &[AtomicU64] {
        &self.ctl.done[reactor.0].0[..self.layout.slots_per_reactor / 64]
    }
}

/// RESP and ACK of one incarnation of a worker. Lives as long as a response of it is being read.
#[derive(Debug)]
pub struct WorkerMemory {
    resp: Map<Resp>,
    ack: Map<Ack>,
    resp_fd: OwnedFd,
    ack_fd: OwnedFd,
}

/// A worker's position in a lane is impossible: a wild write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the worker's position in its lane is impossible")]
pub struct BadPosition;

/// Where the server stands in one exchange's response.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    lane: Lane,
    read: Position,
}

impl WorkerMemory {
    /// Creates the memory of a worker that is about to be forked.
    pub fn create() -> io::Result<Self> {
        // RESP must be writable for the worker but not for the server: the server maps it read-only and drops the first map.
        let (resp_fd, writable) = Map::<Resp>::create("hearth-resp", Share::Writable)?;
        drop(writable);
        let resp = Map::open(resp_fd.as_fd(), Access::Read)?;
        let (ack_fd, ack) = Map::create("hearth-ack", Share::ReadOnly)?;
        Ok(Self {
            resp,
            ack,
            resp_fd,
            ack_fd,
        })
    }

    /// RESP, for the worker.
    pub fn resp_fd(&self) -> BorrowedFd<'_> {
        self.resp_fd.as_fd()
    }

    /// ACK, for the worker.
    pub fn ack_fd(&self) -> BorrowedFd<'_> {
        self.ack_fd.as_fd()
    }

    /// Starts to read the response in `lane`. Once an exchange; the cursor is good until its slot is freed.
    pub fn open(&self, lane: Lane) -> Cursor {
        // Acquire: pairs with the worker's Release at the start of the exchange. Only the number of the exchange is taken from
        // it, and the worker has no reason to change that before the slot is free.
        let written = Position(self.resp_word(lane).load(Ordering::Acquire));
        Cursor {
            lane,
            read: written.start(),
        }
    }

    /// Appends up to `limit` bytes that wait to `out` and hands their space back. Afterwards the worker may wait for space:
    /// call [`PoolMemory::wake_worker_for_space`].
    pub fn read(&self, cursor: &mut Cursor, limit: usize, out: &mut Vec<u8>) -> Result<usize, BadPosition> {
        let count = self.waiting(*cursor)?.min(limit);
        for (offset, len) in stretches(cursor.read, count) {
            if len > 0 {
                let base = std::mem::offset_of!(Resp, bytes)
                    + usize::from(cursor.lane.0) * crate::layout::LANE_BYTES;
                self.resp.bytes().copy_out(base + offset, len, out);
            }
        }
        cursor.read = cursor.read.advance(count as u64);
        // Release: pairs with the worker's Acquire; the copies are done before the space is seen free.
        self.ack_word(cursor.lane).store(cursor.read.0, Ordering::Release);
        Ok(count)
    }

    /// Bytes that wait.
    pub fn waiting(&self, cursor: Cursor) -> Result<usize, BadPosition> {
        // Acquire: pairs with the worker's Release; the bytes are there before the position says so.
        let written = Position(self.resp_word(cursor.lane).load(Ordering::Acquire));
        waiting(cursor.read, written).ok_or(BadPosition)
    }

    #[expect(clippy::indexing_slicing, reason = "a Lane is checked when it is made")]
    fn resp_word(&self, lane: Lane) -> &AtomicU64 {
        &self.resp.written[usize::from(lane.0)].0
    }

    #[expect(clippy::indexing_slicing, reason = "a Lane is checked when it is made")]
    fn ack_word(&self, lane: Lane) -> &AtomicU64 {
        &self.ack.read[usize::from(lane.0)].0
    }
}

impl PoolMemory {
    /// After lane space was handed back: wakes the worker if it waits for it.
    pub fn wake_worker_for_space(&self, worker: WorkerId) {
        if let Some(block) = self.worker(worker) {
            wake::space_freed(&block.waits_for_space, &block.futex);
        }
    }

    /// The raw slot word, for log lines about wild writes.
    pub fn word(&self, slot: SlotId) -> Word {
        slot::observe(&self.slot(slot).word)
    }
}
