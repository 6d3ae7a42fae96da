//! Death at a chosen point of the protocol, for tests: feature `fault-injection`. Without it nothing is compiled in. Runs in:
//! worker.

/// Where a worker may die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Point {
    /// It has pulled a ticket and not claimed the slot.
    Pulled = 1,
    /// It has claimed the slot and done nothing else.
    Claimed = 2,
    /// The response, or a part, is in the lane, and the slot word does not say so.
    Written = 3,
    /// The slot word says so, the bit does not.
    Published = 4,
    /// The bit is set, and the sleeping reactor not woken.
    Flagged = 5,
}

impl Point {
    /// All.
    pub const ALL: [Self; 5] = [
        Self::Pulled,
        Self::Claimed,
        Self::Written,
        Self::Published,
        Self::Flagged,
    ];
}

#[cfg(feature = "fault-injection")]
static ARMED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// This process kills itself (`SIGKILL`) when it next comes to `point`.
#[cfg(feature = "fault-injection")]
pub fn arm(point: Point) {
    // Relaxed: a worker has one thread.
    ARMED.store(point as u32, std::sync::atomic::Ordering::Relaxed);
}

#[cfg(feature = "fault-injection")]
pub(crate) fn point(point: Point) {
    // Relaxed: as in `arm`.
    if ARMED.load(std::sync::atomic::Ordering::Relaxed) == point as u32 {
        // Fails only for a process that does not exist.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

#[cfg(not(feature = "fault-injection"))]
pub(crate) const fn point(_point: Point) {}
