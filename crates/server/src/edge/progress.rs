//! What a connection is doing and when it last moved, for its deadlines.
//!
//! hyper knows one deadline (for a head) and h2 none; we need four: a head, a block of headers, idle, and a client that does not take what
//! it asked for. Noted by `http1::wire`, `http2::wire` and `record`, compared with the limits by `timer`. Runs in: server, on one reactor.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Limits;
use crate::dispatch::Interim;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// A head is expected at once: the connection is new, or the first byte of a request was read.
    Head = 0,
    /// Kept alive, between two requests.
    Idle = 1,
    /// A request is being answered, or several are.
    Exchange = 2,
}

/// Why a connection was ended by its deadlines or its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The head did not arrive in time.
    SlowHead,
    /// Nothing was asked for a long time.
    Idle,
    /// The client did not take the response.
    SlowReader,
}

/// Shared by the wire, the connection's future and the exchange in it. All run on one thread, so every access is relaxed.
#[derive(Debug)]
pub(super) struct Progress {
    epoch: Instant,
    phase: AtomicU8,
    /// Milliseconds after `epoch` at which the phase began; of an exchange: at which the last byte of the request came.
    since: AtomicU64,
    /// Milliseconds after `epoch` since when a write is stuck, plus 1; 0 when none is.
    stuck: AtomicU64,
    /// Milliseconds that writes have been stuck before, and bytes that the client has taken since the first time: of the response that is
    /// being sent.
    waited: AtomicU64,
    taken: AtomicU64,
    any_byte: AtomicBool,
    /// What was read ends within a head.
    part_of_head: AtomicBool,
    malformed_body: AtomicBool,
    target_too_long: AtomicBool,
    stopping: AtomicBool,
    unread: AtomicBool,
    linger: AtomicBool,
    /// Requests that are being answered.
    open: AtomicU32,
    /// HTTP/2: milliseconds after `epoch` since when a block of headers is open, plus 1; 0 when none is.
    block: AtomicU64,
    /// HTTP/2: the client sends mostly noise.
    noise: AtomicBool,
    /// HTTP/2: requests that were answered, and that the client has taken back.
    answered: AtomicU32,
    taken_back: AtomicU32,
    /// HTTP/1: what is to be sent before the response.
    interim: Arc<Interim>,
}

