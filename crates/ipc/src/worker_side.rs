//! The protocol as a worker uses it. Runs in: worker.
//!
//! A worker runs one exchange at a time: [`WorkerSide::next`] claims it, the [`Exchange`] carries its response, [`WorkerSide::done`]
//! gives it back. Nothing here allocates after [`WorkerSide::open`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::body::{Position, stretches, waiting};
use crate::fault::{self, Point};
use crate::head::{RequestReader, write_response};
use crate::layout::{Ack, Ctl, Est, LANE_BYTES, LANES, Layout, MAX_REACTORS, MAX_WORKERS, Resp};
use crate::queue::Ring;
use crate::region::{Access, Bytes, Map};
use crate::scoreboard::{self, Command, Stage, WorkerBlock};
use crate::slot::{self, Gen, Incarnation, SlotId, State, Word, WorkerId};
use crate::sync::Ordering;
use crate::wake::{self, Sleepers};

/// A worker that is so far ahead of the server that all lanes are in use goes on once so many are free again: its core is of
/// more use to the server meanwhile.
const LANE_BATCH: u32 = 16;

/// Who this worker is.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Number within the pool; below [`crate::layout::MAX_WORKERS`].
    pub worker: WorkerId,
    /// How often that number has been forked.
    pub incarnation: Incarnation,
}

/// The descriptors a worker works with.
#[derive(Debug)]
pub struct WorkerFds<'a> {
    /// CTL.
    pub ctl: BorrowedFd<'a>,
    /// EST.
    pub est: BorrowedFd<'a>,
    /// REQ.
    pub req: BorrowedFd<'a>,
    /// RESP of this worker.
    pub resp: BorrowedFd<'a>,
    /// ACK of this worker.
    pub ack: BorrowedFd<'a>,
    /// One eventfd a reactor.
    pub reactors: Vec<OwnedFd>,
}

/// A worker's view of the shared memory.
#[derive(Debug)]
pub struct WorkerSide {
    layout: Layout,
    me: Identity,
    ctl: Map<Ctl>,
    est: Map<Est>,
    req: Bytes,
    resp: Map<Resp>,
    ack: Map<Ack>,
    reactors: Vec<OwnedFd>,
    notified: [u32; MAX_REACTORS],
    /// Who has each lane: freed with its slot.
    held: [Option<(SlotId, Word)>; LANES],
    written: [Position; LANES],
}

/// What a worker gets when it asks for work.
#[derive(Debug)]
pub enum Next {
    /// An exchange to run.
    Exchange(Exchange),
    /// The server wants this worker to end.
    Drain,
}

/// One exchange in a worker's hands.
#[derive(Debug)]
pub struct Exchange {
    slot: SlotId,
    word: Word,
    lane: usize,
    /// How far the server had read when last looked at: while that leaves room, its line is not fetched.
    read: Position,
    head_sent: bool,
}

/// The client is gone, or the server has taken the exchange away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

impl WorkerSide {
    /// Maps everything. The mappings are kept from this process's own children.
    pub fn open(layout: Layout, me: Identity, fds: WorkerFds<'_>) -> io::Result<Self> {
        let invalid = |problem: String| io::Error::new(io::ErrorKind::InvalidInput, problem);
        layout.check().map_err(invalid)?;
        if usize::from(me.worker.0) >= MAX_WORKERS {
            return Err(invalid(format!(
                "worker {}; at most {MAX_WORKERS} are possible",
                me.worker.0
            )));
        }
        if fds.reactors.len() != layout.reactors {
            return Err(invalid(format!(
                "{} eventfds for {} reactors",
                fds.reactors.len(),
                layout.reactors
            )));
        }
        let side = Self {
            layout,
            me,
            ctl: Map::open(fds.ctl, Access::ReadWrite)?,
            est: Map::open(fds.est, Access::Read)?,
            req: Bytes::new(fds.req, layout.request_bytes(), Access::Read)?,
            resp: Map::open(fds.resp, Access::ReadWrite)?,
            ack: Map::open(fds.ack, Access::Read)?,
            reactors: fds.reactors,
            notified: [0; MAX_REACTORS],
            held: [None; LANES],
            written: [Position(0); LANES],
        };
        for map in side.mappings() {
            map.keep_from_children()?;
        }
        Ok(side)
    }

