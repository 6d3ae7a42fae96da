//! A response's way from a worker to the server: a lane.
//!
//! A lane is a byte ring with one writer (the worker) and one reader (the reactor that owns the slot). A worker has
//! [`LANES`](crate::layout::LANES) of them, so that it can begin the next request while the server still reads earlier
//! responses; it takes the first free one, so the same memory stays hot.
//!
//! A lane belongs to its exchange from the claim until the server frees the slot, not only until all that was written has been
//! read: the server may have read everything of a stream before it learns that the stream is over, and would otherwise meet the
//! next exchange's bytes there. So nothing but the slot word says who has a lane.
//!
//! A position is `use:16 | bytes:48`: the number of the exchange in this lane, and how many bytes of its response have been
//! written (RESP, by the worker) or read (ACK, by the server). Each exchange starts at byte 0 of the lane. The response is its
//! head ([`crate::head::write_response`]), then its body.

use crate::layout::LANE_BYTES;

const BYTES_BITS: u32 = 48;
const BYTES_MASK: u64 = (1 << BYTES_BITS) - 1;

/// How far a lane has been written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Position {
    /// Number of the exchange in this lane, modulo 2^16.
    pub const fn exchange(self) -> u16 {
        (self.0 >> BYTES_BITS) as u16
    }

    /// Bytes of that exchange's response, modulo 2^48.
    pub const fn bytes(self) -> u64 {
        self.0 & BYTES_MASK
    }

    /// `count` bytes further, in the same exchange.
    #[must_use]
    pub const fn advance(self, count: u64) -> Self {
        Self(self.0 & !BYTES_MASK | (self.0.wrapping_add(count) & BYTES_MASK))
    }

    /// The start of this exchange.
    #[must_use]
    pub const fn start(self) -> Self {
        Self(self.0 & !BYTES_MASK)
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
        // 2^48 is a multiple of LANE_BYTES, so the ring stays whole when `bytes` wraps.
        (self.bytes() % LANE_BYTES as u64) as usize
    }
}

/// Bytes that wait between `read` and `written`, both of the same exchange; `None` when the worker's position is impossible.
pub fn waiting(read: Position, written: Position) -> Option<usize> {
    if read.exchange() != written.exchange() {
        return None;
    }
    let waiting = usize::try_from(written.bytes().wrapping_sub(read.bytes()) & BYTES_MASK).ok()?;
    (waiting <= LANE_BYTES).then_some(waiting)
}

/// The at most two stretches of a lane that hold `count` bytes from `from`, as `(offset, len)`. Never more than the whole lane.
pub fn stretches(from: Position, count: usize) -> [(usize, usize); 2] {
    let count = count.min(LANE_BYTES);
    let first = count.min(LANE_BYTES - from.offset());
    [(from.offset(), first), (0, count - first)]
}
