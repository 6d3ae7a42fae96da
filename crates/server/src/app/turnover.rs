//! What is served: orders for another release, its taking over, and the end of the one before.
//!
//! Called by `server`, whose state it is about; how a release is prepared is the affair of `reload`. Runs in: server, on the main thread.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::boots::Meaning;
use super::release::{Phase, Release};
use super::reload::{Next, Waiting, Wish, World};
use super::server::Server;
use super::watch::Changes;
use crate::config::{Config, Reading, Sources};

/// Shortest time between two reloads that an application asks for.
const BETWEEN_WANTED: Duration = Duration::from_secs(10);

/// A release, and where its settings came from.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) release: Arc<Release>,
    pub(super) sources: Sources,
}

/// What was served before: it finishes its requests, is kept for a while, and ends.
#[derive(Debug)]
pub(super) struct Previous {
    /// Until it has ended.
    release: Weak<Release>,
    sources: Sources,
    /// What sees it to its end.
    retirement: AbortHandle,
    /// Nobody will return to it: it ends once its requests have.
    let_go: CancellationToken,
}

impl Server {
    /// Starts a reload, or remembers it until the one under way has ended.
    pub(super) fn wish(&mut self, waiting: Waiting) {
        if self.replacing.is_some() {
            // It would change what the successor has been told.
            let why = "not reloaded: the server is being replaced, by one that reads settings and code anew";
            warn!("{why}");
            waiting.tell(&Err(why.to_owned()));
        } else if self.reloading.is_none() {
            self.start_reload(waiting);
        } else if let Some(last) = self.queue.back_mut().filter(|last| last.wish == waiting.wish) {
            last.replies.extend(waiting.replies);
        } else {
            info!(wish = ?waiting.wish, "reload waits for the one under way");
            self.queue.push_back(waiting);
        }
    }

    /// Watched files have changed: what boots is out of date, unless it may have changed them itself.
    pub(super) fn read_anew(&mut self, meaning: Meaning) {
        let boots_now = self.reloading.as_ref().map(|(under_way, _)| &under_way.wish);
        if meaning == Meaning::News
            && boots_now == Some(&Wish::Anew)
            && let Some((waiting, job)) = self.reloading.take()
        {
            info!("reload begun again: files have changed since");
            // Its processes end with it.
            job.abort();
            self.start_reload(waiting);
        } else {
            self.wish(Waiting::new(Wish::Anew, None));
        }
    }

    fn start_reload(&mut self, mut waiting: Waiting) {
        waiting.changes = self.sites.changes();
        let Served { release, sources } = self.serving.clone();
        let world = Arc::clone(&self.world);
        let job = match &waiting.wish {
            Wish::Back => {
                let previous = self.previous.take();
                let Some((release, sources)) = previous.and_then(Previous::take_back) else {
                    waiting.tell(&Err(
                        "there is nothing to return to: no release is kept (reload.keep_previous)".to_owned(),
                    ));
                    return;
                };
                info!(dir = %release.config.dir.display(), "rollback begins");
                tokio::spawn(world.wake(release, sources))
            }
            wish => {
                let mut sources = sources;
                match wish {
                    Wish::At(dir) => sources.dir.clone_from(dir),
                    // Its files are the pool's, and so may be who asks.
                    Wish::Code => sources.reading = Reading::Earlier(release.config.file.clone()),
                    Wish::Anew | Wish::Back => {}
                }
                if let Some(changes) = &mut self.changes {
                    changes.boot_begins();
                }
                info!(dir = %sources.dir.display(), "reload begins");
                tokio::spawn(world.prepare(sources, Arc::clone(&release.config)))
            }
        };
        self.outside.notifier.reloading();
        self.reloading = Some((waiting, job));
    }

    /// What to say of certificates that cannot be used; the log says so here.
    fn load_certificates(&self, config: &Config) -> Option<String> {
        let error = self.sites.tls.load(&config.tls).err()?;
        let (what, error) = (
            "certificates not loaded anew: those of before are used on",
            format!("{error:#}"),
        );
        error!(error, "{what}");
        Some(format!("{what}: {error}"))
    }

