//! The protocol between one server and workers that live in the same process, step by step: real memory, no threads but where
//! a test is about waiting.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

use std::os::fd::{AsFd, OwnedFd};
use std::thread;

use ipc::head::{BodyKind, RequestWriter, ResponseReader};
use ipc::layout::{Ctl, LANES, Layout};
use ipc::queue::{Ring, Ticket};
use ipc::region::{Access, Map};
use ipc::scoreboard::Command;
use ipc::server_side::{Cursor, PoolMemory, ReactorId, Requeue, Seen, WorkerMemory};
use ipc::slot::{Gen, Incarnation, SlotId, WorkerId};
use ipc::sync::Ordering;
use ipc::worker_side::{Exchange, Gone, Identity, Next, WorkerFds, WorkerSide};
use rustix::event::{EventfdFlags, eventfd};

const LAYOUT: Layout = Layout {
    reactors: 2,
    slots_per_reactor: 64,
    request_area: 4096,
};
const WORKER: WorkerId = WorkerId(0);
const INCARNATION: Incarnation = Incarnation(0);

struct Pool {
    memory: PoolMemory,
    eventfds: Vec<OwnedFd>,
}

impl Pool {
    fn create() -> Self {
        Self {
            memory: PoolMemory::create(LAYOUT).unwrap(),
            eventfds: (0..LAYOUT.reactors)
                .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap())
                .collect(),
        }
    }

    fn worker(&self, worker: WorkerId) -> (WorkerMemory, WorkerSide) {
        let memory = WorkerMemory::create().unwrap();
        let fds = self.memory.fds();
        let side = WorkerSide::open(
            LAYOUT,
            Identity {
                worker,
                incarnation: INCARNATION,
            },
            WorkerFds {
                ctl: fds.ctl.as_fd(),
                est: fds.est.as_fd(),
                req: fds.req.as_fd(),
                resp: memory.resp_fd(),
                ack: memory.ack_fd(),
                reactors: self.eventfds.iter().map(|fd| fd.try_clone().unwrap()).collect(),
            },
        )
        .unwrap();
        (memory, side)
    }

    /// The queue and the slots as a hostile worker has them.
    fn scribble(&self) -> Map<Ctl> {
        Map::open(self.memory.fds().ctl.as_fd(), Access::ReadWrite).unwrap()
    }

    fn free(&self, slot: u16, generation: u32) {
        self.memory.free(SlotId(slot), Gen::new(generation));
    }

    /// Waits until something was published for the first reactor.
    fn wait_for_completion(&self) {
        let reactor = ReactorId(0);
        let mut found = false;
        while !found {
            if !self.memory.park(reactor) {
                let fd = self.eventfds[0].as_fd();
                let mut poll = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
                let timeout = rustix::event::Timespec {
                    tv_sec: 20,
                    tv_nsec: 0,
                };
                assert_eq!(
                    rustix::event::poll(&mut poll, Some(&timeout)),
                    Ok(1),
                    "no completion came"
                );
                rustix::io::read(fd, &mut [0; 8]).unwrap();
            }
            self.memory.unpark(reactor);
            self.memory.take_done(reactor, |_| found = true);
        }
    }

    fn send(&self, slot: u16, generation: u32) -> Ticket {
        let mut head = RequestWriter::new(u64::from(generation), 0).finish();
        self.memory
            .fill(SlotId(slot), &mut head, BodyKind::Empty, 0, std::iter::empty());
        let ticket = self.memory.enqueue(SlotId(slot), Gen::new(generation)).unwrap();
        self.memory.wake_for_backlog(u32::MAX, u32::MAX);
        ticket
    }

    fn look(&self, slot: u16, generation: u32) -> Seen {
        self.memory.look(SlotId(slot), Gen::new(generation))
    }

    fn open(&self, worker: &WorkerMemory, slot: u16, generation: u32) -> Cursor {
        match self.look(slot, generation) {
            Seen::Done(_, _, lane) | Seen::Streaming(_, _, lane) => worker.open(lane),
            other => panic!("{other:?} instead of a response"),
        }
    }
}

fn next(side: &mut WorkerSide) -> Exchange {
    match side.next() {
        Next::Exchange(exchange) => exchange,
        Next::Drain => panic!("drained"),
    }
}

fn answer(side: &mut WorkerSide, exchange: &mut Exchange, body: &[u8]) {
    side.send_head(exchange, 200, b"", std::iter::empty()).unwrap();
    side.write(exchange, body).unwrap();
}

