//! The workers as dispatch sees them: the memory of each, what it has answered, and what is asked of supervise about them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ipc::server_side::WorkerMemory;
use ipc::slot::{Incarnation, WorkerId};

use super::glance::Running;
use super::{RequestId, lock};

/// What dispatch wants of supervise about workers.
#[derive(Clone, Debug)]
pub enum WorkerOrder {
    /// The log is to say where a request stands.
    Ask {
        /// Which, and who runs it.
        running: Running,
        /// Why.
        about: About,
    },
    /// One worker is to be killed, if it is still this incarnation.
    Kill {
        /// Its number.
        worker: WorkerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Only while it runs this request; `None` in any case.
        request: Option<RequestId>,
        /// For the log: "… was killed because …".
        reason: &'static str,
    },
    /// The application has answered with a server error: the log is to say so, if nothing else in it does.
    ServerError {
        /// What was asked, and who answered.
        running: Running,
        /// 500 to 599.
        status: u16,
    },
    /// Every worker of the pool is to be killed: shared memory was damaged, nobody knows by whom.
    KillAll {
        /// For the log.
        reason: &'static str,
    },
}

/// Why a request is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// It is slow, and goes on.
    Slow,
    /// It has passed `request_timeout`, and is to end.
    Timeout {
        /// The setting.
        limit: Duration,
    },
}

/// Requests of a worker that are remembered once they are over: what it says of them in the log arrives a little later.
const REMEMBERED: usize = 64;

/// The two latest incarnations of each worker number. Each desk has a list of its own, so that reactors do not meet at its lock.
#[derive(Debug, Default)]
pub(super) struct Workers(Mutex<Vec<Number>>);

#[derive(Clone, Debug, Default)]
struct Number {
    latest: Option<(Incarnate, Arc<WorkerMemory>)>,
    previous: Option<Incarnate>,
}

/// What the server itself has seen of one incarnation.
#[derive(Clone, Debug)]
struct Incarnate {
    incarnation: Incarnation,
    /// Requests that it has answered to the end.
    answered: u64,
    /// Requests that it has held, as a ring.
    held: [RequestId; REMEMBERED],
    next: usize,
}

impl Workers {
    pub(super) fn get(&self, worker: WorkerId, incarnation: Incarnation) -> Option<Arc<WorkerMemory>> {
        let workers = lock(&self.0);
        let (latest, memory) = workers.get(usize::from(worker.0))?.latest.as_ref()?;
        (latest.incarnation == incarnation).then(|| Arc::clone(memory))
    }

    pub(super) fn set(&self, worker: WorkerId, incarnation: Incarnation, memory: Arc<WorkerMemory>) {
        let mut workers = lock(&self.0);
        let index = usize::from(worker.0);
        if workers.len() <= index {
            workers.resize(index + 1, Number::default());
        }
        if let Some(number) = workers.get_mut(index) {
            number.previous = number.latest.take().map(|(incarnate, _)| incarnate);
            number.latest = Some((Incarnate::new(incarnation), memory));
        }
    }

    /// A worker no longer holds `request`; `answered`: its response is complete.
    pub(super) fn note_held(
        &self,
        (worker, incarnation): (WorkerId, Incarnation),
        request: RequestId,
        answered: bool,
    ) {
        self.with((worker, incarnation), |incarnate| {
            incarnate.note(request, answered);
        });
    }

    /// Whether a worker has held `request` of late.
    pub(super) fn has_held(&self, who: (WorkerId, Incarnation), request: RequestId) -> bool {
        self.with(who, |incarnate| incarnate.held.contains(&request))
            .unwrap_or(false)
    }

    /// Requests that a worker has answered.
    pub(super) fn answered(&self, who: (WorkerId, Incarnation)) -> u64 {
        self.with(who, |incarnate| incarnate.answered).unwrap_or(0)
    }

    fn with<T>(
        &self,
        (worker, incarnation): (WorkerId, Incarnation),
        act: impl FnOnce(&mut Incarnate) -> T,
    ) -> Option<T> {
        let mut workers = lock(&self.0);
        let Number { latest, previous } = workers.get_mut(usize::from(worker.0))?;
        let latest = latest.as_mut().map(|(incarnate, _)| incarnate);
        latest
            .into_iter()
            .chain(previous)
            .find(|incarnate| incarnate.incarnation == incarnation)
            .map(act)
    }
}

impl Incarnate {
    const fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            answered: 0,
            // No request has this number.
            held: [RequestId(0); REMEMBERED],
            next: 0,
        }
    }

    fn note(&mut self, request: RequestId, answered: bool) {
        self.answered += u64::from(answered);
        if let Some(place) = self.held.get_mut(self.next) {
            *place = request;
        }
        self.next = (self.next + 1) % REMEMBERED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_remembered_with_what_it_has_held_and_no_other() {
        let workers = Workers::default();
        let memory = || Arc::new(WorkerMemory::create().unwrap());
        let (first, second) = ((WorkerId(1), Incarnation(1)), (WorkerId(1), Incarnation(2)));
        workers.set(first.0, first.1, memory());
        workers.note_held(first, RequestId(7), true);
        workers.note_held(first, RequestId(8), false);
        workers.set(second.0, second.1, memory());
        for (who, request, expected) in [
            (first, 7, true),
            (first, 8, true),
            (first, 9, false),
            (second, 7, false),
            ((WorkerId(0), Incarnation(1)), 7, false),
            ((WorkerId(9), Incarnation(1)), 7, false),
        ] {
            assert_eq!(
                workers.has_held(who, RequestId(request)),
                expected,
                "{who:?} {request}"
            );
        }
        assert_eq!((workers.answered(first), workers.answered(second)), (1, 0));
        for request in 100..100 + REMEMBERED as u64 {
            workers.note_held(first, RequestId(request), true);
        }
        assert!(!workers.has_held(first, RequestId(8)) && workers.has_held(first, RequestId(100)));
        workers.set(first.0, Incarnation(3), memory());
        assert!(
            !workers.has_held(first, RequestId(100)),
            "only the two latest are remembered"
        );
    }
}