    /// Lets this process's next children go on with the exchange that it runs, in its place.
    pub fn share_with_children(&self) -> io::Result<()> {
        for map in self.mappings() {
            map.share_with_children()?;
        }
        Ok(())
    }

    /// Everything that `open` has mapped.
    fn mappings(&self) -> [&Bytes; 5] {
        [
            self.ctl.bytes(),
            self.est.bytes(),
            &self.req,
            self.resp.bytes(),
            self.ack.bytes(),
        ]
    }

    /// A child has run this exchange to its end: what it wrote to the lane is taken note of.
    #[expect(clippy::indexing_slicing, reason = "lane numbers run below LANES")]
    pub fn take_back(&mut self, exchange: &Exchange) {
        // Acquire: the child is over, but it published its position with Release all the same.
        let written = self.resp.written[exchange.lane].0.load(Ordering::Acquire);
        self.written[exchange.lane] = Position(written);
    }

    /// The scoreboard entry of this worker.
    #[expect(clippy::indexing_slicing, reason = "checked in `open`")]
    pub fn board(&self) -> &WorkerBlock {
        &self.ctl.workers[usize::from(self.me.worker.0)]
    }

    /// Who this worker is.
    pub const fn me(&self) -> Identity {
        self.me
    }

    /// Waits for an exchange and claims it. A lane is found first, so that a worker whose responses are read slowly leaves
    /// requests to the others.
    #[expect(clippy::should_implement_trait, reason = "waiting for work is not iterating")]
    pub fn next(&mut self) -> Next {
        // Relaxed: for the status page only.
        self.board().stage.store(Stage::Idle as u32, Ordering::Relaxed);
        let mut yielded = false;
        loop {
            if self.must_end() {
                self.board().stage.store(Stage::Ending as u32, Ordering::Relaxed);
                self.pass_wake_up_on();
                return Next::Drain;
            }
            let Some(lane) = self.free_lane() else {
                self.wait_for_space(LANE_BATCH, |side| side.free_lane().is_some() || side.must_end());
                continue;
            };
            if let Some((slot, generation)) = self.ring().pop() {
                fault::point(Point::Pulled);
                if let Some(exchange) = self.claim(slot, generation, lane) {
                    return Next::Exchange(exchange);
                }
                continue;
            }
            if !yielded {
                // A reactor that waits for this core may be about to queue more: then nobody has to sleep or be woken.
                yielded = true;
                std::thread::yield_now();
                continue;
            }
            let ring = self.ring();
            wake::sleep(
                Sleepers(&self.ctl.sleepers.0),
                self.me.worker,
                &self.board().futex,
                None,
                || !ring.is_empty() || self.must_end(),
            );
        }
    }

    /// Whether the server wants this worker to end; a number that is no command means that, too.
    fn must_end(&self) -> bool {
        // Acquire: pairs with the Release of `PoolMemory::command`.
        self.board().command.load(Ordering::Acquire) != Command::Run as u32
    }

