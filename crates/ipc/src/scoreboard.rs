//! Figures about each worker, in shared memory: the only source about workers for status, limits and timeouts.
//!
//! Written by the worker, except what its first line says is the server's. What the server reads here is input: wrong figures mislead a person,
//! never the server.

use std::time::Duration;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// One worker. Two lines: what the server writes, or looks at with each response, and what the worker writes with each request.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct WorkerBlock {
    /// What the worker sleeps on; goes up with each wake-up.
    pub futex: AtomicU32,
    /// How often the server must hand back space in a lane, or a lane, before it wakes the worker; 0: it does not wait for that.
    pub waits_for_space: AtomicU32,
    /// [`Command`], set by the server.
    pub command: AtomicU32,
    unused: AtomicU32,
    /// The request that a signal of the server is about, see [`crate::ask`].
    pub asked: AtomicU64,
    /// What limit it has passed, in milliseconds; for the message of the error that ends it.
    pub asked_limit: AtomicU64,
    second_line: [AtomicU64; 12],
    /// [`Stage`].
    pub stage: AtomicU32,
    /// Id of the request it runs, or ran last.
    pub request: AtomicU64,
    /// `CLOCK_MONOTONIC` nanoseconds at the claim of that request.
    pub since: AtomicU64,
    /// Requests finished.
    pub requests: AtomicU64,
    undone: [AtomicU64; 5],
}

// loom's atomics have other sizes.
#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(WorkerBlock, stage) == 128);

/// What rewinding has taken of a worker so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Pages that were copied back.
    pub copied: u64,
    /// Pages of which the request's copy was dropped.
    pub dropped: u64,
    /// How often all memory was looked through for such pages.
    pub looks: u64,
    /// Pages that are copied back after each request at present, written to or not.
    pub hot: u64,
    /// Time, with all that is not memory.
    pub nanoseconds: u64,
}

/// What the server wants of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Command {
    /// Serve.
    Run = 0,
    /// Finish the request, if any, then end.
    Drain = 1,
}

/// What a worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// Forked, not ready yet.
    Starting = 0,
    /// Waits for a request.
    Idle = 1,
    /// Runs one.
    Running = 2,
    /// Was told to end, and does.
    Ending = 3,
}

impl Stage {
    /// From its number; `None` if it is none.
    pub const fn from_number(n: u32) -> Option<Self> {
        match n {
            0 => Some(Self::Starting),
            1 => Some(Self::Idle),
            2 => Some(Self::Running),
            3 => Some(Self::Ending),
            _ => None,
        }
    }
}

impl WorkerBlock {
    /// Server, before a fork: forgets the predecessor.
    pub fn reset(&self) {
        // Relaxed: the fork message orders these stores before anything the new worker does.
        self.waits_for_space.store(0, Ordering::Relaxed);
        self.command.store(Command::Run as u32, Ordering::Relaxed);
        self.asked.store(0, Ordering::Relaxed);
        self.asked_limit.store(0, Ordering::Relaxed);
        self.stage.store(Stage::Starting as u32, Ordering::Relaxed);
        self.request.store(0, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.requests.store(0, Ordering::Relaxed);
        self.set_undone(&Undone::default());
    }

    /// Worker, after each rewind.
    pub fn set_undone(&self, undone: &Undone) {
        let Undone {
            copied,
            dropped,
            looks,
            hot,
            nanoseconds,
        } = *undone;
        for (figure, value) in self.undone.iter().zip([copied, dropped, looks, hot, nanoseconds]) {
            // Relaxed: figures for people.
            figure.store(value, Ordering::Relaxed);
        }
    }

    /// What rewinding has taken so far, by the worker's own word.
    pub fn undone(&self) -> Undone {
        // Relaxed: as above.
        let [copied, dropped, looks, hot, nanoseconds] = self
            .undone
            .each_ref()
            .map(|figure| figure.load(Ordering::Relaxed));
        Undone {
            copied,
            dropped,
            looks,
            hot,
            nanoseconds,
        }
    }

    /// Server, before a signal: which request it is about, and what limit that has passed.
    pub fn ask(&self, request: u64, limit: Duration) {
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        // Relaxed: the system call that sends the signal orders both before its arrival.
        self.asked_limit.store(limit, Ordering::Relaxed);
        self.asked.store(request, Ordering::Relaxed);
    }

    /// For how long the worker has run `request`; `None` if it says that it does not.
    #[cfg(not(loom))]
    pub fn running_for(&self, request: u64) -> Option<Duration> {
        // Relaxed throughout: figures for people and timeouts.
        let runs = self.stage.load(Ordering::Relaxed) == Stage::Running as u32
            && self.request.load(Ordering::Relaxed) == request;
        let since = Duration::from_nanos(self.since.load(Ordering::Relaxed));
        runs.then(|| monotonic().saturating_sub(since))
    }
}

/// `CLOCK_MONOTONIC`.
#[cfg(not(loom))]
pub(crate) fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_in_the_architecture_shows_every_stage_and_no_other() {
        let page = include_str!("../../../ARCHITECTURE.md");
        let (_, rest) = page
            .split_once("Worker (`ipc::scoreboard::Stage`)")
            .expect("there is a section");
        let picture = rest.split("```").nth(1).expect("there is a picture");
        let mut shown: Vec<_> = picture
            .split(|c: char| !c.is_ascii_alphabetic())
            .filter(|word| word.starts_with(char::is_uppercase))
            .collect();
        shown.sort_unstable();
        shown.dedup();
        let mut stages: Vec<_> = (0..=u32::from(u8::MAX))
            .filter_map(Stage::from_number)
            .map(|stage| format!("{stage:?}"))
            .collect();
        stages.sort_unstable();
        assert_eq!(shown, stages);
    }
}
