//! A response's way from a worker to the server: a lane.
//!
//! A lane is a byte ring with one writer (the worker) and one reader (the reactor that owns the slot). A worker has
//! [`LANES`](crate::layout::LANES) of them, so that it can begin the next request while the server still reads earlier
//! responses; it takes the first one that the server has read to the end, so the same memory stays hot.
//!
//! A position is `use:16 | bytes:48`: the number of the exchange in this lane, and how many bytes of its response have been
//! written (RESP, by the worker) or read (ACK, by the server). Each exchange starts at byte 0 of the lane. A lane is free when both positions are
//! equal. The response is its head ([`crate::head::write_response`]), then its body.

use crate::layout::LANE_BYTES;

const BYTES_BITS: u32 = 48;

/// How far a lane has been written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Position {
    /// Number of the exchange in this lane, modulo 2^16.
    pub const fn exchange(self) -> u16 {
        (self.0 >> BYTES_BITS) as u16
    }

    /// Bytes of that exchange's response.
    pub const fn bytes(self) -> u64 {
        self.0 & ((1 << BYTES_BITS) - 1)
    }

    /// `count` bytes further.
    #[must_use]
    pub const fn advance(self, count: u64) -> Self {
        Self(self.0 + count)
    }

    /// The start of the next exchange.
    #[must_use]
    pub const fn next_exchange(self) -> Self {
        Self((self.exchange().wrapping_add(1) as u64) << BYTES_BITS)
    }

    /// Where in the lane the next byte lies.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below LANE_BYTES"
    )]
    pub const fn offset(self) -> usize {
        (self.bytes() % LANE_BYTES as u64) as usize
    }
}

/// Bytes that wait between `read` and `written`, both of the same exchange; `None` when the worker's position is impossible.
pub fn waiting(read: Position, written: Position) -> Option<usize> {
    if read.exchange() != written.exchange() {
        return None;
    }
    let waiting = usize::try_from(written.bytes().checked_sub(read.bytes())?).ok()?;
    (waiting <= LANE_BYTES).then_some(waiting)
}

/// The at most two stretches of a lane that hold `count` bytes from `from`, as `(offset, len)`.
pub fn stretches(from: Position, count: usize) -> [(usize, usize); 2] {
    let first = count.min(LANE_BYTES - from.offset());
    [(from.offset(), first), (0, count - first)]
}
