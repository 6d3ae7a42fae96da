//! The first release. Where files are watched, one that does not boot is no end: the browser shows why, and the next change is tried.
//!
//! Called by `app`. Runs in: server, on the main thread.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use tracing::{error, info, warn};

use super::boots::Meaning;
use super::inherited::Predecessor;
use super::reactors::Connections;
use super::release::{Booting, Phase, Release};
use super::reload::{self, World};
use super::server::Server;
use super::signals::{Cause, Order, Signals};
use super::turnover::{Served, changed};
use super::watch::Changes;
use super::{Doors, Outside, accounts};
use crate::admin::Ask;
use crate::config::{Config, Sources};
use crate::dispatch::Pool;
use crate::edge::{Listener, Sites};
use crate::report::{self, ServerState, Stopping};
use crate::supervise::Started;

/// What there is before anything is served.
pub(super) struct Start {
    pub(super) world: Arc<World>,
    pub(super) sites: Arc<Sites<Vec<Vec<Pool>>>>,
    pub(super) config: Arc<Config>,
    pub(super) sources: Sources,
    pub(super) outside: Outside,
    pub(super) changes: Option<Changes>,
    /// The path of the server's binary.
    pub(super) binary: PathBuf,
    pub(super) doors: Doors,
    /// There already if a page had to be shown.
    pub(super) connections: Option<Connections>,
}

/// What became of a boot.
enum End {
    Booted(Arc<Release>, String),
    /// Files have changed since it began.
    Stale,
    Stopped,
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
            return self.serve(release, &php, changes).await.map(Some);
        }
        self.outside.answers.farewell().await;
        self.world.reactors.cut();
        self.world.reactors.join();
        first.map(|_| None)
    }

    /// A release that can serve, PHP's version, and how often files had changed when it was read.
    async fn first(&mut self, signals: &mut Signals) -> anyhow::Result<Option<(Arc<Release>, String, u64)>> {
        loop {
            let changes = self.sites.changes();
            if let Some(changes) = &mut self.changes {
                changes.boot_begins();
            }
            let booted = self.boot(signals).await;
            if let Some(changes) = &self.changes {
                changes.boot_ended();
            }
            let failure = match booted {
                Ok(End::Stale) => {
                    self.read_settings();
                    continue;
                }
                Ok(End::Stopped) => return Ok(None),
                Ok(End::Booted(release, php)) => return Ok(Some((release, php, changes))),
                // A successor that shows no more than an error page is none.
                Err(failure) if self.changes.is_some() && self.doors.predecessor.is_none() => failure,
                Err(failure) => return Err(failure),
            };
            let why = format!("{failure:#}");
            error!(
                error = why,
                "application not booted: waiting for a change of its files"
            );
            self.sites.settle(changes, Some(&why));
            if self.connections.is_none() {
                self.connections = Some(self.accept()?);
                info!(address = self.world.places(), "the reason is shown to browsers");
            }
            if !self.change(signals).await {
                return Ok(None);
            }
        }
    }

    fn accept(&self) -> anyhow::Result<Connections> {
        let limit = self.config.limits.connections;
        let listeners = self.doors.listeners.iter().map(Listener::try_clone);
        let listeners = listeners
            .collect::<io::Result<_>>()
            .context("keeping the listening sockets")?;
        Ok(self.world.reactors.accept(listeners, &self.sites, limit))
    }

    async fn serve(mut self, release: Arc<Release>, php: &str, changes: u64) -> anyhow::Result<Server> {
        self.sites.switch_to(release.site());
        self.sites.settle(changes, None);
        release.set_phase(Phase::Serving);
        self.outside.answers.state = ServerState::Serving;
        if let Some(predecessor) = self.doors.predecessor.take() {
            // Nobody accepts for this moment; who connects waits.
            predecessor.take_over(self.doors.admin_is_inherited).await;
            self.doors.own();
            let (admin, probes) = (self.doors.admin.take(), self.doors.probes.take());
            self.outside.answers.listen(admin, probes)?;
        }
        let connections = match self.connections.take() {
            Some(connections) => connections,
            None => self.accept()?,
        };
        accounts::warn_of(&release, &self.sources).await;
        self.outside.announce(&self.config, &self.world, php);
        Ok(Server {
            world: self.world,
            sites: self.sites,
            connections,
            outside: self.outside,
            binary: self.binary,
            listeners: self.doors.listeners,
            serving: Served {
                release,
                sources: self.sources,
            },
            previous: None,
            reloading: None,
            changes: self.changes,
            last_wanted: None,
            queue: VecDeque::new(),
            replacement_is_due: false,
            replacing: None,
            upgrades: Vec::new(),
        })
    }

    async fn boot(&mut self, signals: &mut Signals) -> anyhow::Result<End> {
        let config = Arc::clone(&self.config);
        let enough = reload::enough(config.watch || self.doors.predecessor.is_none());
        let (release, booting) = self.world.boot(config, enough).await?;
        let mut booting = pin!(start(
            &self.world,
            &release,
            (booting, self.doors.predecessor.as_ref())
        ));
        let mut replaced_is_gone = pin!(gone(self.doors.predecessor.as_ref()));
        let mut told = None;
        let end = loop {
            // Cancel-safe: each of the six is.
            tokio::select! {
                started = &mut booting => match started {
                    Ok(started) => {
                        put_off(&mut self.changes, told);
                        return Ok(End::Booted(Arc::clone(&release), started.php_version));
                    }
                    Err(error) => break Err(error),
                },
                meaning = changed(&mut self.changes) => {
                    if meaning == Meaning::News {
                        break Ok(End::Stale);
                    }
                    told = Some(meaning);
                }
                ask = self.outside.answers.next() => if is_stop_asked(&mut self.outside, ask) {
                    break Ok(End::Stopped);
                },
                () = &mut replaced_is_gone => break Err(anyhow!("the server that was to be replaced has ended")),
                () = self.outside.notifier.beat() => {}
                order = signals.next() => if is_stop(order, &self.outside) { break Ok(End::Stopped) },
            }
        };
        release.cut().await;
        put_off(&mut self.changes, told);
        end
    }

    /// Waits for a change of the files, and reads the settings anew. False: a signal came first.
    async fn change(&mut self, signals: &mut Signals) -> bool {
        let Some(changes) = &mut self.changes else {
            return false;
        };
        loop {
            // Cancel-safe: each of the four is.
            tokio::select! {
                _ = changes.next() => break,
                ask = self.outside.answers.next() => if is_stop_asked(&mut self.outside, ask) { return false },
                () = self.outside.notifier.beat() => {}
                order = signals.next() => if is_stop(order, &self.outside) { return false },
            }
        }
        self.read_settings();
        true
    }

    fn read_settings(&mut self) {
        // What is wrong with them is said when the next release reads them.
        if let Ok(loaded) = Config::load(&self.sources) {
            self.config = Arc::new(loaded.config);
        }
    }
}

