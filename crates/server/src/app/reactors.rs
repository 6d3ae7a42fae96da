//! The reactor threads: each has a runtime of its own, with the edge's connections and dispatch's exchanges on it.
//!
//! Called by `app`. Runs in: server; `serve_on` on a reactor's thread, the rest on the main thread.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::config::Config;
use crate::dispatch::{Pool, PoolShared, Reactor};
use crate::edge::{self, Intake, Site};

/// How long file operations under way may take once a reactor has ended.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// All reactors, and the acceptor that feeds them.
#[derive(Debug)]
pub(super) struct Reactors {
    threads: Vec<JoinHandle<()>>,
    /// One task a thread, and the acceptor: ends with it.
    ends: JoinSet<anyhow::Result<()>>,
    stop: CancellationToken,
    cut: CancellationToken,
}

/// What one reactor is made of.
struct Parts {
    reactor: Reactor,
    intake: Intake,
    pool: Pool,
    site: Arc<Site>,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Reactors {
    /// Starts the threads, then accepts connections.
    pub(super) fn start(
        config: &Config,
        listener: TcpListener,
        site: &Arc<Site>,
        pool: &Arc<PoolShared>,
        reactors: Vec<Reactor>,
    ) -> anyhow::Result<Self> {
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let (acceptor, intakes) = edge::split(reactors.len(), config.limits.connections);
        let (mut threads, mut ends) = (Vec::new(), JoinSet::new());
        for (number, (reactor, intake)) in reactors.into_iter().zip(intakes).enumerate() {
            let parts = Parts {
                reactor,
                intake,
                pool: pool.on(number).context("a reactor that dispatch does not know")?,
                site: Arc::clone(site),
                stop: stop.clone(),
                cut: cut.clone(),
            };
            let (report, end) = oneshot::channel();
            let thread = std::thread::Builder::new()
                .name(format!("reactor-{number}"))
                .spawn(move || {
                    // The receiver is gone only when the server has stopped.
                    let _ = report.send(run(parts));
                })
                .with_context(|| format!("starting the thread of reactor {number}"))?;
            threads.push(thread);
            ends.spawn(async move {
                let ended = end.await.with_context(|| format!("reactor {number} panicked"))?;
                ended.with_context(|| format!("running reactor {number}"))
            });
        }
        let accepting = acceptor.run(listener, stop.clone());
        ends.spawn(async move { accepting.await.context("accepting connections") });
        Ok(Self {
            threads,
            ends,
            stop,
            cut,
        })
    }

    /// Takes no new connection; each one ends with the request it is at.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends everything now.
    pub(super) fn cut(&self) {
        self.stop.cancel();
        self.cut.cancel();
    }

    /// Returns once all have ended, or one has failed. Cancel-safe.
    pub(super) async fn ended(&mut self) -> anyhow::Result<()> {
        while let Some(end) = self.ends.join_next().await {
            end.context("waiting for a reactor")??;
        }
        Ok(())
    }

    /// Returns once one of them has ended, which none does before [`Reactors::stop`]. Cancel-safe.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        match self.ends.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.into(),
            Some(Ok(Ok(()))) | None => anyhow::anyhow!("a reactor ended although nobody told it to"),
        }
    }

    /// Waits for the threads. After [`Reactors::cut`], or when all have ended: it blocks.
    pub(super) fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                error!("reactor panicked");
            }
        }
    }
}

/// The whole life of a reactor's thread.
fn run(parts: Parts) -> io::Result<()> {
    let runtime = parts.reactor.build_runtime()?;
    let result = runtime.block_on(serve_on(parts));
    runtime.shutdown_timeout(SHUTDOWN);
    result
}

async fn serve_on(parts: Parts) -> io::Result<()> {
    let connections = parts.intake.serve(parts.site, parts.pool, parts.stop);
    let exchanges = parts.reactor.run(parts.cut.clone());
    // Cancel-safe: whatever ends first, the others are over with it. Exchanges end by themselves only when cut.
    tokio::select! {
        () = connections => Ok(()),
        ended = exchanges => ended,
        () = parts.cut.cancelled() => Ok(()),
    }
}
