//! A request on its way to a worker: encoded head and received body.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::Interim;
use super::spool::SpoolFile;

/// Number of a request, unique in this server's life; shown in logs, error pages and to PHP as `HEARTH_REQUEST_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(pub u64);

impl RequestId {
    /// The next number.
    pub fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only uniqueness matters.
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// A request whose body has been received in full, so that a slow client never holds a worker.
#[derive(Debug)]
pub struct Request {
    /// For the log.
    pub id: RequestId,
    /// CGI variables, encoded by `ipc::head::RequestWriter`.
    pub head: Vec<u8>,
    /// What the client sent after the head.
    pub body: RequestBody,
    /// RFC 9110 §9.2.2: safe to run again when its worker died before anything was sent.
    pub idempotent: bool,
    /// Where interim responses go; `None`: nowhere.
    pub interim: Option<Arc<Interim>>,
}

/// The received body.
#[derive(Debug)]
pub enum RequestBody {
    /// No body.
    Empty,
    /// In memory: at most `limits.body_memory` bytes. The pieces in order; copied once, into the slot.
    Memory(Vec<Bytes>),
    /// In an unlinked file of `len` bytes, handed to the worker by descriptor.
    Spooled {
        /// Open for reading; the worker reads with `pread` from offset 0.
        file: SpoolFile,
        /// Bytes.
        len: u64,
    },
}

impl RequestBody {
    /// Bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Memory(parts) => parts.iter().map(|p| p.len() as u64).sum(),
            Self::Spooled { len, .. } => *len,
        }
    }

    /// True without a single byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
