//! How a reactor's runtime learns of completions.
//!
//! A reactor is one thread with a current-thread tokio runtime. Workers set a bit for a slot and, only if the reactor sleeps, write
//! to its eventfd. So before the runtime blocks it says that it is about to sleep and looks once more (`on_thread_park`); when it is
//! awake it looks again (`on_thread_unpark`). The eventfd only has to end the sleep: it is edge-triggered and never read.
//!
//! A reactor that is never idle does not come to that: so each turn of a connection looks as well (`Desk::look`).
//!
//! tokio looks for new tasks after the park hook and does not block if there are any (`park()` of its `current_thread` scheduler).

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// How long a request may wait for a worker at work while others sleep.
const PATIENCE: Duration = Duration::from_millis(1);
/// How often deadlines are looked at while slots are in use.
const SWEEP: Duration = Duration::from_millis(100);

/// One reactor's dispatching.
#[derive(Debug)]
pub struct Reactor {
    desk: Arc<Desk>,
    eventfd: OwnedFd,
}

impl Reactor {
    pub(super) fn new(desk: Arc<Desk>, eventfd: OwnedFd) -> Self {
        Self { desk, eventfd }
    }

    /// The runtime of the reactor's thread.
    pub fn build_runtime(&self) -> io::Result<Runtime> {
        let (parking, waking) = (Arc::clone(&self.desk), Arc::clone(&self.desk));
        Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || {
                if parking.memory.park(parking.reactor) {
                    parking.wake_drain();
                }
            })
            .on_thread_unpark(move || {
                if waking.memory.unpark(waking.reactor) {
                    waking.wake_drain();
                }
            })
            .build()
    }

    /// Handles completions, deaths and deadlines until `stop`. Runs as a task on the reactor's own runtime.
    pub async fn run(self, stop: CancellationToken) -> io::Result<()> {
        let desk = self.desk;
        // Registered for as long as this runs; nobody waits on it, its wake-ups end the runtime's sleep.
        let _eventfd = watch(self.eventfd)?;
        let drain = poll_fn(|cx| {
            desk.poll_drain(cx.waker());
            Poll::<()>::Pending
        });
        // Cancel-safe: all only look at the desk.
        tokio::select! {
            () = drain => {}
            () = sweep(&desk) => {}
            () = look_again(&desk) => {}
            () = stop.cancelled() => {}
        }
        Ok(())
    }
}

/// Wakes tasks of this runtime when `fd` becomes readable.
#[expect(
    deprecated,
    reason = "the new constructor is unsafe for types whose as_raw_fd may change; an OwnedFd's never does"
)]
pub fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Wakes more workers when those at work turn out to be slow.
async fn look_again(desk: &Desk) {
    loop {
        desk.left_behind.notified().await;
        tokio::time::sleep(PATIENCE).await;
        desk.announce();
    }
}

async fn sweep(desk: &Desk) {
    loop {
        if desk.sweep(Instant::now()) {
            tokio::time::sleep(SWEEP).await;
        } else {
            desk.busy.notified().await;
        }
    }
}
