//! The workers as dispatch sees them: the memory of each, and what is asked of supervise about them.

use std::sync::{Arc, Mutex};

use ipc::server_side::WorkerMemory;
use ipc::slot::{Incarnation, WorkerId};

use super::{RequestId, lock};

/// Dispatch asks supervise to kill.
#[derive(Clone, Debug)]
pub enum KillRequest {
    /// One worker, if it is still this incarnation.
    One {
        /// Its number.
        worker: WorkerId,
        /// Its incarnation.
        incarnation: Incarnation,
        /// Only while it runs this request; `None` in any case.
        request: Option<RequestId>,
        /// For the log: "… was killed because …".
        reason: &'static str,
    },
    /// Every worker of the pool: shared memory was damaged, nobody knows by whom.
    All {
        /// For the log.
        reason: &'static str,
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
