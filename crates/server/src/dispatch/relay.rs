//! A response that is still being produced, or larger than a lane.
//!
//! A task of its own (the pump) empties the lane as fast as the worker fills it, so that a slow client never holds a worker: into
//! memory up to `limits.response_memory` (less where memory is scarce), then into a spool file up to `limits.response_spool`; only then,
//! or when there is no room for spool files, the worker waits. The client's side ([`Outlet`]) takes from memory; the pump refills
//! that from the spool file, in order.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use ipc::layout::LANE_BYTES;
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use super::held::{self, Held};
use super::lease::{Lease, Progress, Reading};
use super::spool::{self, SpoolFile};
use super::{DispatchError, RequestId, lock};
use crate::config::Limits;

/// Bytes of a response that are kept in memory where memory is scarce. hyper keeps 16 such pieces beside it.
const SCARCE: usize = 4 * 1024;

/// What goes from a lane to a file at a time, at most.
const PIECE: u64 = LANE_BYTES as u64;

/// How much of a response may wait for its client, and where.
#[derive(Clone, Debug)]
pub(super) struct Buffering {
    memory: usize,
    spool: u64,
    /// Bytes of all spool files.
    all_spools: u64,
    folder: Arc<PathBuf>,
}

impl Buffering {
    pub(super) fn new(limits: &Limits, folder: &Path) -> Self {
        Self {
            memory: usize::try_from(limits.response_memory.0)
                .unwrap_or(usize::MAX)
                .max(LANE_BYTES),
            spool: limits.response_spool.0,
            all_spools: spool::limit(limits.spool_bytes, folder).0,
            folder: Arc::new(folder.to_path_buf()),
        }
    }

    /// Bytes that may be in memory.
    fn memory(&self) -> usize {
        if held::is_scarce() { SCARCE } else { self.memory }
    }
}

/// What pump and outlet share.
#[derive(Debug, Default)]
struct Shared {
    queue: VecDeque<Bytes>,
    queued: usize,
    /// As much as is queued.
    held: Held,
    /// Nothing more will be queued.
    ended: bool,
    failure: Option<DispatchError>,
    outlet: Option<Waker>,
    pump: Option<Waker>,
}

impl Shared {
    fn hold(&mut self) {
        self.held.set(self.queued);
    }
}

/// The client's side of a relay. Dropping it, when the client has gone, ends the pump and lets go of the exchange.
pub(super) struct Outlet {
    shared: Arc<Mutex<Shared>>,
    _pump: AbortOnDropHandle<()>,
}

/// Starts the pump. `first` is what was read behind the head.
pub(super) fn start(lease: Lease, reading: Reading, first: Bytes, buffering: Buffering) -> Outlet {
    let mut shared = Shared::default();
    if !first.is_empty() {
        shared.queued = first.len();
        shared.hold();
        shared.queue.push_back(first);
    }
    let shared = Arc::new(Mutex::new(shared));
    let pump = Pump {
        whose: (lease.pool().to_owned(), lease.request()),
        lease: Some(lease),
        reading,
        buffering,
        shared: Arc::clone(&shared),
        spool: None,
        has_no_room: false,
    };
    let pump = AbortOnDropHandle::new(tokio::spawn(pump.run()));
    Outlet { shared, _pump: pump }
}

impl Body for Outlet {
    type Data = Bytes;
    type Error = DispatchError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DispatchError>>> {
        let mut shared = lock(&self.shared);
        if let Some(bytes) = shared.queue.pop_front() {
            shared.queued -= bytes.len();
            shared.hold();
            if let Some(pump) = shared.pump.take() {
                pump.wake();
            }
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if let Some(failure) = shared.failure.take() {
            return Poll::Ready(Some(Err(failure)));
        }
        if shared.ended {
            return Poll::Ready(None);
        }
        shared.outlet = Some(cx.waker().clone());
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        let shared = lock(&self.shared);
        shared.ended && shared.queue.is_empty() && shared.failure.is_none()
    }
}

/// A file between the lane and memory.
#[derive(Debug)]
struct Spool {
    file: Arc<SpoolFile>,
    written: u64,
    read: u64,
    /// Its file system had room for another piece.
    has_space: bool,
}

struct Pump {
    /// Until the worker is done and its lane is empty: what waits in the file for a slow client needs no slot.
    lease: Option<Lease>,
    reading: Reading,
    buffering: Buffering,
    shared: Arc<Mutex<Shared>>,
    spool: Option<Spool>,
    /// There was no room when it should have become larger: the client must take something first.
    has_no_room: bool,
    /// Pool and request, for the log.
    whose: (String, RequestId),
}

/// What the pump does next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Spool file → memory.
    Refill,
    /// Lane → memory.
    Forward,
    /// Lane → spool file.
    Spill,
    /// Nothing more will be in the lane.
    LetGo,
    /// All has been handed on.
    End,
}

impl Pump {
    async fn run(mut self) {
        let failure = self.pump().await.err();
        if let Some(failure) = &failure {
            let (pool, request) = &self.whose;
            warn!(pool, %request, worker = self.reading.worker.0, error = %failure, "response cut short");
        }
        let mut shared = lock(&self.shared);
        shared.failure = failure;
        shared.ended = true;
        if let Some(outlet) = shared.outlet.take() {
            outlet.wake();
        }
    }

