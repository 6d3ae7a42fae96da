//! The socket as hyper sees it, and what the connection's deadlines need to know about it.
//!
//! hyper knows one deadline (for a head); we need three: head, idle, and a client that does not take what it asked for. `Wire` notes
//! when something moved, `h1` compares that with the limits. It also has `framing` look at all that is read, and keeps from hyper what
//! is malformed. Runs in: server, on one reactor (a connection never moves).

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tracing::debug;

use super::framing::{Framing, Malformed, TOO_LONG};
use super::sendfile::{self, Outbox};
use super::transport::Transport;
use crate::config::Limits;

/// Bytes read at once. One buffer a thread: an idle connection holds none.
const SCRATCH: usize = 64 * 1024;

thread_local! {
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH]);
}

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// A head is expected at once: the connection is new, or the first byte of a request was read.
    Head = 0,
    /// Kept alive, between two requests.
    Idle = 1,
    /// A request is being answered.
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
    /// Milliseconds after `epoch` at which the phase began.
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
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Head,
            1 => Phase::Idle,
            _ => Phase::Exchange,
        }
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

    /// A write was tried; `taken` is `None` when nothing could be written.
    fn wrote(&self, taken: Option<usize>) {
        let stuck = self.stuck.load(Ordering::Relaxed);
        match taken {
            None if stuck == 0 => {
                self.stuck
                    .store(self.millis(Instant::now()) + 1, Ordering::Relaxed);
            }
            None => {}
            Some(bytes) => {
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

/// A client's socket.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Transport,
    progress: Arc<Progress>,
    outbox: Arc<Outbox>,
    framing: Framing,
    /// What hyper reads next, and then no more, since something was malformed.
    last_bytes: Option<&'static [u8]>,
}

impl Wire {
    pub(super) fn new(
        socket: Transport,
        (progress, outbox): (Arc<Progress>, Arc<Outbox>),
        limits: &Limits,
    ) -> Self {
        let line_limit = usize::try_from(limits.header_bytes.0).unwrap_or(usize::MAX);
        Self {
            socket,
            progress,
            outbox,
            framing: Framing::new(line_limit),
            last_bytes: None,
        }
    }

    pub(super) fn into_socket(self) -> Transport {
        self.socket
    }

    /// Looks at what was read; returns how much of it hyper gets, which then refuses what is malformed, in its turn. Behind that
    /// nothing is read any more.
    fn note_read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let progress = &self.progress;
        let heads = self.framing.heads();
        let followed = self.framing.follow(bytes);
        let in_head = self.framing.in_head();
        progress.part_of_head.store(in_head, Ordering::Relaxed);
        progress.any_byte.store(true, Ordering::Relaxed);
        if in_head && progress.phase() == Phase::Idle {
            progress.enter(Phase::Head, Instant::now());
        }
        let Err(Malformed { at, why }) = followed else {
            return Ok(bytes.len());
        };
        debug!(why, "request malformed");
        self.last_bytes = Some(b"");
        if self.framing.in_body() {
            progress.malformed_body.store(true, Ordering::Relaxed);
            return Ok(at);
        }
        if why == TOO_LONG && progress.phase() != Phase::Exchange && self.framing.heads() == heads {
            progress.target_too_long.store(true, Ordering::Relaxed);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        // May stand nowhere in a head, which hyper looks at when it ends.
        if let Some(byte) = bytes.get_mut(at) {
            *byte = 0;
        }
        self.last_bytes = Some(b"\r\n\r\n");
        Ok(at + 1)
    }

    fn note_unread(&self) {
        if self.progress.stopping.load(Ordering::Relaxed) {
            let waiting = self.socket.has_unread();
            self.progress.unread.store(waiting, Ordering::Relaxed);
        }
    }
}

fn taken(result: &Poll<io::Result<usize>>) -> Option<usize> {
    match result {
        Poll::Pending => None,
        Poll::Ready(result) => Some(result.as_ref().copied().unwrap_or(0)),
    }
}

impl hyper::rt::Read for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut out: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Some(last) = this.last_bytes.take() {
            this.last_bytes = Some(b"");
            out.put_slice(last);
            return Poll::Ready(Ok(()));
        }
        READ.with_borrow_mut(|scratch| {
            let room = out.remaining().min(SCRATCH);
            let mut buf = ReadBuf::new(scratch.get_mut(..room).unwrap_or_default());
            match Pin::new(&mut this.socket).poll_read(cx, &mut buf) {
                Poll::Pending => {
                    this.note_unread();
                    Poll::Pending
                }
                Poll::Ready(result) => {
                    result?;
                    let count = match buf.filled_mut() {
                        [] => 0,
                        read => this.note_read(read)?,
                    };
                    out.put_slice(buf.filled().get(..count).unwrap_or_default());
                    Poll::Ready(Ok(()))
                }
            }
        })
    }
}

impl hyper::rt::Write for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.progress.wrote(taken(&result));
        result
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = match parts.iter().position(|part| sendfile::is_stand_in(part)) {
            None => Pin::new(&mut this.socket).poll_write_vectored(cx, parts),
            Some(0) => {
                let count = parts.first().map_or(0, |part| part.len());
                this.outbox.poll_send(cx, &this.socket, count)
            }
            // What stands before it goes first.
            Some(number) => {
                let before = parts.get(..number).unwrap_or_default();
                Pin::new(&mut this.socket).poll_write_vectored(cx, before)
            }
        };
        this.progress.wrote(taken(&result));
        Poll::Ready(ready!(result))
    }
}
