//! The reactor threads: each has a runtime of its own, with the edge's connections and dispatch's exchanges on it.
//!
//! They outlive every release: pools come and go on them ([`Reactors::adopt`]) while connections stay.
//!
//! Called by `app`. Runs in: server, on the main thread; what it spawns, on the reactors' threads.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::dispatch::{Pool, Reactor, Side};
use crate::edge::{self, Dispatch, Listener, Sites};
use crate::rights;

/// How long file operations under way may take once a reactor has ended.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// All reactors.
#[derive(Debug)]
pub(super) struct Reactors {
    seats: Vec<Seat>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Cancelled with `stop`.
    leave: CancellationToken,
    stop: CancellationToken,
    cut: CancellationToken,
}

/// What serves connections on them, and the acceptor.
#[derive(Debug)]
pub(super) struct Connections(JoinSet<anyhow::Result<()>>);

#[derive(Debug)]
struct Seat {
    reactor: Arc<Reactor>,
    runtime: Handle,
}

impl Reactors {
    /// Starts `count` threads. Nothing is accepted yet.
    pub(super) fn start(count: usize) -> anyhow::Result<Self> {
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let start = |number| -> anyhow::Result<(Seat, JoinHandle<()>)> {
            let reactor = Arc::new(Reactor::default());
            let runtime = reactor
                .build_runtime()
                .with_context(|| format!("building the runtime of reactor {number}"))?;
            let (handle, end) = (runtime.handle().clone(), cut.clone());
            let thread = std::thread::Builder::new()
                .name(format!("reactor-{number}"))
                .spawn(move || {
                    if let Err(error) = rights::begin_reactor() {
                        error!(%error, "reactor does not act as the user of a pool");
                    }
                    live(runtime, &end);
                })
                .with_context(|| format!("starting the thread of reactor {number}"))?;
            let seat = Seat {
                reactor,
                runtime: handle,
            };
            Ok((seat, thread))
        };
        let started: Vec<_> = (0..count).map(start).collect::<anyhow::Result<_>>()?;
        let (seats, threads): (_, Vec<_>) = started.into_iter().unzip();
        Ok(Self {
            seats,
            threads: Mutex::new(threads),
            leave: stop.child_token(),
            stop,
            cut,
        })
    }

    /// Accepts connections from now on, `limit` at a time.
    pub(super) fn accept(
        &self,
        listeners: Vec<Listener>,
        sites: &Arc<Sites<Vec<Vec<Pool>>>>,
        limit: usize,
    ) -> Connections {
        let mut ends = JoinSet::new();
        let (acceptor, intakes) = edge::split(self.seats.len(), limit);
        for (number, (seat, intake)) in self.seats.iter().zip(intakes).enumerate() {
            let dispatch = Dispatch {
                reactor: Arc::clone(&seat.reactor),
                number,
            };
            let serving = intake.serve(
                Arc::clone(sites),
                dispatch,
                (self.leave.clone(), self.stop.clone()),
            );
            let serving = seat.runtime.spawn(serving);
            ends.spawn(async move {
                serving
                    .await
                    .with_context(|| format!("serving connections on reactor {number}"))
            });
        }
        let accepting = acceptor.run(listeners, (self.leave.clone(), self.stop.clone()));
        ends.spawn(async move { accepting.await.context("accepting connections") });
        Connections(ends)
    }

    /// The runtime of the first reactor.
    pub(super) fn first(&self) -> Option<&Handle> {
        self.seats.first().map(|seat| &seat.runtime)
    }

    /// Has each reactor serve a pool, of which it gets one of `sides`, until what is returned is cancelled.
    pub(super) async fn adopt(&self, sides: Vec<Side>) -> anyhow::Result<CancellationToken> {
        let until = self.cut.child_token();
        for (seat, side) in self.seats.iter().zip(sides) {
            let (reactor, token) = (Arc::clone(&seat.reactor), until.clone());
            let adopted = seat.runtime.spawn(async move {
                let serving = reactor.adopt(side, token)?;
                tokio::spawn(serving);
                std::io::Result::Ok(())
            });
            adopted
                .await
                .context("asking a reactor to serve a pool")?
                .context("serving a pool on a reactor")?;
        }
        Ok(until)
    }

    /// Returns once each reactor has come by: what one was doing without pause when this was called, it has done.
    pub(super) async fn pass(&self) {
        for seat in &self.seats {
            // A reactor that has ended does nothing any more.
            let _ = seat.runtime.spawn(std::future::ready(())).await;
        }
    }

    /// Takes no new connection; each one ends with the request it is at, or with its next one.
    pub(super) fn leave(&self) {
        self.leave.cancel();
    }

    /// Takes no new connection; each one ends with the request it is at, an idle one at once.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends everything now.
    pub(super) fn cut(&self) {
        self.stop.cancel();
        self.cut.cancel();
    }

    /// Waits for the threads. After [`Reactors::cut`]: it blocks.
    pub(super) fn join(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            if thread.join().is_err() {
                error!("reactor panicked");
            }
        }
    }
}

impl Connections {
    /// Returns once no connection is left, or serving them has failed. Cancel-safe.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        while let Some(end) = self.0.join_next().await {
            end.context("waiting for a reactor")??;
        }
        Ok(())
    }

    /// Returns once a reactor serves no more connections, which none does before [`Reactors::stop`]. Cancel-safe.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        match self.0.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.into(),
            Some(Ok(Ok(()))) | None => anyhow::anyhow!("a reactor ended although nobody told it to"),
        }
    }
}

/// The whole life of a reactor's thread.
fn live(runtime: Runtime, end: &CancellationToken) {
    runtime.block_on(end.cancelled());
    runtime.shutdown_timeout(SHUTDOWN);
}
