//! Another binary in the place of this one: when it is started, and what is handed to it.
//!
//! Called by `server` and `turnover`; what is said between the two servers is the affair of `successor`. Runs in: server, on the main
//! thread.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::{error, info, warn};

use super::reload::scripted;
use super::server::Server;
use super::successor::{Belongings, Successor};
use crate::admin::Outcome;
use crate::edge::Listener;
use crate::report::Upgraded;
use crate::supervise::status::seconds;

/// What a successor may take beyond the boot and its health requests.
const SUCCESSION: Duration = Duration::from_secs(30);

const PROCESS_1: &str = "this server is process 1, and its container ends with it; hearth reload serves new PHP code, a new hearth needs a \
                         new container";

/// A `hearth upgrade` that waits.
#[derive(Debug)]
pub(super) struct Upgrade {
    since: Instant,
    reply: oneshot::Sender<Outcome<Upgraded>>,
}

impl Server {
    /// Has another server replace this one, once a reload under way has ended. `reply` is who asked otherwise than by a signal.
    pub(super) fn replace(&mut self, reply: Option<oneshot::Sender<Outcome<Upgraded>>>) {
        let is_asked = reply.is_some();
        let since = Instant::now();
        self.upgrades.extend(reply.map(|reply| Upgrade { since, reply }));
        if self.replacing.is_none() {
            self.start_successor();
        } else if !is_asked {
            warn!("binary not replaced: a replacement is under way already");
        }
    }

    /// Starts the server that is to replace this one.
    pub(super) fn start_successor(&mut self) {
        if std::process::id() == 1 {
            error!("binary not replaced: {PROCESS_1}");
            self.tell_of_upgrade(&Err(PROCESS_1.to_owned()));
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
            Err(error) => self.not_replaced(&error),
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
    pub(super) async fn hand_over(&mut self, started: anyhow::Result<Successor>) -> bool {
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
                self.tell_of_upgrade(&Ok(pid));
                true
            }
            Err(error) => {
                self.not_replaced(&error);
                false
            }
        }
    }

    fn not_replaced(&mut self, error: &anyhow::Error) {
        let error = format!("{error:#}");
        error!(error, "binary not replaced: this server serves on");
        self.tell_of_upgrade(&Err(error));
    }

    /// What came of it: the process id of the other server, or why there is none.
    fn tell_of_upgrade(&mut self, outcome: &Result<i32, String>) {
        for Upgrade { since, reply } in self.upgrades.drain(..) {
            let outcome = match outcome {
                Ok(pid) => Ok(Upgraded {
                    pid: *pid,
                    former_pid: std::process::id(),
                    seconds: seconds(since.elapsed()),
                }),
                Err(why) => Err(format!("not replaced, this server serves on: {why}")),
            };
            // Who asked may have gone.
            let _ = reply.send(outcome);
        }
    }
}

/// The server that has started to replace this one, or why it has not. Cancel-safe.
pub(super) async fn settled(
    replacing: &mut Option<JoinHandle<anyhow::Result<Successor>>>,
) -> anyhow::Result<Successor> {
    let started = match replacing {
        Some(job) => job.await,
        None => std::future::pending().await,
    };
    *replacing = None;
    started
        .map_err(|error| anyhow!("starting it was broken off: {error}"))
        .flatten()
}