/// Changes that a boot was not cut short for are for what comes after it.
fn put_off(changes: &mut Option<Changes>, told: Option<Meaning>) {
    if let Some(changes) = changes.as_mut().filter(|_| told.is_some()) {
        changes.put_off();
    }
}

/// Returns when `release` has started. In the place of another server's it must pass what it has to pass in a reload.
async fn start(
    world: &World,
    release: &Release,
    (booting, predecessor): (Booting, Option<&Predecessor>),
) -> anyhow::Result<Started> {
    match predecessor {
        Some(predecessor) => world.try_out(release, booting, &predecessor.scripted).await,
        None => booting.outcome().await,
    }
}

/// Returns when a server that is to be replaced has ended.
async fn gone(predecessor: Option<&Predecessor>) {
    match predecessor {
        Some(predecessor) => predecessor.gone().await,
        None => std::future::pending().await,
    }
}

/// Answers; whether the server is told to stop.
fn is_stop_asked(outside: &mut Outside, ask: Ask) -> bool {
    match ask {
        Ask::Stop(_, reply) => {
            // Who asked may have gone, here and below.
            let _ = reply.send(Ok(Stopping {
                pid: std::process::id(),
                seconds: 0.0,
                pid_namespace: report::pid_namespace(),
            }));
            info!(
                signal = Cause::Command.name(),
                "stopped before the application had booted"
            );
            return true;
        }
        Ask::Reload(_, reply) | Ask::Rollback(reply) => {
            let _ = reply.send(Err(
                "the server is starting: it reads settings and code just now".to_owned()
            ));
        }
        Ask::Upgrade(reply) => {
            let _ = reply.send(Err("not replaced: the server is starting".to_owned()));
        }
        ask => outside.answers.answer(ask),
    }
    false
}

fn is_stop(order: Order, outside: &Outside) -> bool {
    match order {
        Order::Reload => false,
        Order::Reopen => {
            outside.logs.reopen();
            false
        }
        Order::Replace => {
            warn!("binary not replaced: the server is starting");
            false
        }
        Order::Stop(cause) => {
            info!(signal = cause.name(), "stopped before the application had booted");
            true
        }
    }
}
