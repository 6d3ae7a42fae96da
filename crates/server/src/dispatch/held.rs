//! Bytes of bodies, of requests and of responses, that the server has in memory: where many clients are slow, each is held to less,
//! and the rest goes to files, where a single one may have its whole share.
//!
//! Counted over all reactors, and only for what is kept for clients. Called by `relay`, and by `edge`. Runs in: server.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all together that are plenty.
const PLENTY: u64 = 32 << 20;

/// Every access is relaxed: it guides, it guards no memory.
static ALL: AtomicU64 = AtomicU64::new(0);

/// What one body has in memory.
#[derive(Debug, Default)]
pub(crate) struct Held(u64);

impl Held {
    /// It has so many bytes now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = bytes as u64;
        // Wraps around where it became less, which is what subtracts.
        ALL.fetch_add(bytes.wrapping_sub(self.0), Ordering::Relaxed);
        self.0 = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Whether all together have so much that each is to be held to less.
pub(crate) fn is_scarce() -> bool {
    ALL.load(Ordering::Relaxed) > PLENTY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_until_it_is_dropped() {
        // Other tests hold something too, but never that much; and none minds that it is scarce.
        let mut held = Held::default();
        held.set(1 << 50);
        assert!(is_scarce());
        held.set(3);
        assert!(!is_scarce());
        held.set(1 << 50);
        drop(held);
        assert!(!is_scarce());
    }
}
