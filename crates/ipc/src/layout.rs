//! What lies where in shared memory.
//!
//! | object | server | worker | struct |
//! |---|---|---|---|
//! | CTL, one a pool | read, write | read, write | [`Ctl`] |
//! | EST, one a pool | read, write | read | [`Est`] |
//! | REQ, one a pool | read, write | read | `slots × request_area` bytes |
//! | RESP, one a worker | read | read, write; that worker only | [`Resp`] |
//! | ACK, one a worker | read, write | read; that worker only | [`Ack`] |
//!
//! The structs have room for the largest pool; untouched pages cost nothing. Contended words have a line of their own (128
//! bytes: the adjacent-line prefetcher pulls pairs of 64). All fields are atomics, so a reference into shared memory is sound
//! whatever the other side writes.

use crate::scoreboard::WorkerBlock;
use crate::sync::{AtomicU32, AtomicU64};

/// Reactors (server threads that own connections) a server may have.
pub const MAX_REACTORS: usize = 32;
/// Workers a pool may have.
pub const MAX_WORKERS: usize = 256;
/// Slots of one reactor, at most: a bitmap of this many words.
pub const SLOT_WORDS: usize = 8;
/// Slots of one reactor, at most.
pub const MAX_SLOTS_PER_REACTOR: usize = SLOT_WORDS * 64;
/// Slots of a pool, at most.
pub const MAX_SLOTS: usize = MAX_REACTORS * MAX_SLOTS_PER_REACTOR;
/// Cells of the ring: a power of two, at least twice the slots.
pub const RING_CELLS: usize = MAX_SLOTS * 2;
/// Responses of one worker that the server has not read to the end, at most.
pub const LANES: usize = 32;
/// Bytes of one lane.
pub const LANE_BYTES: usize = 64 * 1024;

/// Bytes of a request area, at most; larger bodies are spooled.
pub const MAX_REQUEST_AREA: usize = 16 * 1024 * 1024;

/// A value on a cache line (pair) of its own.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct Line<T>(pub T);

/// Shared by the server and all workers of a pool, writable by both.
#[derive(Debug)]
#[repr(C)]
pub struct Ctl {
    /// Next ticket to pull.
    pub head: Line<AtomicU64>,
    /// One bit a worker that sleeps.
    pub sleepers: Line<[AtomicU64; MAX_WORKERS / 64]>,
    /// One bit a slot that a worker has published something for, a line a reactor.
    pub done: [Line<[AtomicU64; SLOT_WORDS]>; MAX_REACTORS],
    /// One block a worker.
    pub workers: [WorkerBlock; MAX_WORKERS],
    /// One block a slot.
    pub slots: [SlotBlock; MAX_SLOTS],
    /// The ring's cells.
    pub cells: [AtomicU64; RING_CELLS],
}

/// One slot.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct SlotBlock {
    /// See [`crate::slot`].
    pub word: AtomicU64,
    /// Lane of the response, written by the worker before it publishes.
    pub lane: AtomicU32,
}

/// Written by the server, read by workers.
#[derive(Debug)]
#[repr(C)]
pub struct Est {
    /// Odd while that reactor sleeps, or is about to.
    pub epochs: [Line<AtomicU32>; MAX_REACTORS],
    /// Generation (+ 1) of the exchange whose client has gone, a slot.
    pub cancelled: [AtomicU32; MAX_SLOTS],
}

/// A worker's responses: positions, then the lanes' bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Resp {
    /// How far each lane has been written. See [`crate::body`].
    pub written: [Line<AtomicU64>; LANES],
    /// The bytes; only ever copied, never borrowed.
    pub bytes: [[std::sync::atomic::AtomicU8; LANE_BYTES]; LANES],
}

/// How far the server has read a worker's lanes.
#[derive(Debug)]
#[repr(C)]
pub struct Ack {
    /// See [`crate::body`].
    pub read: [Line<AtomicU64>; LANES],
}

/// Sizes of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Layout {
    /// 1 .. [`MAX_REACTORS`].
    pub reactors: usize,
    /// A multiple of 64, at most [`MAX_SLOTS_PER_REACTOR`].
    pub slots_per_reactor: usize,
    /// Bytes of a slot's request area: head, then body. A multiple of 4096, at most [`MAX_REQUEST_AREA`].
    pub request_area: usize,
}

impl Layout {
    /// Slots of the pool.
    pub const fn slots(&self) -> usize {
        self.reactors * self.slots_per_reactor
    }

    /// Bytes of REQ.
    pub const fn request_bytes(&self) -> usize {
        self.slots() * self.request_area
    }

    /// What is wrong with these sizes, if anything.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            reactors,
            slots_per_reactor,
            request_area,
        } = *self;
        if reactors == 0 || reactors > MAX_REACTORS {
            return Err(format!("{reactors} reactors; 1 to {MAX_REACTORS} are possible"));
        }
        if slots_per_reactor == 0
            || !slots_per_reactor.is_multiple_of(64)
            || slots_per_reactor > MAX_SLOTS_PER_REACTOR
        {
            return Err(format!(
                "{slots_per_reactor} slots a reactor; a multiple of 64 up to {MAX_SLOTS_PER_REACTOR} is possible"
            ));
        }
        if request_area == 0 || request_area > MAX_REQUEST_AREA || !request_area.is_multiple_of(4096) {
            return Err(format!(
                "request areas of {request_area} bytes; a multiple of 4096 up to {MAX_REQUEST_AREA} is possible"
            ));
        }
        Ok(())
    }
}