impl Progress {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            epoch: now,
            phase: AtomicU8::new(Phase::Head as u8),
            since: AtomicU64::new(0),
            stuck: AtomicU64::new(0),
            waited: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            any_byte: AtomicBool::new(false),
            part_of_head: AtomicBool::new(false),
            malformed_body: AtomicBool::new(false),
            target_too_long: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            linger: AtomicBool::new(false),
            open: AtomicU32::new(0),
            block: AtomicU64::new(0),
            noise: AtomicBool::new(false),
            answered: AtomicU32::new(0),
            taken_back: AtomicU32::new(0),
            interim: Arc::default(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Head,
            1 => Phase::Idle,
            _ => Phase::Exchange,
        }
    }

    /// HTTP/1: what is to be sent before the response.
    pub(super) fn interim(&self) -> &Arc<Interim> {
        &self.interim
    }

    /// A request has come.
    pub(super) fn begin_exchange(&self, now: Instant) {
        let open = self.open.load(Ordering::Relaxed);
        self.open.store(open + 1, Ordering::Relaxed);
        self.enter(Phase::Exchange, now);
    }

    /// A part of the body of the request that is being answered has come.
    pub(super) fn note_body(&self, now: Instant) {
        self.since.store(self.millis(now), Ordering::Relaxed);
    }

    /// How long ago the last byte of the request that is being answered has come.
    pub(super) fn answering_for(&self, now: Instant) -> Duration {
        Duration::from_millis(
            self.millis(now)
                .saturating_sub(self.since.load(Ordering::Relaxed)),
        )
    }

    /// A request has been answered.
    pub(super) fn end_exchange(&self, now: Instant) {
        let open = self.open.load(Ordering::Relaxed).saturating_sub(1);
        self.open.store(open, Ordering::Relaxed);
        if open == 0 {
            self.enter(Phase::Idle, now);
        }
    }

    /// Requests that are being answered.
    pub(super) fn open(&self) -> u32 {
        self.open.load(Ordering::Relaxed)
    }

    /// A stream of HTTP/2 has ended; by its client, if it was `taken_back`.
    pub(super) fn end_stream(&self, taken_back: bool) {
        let count = if taken_back {
            &self.taken_back
        } else {
            &self.answered
        };
        count.store(count.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }

    /// HTTP/2: whether the client takes back more than it lets be answered, and more than `allowed`.
    pub(super) fn is_fickle(&self, allowed: u32) -> bool {
        let taken_back = self.taken_back.load(Ordering::Relaxed);
        taken_back > allowed && taken_back > self.answered.load(Ordering::Relaxed)
    }

    /// HTTP/2: the client sends mostly what asks for nothing.
    pub(super) fn set_noise(&self) {
        self.noise.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_noise(&self) -> bool {
        self.noise.load(Ordering::Relaxed)
    }

    /// HTTP/2: whether a block of headers has begun and not ended; `begun`: one has begun now.
    pub(super) fn set_block(&self, open: bool, begun: bool) {
        if !open {
            self.block.store(0, Ordering::Relaxed);
        } else if begun {
            self.block
                .store(self.millis(Instant::now()) + 1, Ordering::Relaxed);
        }
    }

    /// Bytes were read, which end within a head or not.
    pub(super) fn set_part_of_head(&self, in_head: bool) {
        self.part_of_head.store(in_head, Ordering::Relaxed);
        self.any_byte.store(true, Ordering::Relaxed);
    }

    /// A body broke off since it is not framed as it must be.
    pub(super) fn set_malformed_body(&self) {
        self.malformed_body.store(true, Ordering::Relaxed);
    }

    /// The request line was longer than a head may be.
    pub(super) fn set_target_too_long(&self) {
        self.target_too_long.store(true, Ordering::Relaxed);
    }

    /// Whether the server stops.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether bytes wait that nobody has read; asked for once the server stops.
    pub(super) fn set_unread(&self, unread: bool) {
        self.unread.store(unread, Ordering::Relaxed);
    }

    /// Enters a phase. No connection is idle that has sent a part of its next request.
    pub(super) fn enter(&self, phase: Phase, now: Instant) {
        let phase = match phase {
            Phase::Idle if self.part_of_head.load(Ordering::Relaxed) => Phase::Head,
            phase => phase,
        };
        if phase == Phase::Exchange && self.stuck.load(Ordering::Relaxed) == 0 {
            self.waited.store(0, Ordering::Relaxed);
            self.taken.store(0, Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Relaxed);
        self.since.store(self.millis(now), Ordering::Relaxed);
        if phase == Phase::Exchange {
            self.unread.store(false, Ordering::Relaxed);
        }
    }

    /// When the connection is to be ended if nothing moves, and why.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<(Instant, Fault)> {
        let since = |ms: u64, limit: Duration| self.epoch + Duration::from_millis(ms) + limit;
        let stuck = self.stuck.load(Ordering::Relaxed);
        if stuck != 0 {
            let pause = self.patience(limits).min(limits.write_timeout);
            return Some((since(stuck - 1, pause), Fault::SlowReader));
        }
        let block = self.block.load(Ordering::Relaxed);
        if block != 0 {
            return Some((since(block - 1, limits.header_timeout), Fault::SlowHead));
        }
        let began = self.since.load(Ordering::Relaxed);
        match self.phase() {
            Phase::Head => Some((since(began, limits.header_timeout), Fault::SlowHead)),
            Phase::Idle => Some((since(began, limits.idle_timeout), Fault::Idle)),
            Phase::Exchange => None,
        }
    }

    /// True once a byte of a request was read whose head is not complete.
    pub(super) fn head_begun(&self) -> bool {
        self.phase() == Phase::Head && self.any_byte.load(Ordering::Relaxed)
    }

    /// True when the request line was longer than a head may be.
    pub(super) fn target_too_long(&self) -> bool {
        self.target_too_long.load(Ordering::Relaxed)
    }

    /// True when a body broke off since it is not framed as it must be.
    pub(super) fn malformed_body(&self) -> bool {
        self.malformed_body.load(Ordering::Relaxed)
    }

    /// From now on the wire looks whether a request waits unread in the socket.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// True when a request was sent before the stop and must still be answered.
    pub(super) fn unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed) || self.head_begun()
    }

    /// The response goes out before the request was read: what the client still sends is to be swallowed, or the reset of the
    /// connection would destroy the response on its way.
    pub(super) fn set_linger(&self) {
        self.linger.store(true, Ordering::Relaxed);
    }

    pub(super) fn lingers(&self) -> bool {
        self.linger.load(Ordering::Relaxed)
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// How long the client may take until its next byte, lest it be slower on average than it may.
    fn patience(&self, limits: &Limits) -> Duration {
        let Some(seconds) = self
            .taken
            .load(Ordering::Relaxed)
            .checked_div(limits.write_min_rate)
        else {
            return Duration::MAX;
        };
        let allowed = limits.write_timeout.max(Duration::from_secs(seconds));
        allowed.saturating_sub(Duration::from_millis(self.waited.load(Ordering::Relaxed)))
    }

    /// A write was tried.
    pub(super) fn wrote(&self, result: &Poll<io::Result<usize>>) {
        let stuck = self.stuck.load(Ordering::Relaxed);
        match result {
            Poll::Pending if stuck == 0 => {
                self.stuck
                    .store(self.millis(Instant::now()) + 1, Ordering::Relaxed);
            }
            Poll::Pending => {}
            Poll::Ready(result) => {
                let bytes = result.as_ref().copied().unwrap_or(0);
                if stuck != 0 {
                    let pause = self.millis(Instant::now()).saturating_sub(stuck - 1);
                    self.waited.fetch_add(pause.max(1), Ordering::Relaxed);
                    self.stuck.store(0, Ordering::Relaxed);
                }
                if self.waited.load(Ordering::Relaxed) != 0 {
                    self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
        }
    }
}