/// All that waits, without the head.
fn read(memory: &WorkerMemory, cursor: &mut Cursor) -> Vec<u8> {
    let mut bytes = Vec::new();
    memory.read(cursor, usize::MAX, &mut bytes).unwrap();
    if let Some(Ok(len)) = ResponseReader::expected_len(&bytes) {
        bytes.drain(..len);
    }
    bytes
}

#[test]
fn a_worker_that_went_on_does_not_disturb_a_stream_that_was_read_before_its_end_was_seen() {
    let pool = Pool::create();
    let (memory, mut side) = pool.worker(WORKER);
    pool.send(0, 1);
    pool.send(64, 1);

    let mut first = next(&mut side);
    answer(&mut side, &mut first, b"first");
    side.flush(&mut first).unwrap();
    let mut reading_first = pool.open(&memory, 0, 1);
    assert_eq!(read(&memory, &mut reading_first), b"first");
    side.done(&mut first).unwrap();

    // The first reactor has read all, but has not seen yet that this was all.
    let mut second = next(&mut side);
    answer(&mut side, &mut second, b"second");
    side.done(&mut second).unwrap();
    let mut reading_second = pool.open(&memory, 64, 1);

    assert_eq!(memory.waiting(reading_first), Ok(0));
    assert_eq!(read(&memory, &mut reading_first), b"");
    assert_eq!(read(&memory, &mut reading_second), b"second");
}

#[test]
fn a_worker_whose_responses_nobody_reads_leaves_requests_to_others_until_a_lane_is_free() {
    let pool = Pool::create();
    let (_memory, mut slow) = pool.worker(WORKER);
    for slot in 0..u16::try_from(LANES).unwrap() {
        pool.send(slot, 1);
        let mut exchange = next(&mut slow);
        answer(&mut slow, &mut exchange, b"unread");
        slow.done(&mut exchange).unwrap();
    }
    pool.send(20, 1);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut exchange = next(&mut slow);
            answer(&mut slow, &mut exchange, b"");
            slow.done(&mut exchange).unwrap();
        });
        let (_memory, mut other) = pool.worker(WorkerId(1));
        let exchange = next(&mut other);
        assert_eq!(WorkerSide::name_of(&exchange).0, SlotId(20));

        pool.send(21, 1);
        pool.free(7, 1);
        waiting.join().unwrap();
        assert!(matches!(pool.look(21, 1), Seen::Done(WORKER, ..)));
    });
}

#[test]
fn a_client_that_leaves_ends_the_wait_for_space() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    pool.send(0, 1);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut exchange = next(&mut side);
            side.send_head(&mut exchange, 200, b"", std::iter::empty())
                .unwrap();
            let end = side.write(&mut exchange, &vec![0; 1 << 20]);
            side.done(&mut exchange).unwrap();
            end
        });
        pool.wait_for_completion();
        pool.memory.client_gone(SlotId(0), Gen::new(1));
        assert_eq!(writer.join().unwrap(), Err(Gone));
    });
}

#[test]
fn a_client_that_left_long_ago_does_not_end_a_later_use_with_the_same_generation() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    pool.send(0, 1);
    let mut exchange = next(&mut side);
    pool.memory.client_gone(SlotId(0), Gen::new(1));
    assert!(side.client_gone(&exchange));
    side.done(&mut exchange).unwrap();
    pool.free(0, 1);

    pool.send(0, 1 + (1 << 24));
    let exchange = next(&mut side);
    assert!(!side.client_gone(&exchange));
}

#[test]
fn a_reactor_that_parks_again_without_unparking_is_woken_again() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    for slot in 0..2 {
        assert!(!pool.memory.park(ReactorId(0)));
        pool.send(slot, 1);
        let mut exchange = next(&mut side);
        side.done(&mut exchange).unwrap();
        let mut count = [0; 8];
        rustix::io::read(&pool.eventfds[0], &mut count).expect("the eventfd was written");
        pool.memory.take_done(ReactorId(0), |_| ());
    }
}

#[test]
fn a_worker_that_is_told_to_drain_ends() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    thread::scope(|scope| {
        let worker = scope.spawn(|| matches!(side.next(), Next::Drain));
        pool.memory.command(WORKER, Command::Drain);
        assert!(worker.join().unwrap());
    });
}

#[test]
fn an_interim_head_is_not_the_final_one_and_a_finished_exchange_has_no_request() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    pool.send(0, 1);
    let mut exchange = next(&mut side);
    assert_eq!(side.request(&exchange).map(|head| head.id()), Some(1));
    side.send_head(&mut exchange, 103, b"", std::iter::empty())
        .unwrap();
    assert!(!exchange.head_sent());
    answer(&mut side, &mut exchange, b"");
    assert!(exchange.head_sent());
    side.done(&mut exchange).unwrap();
    assert!(side.request(&exchange).is_none());
}

