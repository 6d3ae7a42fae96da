//! The hand-overs, in every order that the memory model allows: `RUSTFLAGS="--cfg loom" cargo test -p ipc --test loom --release`.
//!
//! Loom treats `SeqCst` accesses as `AcqRel`, so the Dekker pairs rest on the fences here. A sleeper that is never woken shows
//! up as a deadlock or as too many branches. Each model was run once with a part removed, and failed; its comment says which.

#![cfg(loom)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a model fails by panicking"
)]

use std::sync::Arc;

use ipc::body::{Position, waiting};
use ipc::layout::LANE_BYTES;
use ipc::queue::Ring;
use ipc::slot::{self, Gen, Incarnation, SlotId, State, Word, WorkerId};
use ipc::sync::{AtomicU32, AtomicU64, Ordering};
use ipc::wake::{self, Sleepers};
use loom::cell::UnsafeCell;
use loom::thread;

const INC: Incarnation = Incarnation(0);
const GEN: Gen = Gen::new(1);

/// Models with three threads or more are cut off at this many forced switches of threads; loom's authors found 2 to 3 enough
/// to show nearly all bugs.
fn bounded(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// A pool with two slots and two workers.
struct Pool {
    head: AtomicU64,
    tail: AtomicU64,
    cells: [AtomicU64; 4],
    words: [AtomicU64; 2],
    sleepers: [AtomicU64; 1],
    futexes: [AtomicU32; 2],
}

impl Pool {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            cells: std::array::from_fn(|_| AtomicU64::new(0)),
            words: std::array::from_fn(|_| AtomicU64::new(0)),
            sleepers: [AtomicU64::new(0)],
            futexes: std::array::from_fn(|_| AtomicU32::new(0)),
        })
    }

    fn ring(&self) -> Ring<'_> {
        Ring {
            head: &self.head,
            cells: &self.cells,
        }
    }

    fn enqueue(&self, slot: u16) {
        slot::enqueue(&self.words[usize::from(slot)], GEN);
        self.ring().push(&self.tail, SlotId(slot), GEN);
        wake::wake_for_backlog(self.ring(), &self.tail, u32::MAX, || {
            let Some(worker) = Sleepers(&self.sleepers).take() else {
                return false;
            };
            wake::wake(&self.futexes[usize::from(worker.0)]);
            true
        });
    }

    /// Pulls and claims one exchange, as `WorkerSide::next` does.
    fn next(&self, worker: WorkerId) -> SlotId {
        loop {
            if let Some((slot, generation)) = self.ring().pop() {
                assert!(slot::claim(
                    &self.words[usize::from(slot.0)],
                    generation,
                    INC,
                    worker
                ));
                return slot;
            }
            let futex = &self.futexes[usize::from(worker.0)];
            wake::sleep(Sleepers(&self.sleepers), worker, futex, None, || {
                !self.ring().is_empty()
            });
        }
    }
}

/// Removed: the fence in `Sleepers::announce`, or the one in `Sleepers::take`.
#[test]
fn a_worker_that_goes_to_sleep_does_not_miss_a_ticket() {
    loom::model(|| {
        let pool = Pool::new();
        let worker = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.next(WorkerId(0))
        });
        pool.enqueue(0);
        assert_eq!(worker.join().unwrap(), SlotId(0));
    });
}

/// Each worker stays busy with what it gets, so each ticket needs one of its own. Worker 1 sleeps all the time, as a bit: it
/// must have been woken in the end. Removed: the loop in `wake_for_backlog`.
#[test]
fn two_reactors_that_append_at_once_wake_two_workers() {
    bounded(3, || {
        let pool = Pool::new();
        Sleepers(&pool.sleepers).announce(WorkerId(1));
        let worker = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.next(WorkerId(0))
        });
        let reactor = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.enqueue(0)
        });
        pool.enqueue(1);
        reactor.join().unwrap();
        worker.join().unwrap();
        assert_ne!(
            pool.futexes[1].load(Ordering::SeqCst),
            0,
            "a ticket is left, and worker 1 asleep"
        );
    });
}

/// Removed: the exchange in `Ring::pop` replaced by a store.
#[test]
fn two_workers_never_pull_the_same_ticket() {
    loom::model(|| {
        let pool = Pool::new();
        pool.enqueue(0);
        let other = thread::spawn({
            let pool = Arc::clone(&pool);
            move || pool.ring().pop()
        });
        pool.enqueue(1);
        let mut got: Vec<_> = std::iter::from_fn(|| pool.ring().pop()).collect();
        got.extend(other.join().unwrap());
        got.sort_unstable_by_key(|(slot, _)| *slot);
        assert_eq!(got, [(SlotId(0), GEN), (SlotId(1), GEN)]);
    });
}

