//! Receives the whole body of a request before a worker is asked for, so that a slow client never holds one.
//!
//! In memory up to `limits.body_memory` (less where memory is scarce), then in an unlinked file, written in blocking tasks, one piece at a time: the client is
//! read no faster than the disk takes it. What was cut short is an error, never a request. Called by `exchange`. Runs in: server, on a
//! reactor; the file's writes on tokio's blocking threads.

use std::io::{self, Write};
use std::path::Path;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout};

use super::reply::Refusal;
use super::{Backend, Site};
use crate::config::{ByteSize, Config, Limits};
use crate::dispatch::held::{self, Held};
use crate::dispatch::spool::{self, NoRoom, SpoolFile};
use crate::dispatch::{DispatchError, RequestBody};

/// Frames below this size are copied together: many small chunks would each hold a read buffer of hyper's.
const SMALL: usize = 4096;

/// Bytes of a body that are kept in memory where memory is scarce.
const SCARCE: u64 = 4 * 1024;

/// Bytes that the body of a request to pool number `pool` may have.
pub(super) fn limit<B: Backend>(backend: &B, site: &Site<B::Pools>, pool: usize) -> ByteSize {
    let usual = || Limits::BODY_BYTES.max(backend.post_max_size((&site.pools, pool)));
    site.config.limits.body_bytes.unwrap_or_else(usual)
}

/// Receives `body`. `announced` is its length by its header, `limit` that which it may have.
pub(super) async fn receive(
    mut body: impl Body<Data = Bytes> + Unpin,
    (announced, limit): (Option<u64>, ByteSize),
    config: &Config,
) -> Result<RequestBody, Refusal> {
    let limits = &config.limits;
    let all_spools = spool::limit(limits.spool_bytes, &config.spool_dir);
    let room = all_spools.max(limits.body_memory);
    check_size(announced.unwrap_or(0), limit, room)?;
    let mut speed = Speed::since(Instant::now());
    let mut parts = Parts::default();
    let mut spool: Option<SpoolFile> = None;
    let place = (&*config.spool_dir, all_spools);
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
        check_size(received, limit, room)?;
        if speed.is_too_low(data.len() as u64, Instant::now(), limits) {
            return Err(Refusal::BodyTimeout);
        }
        parts.push(data);
        let share = if held::is_scarce() { SCARCE } else { u64::MAX };
        if parts.len as u64 > limits.body_memory.0.min(share) {
            spool = Some(store(spool, place, parts.take()).await?);
        }
        held.set(parts.len);
    }
    match spool {
        Some(file) => {
            let file = store(Some(file), place, parts.take()).await?;
            Ok(RequestBody::Spooled { file, len: received })
        }
        None if received == 0 => Ok(RequestBody::Empty),
        None => Ok(RequestBody::Memory(parts.take())),
    }
}

/// How fast a body has come lately. A client that was fast at first cannot live on that, and keep what it has sent here for long.
struct Speed {
    since: Instant,
    bytes: u64,
}

impl Speed {
    fn since(now: Instant) -> Self {
        Self { since: now, bytes: 0 }
    }

    /// Counts bytes that have come; judges them, and begins again, once `body_timeout` has passed.
    fn is_too_low(&mut self, bytes: u64, now: Instant, limits: &Limits) -> bool {
        self.bytes += bytes;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed <= limits.body_timeout {
            return false;
        }
        let least = limits.body_min_rate.saturating_mul(elapsed.as_secs());
        let is_too_low = self.bytes < least;
        *self = Self::since(now);
        is_too_low
    }
}

/// Refuses a body that has more bytes than it may, or than there could ever be room for.
fn check_size(bytes: u64, limit: ByteSize, room: ByteSize) -> Result<(), Refusal> {
    if bytes <= limit.min(room).0 {
        return Ok(());
    }
    if bytes <= limit.0 {
        spool::say(NoRoom::TooLarge);
    }
    Err(Refusal::BodyTooLarge)
}

async fn store(
    spool: Option<SpoolFile>,
    (folder, limit): (&Path, ByteSize),
    parts: Vec<Bytes>,
) -> Result<SpoolFile, Refusal> {
    let folder = spool.is_none().then(|| folder.to_path_buf());
    let written = tokio::task::spawn_blocking(move || {
        let spool = match spool {
            Some(spool) => spool,
            None => SpoolFile::create(&folder.unwrap_or_default())?,
        };
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        spool.count(bytes, limit.0)?;
        spool.check_space(bytes)?;
        for part in &parts {
            spool.file().write_all(part)?;
        }
        Ok(spool)
    });
    let written = written
        .await
        .unwrap_or_else(|lost| Err(io::Error::other(lost).into()));
    written.map_err(|error: DispatchError| {
        if let DispatchError::NoRoom(why) = &error {
            spool::say(*why);
        }
        Refusal::Dispatch(error)
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_body_that_was_fast_at_first_must_not_be_slow_later() {
        let limits = Limits {
            body_timeout: Duration::from_secs(30),
            body_min_rate: 500,
            ..Limits::default()
        };
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut speed = Speed::since(start);
        assert!(!speed.is_too_low(64 << 20, after(1), &limits));
        assert!(!speed.is_too_low(1, after(31), &limits));
        assert!(!speed.is_too_low(1, after(60), &limits));
        assert!(speed.is_too_low(1, after(62), &limits));
        let mut speed = Speed::since(start);
        assert!(!speed.is_too_low(31 * 500, after(31), &limits));
        assert!(!speed.is_too_low(31 * 500, after(62), &limits));
    }
}