    /// The wake-up that brought this worker here may have been for a ticket that it will not pull.
    fn pass_wake_up_on(&self) {
        if !self.ring().is_empty()
            && let Some(other) = Sleepers(&self.ctl.sleepers.0).take()
            && let Some(board) = self.ctl.workers.get(usize::from(other.0))
        {
            wake::wake(&board.futex);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`free_lane` returns numbers below LANES")]
    fn claim(&mut self, slot: SlotId, generation: Gen, lane: usize) -> Option<Exchange> {
        // A slot beyond the pool's has no request area: a wild write in the ring.
        let block = self
            .ctl
            .slots
            .get(..self.layout.slots())?
            .get(usize::from(slot.0))?;
        if !slot::claim(&block.word, generation, self.me.incarnation, self.me.worker) {
            return None;
        }
        fault::point(Point::Claimed);
        let word = Word::claimed(generation, self.me.incarnation, self.me.worker, State::Running);
        self.held[lane] = Some((slot, word));
        let start = self.written[lane].next_exchange();
        self.written[lane] = start;
        // Release: pairs with the Acquire of `WorkerMemory::open`.
        self.resp.written[lane].0.store(start.0, Ordering::Release);
        // Relaxed: published by the Release of `publish`.
        block
            .lane
            .store(u32::try_from(lane).unwrap_or(0), Ordering::Relaxed);
        let exchange = Exchange {
            slot,
            word,
            lane,
            read: start,
            head_sent: false,
        };
        let board = self.board();
        // Relaxed: figures for people and timeouts.
        board.since.store(now(), Ordering::Relaxed);
        let id = self.request(&exchange).map_or(0, |head| head.id());
        board.request.store(id, Ordering::Relaxed);
        board.stage.store(Stage::Running as u32, Ordering::Relaxed);
        Some(exchange)
    }

    /// The first lane whose exchange the server is done with.
    fn free_lane(&self) -> Option<usize> {
        self.held.iter().position(|held| match held {
            None => true,
            Some((slot, word)) => self
                .ctl
                .slots
                .get(usize::from(slot.0))
                .is_none_or(|block| !slot::is_held(&block.word, *word)),
        })
    }

    fn wait_for_space(&self, count: u32, has_space: impl Fn(&Self) -> bool) {
        let board = self.board();
        // Bounded only as a second line of defence: a response must not hang on one wake-up.
        let most = Some(Duration::from_millis(100));
        wake::wait_for_space(&board.waits_for_space, &board.futex, count, most, || {
            has_space(self)
        });
    }

    fn ring(&self) -> Ring<'_> {
        Ring {
            head: &self.ctl.head.0,
            cells: &self.ctl.cells,
        }
    }

    /// The request's area: head, then body. Empty after [`Self::done`]: the server may be filling it anew.
    pub fn area(&self, exchange: &Exchange) -> &[u8] {
        if exchange.word.state() == Some(State::Done) {
            return &[];
        }
        let len = self.layout.request_area;
        // SAFETY: only the server writes request areas, and not while a worker has the slot claimed (`server_side`); a worker
        // from which it is taken away is killed first. The slice cannot outlive the exchange: `done` borrows `self` mutably.
        unsafe { self.req.slice(usize::from(exchange.slot.0) * len, len) }
    }

    /// The request's head.
    pub fn request(&self, exchange: &Exchange) -> Option<RequestReader<'_>> {
        RequestReader::new(self.area(exchange))
    }

    /// Slot and generation, to ask for a spooled body.
    pub const fn name_of(exchange: &Exchange) -> (SlotId, Gen) {
        (exchange.slot, exchange.word.generation())
    }

    /// Whether the client has gone.
    pub fn client_gone(&self, exchange: &Exchange) -> bool {
        self.est
            .cancelled
            .get(usize::from(exchange.slot.0))
            .is_some_and(|flag| {
                // Relaxed: a hint that orders nothing.
                flag.load(Ordering::Relaxed) == exchange.word.generation().get() + 1
            })
    }

