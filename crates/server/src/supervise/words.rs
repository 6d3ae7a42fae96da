//! Server errors of the application that nothing in the log explains: then a line says at least that much. Runs in: server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ipc::slot::WorkerId;
use tracing::warn;

use crate::config::PHP;
use crate::dispatch::RequestId;
use crate::dispatch::glance::Running;
use crate::dispatch::seldom::Seldom;

/// How long a worker's lines are waited for: they were written before the response, but come by a pipe.
const PATIENCE: Duration = Duration::from_millis(200);
/// Requests of one worker that are remembered.
const REMEMBERED: usize = 64;

/// Of which requests of late something was logged.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// By the number of the worker.
    logged: Mutex<BTreeMap<u16, VecDeque<RequestId>>>,
    /// Errors of which nothing was logged, by their status: of each the first is named, then one in a while.
    unexplained: Mutex<BTreeMap<u16, Seldom>>,
}

impl Words {
    /// Something was logged of `request`.
    pub(super) fn note(&self, worker: WorkerId, request: RequestId) {
        let mut words = self.lock();
        let requests = words.entry(worker.0).or_default();
        if requests.back() != Some(&request) {
            if requests.len() == REMEMBERED {
                requests.pop_front();
            }
            requests.push_back(request);
        }
    }

    fn has(&self, worker: WorkerId, request: RequestId) -> bool {
        let words = self.lock();
        words
            .get(&worker.0)
            .is_some_and(|requests| requests.contains(&request))
    }

    /// Counts an error of which nothing was logged. `Some`: it is to be named, and stands for so many.
    fn unexplained(&self, status: u16, now: Instant) -> Option<u64> {
        let mut unexplained = self.unexplained.lock().unwrap_or_else(PoisonError::into_inner);
        unexplained.entry(status).or_default().add(now)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u16, VecDeque<RequestId>>> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the line about a server error, unless something was logged of its request or another line stands for it. `hint` says why PHP may have been silent.
pub(super) async fn tell(
    pool: String,
    words: Arc<Words>,
    (running, status, hint): (Running, u16, Option<String>),
) {
    tokio::time::sleep(PATIENCE).await;
    let Running {
        worker,
        request,
        method,
        uri,
        ..
    } = running;
    if !words.has(worker, request)
        && let Some(times) = words.unexplained(status, Instant::now())
    {
        let worker = worker.0;
        warn!(
            target: PHP, pool, worker, %request, method, uri, status, times, hint,
            "the application answered with a server error, and logged nothing about it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_one_status_are_one_line_in_a_while() {
        let words = Words::default();
        let now = Instant::now();
        assert_eq!(words.unexplained(500, now), Some(1));
        assert_eq!(words.unexplained(500, now), None);
        assert_eq!(words.unexplained(503, now), Some(1));
        assert_eq!(words.unexplained(500, now + Duration::from_mins(1)), Some(2));
    }

    #[test]
    fn the_latest_requests_of_each_worker_are_remembered() {
        let words = Words::default();
        let has = |worker, request| words.has(WorkerId(worker), RequestId(request));
        words.note(WorkerId(0), RequestId(1));
        words.note(WorkerId(0), RequestId(1));
        assert!(has(0, 1) && !has(1, 1) && !has(0, 2));
        for request in 2..=REMEMBERED as u64 {
            words.note(WorkerId(0), RequestId(request));
        }
        assert!(has(0, 1));
        words.note(WorkerId(0), RequestId(1000));
        assert!(!has(0, 1) && has(0, 2) && has(0, 1000));
    }
}
