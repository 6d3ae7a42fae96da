//! The slot word: one atomic that says whose turn an exchange is.
//!
//! ```text
//! gen:24 | inc:16 | worker:16 | state:8
//!
//!          enqueue             claim              publish           free
//!   Free ───────────► Queued ─────────► Running ───────────► Done ────────► Free
//!                      │  ▲              │  │                 ▲
//!                cancel│  └──────────────┘  │ publish         │ publish
//!                      ▼   requeue: its     ▼                 │
//!          Free (gen + 1)  worker died      Streaming ────────┘
//!                          (gen + 1)         └─► Streaming (more is there)
//! ```
//! Only the server frees a slot, and only the reactor that owns it. `gen` goes up at each use, so a ticket or a claim from an
//! earlier use never matches. A worker's word is input: [`Word::state`] is `None` for a state that does not exist.

use crate::sync::{AtomicU64, Ordering};

/// Index of a slot in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotId(pub u16);

/// Number of a worker in its pool: 0 .. [`crate::layout::MAX_WORKERS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkerId(pub u16);

/// How often this worker number has been forked, modulo 2^16: tells a worker from its predecessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u16);

/// Use count of a slot, modulo 2^24.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gen(u32);

impl Gen {
    /// The first.
    pub const ZERO: Self = Self(0);

    /// From its number; the upper 8 bits are dropped.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The next use.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

/// Where an exchange stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// The server may use the slot.
    Free = 0,
    /// A ticket is in the ring; no worker has it.
    Queued = 1,
    /// A worker runs it; nothing has been published.
    Running = 2,
    /// The response is complete in its lane.
    Done = 3,
    /// The response's head is in its lane, more follows.
    Streaming = 4,
}

/// A slot word, taken apart on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// A word without a worker: `Free` or `Queued`.
    pub const fn unclaimed(generation: Gen, state: State) -> Self {
        Self((generation.0 as u64) << 40 | state as u64)
    }

    /// A word of worker `worker`.
    pub const fn claimed(generation: Gen, inc: Incarnation, worker: WorkerId, state: State) -> Self {
        Self((generation.0 as u64) << 40 | (inc.0 as u64) << 24 | (worker.0 as u64) << 8 | state as u64)
    }

    /// Use count.
    pub const fn generation(self) -> Gen {
        Gen::new((self.0 >> 40) as u32)
    }

    /// Incarnation of the worker.
    pub const fn incarnation(self) -> Incarnation {
        #[expect(clippy::cast_possible_truncation, reason = "16 bits are what is wanted")]
        Incarnation((self.0 >> 24) as u16)
    }

    /// The worker.
    pub const fn worker(self) -> WorkerId {
        #[expect(clippy::cast_possible_truncation, reason = "16 bits are what is wanted")]
        WorkerId((self.0 >> 8) as u16)
    }

    /// The state; `None` if the number is none.
    pub const fn state(self) -> Option<State> {
        match self.0 & 0xff {
            0 => Some(State::Free),
            1 => Some(State::Queued),
            2 => Some(State::Running),
            3 => Some(State::Done),
            4 => Some(State::Streaming),
            _ => None,
        }
    }
}

/// Server: makes the slot claimable. The request area is filled before.
pub fn enqueue(word: &AtomicU64, generation: Gen) {
    // Release: pairs with the Acquire of `claim`, so that the worker sees the filled request area.
    word.store(Word::unclaimed(generation, State::Queued).0, Ordering::Release);
}

/// Worker: takes the exchange if it is still queued with this generation.
pub fn claim(word: &AtomicU64, generation: Gen, inc: Incarnation, worker: WorkerId) -> bool {
    let queued = Word::unclaimed(generation, State::Queued).0;
    let running = Word::claimed(generation, inc, worker, State::Running).0;
    // Acquire: pairs with the Release of `enqueue`. Release: the claim is seen with what the worker did before.
    word.compare_exchange(queued, running, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// Worker: moves its exchange on, from `Running` or `Streaming` to `Streaming` or `Done`. False: the server took it away.
pub fn publish(word: &AtomicU64, from: Word, to: State) -> bool {
    let next = Word::claimed(from.generation(), from.incarnation(), from.worker(), to).0;
    // Release: pairs with the Acquire of `observe`, so that the server sees the response written before.
    word.compare_exchange(from.0, next, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// Server: what the word says now.
pub fn observe(word: &AtomicU64) -> Word {
    // Acquire: pairs with the Release of `publish` and `claim`.
    Word(word.load(Ordering::Acquire))
}

/// Server: takes a queued request back (deadline, client gone). False: a worker was faster.
pub fn cancel(word: &AtomicU64, generation: Gen) -> bool {
    let queued = Word::unclaimed(generation, State::Queued).0;
    let free = Word::unclaimed(generation.next(), State::Free).0;
    // AcqRel: a worker that loses its claim to this sees nothing of the next use.
    word.compare_exchange(queued, free, Ordering::AcqRel, Ordering::Acquire)
        .is_ok()
}

/// Server: the exchange is over. Only when no live worker runs it. Returns what the word said.
pub fn free(word: &AtomicU64, generation: Gen) -> Word {
    let free = Word::unclaimed(generation, State::Free).0;
    // Release: the reads of the response are done before the worker sees that slot and lane are free (`is_held`). Acquire: as
    // in `observe`.
    Word(word.swap(free, Ordering::AcqRel))
}

/// Worker: whether the exchange that it claimed as `mine` still has its slot, and with it its lane.
pub fn is_held(word: &AtomicU64, mine: Word) -> bool {
    // Acquire: pairs with the Release of `free`: what comes next into the lane is written after the server's reads.
    let now = Word(word.load(Ordering::Acquire));
    now.0 >> 8 == mine.0 >> 8 && now.state() != Some(State::Free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pictures_show_every_state_and_no_other() {
        let page = include_str!("../../../ARCHITECTURE.md");
        let (_, section) = page
            .split_once("Slot (`ipc::slot::State`)")
            .expect("there is a section");
        for text in [include_str!("slot.rs"), section] {
            check_picture(text.split("```").nth(1).expect("there is a picture"));
        }
    }

    fn check_picture(picture: &str) {
        let mut shown: Vec<_> = picture
            .split(|c: char| !c.is_ascii_alphabetic())
            .filter(|word| word.starts_with(char::is_uppercase))
            .collect();
        shown.sort_unstable();
        shown.dedup();
        let mut states: Vec<_> = (0..=u64::from(u8::MAX))
            .filter_map(|number| Word(number).state())
            .map(|state| format!("{state:?}"))
            .collect();
        states.sort_unstable();
        assert_eq!(shown, states);
    }
}
