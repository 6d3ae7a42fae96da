//! The socket as h2 sees it: notes for the deadlines of `progress` when something moved, and has `frames` look at all that is read. Of
//! a client that means harm h2 gets to see nothing more.
//!
//! Called by h2. Runs in: server, on one reactor.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{Block, Frames};
use crate::config::Limits;
use crate::edge::progress::Progress;
use crate::edge::transport::Transport;

/// Fields of a block for each that a request may have, and those that are none of its headers (`:path` and others). Clients send a cookie
/// in pieces, which count as one; beyond this nobody means well, and it is not decoded.
const PIECES: usize = 4;
const PSEUDO: usize = 4;

/// A client's socket.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Transport,
    progress: Arc<Progress>,
    frames: Frames,
    written: u64,
}

impl Wire {
    /// A connection of which nothing was read that is not read again.
    pub(super) fn new(socket: Transport, progress: Arc<Progress>, limits: &Limits) -> Self {
        let most = limits.header_count.saturating_add(PSEUDO).saturating_mul(PIECES);
        Self {
            socket,
            progress,
            frames: Frames::new(most),
            written: 0,
        }
    }

    fn note_read(&mut self, bytes: &[u8]) {
        let block = self.frames.read(bytes);
        self.progress
            .set_block(block != Block::None, block == Block::Begun);
        if self.frames.is_crowded() || self.frames.is_noise(self.written) {
            self.progress.set_noise();
        }
    }

    fn note_written(&mut self, result: &Poll<io::Result<usize>>) {
        self.progress.wrote(result);
        if let Poll::Ready(Ok(count)) = result {
            self.written += *count as u64;
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = out.filled().len();
        ready!(Pin::new(&mut this.socket).poll_read(cx, out))?;
        this.note_read(out.filled().get(start..).unwrap_or_default());
        if this.progress.is_noise() {
            // The connection ends, as soon as h2 has handed over to `h2`, which looks.
            out.set_filled(start);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let result = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.note_written(&result);
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
        let result = Pin::new(&mut this.socket).poll_write_vectored(cx, parts);
        this.note_written(&result);
        result
    }
}
