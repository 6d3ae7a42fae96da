//! The server once it serves: what it is told, its replacement, its end. Called by `app`. Runs in: server, on the main thread.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use super::Outside;
use super::ending::End;
use super::reactors::Connections;
use super::reload::{Next, Waiting, Wish, World, scripted};
use super::signals::{Order, Signals};
use super::successor::{Belongings, Successor};
use super::turnover::{Previous, Served, changed, finished, wanted};
use super::watch::Changes;
use crate::admin::Ask;
use crate::dispatch::Pool;
use crate::edge::{Listener, Sites};

/// What a successor may take beyond the boot and its health requests.
const SUCCESSION: Duration = Duration::from_secs(30);

/// Everything that runs.
pub(super) struct Server {
    pub(super) world: Arc<World>,
    pub(super) sites: Arc<Sites<Vec<Vec<Pool>>>>,
    pub(super) connections: Connections,
    pub(super) outside: Outside,
    /// The path of this server's binary.
    pub(super) binary: PathBuf,
    /// For a successor. Nobody listens once they are dropped.
    pub(super) listeners: Vec<Listener>,
    pub(super) serving: Served,
    pub(super) previous: Option<Previous>,
    pub(super) reloading: Option<(Waiting, JoinHandle<anyhow::Result<Next>>)>,
    /// Of files, where they are watched.
    pub(super) changes: Option<Changes>,
    /// When an application had a reload last.
    pub(super) last_wanted: Option<Instant>,
    /// Reloads that were asked for while another was under way.
    pub(super) queue: VecDeque<Waiting>,
    /// This server is to be replaced once no reload is under way.
    pub(super) replacement_is_due: bool,
    /// The server that is to replace this one, as it starts.
    pub(super) replacing: Option<JoinHandle<anyhow::Result<Successor>>>,
}

impl Server {
    /// Returns when everything has ended.
    pub(super) async fn run(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let end = loop {
            // Cancel-safe: each of the eight is.
            tokio::select! {
                order = signals.next() => match order {
                    Order::Reload => self.wish(Waiting::new(Wish::Anew, None)),
                    Order::Reopen => self.outside.logs.reopen(),
                    Order::Replace => self.start_successor(),
                    Order::Stop(cause) => break End::Told(cause),
                },
                error = self.connections.failed() => break End::Failed(error),
                ask = self.outside.answers.next() => if let Some(end) = self.answer(ask) { break end },
                () = wanted(&self.world, self.last_wanted), if self.reloading.is_none() && self.replacing.is_none() => {
                    self.world.kin.forget_wish();
                    self.last_wanted = Some(Instant::now());
                    self.wish(Waiting::new(Wish::Code, None));
                }
                meaning = changed(&mut self.changes), if self.replacing.is_none() => self.read_anew(meaning),
                prepared = finished(&mut self.reloading) => self.finish_reload(prepared).await,
                started = settled(&mut self.replacing) => if self.hand_over(started).await {
                    break End::Replaced;
                },
                () = self.outside.notifier.beat() => {}
            }
        };
        self.end(end, signals).await
    }

    /// Starts the server that is to replace this one.
    pub(super) fn start_successor(&mut self) {
        if std::process::id() == 1 {
            error!(
                "binary not replaced: this server is process 1, and its container ends with it; hearth reload serves new PHP code, a \
                 new hearth needs a new container"
            );
            return;
        }
        if self.replacing.is_some() {
            warn!("binary not replaced: a replacement is under way already");
            return;
        }
        self.replacement_is_due = self.reloading.is_some();
        if self.replacement_is_due {
            info!("replacement waits for the reload under way");
            return;
        }
        match self.belongings() {
            Ok(belongings) => {
                let config = &self.serving.release.config;
                // Each health request may take its pool's boot_timeout, one after the other.
                let health: Duration = config.pools.iter().map(|pool| pool.boot_timeout).sum();
                let patience = config.boot_timeout() + health + SUCCESSION;
                let family = self.world.kin.family.clone();
                info!(binary = %self.binary.display(), "replacement begins");
                let starting = Successor::start(self.binary.clone(), belongings, (family, patience));
                self.replacing = Some(tokio::spawn(starting));
            }
            Err(error) => error!(
                error = format!("{error:#}"),
                "binary not replaced: this server serves on"
            ),
        }
    }

    fn belongings(&self) -> anyhow::Result<Belongings> {
        let config = &self.serving.release.config;
        let listeners = self.listeners.iter().map(Listener::try_clone);
        let (admin, probes) = self.outside.answers.share().context("sharing the admin socket")?;
        Ok(Belongings {
            dir: self.serving.sources.dir.clone(),
            listeners: listeners.collect::<io::Result<_>>()?,
            admin,
            probes: config.admin_listen.zip(probes),
            scripted: scripted(config),
        })
    }

    /// Hands everything to the server that has started; true if there is one.
    async fn hand_over(&mut self, started: anyhow::Result<Successor>) -> bool {
        match started {
            Ok(successor) => {
                let pid = successor.pid();
                // What waits here for new code is answered here.
                self.sites.settle(self.sites.changes(), None);
                // New connections wait for the successor.
                self.world.reactors.leave();
                self.outside.answers.hand_over();
                self.listeners.iter().for_each(Listener::give_away);
                // Before the successor speaks: the manager listens to no other process.
                self.outside.notifier.replaced_by(pid);
                successor.take_over().await;
                info!(
                    pid,
                    "replaced: another server has taken over, this one finishes its requests"
                );
                true
            }
            Err(error) => {
                error!(
                    error = format!("{error:#}"),
                    "binary not replaced: this server serves on"
                );
                false
            }
        }
    }

    /// Why the server is to end, if that is what it is told.
    fn answer(&mut self, ask: Ask) -> Option<End> {
        match ask {
            Ask::Stop(order, reply) => return Some(self.told_to_stop(&order, reply)),
            Ask::Reload(order, reply) => {
                let wish = order.to.map_or(Wish::Anew, |dir| Wish::At(PathBuf::from(dir)));
                self.wish(Waiting::new(wish, Some(reply)));
            }
            Ask::Rollback(reply) => self.wish(Waiting::new(Wish::Back, Some(reply))),
            ask => self.outside.answers.answer(ask),
        }
        None
    }
}

/// The server that has started to replace this one, or why it has not. Cancel-safe.
async fn settled(replacing: &mut Option<JoinHandle<anyhow::Result<Successor>>>) -> anyhow::Result<Successor> {
    let started = match replacing {
        Some(job) => job.await,
        None => std::future::pending().await,
    };
    *replacing = None;
    started
        .map_err(|error| anyhow!("starting it was broken off: {error}"))
        .flatten()
}
