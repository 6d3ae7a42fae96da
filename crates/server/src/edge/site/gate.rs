//! What keeps requests back while files change (`hearth serve --watch`): they wait for the new code, or are told why there is none.
//!
//! Open unless a watch closes it. Kept by `site`, which asks it for each request. Runs in: server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;

/// The gate that all requests pass.
#[derive(Debug)]
pub(super) struct Gate {
    /// Whether it was ever closed: without a watch a request pays for nothing more.
    is_used: AtomicBool,
    changes: AtomicU64,
    state: watch::Sender<State>,
}

/// What became of the code that was last tried.
#[derive(Clone, Debug, Default)]
struct State {
    /// It was read when files had changed so often.
    changes: u64,
    /// Why it does not run.
    broken: Option<Arc<str>>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            state: watch::Sender::new(State::default()),
        }
    }

    /// Returns once code is known that has all changes which came before this; the reason why there is nothing to run. Later changes
    /// are for later requests: an application that writes code whenever it boots is served, too. Cancel-safe.
    pub(super) async fn pass(&self) -> Result<(), Arc<str>> {
        // Relaxed: a request that comes as the first file changes may be of either side.
        if !self.is_used.load(Ordering::Relaxed) {
            return Ok(());
        }
        let now = self.changes();
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| state.changes >= now).await;
        // The sender lives as long as this.
        let broken = settled.ok().and_then(|state| state.broken.clone());
        broken.map_or(Ok(()), Err)
    }

    /// A file has changed: requests wait from now on.
    pub(super) fn close(&self) {
        // Relaxed, as below: a number that is compared with itself.
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// How often files have changed: what is read now has them all.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Code of the moment when there were so many `changes` runs, or does not, for a reason. Requests that came after a later change go
    /// on waiting.
    pub(super) fn settle(&self, changes: u64, broken: Option<&str>) {
        self.is_used.fetch_or(broken.is_some(), Ordering::Relaxed);
        self.state.send_if_modified(|state| {
            let is_new = changes >= state.changes;
            if is_new {
                *state = State {
                    changes,
                    broken: broken.map(Into::into),
                };
            }
            is_new
        });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    /// Whether a request that comes now has to wait.
    async fn waits(gate: &Gate) -> bool {
        let mut pass = pin!(gate.pass());
        poll_fn(|cx| Poll::Ready(pass.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn a_request_waits_for_what_changed_before_it_and_for_no_more() {
        let gate = Gate::new();
        assert!(!waits(&gate).await);
        gate.close();
        let earlier = gate.changes();
        let mut waiting = pin!(gate.pass());
        assert!(poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
        gate.close();
        gate.settle(earlier, None);
        assert_eq!(waiting.await, Ok(()));
        assert!(waits(&gate).await);
        gate.settle(gate.changes(), Some("a reason"));
        assert_eq!(gate.pass().await, Err("a reason".into()));
        // What was tried before it comes too late.
        gate.settle(earlier, None);
        assert_eq!(gate.pass().await, Err("a reason".into()));
    }
}
