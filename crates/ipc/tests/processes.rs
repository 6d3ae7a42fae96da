//! A server and real worker processes that die: at random, and at each point of the protocol. No answer may be wrong, none may
//! be lost, and only a response that had begun when its worker died may be cut off.
//!
//! The workers are this program again, so it has no test harness.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and this one reports for itself"
)]

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command as Program, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipc::control::{self, Fork, ToZygote};
use ipc::fault::{self, Point};
use ipc::head::{BodyKind, RequestWriter, ResponseReader};
use ipc::layout::{Ctl, LANE_BYTES, LANES, Layout, Resp};
use ipc::queue::Ticket;
use ipc::region::{Access, Map};
use ipc::scoreboard::Command;
use ipc::server_side::{Cursor, PoolMemory, ReactorId, Requeue, Seen, WorkerMemory};
use ipc::slot::{Gen, Incarnation, SlotId, WorkerId};
use ipc::sync::Ordering;
use ipc::worker_side::{Exchange, Identity, Next, WorkerFds, WorkerSide};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

const LAYOUT: Layout = Layout {
    reactors: 1,
    slots_per_reactor: 64,
    request_area: 4096,
};
const REACTOR: ReactorId = ReactorId(0);
const WORKERS: u16 = 4;
const AT_ONCE: usize = 24;
const EXCHANGES: u64 = 100_000;
const DEADLINE: Duration = Duration::from_mins(1);
const ROLE: &str = "HEARTH_TEST_ROLE";

fn main() {
    match std::env::var(ROLE).as_deref() {
        Ok("hostile") => scribble(),
        Ok(_) => serve(),
        Err(_) => {
            let start = Instant::now();
            a_hostile_worker_does_no_harm_to_the_server();
            println!("test a_hostile_worker_does_no_harm_to_the_server ... ok");
            no_answer_is_lost_or_wrong_while_workers_die();
            println!(
                "test no_answer_is_lost_or_wrong_while_workers_die ... ok ({:?})",
                start.elapsed()
            );
        }
    }
}

/// A cheap source of numbers (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// The only right body for a request.
fn body_of(id: u64) -> Vec<u8> {
    let mut numbers = Numbers(id);
    let len = match id % 100 {
        0 => numbers.below(4 * LANE_BYTES as u64),
        1..5 => 0,
        _ => numbers.below(2000),
    };
    let mut body = Vec::with_capacity(len as usize + 8);
    while body.len() < len as usize {
        body.extend_from_slice(&numbers.next().to_le_bytes());
    }
    body.truncate(len as usize);
    body
}

// ---- worker ----

fn connect() -> (WorkerSide, Identity, OwnedFd, OwnedFd) {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let (message, fds) = control::receive::<ToZygote>(std::io::stdin().as_fd())
        .unwrap()
        .unwrap();
    let ToZygote::Fork(fork) = message else {
        panic!("{message:?}")
    };
    let (worker, incarnation) = fork.who();
    let [ctl, est, req, resp, ack, reactor]: [OwnedFd; 6] = fds.try_into().unwrap();
    let me = Identity { worker, incarnation };
    let fds = WorkerFds {
        ctl: ctl.as_fd(),
        est: est.as_fd(),
        req: req.as_fd(),
        resp: resp.as_fd(),
        ack: ack.as_fd(),
        reactors: vec![reactor],
    };
    (WorkerSide::open(LAYOUT, me, fds).unwrap(), me, ctl, resp)
}

fn serve() {
    let (mut side, me, ..) = connect();
    let mut numbers = Numbers(u64::from(me.worker.0) << 32 | u64::from(me.incarnation.0));
    // Every third dies at a point of the protocol, after some exchanges.
    let fatal = (numbers.below(3) == 0).then(|| numbers.below(800));
    let mut count = 0;
    loop {
        if fatal == Some(count) {
            fault::arm(Point::ALL[numbers.below(5) as usize]);
        }
        match side.next() {
            Next::Exchange(mut exchange) => respond(&mut side, &mut exchange),
            Next::Drain => return,
        }
        side.finished();
        count += 1;
    }
}