#[test]
fn a_ticket_that_was_lost_is_given_again() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    let ticket = pool.send(0, 1);
    let (slot, generation) = (SlotId(0), Gen::new(1));
    assert_eq!(pool.memory.requeue(slot, generation, ticket), Requeue::Waiting);

    let ctl = pool.scribble();
    assert_eq!(
        Ring {
            head: &ctl.head.0,
            cells: &ctl.cells
        }
        .pop(),
        Some((slot, generation))
    );
    let Requeue::Queued(again, ticket) = pool.memory.requeue(slot, generation, ticket) else {
        panic!("not queued again");
    };
    assert_eq!(WorkerSide::name_of(&next(&mut side)), (slot, again));
    assert_eq!(pool.memory.requeue(slot, again, ticket), Requeue::Taken);
}

#[test]
fn a_queue_that_was_scribbled_on_is_noticed_and_can_be_reset() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    let ticket = pool.send(0, 1);
    for wild in [1 << 40, u64::MAX] {
        pool.scribble().head.0.store(wild, Ordering::Relaxed);
        assert!(pool.memory.is_poisoned());
        assert!(pool.memory.enqueue(SlotId(1), Gen::new(1)).is_err());
    }

    pool.memory.reset_queue();
    assert!(!pool.memory.is_poisoned());
    assert!(matches!(
        pool.memory.requeue(SlotId(0), Gen::new(1), ticket),
        Requeue::Queued(..)
    ));
    assert_eq!(WorkerSide::name_of(&next(&mut side)), (SlotId(0), Gen::new(2)));
}

#[test]
fn a_damaged_cell_is_noticed() {
    let pool = Pool::create();
    assert_eq!(pool.memory.stuck_ticket(), None);
    let ticket = pool.send(0, 1);
    assert_eq!(pool.memory.stuck_ticket(), None);
    pool.scribble().cells[0].store(u64::MAX, Ordering::Relaxed);
    assert_eq!(pool.memory.stuck_ticket(), Some(ticket));
}

#[test]
fn wild_tickets_make_a_worker_stumble_but_not_stop() {
    let pool = Pool::create();
    let (_memory, mut side) = pool.worker(WORKER);
    let ctl = pool.scribble();
    pool.send(0, 1);
    // A slot that does not exist, and one beyond this pool's: queued by a wild write, too.
    for (cell, slot) in [(0, 0xffff), (1, 200)] {
        ctl.cells[cell].store((cell as u64 + 1) << 40 | 1 << 16 | slot, Ordering::Relaxed);
    }
    ctl.slots[200].word.store(1 << 40 | 1, Ordering::Relaxed);
    pool.send(1, 1);
    ctl.cells[1].store(2 << 40 | 1 << 16 | 0xc8, Ordering::Relaxed);
    pool.send(2, 1);
    assert_eq!(WorkerSide::name_of(&next(&mut side)).0, SlotId(2));
}

#[test]
fn wrong_sizes_and_missing_descriptors_are_refused() {
    assert!(
        PoolMemory::create(Layout {
            request_area: usize::MAX - 4095,
            ..LAYOUT
        })
        .is_err()
    );
    let pool = Pool::create();
    let memory = WorkerMemory::create().unwrap();
    let fds = pool.memory.fds();
    let open = |layout, worker, reactors| {
        let fds = WorkerFds {
            ctl: fds.ctl.as_fd(),
            est: fds.est.as_fd(),
            req: fds.req.as_fd(),
            resp: memory.resp_fd(),
            ack: memory.ack_fd(),
            reactors,
        };
        WorkerSide::open(
            layout,
            Identity {
                worker,
                incarnation: INCARNATION,
            },
            fds,
        )
        .map(drop)
    };
    let eventfds = || {
        pool.eventfds
            .iter()
            .map(|fd| fd.try_clone().unwrap())
            .collect::<Vec<_>>()
    };
    assert!(open(LAYOUT, WORKER, eventfds()).is_ok());
    assert!(open(LAYOUT, WORKER, Vec::new()).is_err());
    assert!(open(LAYOUT, WorkerId(256), eventfds()).is_err());
    assert!(
        open(
            Layout {
                reactors: 0,
                ..LAYOUT
            },
            WORKER,
            Vec::new()
        )
        .is_err()
    );
}
