//! Who sleeps, and how a sleeper is woken: workers by futex, reactors by eventfd.
//!
//! Both directions are Dekker pairs: the sleeper announces itself, *then* looks for work; the waker publishes work, *then* looks
//! for sleepers. `SeqCst` is needed because each side must see the other's earlier store or its own must be seen: Acquire and
//! Release alone allow both to miss. The announcements are read-modify-write operations, since loom (which treats `SeqCst` as
//! `AcqRel`) orders those; the fences carry the rest. `tests/loom.rs` fails without them.

use std::time::Duration;

use crate::queue::Ring;
use crate::slot::WorkerId;
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, futex_wait, futex_wake};

/// The bitmap of sleeping workers.
#[derive(Clone, Copy, Debug)]
pub struct Sleepers<'a>(pub &'a [AtomicU64]);

impl Sleepers<'_> {
    fn word(&self, worker: WorkerId) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(usize::from(worker.0) / 64)?, 1 << (worker.0 % 64)))
    }

    /// How many sleep, about now.
    pub fn count(&self) -> u32 {
        // Relaxed: a guess that decides how many to wake, not whether.
        self.0
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones())
            .sum()
    }

    /// Worker: announces that it is about to sleep.
    pub fn announce(&self, worker: WorkerId) {
        if let Some((word, bit)) = self.word(worker) {
            // SeqCst: Dekker, see the module.
            word.fetch_or(bit, Ordering::SeqCst);
            fence(Ordering::SeqCst);
        }
    }

    /// Either side: this worker sleeps no longer.
    pub fn withdraw(&self, worker: WorkerId) {
        if let Some((word, bit)) = self.word(worker) {
            // SeqCst: keeps the bitmap's operations in one order with `take`.
            word.fetch_and(!bit, Ordering::SeqCst);
        }
    }

    /// Server: picks the sleeper with the lowest number (the warmest; surplus workers stay asleep) and takes its bit.
    /// Call after the work was published.
    pub fn take(&self) -> Option<WorkerId> {
        // SeqCst: Dekker, see the module.
        fence(Ordering::SeqCst);
        for (index, word) in self.0.iter().enumerate() {
            loop {
                // SeqCst: as above.
                let bits = word.load(Ordering::SeqCst);
                if bits == 0 {
                    break;
                }
                let bit = bits & bits.wrapping_neg();
                // SeqCst: as above. Only one waker gets the bit.
                if word.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
                    return u16::try_from(index * 64 + bit.trailing_zeros() as usize)
                        .ok()
                        .map(WorkerId);
                }
            }
        }
        None
    }
}

/// Server: wakes whoever sleeps on `futex`.
pub fn wake(futex: &AtomicU32) {
    // SeqCst: the sleeper compares with the value from before its announcement.
    futex.fetch_add(1, Ordering::SeqCst);
    futex_wake(futex);
}

/// Server, after appending tickets: wakes a worker for each ticket that nobody has pulled, up to `most`. True: there were more.
///
/// Tickets of other reactors count: one that was drawn behind ours before our cell was filled has woken a worker that found the
/// queue empty and went back to sleep. `wake_one` wakes a sleeper and says whether there was one; it begins with the fence of
/// [`Sleepers::take`].
pub fn wake_for_backlog(ring: Ring<'_>, tail: &AtomicU64, most: u32, wake_one: impl Fn() -> bool) -> bool {
    // SeqCst: with the fence in `Sleepers::announce`, either a worker that goes to sleep sees our cells, or we see its bit.
    fence(Ordering::SeqCst);
    let backlog = ring.backlog(tail).unwrap_or(u64::MAX);
    for _ in 0..backlog.min(u64::from(most)) {
        if !wake_one() {
            return false;
        }
    }
    backlog > u64::from(most)
}

/// Worker: waits until the server has handed back space `count` times. `waits` tells the server how often is still to come: one
/// wake-up for a batch, where each alone would cost one.
pub fn wait_for_space(
    waits: &AtomicU32,
    futex: &AtomicU32,
    count: u32,
    timeout: Option<Duration>,
    has_space: impl Fn() -> bool,
) {
    // SeqCst, all: Dekker with `space_freed`.
    let seen = futex.load(Ordering::SeqCst);
    waits.swap(count, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if !has_space() {
        futex_wait(futex, seen, timeout);
    }
    waits.swap(0, Ordering::SeqCst);
}

/// Server: space was handed back; wakes the worker if that is what it waits for.
pub fn space_freed(waits: &AtomicU32, futex: &AtomicU32) {
    // SeqCst, all: Dekker with `wait_for_space`.
    fence(Ordering::SeqCst);
    if waits.load(Ordering::SeqCst) != 0
        && waits.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) == Ok(1)
    {
        wake(futex);
    }
}

/// Worker: sleeps until woken, unless `has_work` says at the last moment that there is no need to.
pub fn sleep(
    sleepers: Sleepers<'_>,
    worker: WorkerId,
    futex: &AtomicU32,
    timeout: Option<Duration>,
    has_work: impl Fn() -> bool,
) {
    // SeqCst: read before the announcement, so that a wake-up in between changes it.
    let seen = futex.load(Ordering::SeqCst);
    sleepers.announce(worker);
    if !has_work() {
        futex_wait(futex, seen, timeout);
    }
    sleepers.withdraw(worker);
}

/// Reactor: is about to block. Returns whether a completion has come in meanwhile; then it must not block.
pub fn park(epoch: &AtomicU32, done: &[AtomicU64]) -> bool {
    // Relaxed: only the reactor writes its epoch.
    let value = epoch.load(Ordering::Relaxed);
    // Odd, and a new number even if `unpark` was left out: a worker wakes once for each.
    let asleep = value.wrapping_add(1) | 1;
    // SeqCst: Dekker, see the module.
    epoch.swap(asleep, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    any_done(done)
}

/// Reactor: is awake again.
pub fn unpark(epoch: &AtomicU32) {
    // Only the reactor writes its epoch, so load and store do not race. Relaxed: a worker that reads the old value wakes once
    // too often.
    let value = epoch.load(Ordering::Relaxed);
    if value & 1 == 1 {
        epoch.store(value.wrapping_add(1), Ordering::Relaxed);
    }
}

/// Reactor: whether any slot has something published.
pub fn any_done(done: &[AtomicU64]) -> bool {
    // SeqCst: the second half of the Dekker pair in `park`.
    done.iter().any(|word| word.load(Ordering::SeqCst) != 0)
}

/// Worker: flags its slot and says whether the reactor must be woken (by a write to its eventfd). `notified` is the worker's
/// private note of the epoch it last woke this reactor in.
pub fn complete(done: &AtomicU64, bit: u64, epoch: &AtomicU32, notified: &mut u32) -> bool {
    // SeqCst: Dekker, see the module.
    done.fetch_or(bit, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    let now = epoch.load(Ordering::SeqCst);
    let asleep = now & 1 == 1 && now != *notified;
    if asleep {
        *notified = now;
    }
    asleep
}