fn respond(side: &mut WorkerSide, exchange: &mut Exchange) {
    let id = side.request(exchange).unwrap().id();
    let body = body_of(id);
    if id.is_multiple_of(7) {
        side.send_head(exchange, 103, b"", std::iter::empty()).unwrap();
    }
    let line = format!("x-id: {id}");
    side.send_head(exchange, 200, b"OK", std::iter::once(line.as_bytes()))
        .unwrap();
    for (index, part) in body.chunks(700).enumerate() {
        side.write(exchange, part).unwrap();
        if id.is_multiple_of(11) && index == 0 {
            side.flush(exchange).unwrap();
        }
    }
    side.done(exchange).unwrap();
}

/// Writes noise wherever a worker can write, until it is killed.
fn scribble() {
    let (_side, me, ctl, resp) = connect();
    let ctl = Map::<Ctl>::open(ctl.as_fd(), Access::ReadWrite).unwrap();
    let resp = Map::<Resp>::open(resp.as_fd(), Access::ReadWrite).unwrap();
    let mut numbers = Numbers(u64::from(me.incarnation.0));
    loop {
        let noise = numbers.next();
        let slot = &ctl.slots[numbers.below(4) as usize];
        // Garbage of the likely kind: right generation and worker, a state, a lane, a position nearby.
        let word = slot.word.load(Ordering::Relaxed);
        let near = (word & !0x00ff_ffff_ffff) | (noise % 6) | u64::from(me.incarnation.0) << 24;
        slot.word
            .store(if noise & 64 == 0 { near } else { noise }, Ordering::Relaxed);
        slot.lane
            .store(numbers.below(LANES as u64 + 4) as u32, Ordering::Relaxed);
        let lane = &resp.written[numbers.below(LANES as u64) as usize].0;
        lane.store(
            if noise & 128 == 0 { noise % 200_000 } else { noise },
            Ordering::Relaxed,
        );
        ctl.done[numbers.below(2) as usize].0[numbers.below(8) as usize].store(noise, Ordering::Relaxed);
        ctl.cells[numbers.below(1024) as usize].store(noise, Ordering::Relaxed);
        ctl.sleepers.0[numbers.below(4) as usize].store(noise, Ordering::Relaxed);
        ctl.workers[0]
            .waits_for_space
            .store(noise as u32, Ordering::Relaxed);
        if noise.is_multiple_of(4096) {
            ctl.head.0.store(noise >> (noise % 60), Ordering::Relaxed);
        }
        let at = std::mem::offset_of!(Resp, bytes) + numbers.below((LANES * LANE_BYTES - 8) as u64) as usize;
        resp.bytes().copy_in(at, &noise.to_le_bytes());
    }
}

// ---- server ----

/// Killed when dropped.
struct Running {
    child: Child,
    pidfd: OwnedFd,
    incarnation: Incarnation,
    memory: Arc<WorkerMemory>,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fails when it has been waited for, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the server knows about a slot in use.
struct InUse {
    id: u64,
    generation: Gen,
    ticket: Ticket,
    reading: Option<(Arc<WorkerMemory>, Cursor)>,
    received: Vec<u8>,
}

struct Server {
    pool: PoolMemory,
    eventfd: OwnedFd,
    workers: Vec<Running>,
    free: Vec<(SlotId, Gen)>,
    in_use: HashMap<SlotId, InUse>,
    answered: u64,
    cut_off: u64,
    again: u64,
    deaths: u64,
}

impl Server {
    fn start(workers: u16, role: &str) -> Self {
        let pool = PoolMemory::create(LAYOUT).unwrap();
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        let start = |n| spawn(&pool, &eventfd, WorkerId(n), Incarnation(0), role);
        let workers = (0..workers).map(start).collect();
        let free = pool.slots_of(REACTOR).map(|slot| (slot, Gen::ZERO)).collect();
        Self {
            pool,
            eventfd,
            workers,
            free,
            in_use: HashMap::new(),
            answered: 0,
            cut_off: 0,
            again: 0,
            deaths: 0,
        }
    }

