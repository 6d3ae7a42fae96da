//! Atomics and futexes: the real ones, or loom's when a model is checked (`--cfg loom`).

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use std::time::Duration;

/// Sleeps while `word` holds `expected`, at most for `timeout`. May wake for no reason.
///
/// The futex is shared between processes (`FUTEX_PRIVATE` is not set), and waiting needs read access only.
#[cfg(not(loom))]
pub fn futex_wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    use rustix::thread::futex;
    let timeout = timeout.map(|t| futex::Timespec {
        tv_sec: i64::try_from(t.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(t.subsec_nanos()),
    });
    // EAGAIN (the word moved on), EINTR and ETIMEDOUT all mean: look again.
    let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
}

/// Wakes one process that waits on `word`.
#[cfg(not(loom))]
pub fn futex_wake(word: &AtomicU32) {
    // Fails only for an address that is not mapped, and a reference is.
    let _ = rustix::thread::futex::wake(word, rustix::thread::futex::Flags::empty(), 1);
}

/// The model of a futex: a sleeper that never wakes shows up as loom's "deadlock" or exceeded branch limit.
#[cfg(loom)]
pub fn futex_wait(word: &AtomicU32, expected: u32, _timeout: Option<Duration>) {
    while word.load(Ordering::SeqCst) == expected {
        loom::thread::yield_now();
    }
}

/// The model has nothing to do: waiters look at the word.
#[cfg(loom)]
pub fn futex_wake(_word: &AtomicU32) {}
