//! Receives the whole body of a request before a worker is asked for, so that a slow client never holds one.
//!
//! In memory up to `limits.body_memory` (less where memory is scarce), then in an unlinked file, written in blocking tasks, one piece at a time: the client is
//! read no faster than the disk takes it. What was cut short is an error, never a request. Called by `exchange`. Runs in: server, on a
//! reactor; the file's writes on tokio's blocking threads.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use super::reply::Refusal;
use crate::config::Config;
use crate::dispatch::held::{self, Held};
use crate::dispatch::{DispatchError, RequestBody, spool};

/// Frames below this size are copied together: many small chunks would each hold a read buffer of hyper's.
const SMALL: usize = 4096;

/// Bytes of a body that are kept in memory where memory is scarce.
const SCARCE: u64 = 4 * 1024;

/// Receives `body`. `announced` is its length by its header.
pub(super) async fn receive(
    mut body: impl Body<Data = Bytes> + Unpin,
    announced: Option<u64>,
    config: &Config,
) -> Result<RequestBody, Refusal> {
    let limits = &config.limits;
    if announced.is_some_and(|n| n > limits.body_bytes.0) {
        return Err(Refusal::BodyTooLarge);
    }
    let started = Instant::now();
    let mut parts = Parts::default();
    let mut spool: Option<File> = None;
    let mut received: u64 = 0;
    let mut held = Held::default();
    loop {
        let frame = match timeout(limits.body_timeout, body.frame()).await {
            Err(_) => return Err(Refusal::BodyTimeout),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Refusal::ClientGone),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers are dropped: CGI has no place for them.
        let Ok(data) = frame.into_data() else { continue };
        received += data.len() as u64;
        if received > limits.body_bytes.0 {
            return Err(Refusal::BodyTooLarge);
        }
        let elapsed = started.elapsed();
        if elapsed > limits.body_timeout && received < limits.body_min_rate.saturating_mul(elapsed.as_secs())
        {
            return Err(Refusal::BodyTimeout);
        }
        parts.push(data);
        let share = if held::is_scarce() { SCARCE } else { u64::MAX };
        if parts.len as u64 > limits.body_memory.0.min(share) {
            spool = Some(store(spool, &config.spool_dir, parts.take()).await?);
        }
        held.set(parts.len);
    }
    match spool {
        Some(file) => {
            let file = store(Some(file), &config.spool_dir, parts.take()).await?;
            Ok(RequestBody::Spooled { file, len: received })
        }
        None if received == 0 => Ok(RequestBody::Empty),
        None => Ok(RequestBody::Memory(parts.take())),
    }
}

async fn store(spool: Option<File>, dir: &Path, parts: Vec<Bytes>) -> Result<File, Refusal> {
    let dir = if spool.is_none() {
        dir.to_path_buf()
    } else {
        std::path::PathBuf::new()
    };
    let written = tokio::task::spawn_blocking(move || {
        let mut file = match spool {
            Some(file) => file,
            None => spool::unnamed_file(&dir)?,
        };
        for part in &parts {
            file.write_all(part)?;
        }
        io::Result::Ok(file)
    });
    match written.await {
        Ok(result) => result.map_err(|e| Refusal::Dispatch(DispatchError::Spool(e))),
        Err(lost) => Err(Refusal::Dispatch(DispatchError::Spool(io::Error::other(lost)))),
    }
}

/// The received pieces that are still in memory.
#[derive(Default)]
struct Parts {
    whole: Vec<Bytes>,
    tail: BytesMut,
    len: usize,
}

impl Parts {
    fn push(&mut self, data: Bytes) {
        self.len += data.len();
        let only = self.whole.is_empty() && self.tail.is_empty();
        if data.len() < SMALL && !only {
            self.tail.extend_from_slice(data.chunk());
            return;
        }
        self.close_tail();
        self.whole.push(data);
    }

    fn take(&mut self) -> Vec<Bytes> {
        self.close_tail();
        self.len = 0;
        std::mem::take(&mut self.whole)
    }

    fn close_tail(&mut self) {
        if !self.tail.is_empty() {
            self.whole.push(self.tail.split().freeze());
        }
    }
}