/// One reactor, one worker that completes two exchanges. Removed: the fence in `park`, or the one in `complete`; the new
/// number of each sleep in `park`.
#[test]
fn a_reactor_that_goes_to_sleep_does_not_miss_a_completion() {
    loom::model(|| {
        let done = Arc::new([AtomicU64::new(0)]);
        let epoch = Arc::new(AtomicU32::new(0));
        let eventfd = Arc::new(AtomicU32::new(0));
        let worker = thread::spawn({
            let (done, epoch, eventfd) = (Arc::clone(&done), Arc::clone(&epoch), Arc::clone(&eventfd));
            move || {
                let mut notified = 0;
                for bit in [1, 2] {
                    if wake::complete(&done[0], bit, &epoch, &mut notified) {
                        eventfd.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        });
        let mut found = 0;
        let mut edges = 0;
        while found != 3 {
            if !wake::park(&epoch, &*done) {
                // epoll_wait, edge-triggered: returns when something was written since it last returned.
                let mut now = eventfd.load(Ordering::SeqCst);
                while now == edges {
                    thread::yield_now();
                    now = eventfd.load(Ordering::SeqCst);
                }
                edges = now;
            }
            wake::unpark(&epoch);
            found |= done[0].swap(0, Ordering::AcqRel);
        }
        worker.join().unwrap();
    });
}

/// A worker between pop and claim, while the server takes the slot back and gives a new ticket to another. Removed: the
/// exchange in `cancel` replaced by a store.
#[test]
fn a_request_that_is_queued_again_runs_exactly_once() {
    loom::model(|| {
        let word = Arc::new(AtomicU64::new(0));
        let ticket = Arc::new(AtomicU32::new(0));
        slot::enqueue(&word, GEN);
        let slow = thread::spawn({
            let word = Arc::clone(&word);
            move || slot::claim(&word, GEN, INC, WorkerId(0))
        });
        let other = thread::spawn({
            let (word, ticket) = (Arc::clone(&word), Arc::clone(&ticket));
            move || ticket.load(Ordering::Acquire) == 1 && slot::claim(&word, GEN.next(), INC, WorkerId(1))
        });
        let again = slot::cancel(&word, GEN);
        if again {
            slot::enqueue(&word, GEN.next());
            ticket.store(1, Ordering::Release);
        }
        let ran = u32::from(slow.join().unwrap()) + u32::from(other.join().unwrap());
        let left = again && slot::claim(&word, GEN.next(), INC, WorkerId(1));
        assert_eq!(ran + u32::from(left), 1);
        assert_eq!(slot::observe(&word).state(), Some(State::Running));
    });
}

/// One cell stands for a whole lane; loom sees when both sides touch it at once. Removed: Release in `free`; Acquire in
/// `is_held`; Release in `publish`.
#[test]
fn a_lane_has_one_owner_at_a_time_over_two_exchanges() {
    loom::model(|| {
        let lane = Arc::new(UnsafeCell::new(0));
        let words = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        for word in &*words {
            slot::enqueue(word, GEN);
        }
        let worker = thread::spawn({
            let (lane, words) = (Arc::clone(&lane), Arc::clone(&words));
            move || {
                let me = WorkerId(0);
                for (number, word) in words.iter().enumerate() {
                    let mine = Word::claimed(GEN, INC, me, State::Running);
                    assert!(slot::claim(word, GEN, INC, me));
                    // SAFETY: loom checks that no other thread accesses the cell meanwhile.
                    lane.with_mut(|cell| unsafe { *cell = number });
                    assert!(slot::publish(word, mine, State::Done));
                    while number == 0 && slot::is_held(word, mine) {
                        thread::yield_now();
                    }
                }
            }
        });
        for (number, word) in words.iter().enumerate() {
            while slot::observe(word).state() != Some(State::Done) {
                thread::yield_now();
            }
            // SAFETY: as above.
            lane.with(|cell| assert_eq!(unsafe { *cell }, number));
            slot::free(word, GEN);
        }
        worker.join().unwrap();
    });
}

/// One cell again; the worker writes it full twice. Removed: the fence in `wait_for_space`, or the one in `space_freed`.
#[test]
fn a_worker_that_waits_for_space_is_woken() {
    struct Shared {
        lane: UnsafeCell<u32>,
        written: AtomicU64,
        read: AtomicU64,
        waits: AtomicU32,
        futex: AtomicU32,
    }
    let full = LANE_BYTES as u64;
    loom::model(move || {
        let shared = Arc::new(Shared {
            lane: UnsafeCell::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            waits: AtomicU32::new(0),
            futex: AtomicU32::new(0),
        });
        let worker = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut written = Position(0);
                for value in 1..=2 {
                    let has_space =
                        || waiting(Position(shared.read.load(Ordering::Acquire)), written) == Some(0);
                    while !has_space() {
                        wake::wait_for_space(&shared.waits, &shared.futex, 1, None, has_space);
                    }
                    // SAFETY: loom checks that no other thread accesses the cell meanwhile.
                    shared.lane.with_mut(|cell| unsafe { *cell = value });
                    written = written.advance(full);
                    shared.written.store(written.0, Ordering::Release);
                }
            }
        });
        let mut read = Position(0);
        for value in 1..=2 {
            while waiting(read, Position(shared.written.load(Ordering::Acquire))) != Some(LANE_BYTES) {
                thread::yield_now();
            }
            // SAFETY: as above.
            shared.lane.with(|cell| assert_eq!(unsafe { *cell }, value));
            read = read.advance(full);
            shared.read.store(read.0, Ordering::Release);
            wake::space_freed(&shared.waits, &shared.futex);
        }
        worker.join().unwrap();
    });
}
