//! The ring of tickets: reactors append, any idle worker pulls.
//!
//! A ticket is a hint, not ownership: ownership is the claim of the slot word ([`crate::slot::claim`]). So a worker that dies
//! between pop and claim loses nothing (the server sees a queued slot whose ticket has passed and gives it a new one), and a
//! stale ticket costs its reader one failed claim. The tail is known to the server only; workers tell a filled cell by its tag.

use crate::slot::{Gen, SlotId};
use crate::sync::{AtomicU64, Ordering};

/// Position in the queue, ever growing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The shared part of the ring. `cells.len()` is a power of two.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    /// Next ticket to pull. Written by workers: not to be trusted by the server beyond deciding when to look again.
    pub head: &'a AtomicU64,
    /// `(ticket + 1):24 | gen:24 | slot:16`
    pub cells: &'a [AtomicU64],
}

const TAG_MASK: u64 = 0x00ff_ffff;

const fn tag(ticket: u64) -> u64 {
    ticket.wrapping_add(1) & TAG_MASK
}

impl Ring<'_> {
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "the mask keeps the index below the power-of-two length"
    )]
    fn cell(&self, ticket: u64) -> &AtomicU64 {
        &self.cells[ticket as usize & (self.cells.len() - 1)]
    }

    /// Server: appends. `tail` is the server's own counter, shared by its reactors.
    pub fn push(&self, tail: &AtomicU64, slot: SlotId, generation: Gen) -> Ticket {
        // Relaxed: the cell's Release publishes; the counter only hands out numbers.
        let ticket = tail.fetch_add(1, Ordering::Relaxed);
        let value = tag(ticket) << 40 | u64::from(generation.get()) << 16 | u64::from(slot.0);
        // Release: pairs with the Acquire in `pop`.
        self.cell(ticket).store(value, Ordering::Release);
        Ticket(ticket)
    }

    /// Worker: the oldest ticket, or `None` when there is none.
    pub fn pop(&self) -> Option<(SlotId, Gen)> {
        loop {
            // Acquire: pairs with the AcqRel of the exchange below in another worker.
            let head = self.head.load(Ordering::Acquire);
            // Acquire: pairs with the Release in `push`.
            let value = self.cell(head).load(Ordering::Acquire);
            if value >> 40 != tag(head) {
                // Acquire: as above; an unchanged head means that the cell really is empty.
                if self.head.load(Ordering::Acquire) == head {
                    return None;
                }
                continue;
            }
            // AcqRel: pairs with the loads of the other workers.
            if self
                .head
                .compare_exchange_weak(head, head.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "the fields are 16 and 24 bits wide"
                )]
                return Some((SlotId(value as u16), Gen::new((value >> 16) as u32)));
            }
        }
    }

    /// Whether a ticket waits.
    pub fn is_empty(&self) -> bool {
        loop {
            // Acquire on all: as in `pop`.
            let head = self.head.load(Ordering::Acquire);
            if self.cell(head).load(Ordering::Acquire) >> 40 == tag(head) {
                return false;
            }
            if self.head.load(Ordering::Acquire) == head {
                return true;
            }
        }
    }

    /// Server: tickets not yet pulled, as far as workers say; `None` when what they say is impossible.
    pub fn backlog(&self, tail: &AtomicU64) -> Option<u64> {
        // Acquire: pairs with the AcqRel in `pop`; head before tail, so that head <= tail unless it was scribbled on.
        let head = self.head.load(Ordering::Acquire);
        let backlog = tail.load(Ordering::Acquire).checked_sub(head)?;
        (backlog <= self.cells.len() as u64).then_some(backlog)
    }

    /// Server: the ticket that is next to be pulled, if its cell does not hold it although it has been handed out. For a moment
    /// that is an append under way; an answer that stays is a cell that was scribbled on, and no worker gets past it.
    pub fn stuck(&self, tail: &AtomicU64) -> Option<Ticket> {
        // Acquire on all: as in `backlog`.
        let head = self.head.load(Ordering::Acquire);
        let next = self.cell(head).load(Ordering::Acquire) >> 40;
        (head < tail.load(Ordering::Acquire) && next != tag(head)).then_some(Ticket(head))
    }

    /// Server: empties the queue, whatever is in it. Only while no worker lives. All tickets have passed then.
    pub fn reset(&self, tail: &AtomicU64) {
        // Relaxed, all: workers that see this are forked later.
        let next = tail.load(Ordering::Relaxed);
        let lap = self.cells.len() as u64;
        for ticket in next..next + lap {
            // The tag of a lap ago: no ticket to come has it.
            self.cell(ticket)
                .store(tag(ticket.wrapping_sub(lap)) << 40, Ordering::Relaxed);
        }
        self.head.store(next, Ordering::Relaxed);
    }

    /// Server: whether `ticket` has been pulled.
    pub fn has_passed(&self, ticket: Ticket) -> bool {
        // Acquire: as in `backlog`.
        self.head.load(Ordering::Acquire) > ticket.0
    }
}