    async fn pump(&mut self) -> Result<(), DispatchError> {
        loop {
            // Tried again when the client, or the worker, has done something.
            let mut may_spill = !std::mem::take(&mut self.has_no_room);
            let step = poll_fn(|cx| {
                let step = self.poll_step(cx, may_spill);
                may_spill = true;
                step
            });
            match step.await? {
                Step::Refill => self.refill().await?,
                Step::Forward => {
                    let bytes = self.take_lane(self.buffering.memory().min(LANE_BYTES))?;
                    self.hand_on(bytes);
                }
                Step::Spill => self.spill().await?,
                Step::LetGo => {
                    if let Some(lease) = self.lease.take() {
                        lease.finish();
                    }
                }
                Step::End => return Ok(()),
            }
        }
    }

    fn poll_step(&self, cx: &Context<'_>, may_spill: bool) -> Poll<Result<Step, DispatchError>> {
        // Both wakers first, so that what comes in while we look wakes again.
        if let Some(lease) = &self.lease {
            lease.wake_me(cx);
        }
        let mut shared = lock(&self.shared);
        shared.pump = Some(cx.waker().clone());
        let queued = shared.queued;
        drop(shared);
        let spooled = self.spool.as_ref().map_or(0, |spool| spool.written - spool.read);
        if spooled > 0 && queued < self.buffering.memory() / 2 {
            return Poll::Ready(Ok(Step::Refill));
        }
        let Some(lease) = &self.lease else {
            return if spooled > 0 {
                Poll::Pending
            } else {
                Poll::Ready(Ok(Step::End))
            };
        };
        // Progress before the bytes: what `Done` promises is then there to be read.
        let progress = lease.progress()?;
        if lease.waiting(&self.reading)? > 0 {
            if spooled == 0 && queued < self.buffering.memory() {
                return Poll::Ready(Ok(Step::Forward));
            }
            if may_spill && self.spool.as_ref().map_or(0, |spool| spool.written) < self.buffering.spool {
                return Poll::Ready(Ok(Step::Spill));
            }
            return Poll::Pending;
        }
        match progress {
            Progress::Done => Poll::Ready(Ok(Step::LetGo)),
            _ if spooled > 0 => Poll::Pending,
            Progress::Running => Poll::Pending,
            Progress::Dead => Poll::Ready(Err(DispatchError::WorkerDied {
                worker: self.reading.worker.0,
            })),
        }
    }

    fn hand_on(&self, bytes: Vec<u8>) {
        let mut shared = lock(&self.shared);
        shared.queued += bytes.len();
        shared.hold();
        shared.queue.push_back(Bytes::from(bytes));
        if let Some(outlet) = shared.outlet.take() {
            outlet.wake();
        }
    }

    /// What is in the lane; the worker may have waited for the room.
    fn take_lane(&mut self, limit: usize) -> Result<Vec<u8>, DispatchError> {
        let mut bytes = Vec::new();
        if let Some(lease) = &self.lease {
            lease.read(&mut self.reading, limit, &mut bytes)?;
            lease.made_room(&self.reading);
        }
        Ok(bytes)
    }

    async fn spill(&mut self) -> Result<(), DispatchError> {
        let mut spool = match self.spool.take() {
            Some(spool) => spool,
            None => Spool::create(&self.buffering.folder).await?,
        };
        match spool.make_room(self.buffering.all_spools).await {
            Ok(()) => spool.append(self.take_lane(LANE_BYTES)?).await?,
            Err(DispatchError::NoRoom(why)) => {
                spool::say(why);
                self.has_no_room = true;
            }
            Err(other) => return Err(other),
        }
        self.spool = Some(spool);
        Ok(())
    }

    async fn refill(&mut self) -> Result<(), DispatchError> {
        let Some(spool) = &mut self.spool else {
            return Ok(());
        };
        let bytes = spool.take(self.buffering.memory().min(4 * LANE_BYTES)).await?;
        self.hand_on(bytes);
        Ok(())
    }
}

impl Spool {
    async fn create(folder: &Path) -> io::Result<Self> {
        let folder = folder.to_path_buf();
        let file = blocking(move || SpoolFile::create(&folder)).await?;
        Ok(Self {
            file: Arc::new(file),
            written: 0,
            read: 0,
            has_space: false,
        })
    }

    /// Counts the next piece, if all spool files, of `limit` bytes together, and the file system have room for it.
    async fn make_room(&mut self, limit: u64) -> Result<(), DispatchError> {
        self.file.count(PIECE, limit)?;
        if !self.has_space {
            let file = Arc::clone(&self.file);
            let checked = blocking(move || Ok(file.check_space(PIECE))).await?;
            checked.inspect_err(|_| self.file.settle(self.written))?;
            self.has_space = true;
        }
        Ok(())
    }

    async fn append(&mut self, bytes: Vec<u8>) -> io::Result<()> {
        let (file, at, count) = (Arc::clone(&self.file), self.written, bytes.len());
        let written = blocking(move || {
            file.file().write_all_at(&bytes, at)?;
            Ok(file.check_space(PIECE).is_ok())
        });
        self.has_space = written.await?;
        self.written += count as u64;
        self.file.settle(self.written);
        Ok(())
    }

    /// Up to `limit` bytes; the file starts anew once all of it has been taken.
    async fn take(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.written - self.read).unwrap_or(limit);
        let (file, at, count) = (Arc::clone(&self.file), self.read, left.min(limit));
        let bytes = blocking(move || {
            let mut bytes = vec![0; count];
            file.file().read_exact_at(&mut bytes, at)?;
            if count == left {
                file.file().set_len(0)?;
                file.settle(0);
            }
            Ok(bytes)
        });
        let bytes = bytes.await?;
        self.read += count as u64;
        if self.read == self.written {
            (self.read, self.written) = (0, 0);
        }
        Ok(bytes)
    }
}

/// Does what may wait for a disk, off the reactor.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(act).await.map_err(io::Error::other)?
}