    fn send(&mut self, id: u64) {
        let (slot, generation) = self.free.pop().unwrap();
        let generation = generation.next();
        let mut head = RequestWriter::new(id, 0).finish();
        self.pool
            .fill(slot, &mut head, BodyKind::Empty, 0, std::iter::empty());
        let ticket = self.pool.enqueue(slot, generation).unwrap();
        self.pool.wake_for_backlog(u32::MAX, u32::MAX);
        self.in_use.insert(
            slot,
            InUse {
                id,
                generation,
                ticket,
                reading: None,
                received: Vec::new(),
            },
        );
    }

    /// Blocks until something happens; returns the workers that have died.
    fn wait(&self) -> Vec<usize> {
        let mut ready = Vec::new();
        if !self.pool.park(REACTOR) {
            let mut fds = vec![PollFd::new(&self.eventfd, PollFlags::IN)];
            fds.extend(self.workers.iter().map(|w| PollFd::new(&w.pidfd, PollFlags::IN)));
            let timeout = Timespec {
                tv_sec: 5,
                tv_nsec: 0,
            };
            assert_ne!(
                poll(&mut fds, Some(&timeout)),
                Ok(0),
                "nothing happens: a wake-up was lost"
            );
            let _ = rustix::io::read(&self.eventfd, &mut [0; 8]);
            ready = fds.iter().skip(1).map(|fd| !fd.revents().is_empty()).collect();
        }
        self.pool.unpark(REACTOR);
        ready
            .iter()
            .enumerate()
            .filter_map(|(index, dead)| dead.then_some(index))
            .collect()
    }

    fn take_done(&mut self) {
        let mut done = Vec::new();
        self.pool.take_done(REACTOR, |slot| done.push(slot));
        for slot in done {
            self.progress(slot);
        }
    }

    fn progress(&mut self, slot: SlotId) {
        // A stray bit of an earlier use is nothing.
        let Some(exchange) = self.in_use.get_mut(&slot) else {
            return;
        };
        let seen = self.pool.look(slot, exchange.generation);
        let (Seen::Done(worker, inc, lane) | Seen::Streaming(worker, inc, lane)) = seen else {
            return;
        };
        let workers = &self.workers;
        let (memory, cursor) = exchange.reading.get_or_insert_with(|| {
            let running = &workers[usize::from(worker.0)];
            assert_eq!(
                running.incarnation, inc,
                "a dead worker's slots are settled before its successor starts"
            );
            (Arc::clone(&running.memory), running.memory.open(lane))
        });
        memory.read(cursor, LANE_BYTES, &mut exchange.received).unwrap();
        self.pool.wake_worker_for_space(worker);
        if matches!(seen, Seen::Done(..)) {
            assert_eq!(memory.waiting(*cursor), Ok(0));
            check(exchange.id, &exchange.received);
            let exchange = self.in_use.remove(&slot).unwrap();
            self.pool.free(slot, exchange.generation);
            self.free.push((slot, exchange.generation));
            self.answered += 1;
        }
    }

