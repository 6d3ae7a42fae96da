//! Where requests stand that run too long: who waits for a worker's answer, and what the log says then. Runs in: server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::status::seconds;
use crate::dispatch::RequestId;
use crate::dispatch::glance::Running;
use crate::dispatch::workers::About;

/// How long a worker's answer is waited for. It takes less than a millisecond, unless the worker is stopped, in an uninterruptible
/// system call, or not scheduled.
const PATIENCE: Duration = Duration::from_millis(500);

/// Who waits for what one worker says.
#[derive(Debug, Default)]
pub(super) struct Stacks(Mutex<Vec<(RequestId, oneshot::Sender<String>)>>);

impl Stacks {
    /// What the worker says of `request`, once it does.
    pub(super) fn expect(&self, request: RequestId) -> oneshot::Receiver<String> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        waiting.retain(|(_, sender)| !sender.is_closed());
        waiting.push((request, sender));
        receiver
    }

    /// The worker has said where `request` stands.
    pub(super) fn answer(&self, request: RequestId, text: &str) {
        let mut waiting = self.lock();
        let (asked, others) = std::mem::take(&mut *waiting)
            .into_iter()
            .partition(|(id, _)| *id == request);
        *waiting = others;
        drop(waiting);
        let asked: Vec<_> = asked;
        if asked.is_empty() {
            debug!(%request, "stack that nobody waits for");
        }
        for (_, sender) in asked {
            // Nobody waits any longer: the log line is written.
            let _ = sender.send(text.to_owned());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(RequestId, oneshot::Sender<String>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the line about a request that runs too long, once the worker has answered or is not waited for any longer.
pub(super) async fn tell(pool: String, running: Running, about: About, answer: oneshot::Receiver<String>) {
    let stack = match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Ok(stack)) if stack.is_empty() => "in no code of the application".to_owned(),
        Ok(Ok(stack)) => stack,
        Ok(Err(_)) | Err(_) => "unknown: the worker did not answer, or the request had ended".to_owned(),
    };
    let Running {
        worker,
        request,
        method,
        uri,
        elapsed,
        ..
    } = running;
    let (worker, seconds) = (worker.0, seconds(elapsed));
    let message = match about {
        About::Slow => "slow request",
        About::Timeout { .. } => "request timed out",
    };
    warn!(pool, worker, %request, method, uri, seconds, stack, "{message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_to_all_who_wait_for_that_request() {
        let stacks = Stacks::default();
        let mut slow = stacks.expect(RequestId(1));
        let mut other = stacks.expect(RequestId(2));
        let mut timeout = stacks.expect(RequestId(1));
        stacks.answer(RequestId(3), "nobody's");
        stacks.answer(RequestId(1), "#0 f()");
        assert_eq!(slow.try_recv().as_deref(), Ok("#0 f()"));
        assert_eq!(timeout.try_recv().as_deref(), Ok("#0 f()"));
        assert!(other.try_recv().is_err());
        drop(other);
        let _last = stacks.expect(RequestId(3));
        assert_eq!(stacks.lock().len(), 1, "who has gone is forgotten");
    }
}
