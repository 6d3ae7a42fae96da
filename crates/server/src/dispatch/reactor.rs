//! How a reactor's runtime learns of completions.
//!
//! A reactor is one thread with a current-thread tokio runtime. It serves any number of pools, which come and go, and has a
//! [`Desk`] of each. Workers set a bit for a slot and, only if the reactor sleeps, write
//! to its eventfd. So before the runtime blocks it says that it is about to sleep and looks once more (`on_thread_park`); when it is
//! awake it looks again (`on_thread_unpark`). The eventfd only has to end the sleep: it is edge-triggered and never read.
//!
//! A reactor that is never idle does not come to that: so each turn of a connection looks as well ([`Reactor::look`]).
//!
//! tokio looks for new tasks after the park hook and does not block if there are any (`park()` of its `current_thread` scheduler).

use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// How long a request may wait for a worker at work while others sleep.
const PATIENCE: Duration = Duration::from_millis(1);
/// How often deadlines are looked at while slots are in use, at least.
const SWEEP: Duration = Duration::from_millis(100);

/// One reactor's dispatching.
#[derive(Debug, Default)]
pub struct Reactor {
    desks: ArcSwap<Vec<Arc<Desk>>>,
}

/// What one pool has on one reactor.
#[derive(Debug)]
pub struct Side {
    pub(super) desk: Arc<Desk>,
    pub(super) eventfd: OwnedFd,
}

impl Reactor {
    /// The runtime of the reactor's thread.
    pub fn build_runtime(self: &Arc<Self>) -> io::Result<Runtime> {
        let (parking, waking) = (Arc::clone(self), Arc::clone(self));
        Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || {
                for desk in &**parking.desks.load() {
                    if desk.memory.park(desk.reactor) {
                        desk.wake_drain();
                    }
                }
            })
            .on_thread_unpark(move || {
                for desk in &**waking.desks.load() {
                    if desk.memory.unpark(desk.reactor) {
                        desk.wake_drain();
                    }
                }
            })
            .build()
    }

    /// Looks for completions, as the reactor does itself when it has nothing else to do.
    pub fn look(&self) {
        for desk in &**self.desks.load() {
            desk.look();
        }
    }

    /// Serves a pool from now on. Must be called on the reactor's own runtime, where what it returns is to run as a task: it
    /// handles completions, deaths and deadlines until `stop`.
    pub fn adopt(
        self: Arc<Self>,
        side: Side,
        stop: CancellationToken,
    ) -> io::Result<impl Future<Output = ()>> {
        let desk = side.desk;
        // Registered for as long as the pool is served; nobody waits on it, its wake-ups end the runtime's sleep.
        let eventfd = watch(side.eventfd)?;
        self.desks.rcu(|desks| {
            let mut more = Vec::clone(desks);
            more.push(Arc::clone(&desk));
            more
        });
        Ok(async move {
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
            self.desks.rcu(|desks| {
                let others = desks.iter().filter(|other| !Arc::ptr_eq(other, &desk));
                others.cloned().collect::<Vec<_>>()
            });
            drop(eventfd);
        })
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
        let now = Instant::now();
        match desk.sweep(now) {
            Some(deadline) => tokio::time::sleep_until(deadline.min(now + SWEEP).into()).await,
            None => desk.busy.notified().await,
        }
    }
}
