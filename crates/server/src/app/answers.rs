//! Answers what the admin socket is asked, from what the parts say of themselves.
//!
//! Called by `app`, between the events that it waits for. Runs in: server, on the main thread.

use std::io;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::release::{Phase, Release};
use super::reload::World;
use crate::admin::Ask;
use crate::admin::listen::{AdminListener, Share};
use crate::admin::probes::ProbeListener;
use crate::config::Config;
use crate::report::{self, GenerationState, Health, Leaks, Readiness, ServerState, Status, WorkerState};
use crate::supervise::status::{measure, seconds};

/// Questions that may wait; who asks more waits to ask.
const ASKS: usize = 16;
/// Longest time for the last answers to be taken.
const FAREWELL: Duration = Duration::from_millis(200);
/// Pause between two looks at the file of the admin socket.
const LOOK: Duration = Duration::from_secs(1);

/// The admin socket, and what is known without asking a part.
#[derive(Debug)]
pub(super) struct Answers {
    asks: mpsc::Receiver<Ask>,
    /// Keeps the channel open, also without a listener.
    ask: mpsc::Sender<Ask>,
    /// The listeners, and answers that take a moment. They end when this is dropped.
    tasks: JoinSet<()>,
    /// For a successor.
    admin: Option<Share>,
    probes: Option<TcpListener>,
    /// Nobody new is listened to from then on.
    until: CancellationToken,
    /// The same, of the admin socket that is bound now.
    admin_until: CancellationToken,
    /// When it is looked whether that is still there.
    next_look: Instant,
    /// It was said that it cannot be bound anew.
    told: bool,
    since: Instant,
    world: Arc<World>,
    dir: String,
    pub(super) state: ServerState,
}

impl Answers {
    /// Nobody is listened to yet.
    pub(super) fn new(config: &Config, world: Arc<World>) -> Self {
        let (ask, asks) = mpsc::channel(ASKS);
        Self {
            asks,
            ask,
            tasks: JoinSet::new(),
            admin: None,
            probes: None,
            until: CancellationToken::new(),
            admin_until: CancellationToken::new(),
            next_look: Instant::now() + LOOK,
            told: false,
            since: Instant::now(),
            world,
            dir: config.dir.display().to_string(),
            state: ServerState::Starting,
        }
    }

    /// Listens from now on. Must be called within the supervisors' runtime.
    pub(super) fn listen(
        &mut self,
        socket: Option<AdminListener>,
        probes: Option<ProbeListener>,
    ) -> io::Result<()> {
        if let Some(socket) = socket {
            self.listen_at(socket)?;
        }
        if let Some(probes) = probes {
            self.probes = Some(probes.share()?);
            info!(address = %probes.address()?, "probes answered");
            let (ask, until) = (self.ask.clone(), self.until.clone());
            self.tasks.spawn(async move {
                if let Err(error) = probes.serve(ask, until).await {
                    warn!(%error, "listener for probes given up");
                }
            });
        }
        Ok(())
    }

    fn listen_at(&mut self, socket: AdminListener) -> io::Result<()> {
        socket.own();
        self.admin = Some(socket.share()?);
        self.admin_until = self.until.child_token();
        info!(path = %socket.path().display(), "admin socket ready");
        let (ask, until) = (self.ask.clone(), self.admin_until.clone());
        self.tasks.spawn(async move {
            if let Err(error) = socket.serve(ask, until).await {
                warn!(%error, "admin socket given up");
            }
        });
        Ok(())
    }

    /// A server that cannot be asked or told would have to be restarted for it.
    fn repair(&mut self) {
        let Some(admin) = &self.admin else { return };
        let Some(repaired) = admin.repair() else { return };
        let path = admin.path().display().to_string();
        let former = self.admin_until.clone();
        match repaired.and_then(|socket| self.listen_at(socket)) {
            Ok(()) => {
                former.cancel();
                self.told = false;
                warn!(path, "admin socket was removed, and is bound anew");
            }
            Err(error) if !self.told => {
                self.told = true;
                warn!(path, %error, "admin socket was removed, and cannot be bound anew");
            }
            Err(_) => {}
        }
    }

    /// The folder that is served from now on has these paths.
    pub(super) fn answer_for(&self, dirs: &[PathBuf]) {
        if let Some(admin) = &self.admin {
            admin.answer_for(dirs);
        }
    }

