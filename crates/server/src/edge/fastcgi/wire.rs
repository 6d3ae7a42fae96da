//! A web server's connection: records in, bytes out, and the records that are nobody's request.
//!
//! One request at a time: what begins another one meanwhile is refused (FastCGI specification 1.0, §5.5), what belongs to none is
//! ignored (§3.3). Answers to questions about the connection go out while the next record is waited for. Called by `exchange` and
//! `stdin`. Runs in: server, on a reactor.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::records::{self, Completion, Kind, Malformed, Record};
use crate::config::Limits;
use crate::edge::Backend;
use crate::edge::connection::Shared;

/// Bytes read at once.
const READ: usize = 16 * 1024;
/// Bytes of answers that a web server may leave untaken while it goes on asking.
const UNTAKEN: usize = 1024 * 1024;

/// Why a connection is over.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// Nothing more can be understood.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// The web server ended it, which ends the request that was being answered (§5.4).
    #[error("the web server ended it")]
    Gone,
    /// The web server was too slow to send a request.
    #[error("a request did not arrive within limits.header_timeout")]
    Slow,
    /// The web server did not take the response.
    #[error("a response was not taken within limits.write_timeout")]
    Stuck,
    /// A response broke off, which only the end of the connection tells.
    #[error("a response broke off")]
    Cut,
}

/// What a record means to the request at hand.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// Nothing.
    Nothing,
    /// The web server has given it up.
    Aborted,
    /// The next part of its body; empty at its end.
    Stdin(Bytes),
}

/// The connection.
pub(super) struct Wire<S> {
    socket: S,
    input: BytesMut,
    /// What has not been written yet.
    pub(super) output: BytesMut,
    /// What is answered to questions about the connection.
    values: [(&'static str, String); 3],
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(super) fn new(socket: S, limits: &Limits) -> Self {
        let most = limits.connections.to_string();
        Self {
            socket,
            input: BytesMut::new(),
            output: BytesMut::new(),
            values: [
                ("FCGI_MAX_CONNS", most.clone()),
                ("FCGI_MAX_REQS", most),
                ("FCGI_MPXS_CONNS", "0".to_owned()),
            ],
        }
    }

    pub(super) fn into_socket(self) -> S {
        self.socket
    }

    /// Waits between two requests. False: there will be none, since the web server has ended the connection or this one stops; a
    /// request that was sent before the stop is not among them.
    pub(super) async fn is_asked<B: Backend>(&mut self, shared: &Shared<B>) -> Result<bool, Lost> {
        let mut stopped = pin!(shared.stopped.notified());
        poll_fn(|cx| {
            if !self.input.is_empty() {
                return Poll::Ready(Ok(true));
            }
            let is_stopping = stopped.as_mut().poll(cx).is_ready() || shared.is_stopping();
            match self.poll_read(cx) {
                Poll::Ready(Ok(0) | Err(_)) => Poll::Ready(Ok(false)),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(true)),
                Poll::Pending if is_stopping => Poll::Ready(Ok(false)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// The next record. Cancel-safe.
    pub(super) async fn record(&mut self) -> Result<Record, Lost> {
        poll_fn(|cx| self.poll_record(cx)).await
    }

    /// As [`Self::record`].
    pub(super) fn poll_record(&mut self, cx: &mut Context<'_>) -> Poll<Result<Record, Lost>> {
        loop {
            if self.output.len() > UNTAKEN {
                return Poll::Ready(Err(Lost::Stuck));
            }
            if let Some(record) = records::take(&mut self.input)? {
                return Poll::Ready(Ok(record));
            }
            match ready!(self.poll_read(cx)) {
                Ok(0) | Err(_) => return Poll::Ready(Err(Lost::Gone)),
                Ok(_) => {}
            }
        }
    }

    /// Ready once `request` is given up, by a record or with the connection. Records that say nothing of that are dealt with.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>, request: u16) -> Poll<Result<(), Lost>> {
        loop {
            let record = ready!(self.poll_record(cx))?;
            if self.aside(record, Some(request))? == Aside::Aborted {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Deals with a record that begins no request that could be answered. `request` is the one at hand.
    pub(super) fn aside(&mut self, record: Record, request: Option<u16>) -> Result<Aside, Malformed> {
        let is_ours = request == Some(record.id);
        match record.kind {
            Kind::GetValues if record.id == 0 => {
                records::put_values(&mut self.output, &record.content, &self.values)?;
            }
            Kind::Begin if is_ours || record.id == 0 => return Err(Malformed::Order),
            Kind::Begin => records::put_end(&mut self.output, record.id, Completion::CannotMultiplex),
            Kind::Params if is_ours => return Err(Malformed::Order),
            Kind::Stdin if is_ours => return Ok(Aside::Stdin(record.content)),
            Kind::Abort if is_ours => return Ok(Aside::Aborted),
            // Of a request that was refused or aborted before it had been received. Only filters are sent data.
            Kind::Abort | Kind::Params | Kind::Stdin | Kind::Data if record.id != 0 => {}
            unknown => records::put_unknown_type(&mut self.output, unknown),
        }
        Ok(Aside::Nothing)
    }

    /// Writes what is to be written; the web server has to take some of it within `limits.write_timeout`, again and again.
    pub(super) async fn flush(&mut self, limits: &Limits) -> Result<(), Lost> {
        while !self.output.is_empty() {
            match timeout(limits.write_timeout, self.socket.write_buf(&mut self.output)).await {
                Err(_) => return Err(Lost::Stuck),
                Ok(Err(_)) => return Err(Lost::Gone),
                Ok(Ok(_)) => {}
            }
        }
        Ok(())
    }

    /// Whether something was received that nobody has looked at.
    pub(super) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while !self.output.is_empty() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.output) {
                Poll::Ready(written) => drop(self.output.split_to(written?)),
                Poll::Pending => break,
            }
        }
        self.input.reserve(READ);
        // Cancel-safe: what it has read is in the buffer.
        pin!(self.socket.read_buf(&mut self.input)).poll(cx)
    }
}
