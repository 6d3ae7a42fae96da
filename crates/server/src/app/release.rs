//! A release: one reading of settings and code, with the processes that serve it. The server has one that serves; while it
//! reloads, also the next one, which boots, and the one before, which finishes.
//!
//! A release has shared memory, zygote and workers of its own, so nothing of two releases ever meets: requests go to one or to the
//! other. Its supervisor is a task, which gets [`Order`]s. Called by `app`. Runs in: server, on the main thread.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::reload::{Past, World};
use crate::config::{self, Config};
use crate::dispatch::{Pool, PoolShared};
use crate::edge::{self, Site};
use crate::report;
use crate::supervise::{StartError, Started, Supervisor};

/// Orders that may wait for a supervisor.
const ORDERS: usize = 16;
/// How often it is looked whether the last request of a release has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What a release's supervisor is told.
#[derive(Debug)]
enum Order {
    /// What its processes are at.
    Report(oneshot::Sender<report::Pool>),
    /// What requests left behind.
    Leaks(oneshot::Sender<report::PoolLeaks>),
    /// End the workers, but not the zygote; answered when none is left.
    Rest(Instant, oneshot::Sender<()>),
    /// Have workers again; answered as a boot is.
    Wake(oneshot::Sender<Result<Started, StartError>>),
    /// End everything, workers when they have finished.
    End(Instant),
    /// End everything now.
    Cut,
}

/// One release.
#[derive(Debug)]
pub(super) struct Release {
    pub(super) config: Arc<Config>,
    phase: Mutex<Phase>,
    /// Its pools, in the order of the configuration.
    members: Vec<Member>,
}

/// What a release is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Booting,
    Serving,
    /// Finishes what it has.
    Draining,
    /// Has no workers, and waits for a rollback.
    Kept,
}

/// One pool of a release.
#[derive(Debug)]
struct Member {
    pool: Arc<PoolShared>,
    orders: mpsc::Sender<Order>,
    /// Cancelled when the supervisor has ended.
    over: CancellationToken,
    /// The reactors serve it until this is dropped.
    _desks: DropGuard,
}

/// The answers of the pools of a release that boots.
#[derive(Debug)]
pub(super) struct Booting(Vec<(String, oneshot::Receiver<Result<Started, StartError>>)>);

impl Booting {
    /// What became of it: of the first pool, once all have started.
    pub(super) async fn outcome(self) -> anyhow::Result<Started> {
        let is_alone = self.0.len() == 1;
        let mut first = None;
        for (name, receiver) in self.0 {
            let started = receiver
                .await
                .context("its processes have ended")
                .and_then(|started| Ok(started?));
            let started = if is_alone {
                started
            } else {
                started.with_context(|| format!("pool {name}"))
            };
            first.get_or_insert(started?);
        }
        first.context("there is no pool")
    }
}

impl Release {
    /// Starts to boot what `config` says. A pool counts as started with `enough` workers.
    pub(super) async fn boot(
        config: Arc<Config>,
        world: &World,
        enough: impl Fn(&config::Pool) -> usize,
    ) -> anyhow::Result<(Self, Booting)> {
        // Its zygote may find the user a moment later; no file would be sent.
        if let Some(why) = config.pools.iter().find_map(config::Pool::unknown_account) {
            bail!(why);
        }
        let (mut members, mut booting) = (Vec::new(), Vec::new());
        for pool in &config.pools {
            let (member, started) = Member::boot((&config, pool), world, enough(pool)).await?;
            members.push(member);
            booting.push((pool.name.clone(), started));
        }
        let release = Self {
            config,
            phase: Mutex::new(Phase::Booting),
            members,
        };
        Ok((release, Booting(booting)))
    }

    /// What connections are to be given.
    pub(super) fn site(&self) -> Site<Vec<Vec<Pool>>> {
        Site::new(Arc::clone(&self.config), self.doors())
    }

