//! The body of a static file: pieces of it, read on tokio's blocking threads one at a time, so that a big file takes little memory
//! and a slow disk holds no reactor.
//!
//! Called by `reply_body`. Runs in: server, on a reactor; reads on a blocking thread.

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::JoinHandle;

/// Bytes read at once.
pub(super) const CHUNK: u64 = 128 * 1024;

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
pub(super) struct FileBody {
    file: Arc<File>,
    pieces: VecDeque<Piece>,
    remaining: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl FileBody {
    pub(super) fn new(file: File, pieces: impl IntoIterator<Item = Piece>) -> Self {
        let pieces: VecDeque<Piece> = pieces.into_iter().filter(|p| p.len() > 0).collect();
        let remaining = pieces.iter().map(Piece::len).sum();
        Self {
            file: Arc::new(file),
            pieces,
            remaining,
            reading: None,
        }
    }

    pub(super) fn remaining(&self) -> u64 {
        self.remaining
    }

    pub(super) fn is_end(&self) -> bool {
        self.remaining == 0
    }

    pub(super) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
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
                    let stop = end.min(start + CHUNK);
                    if stop < end {
                        self.pieces.push_front(Piece::Part(stop, end));
                    }
                    let file = Arc::clone(&self.file);
                    self.reading = Some(tokio::task::spawn_blocking(move || read(&file, start, stop)));
                }
            }
        }
    }
}

/// The bytes from `start` to `end`. A file that became shorter is an error: its length was promised.
pub(super) fn read(file: &File, start: u64, end: u64) -> io::Result<Bytes> {
    let mut buffer = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
    file.read_exact_at(&mut buffer, start)?;
    Ok(Bytes::from(buffer))
}
