//! The socket as hyper sees it: `Wire` notes for the deadlines of `progress` when something moved, has `framing` look at all that is
//! read, and keeps from hyper what is malformed. Runs in: server, on one reactor (a connection never moves).

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use hyper::rt::ReadBufCursor;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tracing::debug;

use super::framing::{Framing, Malformed, TOO_LONG};
use crate::config::Limits;
use crate::edge::files::sendfile::{self, Outbox};
use crate::edge::progress::{Phase, Progress};
use crate::edge::reply;
use crate::edge::transport::Transport;

/// Bytes read at once. One buffer a thread: an idle connection holds none.
const SCRATCH: usize = 64 * 1024;

thread_local! {
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; SCRATCH]);
}

/// A client that closes its sending side and waits for the response does so with its request. Over TCP a later end of what it sends cannot
/// be told from its leaving, and is taken for that (docs/adr/0010).
const HALF_CLOSE: Duration = Duration::from_millis(100);

/// A client's socket.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Transport,
    progress: Arc<Progress>,
    outbox: Arc<Outbox>,
    framing: Framing,
    /// What hyper reads next, and then no more, since something was malformed.
    last_bytes: Option<&'static [u8]>,
    /// What is left of interim responses that have begun to be sent.
    interim: Vec<u8>,
    /// The client sends no more, and waits for its response.
    is_half_closed: bool,
}

impl Wire {
    pub(super) fn new(
        socket: Transport,
        (progress, outbox): (Arc<Progress>, Arc<Outbox>),
        limits: &Limits,
    ) -> Self {
        // hyper refuses a head once so many bytes are there, whatever they are; a line is to be found too long before.
        let line_limit = usize::try_from(limits.header_bytes.0 - 1).unwrap_or(usize::MAX);
        Self {
            socket,
            progress,
            outbox,
            framing: Framing::new(line_limit),
            last_bytes: None,
            interim: Vec::new(),
            is_half_closed: false,
        }
    }

    /// Sends interim responses, of which hyper knows nothing. It flushes the socket only when it has nothing to write itself, so what is
    /// sent then stands between two responses. More are taken only when the client has taken the last ones: a script waits for a client that
    /// does not read.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_rest(cx))?;
        while self.progress.interim().any() {
            for (status, headers) in self.progress.interim().take() {
                put_head(&mut self.interim, status, &headers);
            }
            ready!(self.poll_rest(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Ends what has begun.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let result = Pin::new(&mut self.socket).poll_write(cx, &self.interim);
            self.progress.wrote(&result);
            let count = ready!(result)?;
            self.interim.drain(..count);
        }
        Poll::Ready(Ok(()))
    }

    /// Looks whether the client has left while it is being answered; hyper does not read then. An error ends the connection, and what is
    /// being done for it. What comes instead of the end is the next request, which is kept until hyper reads it.
    fn watch(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let is_answered = self.progress.phase() == Phase::Exchange && self.framing.is_between();
        if !is_answered || self.is_half_closed || !self.socket.before().is_empty() {
            return Ok(());
        }
        while self.socket.poll_readable(cx)?.is_ready() {
            match self.socket.poll_ahead(cx)? {
                Poll::Pending => {}
                Poll::Ready(0) => return self.note_end(),
                Poll::Ready(_) => break,
            }
        }
        Ok(())
    }

    /// The client sends no more.
    fn note_end(&mut self) -> io::Result<()> {
        let came_with_request = || self.progress.answering_for(Instant::now()) < HALF_CLOSE;
        self.is_half_closed = self.socket.is_half_closed().unwrap_or_else(came_with_request);
        if self.is_half_closed {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "the client has left",
        ))
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
        progress.set_part_of_head(in_head);
        match progress.phase() {
            Phase::Idle if in_head => progress.enter(Phase::Head, Instant::now()),
            Phase::Exchange => progress.note_body(Instant::now()),
            _ => {}
        }
        let Err(Malformed { at, why }) = followed else {
            return Ok(bytes.len());
        };
        debug!(why, "request malformed");
        self.last_bytes = Some(b"");
        if self.framing.in_body() {
            progress.set_malformed_body();
            return Ok(at);
        }
        if why == TOO_LONG && progress.phase() != Phase::Exchange && self.framing.heads() == heads {
            progress.set_target_too_long();
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
        if self.progress.is_stopping() {
            self.progress.set_unread(self.socket.has_unread());
        }
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
        ready!(this.poll_rest(cx))?;
        let result = Pin::new(&mut this.socket).poll_write(cx, bytes);
        this.progress.wrote(&result);
        result
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.watch(cx)?;
        ready!(this.poll_interim(cx))?;
        Pin::new(&mut this.socket).poll_flush(cx)
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
        ready!(this.poll_rest(cx))?;
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
        this.progress.wrote(&result);
        Poll::Ready(ready!(result))
    }
}

/// The head of an interim response.
fn put_head(out: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
    reply::put_lines(out, headers);
}