    /// Writes the response's head. `status` 1xx is an interim head; the final one follows. Call before [`Self::write`].
    pub fn send_head<'a>(
        &mut self,
        exchange: &mut Exchange,
        status: u16,
        reason: &[u8],
        lines: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), Gone> {
        let mut result = Ok(());
        let fits = write_response(status, reason, lines, |bytes| {
            if result.is_ok() {
                result = self.put(exchange, bytes);
            }
        });
        if !fits {
            return self.send_head(exchange, 500, b"Response Head Too Large", std::iter::empty());
        }
        exchange.head_sent |= !(100..200).contains(&status);
        result
    }

    /// Appends to the response's body. Waits while the lane is full and the server reads.
    pub fn write(&mut self, exchange: &mut Exchange, bytes: &[u8]) -> Result<(), Gone> {
        if self.client_gone(exchange) {
            return Err(Gone);
        }
        self.put(exchange, bytes)
    }

    /// Copies into the lane. What is copied becomes visible with the next [`Self::flush`], [`Self::done`] or a full lane.
    #[expect(
        clippy::indexing_slicing,
        reason = "lane numbers run below LANES; `count` is at most the length"
    )]
    fn put(&mut self, exchange: &mut Exchange, mut bytes: &[u8]) -> Result<(), Gone> {
        while !bytes.is_empty() {
            let mut space = self.space(exchange);
            if space == 0 {
                exchange.read = self.read_position(exchange);
                space = self.space(exchange);
            }
            let count = bytes.len().min(space);
            if count == 0 {
                self.flush(exchange)?;
                if self.client_gone(exchange) {
                    return Err(Gone);
                }
                let (full, lane) = (exchange.read, &*exchange);
                self.wait_for_space(1, |side| {
                    side.read_position(lane) != full || side.client_gone(lane)
                });
                continue;
            }
            let (now, later) = bytes.split_at(count);
            let base = std::mem::offset_of!(Resp, bytes) + exchange.lane * LANE_BYTES;
            let mut rest = now;
            for (offset, len) in stretches(self.written[exchange.lane], count) {
                let (part, tail) = rest.split_at(len);
                self.resp.bytes().copy_in(base + offset, part);
                rest = tail;
            }
            self.written[exchange.lane] = self.written[exchange.lane].advance(count as u64);
            // Release: the bytes are there before the position says so.
            self.resp.written[exchange.lane]
                .0
                .store(self.written[exchange.lane].0, Ordering::Release);
            bytes = later;
        }
        Ok(())
    }

    /// Room in the lane, going by the last known read position.
    #[expect(clippy::indexing_slicing, reason = "lane numbers run below LANES")]
    fn space(&self, exchange: &Exchange) -> usize {
        waiting(exchange.read, self.written[exchange.lane]).map_or(0, |waiting| LANE_BYTES - waiting)
    }

    /// How far the server has read.
    #[expect(clippy::indexing_slicing, reason = "lane numbers run below LANES")]
    fn read_position(&self, exchange: &Exchange) -> Position {
        // Acquire: pairs with the server's Release after its copies.
        let read = Position(self.ack.read[exchange.lane].0.load(Ordering::Acquire));
        if read.exchange() == exchange.read.exchange() {
            read
        } else {
            // The server has read nothing of this exchange yet.
            exchange.read.start()
        }
    }

    /// Shows the server what was written so far.
    pub fn flush(&mut self, exchange: &mut Exchange) -> Result<(), Gone> {
        self.publish(exchange, State::Streaming)
    }

    /// The response is complete; the exchange belongs to the server again.
    pub fn done(&mut self, exchange: &mut Exchange) -> Result<(), Gone> {
        self.publish(exchange, State::Done)
    }

    /// Counts the request. After PHP has finished it, which may be later than [`Self::done`].
    pub fn finished(&self) {
        // Relaxed: figures.
        self.board().requests.fetch_add(1, Ordering::Relaxed);
    }

    fn publish(&mut self, exchange: &mut Exchange, to: State) -> Result<(), Gone> {
        let Some(block) = self.ctl.slots.get(usize::from(exchange.slot.0)) else {
            return Err(Gone);
        };
        fault::point(Point::Written);
        if !slot::publish(&block.word, exchange.word, to) {
            return Err(Gone);
        }
        exchange.word = Word::claimed(
            exchange.word.generation(),
            self.me.incarnation,
            self.me.worker,
            to,
        );
        let reactor = usize::from(exchange.slot.0) / self.layout.slots_per_reactor;
        let local = usize::from(exchange.slot.0) % self.layout.slots_per_reactor;
        let (Some(done), Some(epoch), Some(notified), Some(eventfd)) = (
            self.ctl.done.get(reactor).and_then(|line| line.0.get(local / 64)),
            self.est.epochs.get(reactor),
            self.notified.get_mut(reactor),
            self.reactors.get(reactor),
        ) else {
            return Err(Gone);
        };
        fault::point(Point::Published);
        if wake::complete(done, 1 << (local % 64), &epoch.0, notified) {
            fault::point(Point::Flagged);
            // EAGAIN (the counter is full) means that the reactor is being woken anyway.
            let _ = rustix::io::write(eventfd.as_fd(), &1_u64.to_ne_bytes());
        }
        Ok(())
    }
}

impl Exchange {
    /// Whether the final head has been written.
    pub const fn head_sent(&self) -> bool {
        self.head_sent
    }
}

/// `CLOCK_MONOTONIC` in nanoseconds.
fn now() -> u64 {
    u64::try_from(scoreboard::monotonic().as_nanos()).unwrap_or(u64::MAX)
}