    /// Has the prepared release take over, if there is one.
    pub(super) async fn finish_reload(&mut self, (waiting, prepared): (Waiting, anyhow::Result<Next>)) {
        if let Some(changes) = &self.changes {
            changes.boot_ended();
        }
        let status = match prepared {
            Ok(next) => {
                let not_loaded = self.load_certificates(&next.release.config);
                self.sites.switch_to(next.release.site());
                self.sites.settle(waiting.changes, None);
                // From here on every request that goes to the old one can be seen there.
                self.world.reactors.pass().await;
                let mut outcome = next.outcome(waiting.since);
                next.begin();
                info!(
                    generation = outcome.generation,
                    dir = outcome.dir,
                    php = outcome.php_version,
                    boot_ms = outcome.boot_ms,
                    "reloaded"
                );
                for warning in &outcome.warnings {
                    warn!("{warning}");
                }
                outcome.warnings.extend(not_loaded);
                self.outside.answers.answer_for(&next.release.config.names);
                self.retire(Served {
                    release: next.release,
                    sources: next.sources,
                });
                let status = format!("serving {}, generation {}", outcome.dir, outcome.generation);
                waiting.tell(&Ok(outcome));
                status
            }
            Err(error) => {
                let why = format!("{error:#}");
                error!(error = why, "not reloaded: what was served is served on");
                if self.changes.is_some() {
                    self.sites.settle(waiting.changes, Some(&why));
                }
                let status = format!("not reloaded, what was served is served on: {why}");
                waiting.tell(&Err(status.clone()));
                status
            }
        };
        self.outside.notifier.ready(&status);
        while self.reloading.is_none()
            && let Some(waiting) = self.queue.pop_front()
        {
            self.start_reload(waiting);
        }
        if self.replacement_is_due && self.reloading.is_none() {
            self.start_successor();
        }
    }

    /// `next` serves; what did finishes its requests, is kept for a while, and ends.
    fn retire(&mut self, next: Served) {
        let Served { release, sources } = std::mem::replace(&mut self.serving, next);
        release.set_phase(Phase::Draining);
        if let Some(older) = self.previous.take() {
            older.let_go.cancel();
        }
        let let_go = CancellationToken::new();
        self.previous = Some(Previous {
            release: Arc::downgrade(&release),
            sources,
            retirement: tokio::spawn(retirement(release, let_go.clone())).abort_handle(),
            let_go,
        });
    }
}

impl Previous {
    /// It is not to end, if it has not.
    fn take_back(self) -> Option<(Arc<Release>, Sources)> {
        let release = self.release.upgrade()?;
        self.retirement.abort();
        Some((release, self.sources))
    }
}

/// The end of a release that another one has replaced.
async fn retirement(release: Arc<Release>, let_go: CancellationToken) {
    let times = &release.config.reload;
    release.rest(Instant::now() + times.drain_timeout).await;
    release.set_phase(Phase::Kept);
    if !release.config.watch {
        let_go
            .run_until_cancelled(tokio::time::sleep(times.keep_previous))
            .await;
    }
    release.end(Instant::now()).await;
}

/// Returns a moment after files have changed, if they are watched. Cancel-safe.
pub(super) async fn changed(changes: &mut Option<Changes>) -> Meaning {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}

/// Returns when an application wants a reload and may have one: one that wants it with each request would boot without end.
/// Cancel-safe.
pub(super) async fn wanted(world: &World, last: Option<Instant>) {
    world.kin.reload_wanted().await;
    if let Some(last) = last {
        tokio::time::sleep_until((last + BETWEEN_WANTED).into()).await;
    }
}

/// The reload that has come to its end, with who waits for it. Cancel-safe.
pub(super) async fn finished(
    reloading: &mut Option<(Waiting, JoinHandle<anyhow::Result<Next>>)>,
) -> (Waiting, anyhow::Result<Next>) {
    let prepared = match reloading {
        Some((_, job)) => job.await,
        None => std::future::pending().await,
    };
    let prepared = prepared
        .map_err(|error| anyhow!("preparing it was broken off: {error}"))
        .flatten();
    match reloading.take() {
        Some((waiting, _)) => (waiting, prepared),
        None => std::future::pending().await,
    }
}
