//! The first release. Where files are watched, one that does not boot is no end: the browser shows why, and the next change is tried.
//!
//! Called by `app`. Runs in: server, on the main thread.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;

use anyhow::Context;
use tracing::{error, info};

use super::answers::Answers;
use super::reactors::Connections;
use super::release::{Phase, Release};
use super::reload::World;
use super::signals::{Order, Signals};
use super::watch::Changes;
use super::{Served, Server, print_line};
use crate::admin::Ask;
use crate::config::{Config, Sources};
use crate::dispatch::Pool;
use crate::edge::Sites;
use crate::report::ServerState;

/// What there is before anything is served.
pub(super) struct Start {
    pub(super) world: Arc<World>,
    pub(super) sites: Arc<Sites<Vec<Vec<Pool>>>>,
    pub(super) config: Arc<Config>,
    pub(super) sources: Sources,
    pub(super) answers: Answers,
    pub(super) changes: Option<Changes>,
    /// Until somebody accepts from it.
    pub(super) listener: Option<TcpListener>,
    /// There already if a page had to be shown.
    pub(super) connections: Option<Connections>,
}

/// Watches the files of `config`, if they are to be: requests to `sites` wait as soon as one changes.
pub(super) fn changes(
    config: &Config,
    sites: &Arc<Sites<Vec<Vec<Pool>>>>,
) -> anyhow::Result<Option<Changes>> {
    if !config.watch {
        return Ok(None);
    }
    let sites = Arc::clone(sites);
    Changes::watch(config, move || sites.hold()).map(Some)
}

impl Start {
    /// Returns when requests are served. `None`: a signal came first, and all is over.
    pub(super) async fn run(mut self, signals: &mut Signals) -> anyhow::Result<Option<Server>> {
        let first = self.first(signals).await;
        if let Ok(Some((release, php, changes))) = first {
            return self.serve(release, &php, changes).map(Some);
        }
        self.world.reactors.cut();
        self.world.reactors.join();
        first.map(|_| None)
    }

    /// A release that can serve, PHP's version, and how often files had changed when it was read.
    async fn first(&mut self, signals: &mut Signals) -> anyhow::Result<Option<(Arc<Release>, String, u64)>> {
        loop {
            let changes = self.sites.changes();
            let failure = match self.boot(signals).await {
                Err(failure) if self.changes.is_some() => failure,
                end => return Ok(end?.map(|(release, php)| (release, php, changes))),
            };
            let why = format!("{failure:#}");
            error!(
                error = why,
                "application not booted: waiting for a change of its files"
            );
            self.sites.settle(changes, Some(&why));
            if let Some(listener) = self.listener.take() {
                self.connections = Some(self.accept(listener));
                info!(address = %self.world.address, "the reason is shown to browsers");
            }
            if !self.change(signals).await {
                return Ok(None);
            }
        }
    }

    fn accept(&self, listener: TcpListener) -> Connections {
        let limit = self.config.limits.connections;
        self.world.reactors.accept(listener, &self.sites, limit)
    }

    fn serve(mut self, release: Arc<Release>, php: &str, changes: u64) -> anyhow::Result<Server> {
        self.sites.switch_to(release.site());
        self.sites.settle(changes, None);
        let connections = if let Some(connections) = self.connections.take() {
            connections
        } else {
            let listener = self.listener.take().context("listening")?;
            self.accept(listener)
        };
        let address = self.world.address;
        print_line(&self.config.ready_line(address, php));
        info!(%address, workers = self.config.workers(), php, "server ready");
        release.set_phase(Phase::Serving);
        self.answers.state = ServerState::Serving;
        Ok(Server {
            world: self.world,
            sites: self.sites,
            connections,
            answers: self.answers,
            serving: Served {
                release,
                sources: self.sources,
            },
            previous: None,
            reloading: None,
            changes: self.changes,
            last_wanted: None,
            queue: VecDeque::new(),
        })
    }

    async fn boot(&mut self, signals: &mut Signals) -> anyhow::Result<Option<(Arc<Release>, String)>> {
        let (release, booting) = self.world.boot(Arc::clone(&self.config), |_| 1).await?;
        let mut booting = pin!(booting.outcome());
        let failed = loop {
            // Cancel-safe: each of the three is.
            tokio::select! {
                started = &mut booting => match started {
                    Ok(started) => return Ok(Some((release, started.php_version))),
                    Err(error) => break Some(error),
                },
                ask = self.answers.next() => answer(&mut self.answers, ask),
                order = signals.next() => if is_stop(order) { break None },
            }
        };
        release.cut().await;
        failed.map_or(Ok(None), Err)
    }

    /// Waits for a change of the files, and reads the settings anew. False: a signal came first.
    async fn change(&mut self, signals: &mut Signals) -> bool {
        let Some(changes) = &mut self.changes else {
            return false;
        };
        loop {
            // Cancel-safe: each of the three is.
            tokio::select! {
                () = changes.next() => break,
                ask = self.answers.next() => answer(&mut self.answers, ask),
                order = signals.next() => if is_stop(order) { return false },
            }
        }
        // What is wrong with them is said when the next release reads them.
        if let Ok(loaded) = Config::load(&self.sources) {
            self.config = Arc::new(loaded.config);
        }
        true
    }
}

fn answer(answers: &mut Answers, ask: Ask) {
    match ask {
        Ask::Reload(_, reply) | Ask::Rollback(reply) => {
            // Who asked may have gone.
            let _ = reply.send(Err(
                "the server is starting: it reads settings and code just now".to_owned()
            ));
        }
        ask => answers.answer(ask),
    }
}

fn is_stop(order: Order) -> bool {
    match order {
        Order::Reload => false,
        Order::Stop(signal) | Order::StopAtOnce(signal) => {
            info!(signal, "stopped before the application had booted");
            true
        }
    }
}
