//! What keeps requests back while files change (`hearth serve --watch`): they wait for the new code, or are told why there is none.
//!
//! Open unless a watch closes it. Called by `exchange` for each request, and by `app`. Runs in: server.

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

#[derive(Clone, Debug)]
enum State {
    Open,
    /// New code is on its way.
    Wait,
    /// There is no code that runs, for this reason.
    Broken(Arc<str>),
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            is_used: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            state: watch::Sender::new(State::Open),
        }
    }

    /// Returns once requests may pass; the reason why there is nothing to run. Cancel-safe.
    pub(super) async fn pass(&self) -> Result<(), Arc<str>> {
        // Relaxed: a request that comes as the first file changes may be of either side.
        if !self.is_used.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Wait)).await;
        match settled.as_deref() {
            Ok(State::Broken(why)) => Err(Arc::clone(why)),
            // The sender lives as long as this.
            Ok(State::Open | State::Wait) | Err(_) => Ok(()),
        }
    }

    /// A file has changed: requests wait from now on.
    pub(super) fn close(&self) {
        // Relaxed, as below: a number that is compared with itself.
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.is_used.store(true, Ordering::Relaxed);
        self.state.send_replace(State::Wait);
    }

    /// How often files have changed: what is read now has them all.
    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Code of the moment when there were so many `changes` runs, or does not, for a reason. Requests go on waiting if it is old by now.
    pub(super) fn settle(&self, changes: u64, broken: Option<&str>) {
        self.is_used.fetch_or(broken.is_some(), Ordering::Relaxed);
        self.state.send_if_modified(|state| {
            let is_new = self.changes() == changes;
            if is_new {
                *state = broken.map_or(State::Open, |why| State::Broken(why.into()));
            }
            is_new
        });
    }
}
