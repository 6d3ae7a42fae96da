//! The protocol between one server and workers that live in the same process, step by step: real memory, no threads but where
//! a test is about waiting.

use std::os::fd::{AsFd, OwnedFd};

use ipc::head::{BodyKind, RequestWriter, ResponseReader};
use ipc::layout::Layout;
use ipc::queue::Ticket;
use ipc::server_side::{Cursor, PoolMemory, Seen, WorkerMemory};
use ipc::slot::{Gen, Incarnation, SlotId, WorkerId};
use ipc::worker_side::{Exchange, Identity, Next, WorkerFds, WorkerSide};
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

    fn send(&self, slot: u16, generation: u32) -> Ticket {
        let mut head = RequestWriter::new(u64::from(generation), 0).finish();
        self.memory
            .fill(SlotId(slot), &mut head, BodyKind::Empty, 0, std::iter::empty());
        self.memory.enqueue(SlotId(slot), Gen::new(generation)).unwrap()
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