    /// What listens, for a successor.
    pub(super) fn share(&self) -> io::Result<(Option<Share>, Option<TcpListener>)> {
        let admin = self.admin.as_ref().map(Share::try_clone).transpose()?;
        let probes = self.probes.as_ref().map(TcpListener::try_clone).transpose()?;
        Ok((admin, probes))
    }

    /// Listens to nobody new: the successor does. Who asks already is answered.
    pub(super) fn hand_over(&mut self) {
        self.until.cancel();
        self.admin = None;
        self.probes = None;
    }

    /// Listens to nobody any more; who has been answered gets it.
    pub(super) async fn farewell(&mut self) {
        self.until.cancel();
        let told = async { while self.tasks.join_next().await.is_some() {} };
        // Some may be idle, or wait for an answer that never comes.
        let _ = tokio::time::timeout(FAREWELL, told).await;
    }

    /// The next question. Cancel-safe.
    pub(super) async fn next(&mut self) -> Ask {
        loop {
            // Cancel-safe: both are.
            let asked = tokio::select! {
                asked = self.asks.recv() => asked,
                () = tokio::time::sleep_until(self.next_look.into()) => {
                    self.next_look = Instant::now() + LOOK;
                    self.repair();
                    continue;
                }
            };
            match asked {
                Some(ask) => return ask,
                // Never: a sender is kept.
                None => std::future::pending().await,
            }
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
            // Who asked may have gone, here and below.
            Ask::Health(reply) => drop(reply.send(Health {
                pid: std::process::id(),
                state: self.state,
            })),
            Ask::Ready(reply) => {
                let state = self.state;
                self.tasks
                    .spawn(async move { drop(reply.send(readiness(state, &world).await)) });
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
            Ask::Reload(..) | Ask::Rollback(_) | Ask::Upgrade(_) | Ask::Stop(..) => {}
        }
    }

    fn status(&self) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: self.state,
            uptime_seconds: seconds(self.since.elapsed()),
            listen: self.world.places(),
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

/// Whether requests can be served, and what is in the way.
async fn readiness(state: ServerState, world: &World) -> Readiness {
    let reason = match state {
        ServerState::Starting => Some("starting: the application boots".to_owned()),
        ServerState::Stopping => Some("stopping".to_owned()),
        ServerState::Serving => match serving(world) {
            Some(release) => {
                let pools = release.report().await;
                if pools.len() < release.config.pools.len() {
                    Some("the processes of a pool have ended".to_owned())
                } else {
                    pools.iter().find_map(lack)
                }
            }
            None => Some("no release serves".to_owned()),
        },
    };
    Readiness {
        ready: reason.is_none(),
        reason,
    }
}

/// What keeps a pool from running a request. A worker that is being replaced is no lack: its successor comes within milliseconds.
fn lack(pool: &report::Pool) -> Option<String> {
    let lives = |worker: &report::Worker| worker.state != WorkerState::Killed;
    if pool.workers.iter().any(lives) {
        return None;
    }
    let forks = |generation: &report::Generation| generation.state == GenerationState::Ready;
    let why = match &pool.trouble {
        Some(trouble) => &trouble.reason,
        None if pool.generations.iter().any(forks) => return None,
        None => "the application boots",
    };
    Some(format!("no worker of pool {} runs: {why}", pool.name))
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
        for mut other in release.report().await {
            name_phase(&mut other, release.phase());
            match pools.iter_mut().find(|pool| pool.name == other.name) {
                Some(pool) => add(pool, other),
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

/// The generation that forks has a name of its own in a release that does not serve.
fn name_phase(pool: &mut report::Pool, phase: Phase) {
    let state = match phase {
        Phase::Booting | Phase::Serving => return,
        Phase::Draining => GenerationState::Draining,
        Phase::Kept => GenerationState::Kept,
    };
    for generation in &mut pool.generations {
        if generation.state == GenerationState::Ready {
            generation.state = state;
        }
    }
}

/// Adds what `other`, the same pool of another release, has.
fn add(pool: &mut report::Pool, other: report::Pool) {
    pool.generations.extend(other.generations);
    pool.workers.extend(other.workers);
    pool.queue.waiting += other.queue.waiting;
    pool.totals += other.totals;
}