    /// For each pool, one for each reactor.
    pub(super) fn doors(&self) -> Vec<Vec<Pool>> {
        self.members.iter().map(|member| member.pool.doors()).collect()
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    /// New requests are refused from now on.
    pub(super) fn refuse(&self) {
        for member in &self.members {
            member.pool.begin_stop();
        }
    }

    /// What its processes are at, without the pools whose processes are gone.
    pub(super) async fn report(&self) -> Vec<report::Pool> {
        let mut pools = Vec::new();
        for member in &self.members {
            pools.extend(member.ask(Order::Report).await);
        }
        pools
    }

    /// What requests left behind, likewise.
    pub(super) async fn leaks(&self) -> Vec<report::PoolLeaks> {
        let mut pools = Vec::new();
        for member in &self.members {
            pools.extend(member.ask(Order::Leaks).await);
        }
        pools
    }

    /// Has workers again after [`Release::rest`].
    pub(super) async fn wake(&self) -> Booting {
        let mut booting = Vec::new();
        for (member, pool) in self.members.iter().zip(&self.config.pools) {
            let (reply, started) = oneshot::channel();
            // Whoever takes no orders drops the reply.
            let _ = member.orders.send(Order::Wake(reply)).await;
            booting.push((pool.name.clone(), started));
        }
        Booting(booting)
    }

    /// No request is given to it any more: waits for those it has, then ends its workers; at `until` it kills them. The zygotes stay.
    pub(super) async fn rest(&self, until: Instant) {
        for member in &self.members {
            while member.pool.under_way() > 0 && Instant::now() < until {
                tokio::time::sleep(LOOK).await;
            }
            member.ask(|reply| Order::Rest(until, reply)).await;
        }
    }

    /// New requests are refused. Its workers end when they have finished, and are killed at `until`; then the zygotes end.
    /// Cancel-safe.
    pub(super) async fn end(&self, until: Instant) {
        self.refuse();
        self.leave(|| Order::End(until)).await;
    }

    /// Ends everything at once.
    pub(super) async fn cut(&self) {
        self.leave(|| Order::Cut).await;
    }

    async fn leave(&self, order: impl Fn() -> Order) {
        for member in &self.members {
            // Whoever takes no orders is over.
            let _ = member.orders.send(order()).await;
        }
        for member in &self.members {
            member.over.cancelled().await;
        }
    }
}

impl Member {
    async fn boot(
        (config, settings): (&Config, &config::Pool),
        world: &World,
        enough: usize,
    ) -> anyhow::Result<(Self, oneshot::Receiver<Result<Started, StartError>>)> {
        let created = PoolShared::create(settings, config).context("creating the shared memory")?;
        let desks = world.reactors.adopt(created.sides).await?;
        let supervisor = Supervisor::new(
            settings,
            Arc::clone(&created.shared),
            (created.eventfds, created.orders),
            (edge::warmup_requests(settings, &world.listen), world.kin.clone()),
        )
        .context("setting up the supervisor")?;
        let (orders, inbox) = mpsc::channel(ORDERS);
        let (reply, started) = oneshot::channel();
        let over = CancellationToken::new();
        let task = Task {
            supervisor,
            inbox,
            enough,
            starting: Some(reply),
            resting: None,
            past: Arc::clone(&world.past),
        };
        let end = over.clone().drop_guard();
        tokio::spawn(async move {
            task.run().await;
            drop(end);
        });
        let member = Self {
            pool: created.shared,
            orders,
            over,
            _desks: desks.drop_guard(),
        };
        Ok((member, started))
    }

    async fn ask<T>(&self, order: impl FnOnce(oneshot::Sender<T>) -> Order) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.orders.send(order(reply)).await.ok()?;
        answer.await.ok()
    }
}

/// The supervisor, and who waits for what.
struct Task {
    supervisor: Supervisor,
    inbox: mpsc::Receiver<Order>,
    /// Workers that must run before the release counts as started.
    enough: usize,
    starting: Option<oneshot::Sender<Result<Started, StartError>>>,
    resting: Option<(Instant, oneshot::Sender<()>)>,
    past: Arc<Mutex<Past>>,
}

impl Task {
    async fn run(mut self) {
        loop {
            self.answer();
            let hurry = self.resting.as_ref().map(|(until, _)| *until);
            let late = async {
                match hurry {
                    Some(until) => tokio::time::sleep_until(until.into()).await,
                    None => std::future::pending().await,
                }
            };
            // Cancel-safe: each of the three is.
            tokio::select! {
                () = self.supervisor.step() => {}
                order = self.inbox.recv() => match order {
                    Some(Order::End(until)) => return self.end(until).await,
                    // Nobody is left who could give orders: what was being prepared was broken off, or the server is over.
                    Some(Order::Cut) | None => return self.cut().await,
                    Some(order) => self.obey(order),
                },
                () = late => {
                    self.supervisor.hurry("it did not end within drain_timeout");
                    if let Some((until, _)) = &mut self.resting {
                        *until += Duration::from_secs(1);
                    }
                }
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            // Who asked may have gone.
            Order::Report(reply) => drop(reply.send(self.supervisor.report())),
            Order::Leaks(reply) => drop(reply.send(self.supervisor.report_leaks())),
            Order::Rest(until, reply) => {
                self.supervisor.rest();
                self.resting = Some((until, reply));
            }
            Order::Wake(reply) => {
                self.supervisor.wake();
                self.resting = None;
                self.starting = Some(reply);
            }
            Order::End(_) | Order::Cut => {}
        }
    }

    /// Tells what has come true to who waits for it, if he still does.
    fn answer(&mut self) {
        if self.starting.is_some()
            && let Some(started) = self.supervisor.started(self.enough)
            && let Some(reply) = self.starting.take()
        {
            let _ = reply.send(started);
        }
        if self.supervisor.no_workers()
            && let Some((_, reply)) = self.resting.take()
        {
            let _ = reply.send(());
        }
    }

    async fn end(mut self, until: Instant) {
        // Cancel-safe: `cut` ends what `drain` leaves.
        tokio::select! {
            () = self.supervisor.drain(until) => return self.note_totals(),
            () = hurried(&mut self.inbox) => {}
        }
        self.cut().await;
    }

    async fn cut(mut self) {
        self.supervisor.cut().await;
        self.note_totals();
    }

    /// What it has served counts on.
    fn note_totals(&self) {
        let report = self.supervisor.report();
        let mut past = self.past.lock().unwrap_or_else(PoisonError::into_inner);
        *past.entry(report.name).or_default() += report.totals;
    }
}

/// Returns once there is no more time.
async fn hurried(inbox: &mut mpsc::Receiver<Order>) {
    while !matches!(inbox.recv().await, Some(Order::Cut) | None) {}
}