    /// The table of crash cases.
    fn bury(&mut self, index: usize) {
        let worker = WorkerId(index as u16);
        let status = self.workers[index].child.wait().unwrap();
        assert_eq!(status.signal(), Some(9), "a worker failed: {status}");
        self.deaths += 1;
        let inc = self.workers[index].incarnation;
        let slots: Vec<_> = self.in_use.keys().copied().collect();
        for slot in slots {
            let exchange = self.in_use.get_mut(&slot).unwrap();
            match self.pool.look(slot, exchange.generation) {
                Seen::Queued => match self.pool.requeue(slot, exchange.generation, exchange.ticket) {
                    Requeue::Queued(generation, ticket) => {
                        (exchange.generation, exchange.ticket) = (generation, ticket);
                    }
                    Requeue::Waiting | Requeue::Taken => {}
                    Requeue::Full(_) => panic!("the queue is full"),
                },
                Seen::Running(w, i) if (w, i) == (worker, inc) => {
                    exchange.generation = exchange.generation.next();
                    exchange.ticket = self.pool.enqueue(slot, exchange.generation).unwrap();
                    self.pool.wake_for_backlog(u32::MAX, u32::MAX);
                    self.again += 1;
                }
                Seen::Streaming(w, i, _) if (w, i) == (worker, inc) => {
                    let exchange = self.in_use.remove(&slot).unwrap();
                    self.pool.free(slot, exchange.generation);
                    self.free.push((slot, exchange.generation));
                    self.cut_off += 1;
                }
                Seen::Done(w, i, _) if (w, i) == (worker, inc) => self.progress(slot),
                Seen::Garbage => panic!("garbage in slot {slot:?}: {:?}", self.pool.word(slot)),
                _ => {}
            }
        }
        self.pool.worker_gone(worker);
        self.pool.worker(worker).unwrap().reset();
        let next = Incarnation(inc.0.wrapping_add(1));
        self.workers[index] = spawn(&self.pool, &self.eventfd, worker, next, "worker");
    }
}

fn spawn(
    pool: &PoolMemory,
    eventfd: &OwnedFd,
    worker: WorkerId,
    incarnation: Incarnation,
    role: &str,
) -> Running {
    let (ours, theirs) = control::pair().unwrap();
    let child = Program::new(std::env::current_exe().unwrap())
        .env(ROLE, role)
        .stdin(Stdio::from(theirs))
        .spawn()
        .unwrap();
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    let memory = Arc::new(WorkerMemory::create().unwrap());
    let message = ToZygote::Fork(Fork {
        worker: worker.0,
        incarnation: incarnation.0,
    });
    let fds = pool.fds();
    let fds = [
        fds.ctl.as_fd(),
        fds.est.as_fd(),
        fds.req.as_fd(),
        memory.resp_fd(),
        memory.ack_fd(),
        eventfd.as_fd(),
    ];
    control::send(ours.as_fd(), &message, &fds).unwrap();
    Running {
        child,
        pidfd,
        incarnation,
        memory,
    }
}

fn check(id: u64, mut received: &[u8]) {
    loop {
        let len = ResponseReader::expected_len(received).unwrap().unwrap();
        let (head, rest) = received.split_at(len);
        let head = ResponseReader::new(head).unwrap();
        received = rest;
        if head.status() != 103 {
            let header = head.headers().next().unwrap().unwrap();
            assert_eq!(
                header,
                (&b"x-id"[..], id.to_string().as_bytes()),
                "the answer of another request"
            );
            break;
        }
    }
    assert!(received == body_of(id), "a wrong body for request {id}");
}

fn no_answer_is_lost_or_wrong_while_workers_die() {
    let start = Instant::now();
    let mut server = Server::start(WORKERS, "worker");
    let mut numbers = Numbers(1);
    let (mut sent, mut kill_at) = (0, 500);
    while server.answered + server.cut_off < EXCHANGES {
        assert!(
            start.elapsed() < DEADLINE,
            "{} of {EXCHANGES} after {DEADLINE:?}",
            server.answered
        );
        while sent < EXCHANGES && server.in_use.len() < AT_ONCE {
            server.send(sent);
            sent += 1;
        }
        for dead in server.wait() {
            server.bury(dead);
        }
        server.take_done();
        if server.answered >= kill_at {
            kill_at += 200 + numbers.below(800);
            let victim = &server.workers[numbers.below(u64::from(WORKERS)) as usize];
            // It may be dead by its own hand.
            let _ = pidfd_send_signal(&victim.pidfd, Signal::KILL);
        }
    }
    assert!(server.in_use.is_empty());
    for (index, worker) in server.workers.iter_mut().enumerate() {
        server.pool.command(WorkerId(index as u16), Command::Drain);
        let status = worker.child.wait().unwrap();
        assert!(status.success() || status.signal() == Some(9), "{status}");
    }
    let Server {
        answered,
        cut_off,
        again,
        deaths,
        ..
    } = server;
    println!(
        "{answered} answered, {cut_off} cut off, {again} run again, {deaths} deaths, {:?}",
        start.elapsed()
    );
    assert!(deaths > 50, "too few deaths to mean anything");
    assert!(
        cut_off <= deaths && again <= deaths,
        "a death costs one request at most"
    );
}

#[allow(clippy::too_many_lines, reason = "one story")]
fn a_hostile_worker_does_no_harm_to_the_server() {
    let mut server = Server::start(1, "hostile");
    let start = Instant::now();
    let mut out = Vec::new();
    let mut looks: HashMap<&str, u64> = HashMap::new();
    let mut generation = Gen::ZERO;
    let enough = |looks: &HashMap<_, _>| looks.len() == 2 && start.elapsed() > Duration::from_secs(2);
    while !enough(&looks) && start.elapsed() < Duration::from_mins(1) {
        generation = generation.next();
        let slots: Vec<_> = server.pool.slots_of(REACTOR).take(4).collect();
        for slot in slots {
            let ticket = server.pool.enqueue(slot, generation).unwrap_or(Ticket(0));
            server.pool.wake_for_backlog(u32::MAX, u32::MAX);
            std::thread::yield_now();
            match server.pool.look(slot, generation) {
                Seen::Streaming(worker, _, lane) | Seen::Done(worker, _, lane) => {
                    *looks.entry("response").or_default() += 1;
                    let memory = &server.workers[0].memory;
                    let mut cursor = memory.open(lane);
                    for _ in 0..4 {
                        out.clear();
                        let _ = memory.read(&mut cursor, LANE_BYTES, &mut out);
                        if let Some(Ok(len)) = ResponseReader::expected_len(&out)
                            && let Ok(head) = ResponseReader::new(&out[..len.min(out.len())])
                        {
                            let _ = (head.reason(), head.headers().count());
                        }
                    }
                    server.pool.wake_worker_for_space(worker);
                }
                Seen::Queued => {
                    let _ = server.pool.requeue(slot, generation, ticket);
                }
                Seen::Running(..) => server.pool.client_gone(slot, generation),
                Seen::Garbage => *looks.entry("garbage").or_default() += 1,
            }
            server.pool.free(slot, generation);
        }
        server.pool.take_done(REACTOR, |slot| assert!(slot.0 < 64));
        server.pool.park(REACTOR);
        server.pool.unpark(REACTOR);
        if server.pool.is_poisoned() || server.pool.stuck_ticket().is_some() {
            server.pool.reset_queue();
        }
    }
    assert_eq!(looks.len(), 2, "the noise was not of the right kind: {looks:?}");
    pidfd_send_signal(&server.workers[0].pidfd, Signal::KILL).unwrap();
    server.workers[0].child.wait().unwrap();

    // The way out of a poisoned queue, then work as usual.
    server.pool.reset_queue();
    server.pool.take_done(REACTOR, |_| ());
    server.pool.worker(WorkerId(0)).unwrap().reset();
    server.workers[0] = spawn(
        &server.pool,
        &server.eventfd,
        WorkerId(0),
        Incarnation(1),
        "worker",
    );
    for (_, last) in &mut server.free {
        *last = generation.next();
    }
    for id in 1000..1020 {
        server.send(id);
    }
    while server.answered < 20 {
        for dead in server.wait() {
            server.bury(dead);
        }
        server.take_done();
    }
    pidfd_send_signal(&server.workers[0].pidfd, Signal::KILL).unwrap();
    server.workers[0].child.wait().unwrap();
}
