//! The body of a static file: pieces of it, read one at a time, so that a big file takes little memory.
//!
//! What the kernel has in memory is read at once; for what it has not, one of tokio's blocking threads waits, so that a slow disk
//! holds no reactor. Called by `reply::body`. Runs in: server, on a reactor.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tokio::task::JoinHandle;

use super::sendfile::{self, Outbox};
use crate::dispatch::held::{self, Held};

/// Bytes read at once.
pub(super) const CHUNK: u64 = 128 * 1024;
/// The same where memory is scarce.
const SCARCE: u64 = 16 * 1024;

/// Fewer bytes are read sooner than looked for and sent.
const LEAST: u64 = 16 * 1024;

/// A piece of the body.
pub(super) enum Piece {
    /// Bytes of ours.
    Text(Bytes),
    /// Of the file: start and end (exclusive).
    Part(u64, u64),
}

impl Piece {
    fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Part(start, end) => end - start,
        }
    }
}

/// The pieces that are still to be sent.
pub(in crate::edge) struct FileBody {
    file: Arc<File>,
    /// Of a connection whose bytes the kernel can send.
    outbox: Option<Arc<Outbox>>,
    pieces: VecDeque<Piece>,
    remaining: u64,
    held: Held,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    pub(super) fn new(file: File, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let pieces: VecDeque<Piece> = pieces.into_iter().filter(|p| p.len() > 0).collect();
        let remaining = pieces.iter().map(Piece::len).sum();
        Self {
            file: Arc::new(file),
            outbox: None,
            pieces,
            remaining,
            held: Held::default(),
            reading: None,
        }
    }

    /// Its bytes are not read but sent by the kernel, where the file is in memory: hyper alone may have what comes out.
    pub(super) fn by_kernel(mut self, outbox: Option<&Arc<Outbox>>) -> Self {
        self.outbox = outbox.cloned();
        self
    }

    pub(in crate::edge) fn remaining(&self) -> u64 {
        self.remaining
    }

    pub(in crate::edge) fn is_end(&self) -> bool {
        self.remaining == 0
    }

    pub(in crate::edge) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(reading) = &mut self.reading {
                let read = ready!(Pin::new(reading).poll(cx));
                self.reading = None;
                let bytes = read.unwrap_or_else(|lost| Err(io::Error::other(lost)));
                return Poll::Ready(Some(bytes.inspect(|b| self.remaining -= b.len() as u64)));
            }
            match self.pieces.pop_front() {
                None => return Poll::Ready(None),
                Some(Piece::Text(text)) => {
                    self.remaining -= text.len() as u64;
                    return Poll::Ready(Some(Ok(text)));
                }
                Some(Piece::Part(start, end)) => {
                    if let Some(bytes) = self.stand_in(start, end) {
                        self.held.set(0);
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                    let chunk = if held::is_scarce() { SCARCE } else { CHUNK };
                    let stop = end.min(start + chunk);
                    // hyper holds it until the client has taken it.
                    self.held.set(usize::try_from(stop - start).unwrap_or(usize::MAX));
                    if stop < end {
                        self.pieces.push_front(Piece::Part(stop, end));
                    }
                    if let Some(bytes) = read_now(&self.file, start, stop) {
                        return Poll::Ready(Some(bytes.inspect(|b| self.remaining -= b.len() as u64)));
                    }
                    let file = Arc::clone(&self.file);
                    self.reading = Some(tokio::task::spawn_blocking(move || read(&file, start, stop)));
                }
            }
        }
    }
}

impl FileBody {
    /// What hyper gets for the next bytes, if the kernel sends them.
    fn stand_in(&mut self, start: u64, end: u64) -> Option<Bytes> {
        let outbox = self.outbox.as_ref()?;
        let stop = end.min(start + sendfile::MOST as u64);
        // To send it the kernel would wait for the disk, and the reactor with it.
        let here = |at: u64| read_now(&self.file, at, at + 1).is_some_and(|read| read.is_ok());
        if stop - start < LEAST || !here(start) || !here(stop - 1) {
            return None;
        }
        let last = self.remaining == stop - start;
        let bytes = outbox.stand_in(&self.file, (start, stop), last)?;
        if stop < end {
            self.pieces.push_front(Piece::Part(stop, end));
        }
        self.remaining -= stop - start;
        Some(bytes)
    }
}

/// The bytes from `start` to `end`. A file that became shorter is an error: its length was promised.
pub(super) fn read(file: &File, start: u64, end: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.read_exact_at(&mut buffer, start)?;
    Ok(Bytes::from(buffer))
}

/// As [`read`], if that needs no waiting for a disk.
pub(super) fn read_now(file: &File, start: u64, end: u64) -> Option<io::Result<Bytes>> {
    let mut buffer = vec![0; usize::try_from(end - start).ok()?];
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let at = start + done as u64;
        match preadv2(file, &mut [IoSliceMut::new(rest)], at, ReadWriteFlags::NOWAIT) {
            Ok(0) => return Some(Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(read) => done += read,
            Err(Errno::INTR) => {}
            // Not in memory, or a file system that cannot tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP) => return None,
            Err(error) => return Some(Err(error.into())),
        }
    }
    Some(Ok(Bytes::from(buffer)))
}
