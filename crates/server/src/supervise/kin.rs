//! What the supervisors of a server share. Runs in: server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::Notify;

use super::process::Family;

/// What they share; a clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kin {
    numbers: Arc<AtomicU32>,
    /// The processes that somebody looks after.
    pub(crate) family: Family,
    wanted: Arc<Wanted>,
}

/// Whether an application wants a reload.
#[derive(Debug, Default)]
struct Wanted {
    is_wanted: AtomicBool,
    told: Notify,
}

impl Kin {
    /// Number of the next generation.
    pub(super) fn next_generation(&self) -> u32 {
        // Relaxed: a number, no more.
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// An application wants a reload. False: it, or another, has wanted one already.
    pub(super) fn want_reload(&self) -> bool {
        // Relaxed, as below: the notification orders it.
        let is_new = !self.wanted.is_wanted.swap(true, Ordering::Relaxed);
        self.wanted.told.notify_one();
        is_new
    }

    /// Returns once an application wants a reload, until [`Kin::forget_wish`] each time. Cancel-safe.
    pub(crate) async fn reload_wanted(&self) {
        while !self.wanted.is_wanted.load(Ordering::Relaxed) {
            self.wanted.told.notified().await;
        }
    }

    /// What was wanted until now is done.
    pub(crate) fn forget_wish(&self) {
        self.wanted.is_wanted.store(false, Ordering::Relaxed);
    }
}
