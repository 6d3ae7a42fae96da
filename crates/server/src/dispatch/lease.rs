//! The right to one slot. Dropping it lets the slot go in whatever state the exchange is.

use std::sync::Arc;
use std::task::{Context, Poll};

use ipc::server_side::{Cursor, Seen, WorkerMemory};
use ipc::slot::{Gen, SlotId, WorkerId};

use super::desk::Desk;
use super::slots::Owner;
use super::workers::WorkerOrder;
use super::{DispatchError, RequestId};

/// One slot in use.
#[derive(Debug)]
pub(super) struct Lease {
    desk: Arc<Desk>,
    slot: SlotId,
    finished: bool,
}

/// How far the worker is with its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More will come.
    Running,
    /// All is in the lane.
    Done,
    /// The worker is dead; what is in the lane is all there will be.
    Dead,
}

/// The response being read.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) worker: WorkerId,
    memory: Arc<WorkerMemory>,
    cursor: Cursor,
}

impl Lease {
    pub(super) fn new(desk: Arc<Desk>, slot: SlotId) -> Self {
        Self {
            desk,
            slot,
            finished: false,
        }
    }

    /// The response has been read to the end: the slot is free.
    pub(super) fn finish(mut self) {
        self.finished = true;
        self.desk.finish(self.slot);
    }

    pub(super) fn pool(&self) -> &str {
        &self.desk.pool
    }

    pub(super) fn request(&self) -> RequestId {
        self.desk
            .with(self.slot, |entry| entry.request)
            .unwrap_or(RequestId(0))
    }

    /// Waits until the worker has published something. Wakes at completions, deaths and deadlines.
    pub(super) fn poll_published(&self, cx: &Context<'_>) -> Poll<Result<Reading, DispatchError>> {
        let found = self.desk.with(self.slot, |entry| {
            if let Some(failure) = entry.failure.take() {
                return Poll::Ready(Err(failure));
            }
            let generation = entry.generation;
            match self.desk.memory.look(self.slot, generation) {
                Seen::Streaming(worker, inc, lane) | Seen::Done(worker, inc, lane) => {
                    let memory = entry.dead.as_ref().map(|(_, memory)| Arc::clone(memory));
                    // Without memory the worker is dead and its successor known; word of the death is on its way here.
                    match memory.or_else(|| self.desk.workers.get(worker, inc)) {
                        Some(memory) => Poll::Ready(Ok((worker, memory, lane))),
                        None => Poll::Pending,
                    }
                }
                Seen::Queued | Seen::Running(..) | Seen::Garbage => Poll::Pending,
            }
        });
        match found {
            Some(Poll::Ready(Ok((worker, memory, lane)))) => {
                let cursor = memory.open(lane);
                Poll::Ready(Ok(Reading {
                    worker,
                    memory,
                    cursor,
                }))
            }
            Some(Poll::Ready(Err(failure))) => Poll::Ready(Err(failure)),
            Some(Poll::Pending) | None => {
                self.wake_me(cx);
                Poll::Pending
            }
        }
    }

    /// This task is woken at the next completion, death or deadline.
    pub(super) fn wake_me(&self, cx: &Context<'_>) {
        self.desk.with(self.slot, |entry| {
            if let Owner::Lease(waker) = &mut entry.owner
                && !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker()))
            {
                *waker = Some(cx.waker().clone());
            }
        });
    }

    /// How far the worker is. Look first, then read: what `Done` promises is then there to be read.
    pub(super) fn progress(&self) -> Result<Progress, DispatchError> {
        self.desk
            .with(self.slot, |entry| {
                if let Some(failure) = entry.failure.take() {
                    return Err(failure);
                }
                Ok(
                    match (self.desk.memory.look(self.slot, entry.generation), &entry.dead) {
                        (Seen::Done(..), _) => Progress::Done,
                        (_, Some(_)) => Progress::Dead,
                        _ => Progress::Running,
                    },
                )
            })
            .unwrap_or(Ok(Progress::Dead))
    }

    /// Appends up to `limit` bytes of the response to `out`. If the worker is not done, [`Self::made_room`] follows.
    pub(super) fn read(
        &self,
        reading: &mut Reading,
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, DispatchError> {
        reading
            .memory
            .read(&mut reading.cursor, limit, out)
            .map_err(|bad| self.broken(reading.worker, bad.to_string()))
    }

    /// The application has answered with a server error: supervise sees to it that the log is not silent about it.
    pub(super) fn note_server_error(&self, status: u16) {
        let slot = self.slot;
        let running = self.desk.with(slot, |entry| {
            let who = match self.desk.memory.look(slot, entry.generation) {
                Seen::Streaming(worker, inc, _) | Seen::Done(worker, inc, _) => (worker, inc),
                Seen::Running(..) | Seen::Queued | Seen::Garbage => return None,
            };
            Some(self.desk.running(who, slot, entry.request))
        });
        if let Some(Some(running)) = running {
            // Where so many wait that it has no room, the log tells enough of them.
            let _ = self
                .desk
                .orders
                .try_send(WorkerOrder::ServerError { running, status });
        }
    }

    /// The worker may be waiting for the room that was just made in its lane.
    pub(super) fn made_room(&self, reading: &Reading) {
        self.desk.memory.wake_worker_for_space(reading.worker);
    }

    /// Bytes that wait in the lane.
    pub(super) fn waiting(&self, reading: &Reading) -> Result<usize, DispatchError> {
        reading
            .memory
            .waiting(reading.cursor)
            .map_err(|bad| self.broken(reading.worker, bad.to_string()))
    }

    /// The worker broke the protocol: it is killed, and the exchange ends.
    pub(super) fn broken(&self, worker: WorkerId, reason: String) -> DispatchError {
        let slot = self.slot;
        let look = |generation: Gen| match self.desk.memory.look(slot, generation) {
            Seen::Running(_, inc) | Seen::Streaming(_, inc, _) | Seen::Done(_, inc, _) => Some(inc),
            Seen::Queued | Seen::Garbage => None,
        };
        if let Some(Some(incarnation)) = self.desk.with(slot, |entry| look(entry.generation)) {
            self.desk.kill(worker, incarnation, None, "it broke the protocol");
        }
        DispatchError::BadResponse {
            worker: worker.0,
            reason,
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if !self.finished {
            self.desk.release(self.slot);
        }
    }
}
