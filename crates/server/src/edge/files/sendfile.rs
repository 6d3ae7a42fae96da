//! Bytes of files that the kernel sends, without a copy of ours (`sendfile(2)`).
//!
//! hyper knows bytes only. So a body gives it a *stand-in*: as many bytes of [`STAND_IN`] as are to be sent, which hyper queues, without
//! looking at them or copying them, since the wire takes vectors. The wire knows them by their address and has the kernel send the next piece
//! of the [`Outbox`] instead. Both queues are first in, first out, so they keep step. Only for HTTP/1 on a plain socket: whatever codes or
//! frames the bytes must read them. Called by `body` and `http1::wire`. Runs in: server, on one reactor.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;

use crate::edge::transport::{Transport, Unsent};

/// Bytes that are sent at once, at most.
pub(super) const MOST: usize = 512 * 1024;

/// Never sent.
static STAND_IN: [u8; MOST] = [0; MOST];

/// A part of a file that hyper takes for bytes.
#[derive(Debug)]
struct Piece {
    file: Arc<File>,
    at: u64,
    left: usize,
    /// No other one of this response follows.
    last: bool,
}

/// What a connection has to send and hyper has not: shared by its wire and the body of its response, which run on one thread.
#[derive(Debug, Default)]
pub(in crate::edge) struct Outbox {
    pieces: Mutex<VecDeque<Piece>>,
    is_wide: AtomicBool,
}

impl Outbox {
    /// What hyper is given for the bytes of `file` from `start` to `end`, [`MOST`] at most.
    pub(super) fn stand_in(&self, file: &Arc<File>, (start, end): (u64, u64), last: bool) -> Option<Bytes> {
        let left = usize::try_from(end - start).ok()?;
        let bytes = Bytes::from_static(STAND_IN.get(..left)?);
        self.lock().push_back(Piece {
            file: Arc::clone(file),
            at: start,
            left,
            last,
        });
        Some(bytes)
    }

    /// Sends what the first `count` bytes of stand-ins are for.
    pub(in crate::edge) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        transport: &Transport,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        let mut pieces = self.lock();
        let Some(piece) = pieces.front_mut() else {
            // Never: hyper has no stand-in that is not of a piece.
            return Poll::Ready(Err(io::Error::other("a stand-in for no file")));
        };
        let count = count.min(piece.left);
        // What waits to be sent is the file's own memory, so it need not be little; and waking for each little is what costs.
        self.widen(transport, Unsent::Any);
        let sent = ready!(transport.poll_send_file(cx, &piece.file, (&mut piece.at, count)))?;
        if sent == 0 {
            // It became shorter, and its length was promised.
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        piece.left -= sent;
        if piece.left == 0 {
            let last = piece.last;
            pieces.pop_front();
            if last {
                self.widen(transport, Unsent::Little);
            }
        }
        Poll::Ready(Ok(sent))
    }

    fn widen(&self, transport: &Transport, unsent: Unsent) {
        let any = unsent == Unsent::Any;
        // Relaxed: all of a connection runs on one thread.
        if self.is_wide.swap(any, Ordering::Relaxed) != any {
            transport.bound_unsent(unsent);
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Piece>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether these are bytes of a stand-in.
pub(in crate::edge) fn is_stand_in(bytes: &[u8]) -> bool {
    let (start, at) = (STAND_IN.as_ptr().addr(), bytes.as_ptr().addr());
    !bytes.is_empty() && at >= start && at < start + MOST
}
