//! Figures about each worker, in shared memory: the only source about workers for status, limits and timeouts.
//!
//! Written by the worker, except [`WorkerBlock::command`]. What the server reads here is input: wrong figures mislead a person,
//! never the server.

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
    second_line: [AtomicU32; 29],
    /// [`Stage`].
    pub stage: AtomicU32,
    /// Id of the request it runs, or ran last.
    pub request: AtomicU64,
    /// `CLOCK_MONOTONIC` nanoseconds at the claim of that request.
    pub since: AtomicU64,
    /// Requests finished.
    pub requests: AtomicU64,
}

// loom's atomics have other sizes.
#[cfg(not(loom))]
const _: () = assert!(std::mem::offset_of!(WorkerBlock, stage) == 128);

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
        self.stage.store(Stage::Starting as u32, Ordering::Relaxed);
        self.request.store(0, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.requests.store(0, Ordering::Relaxed);
    }
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
