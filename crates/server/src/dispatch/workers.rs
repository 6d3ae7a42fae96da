//! The workers as dispatch sees them: the memory of each, and what is asked of supervise about them.

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

/// The memory of each worker number's latest incarnation. Each desk has a copy, so that reactors do not meet at its lock.
#[derive(Debug, Default)]
pub(super) struct Workers(Mutex<Vec<Option<Incarnate>>>);

type Incarnate = (Incarnation, Arc<WorkerMemory>);

impl Workers {
    pub(super) fn get(&self, worker: WorkerId, incarnation: Incarnation) -> Option<Arc<WorkerMemory>> {
        let workers = lock(&self.0);
        let (inc, memory) = workers.get(usize::from(worker.0))?.as_ref()?;
        (*inc == incarnation).then(|| Arc::clone(memory))
    }

    pub(super) fn set(&self, worker: WorkerId, incarnation: Incarnation, memory: Arc<WorkerMemory>) {
        let mut workers = lock(&self.0);
        let index = usize::from(worker.0);
        if workers.len() <= index {
            workers.resize(index + 1, None);
        }
        if let Some(place) = workers.get_mut(index) {
            *place = Some((incarnation, memory));
        }
    }
}
