//! Answers what the admin socket is asked, from what the parts say of themselves.
//!
//! Called by `app`, between the events that it waits for. Runs in: server, on the main thread.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tracing::{info, warn};

use super::release::{Phase, Release};
use super::reload::World;
use crate::admin::Ask;
use crate::admin::listen::AdminListener;
use crate::config::Config;
use crate::report::{self, GenerationState, Leaks, ServerState, Status};
use crate::supervise::status::{measure, seconds};

/// Questions that may wait; who asks more waits to ask.
const ASKS: usize = 16;

/// The admin socket, and what is known without asking a part.
#[derive(Debug)]
pub(super) struct Answers {
    asks: mpsc::Receiver<Ask>,
    /// Keeps the channel open, also without a listener.
    _ask: mpsc::Sender<Ask>,
    /// The listener, and answers that take a moment. They end when this is dropped.
    tasks: JoinSet<()>,
    since: Instant,
    world: Arc<World>,
    dir: String,
    pub(super) state: ServerState,
}

impl Answers {
    /// Listens from now on. Must be called within the supervisors' runtime.
    pub(super) fn start(config: &Config, world: Arc<World>, socket: Option<AdminListener>) -> Self {
        let (ask, asks) = mpsc::channel(ASKS);
        let mut tasks = JoinSet::new();
        if let Some(socket) = socket {
            info!(path = %socket.path().display(), "admin socket ready");
            let ask = ask.clone();
            tasks.spawn(async move {
                if let Err(error) = socket.serve(ask).await {
                    warn!(%error, "admin socket given up");
                }
            });
        }
        Self {
            asks,
            _ask: ask,
            tasks,
            since: Instant::now(),
            world,
            dir: config.dir.display().to_string(),
            state: ServerState::Starting,
        }
    }

    /// The next question. Cancel-safe.
    pub(super) async fn next(&mut self) -> Ask {
        match self.asks.recv().await {
            Some(ask) => ask,
            // Never: a sender is kept.
            None => std::future::pending().await,
        }
    }

    /// Answers soon. Orders are not its affair.
    pub(super) fn answer(&mut self, ask: Ask) {
        while self.tasks.try_join_next().is_some() {}
        let world = Arc::clone(&self.world);
        match ask {
            Ask::Status(reply) => {
                let mut status = self.status();
                self.tasks.spawn(async move {
                    status.pools = report_pools(&world).await;
                    if let Some(pool) = status.pools.first() {
                        status.dir.clone_from(&pool.dir);
                    }
                    let measured = spawn_blocking(move || {
                        status.pools.iter_mut().for_each(measure);
                        status
                    });
                    if let Ok(status) = measured.await {
                        // Who asked may have gone.
                        let _ = reply.send(status);
                    }
                });
            }
            Ask::Leaks(reply) => {
                self.tasks.spawn(async move {
                    let pools = match serving(&world) {
                        Some(release) => release.leaks().await,
                        None => Vec::new(),
                    };
                    // As above.
                    let _ = reply.send(Leaks { pools });
                });
            }
            Ask::Reload(..) | Ask::Rollback(_) => {}
        }
    }

    fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: self.state,
            uptime_seconds: seconds(self.since.elapsed()),
            listen: self.world.address.to_string(),
            dir: self.dir.clone(),
            pools: Vec::new(),
        }
    }
}

/// The release that serves, or the first one, which is to.
fn serving(world: &World) -> Option<Arc<Release>> {
    let all = world.releases();
    let of = |phase| all.iter().rfind(|release| release.phase() == phase);
    of(Phase::Serving).or_else(|| of(Phase::Booting)).cloned()
}

/// The pools of the release that serves, with the generations and workers that others have of them.
async fn report_pools(world: &World) -> Vec<report::Pool> {
    let Some(serving) = serving(world) else {
        return Vec::new();
    };
    let mut pools = serving.report().await;
    for release in world.releases() {
        if Arc::ptr_eq(&release, &serving) {
            continue;
        }
        for other in release.report().await {
            match pools.iter_mut().find(|pool| pool.name == other.name) {
                Some(pool) => add(pool, other, release.phase()),
                None => pools.push(other),
            }
        }
    }
    let past = world.past.lock().unwrap_or_else(PoisonError::into_inner);
    for pool in &mut pools {
        pool.generations.sort_by_key(|generation| generation.number);
        pool.totals += past.get(&pool.name).copied().unwrap_or_default();
    }
    pools
}

/// Adds what `other`, the same pool of a release in `phase`, has.
fn add(pool: &mut report::Pool, other: report::Pool, phase: Phase) {
    let state = match phase {
        Phase::Booting | Phase::Serving => None,
        Phase::Draining => Some(GenerationState::Draining),
        Phase::Kept => Some(GenerationState::Kept),
    };
    pool.generations
        .extend(other.generations.into_iter().map(|generation| {
            let was = generation.state;
            report::Generation {
                state: state.filter(|_| was == GenerationState::Ready).unwrap_or(was),
                ..generation
            }
        }));
    pool.workers.extend(other.workers);
    pool.queue.waiting += other.queue.waiting;
    pool.totals += other.totals;
}
