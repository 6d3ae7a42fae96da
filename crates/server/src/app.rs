//! Builds the parts in order and owns their end: the only file that knows all of them.
//!
//! ```text
//! main thread      a supervisor a release: zygote, workers; signals; the admin socket
//! reactor threads  one runtime each: connections (edge) and exchanges (dispatch)
//! ```
//! Start: socket, reactors, the first release (shared memory, zygote, first worker), connections, ready line. Stop, in reverse: no
//! new connections, running requests finish, workers drain, the zygotes end. Called by `cli` (through `main`). Runs in: server.
//!
//! | module | what |
//! |---|---|
//! | `reactors` | the threads |
//! | `release` | settings and code that are served, and their processes |
//! | `reload` | how another release comes to serve |
//! | `start` | the first release |
//! | `watch` | files that change |
//! | `answers` | what the admin socket is asked |
//! | `signals`, `descriptors`, `inspect` | as they say |

mod answers;
mod descriptors;
pub(crate) mod inspect;
mod reactors;
mod release;
mod reload;
mod signals;
mod start;
mod watch;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::task::{AbortHandle, JoinHandle};
use tracing::{error, info, warn};

use self::answers::Answers;
use self::reactors::{Connections, Reactors};
use self::release::{Phase, Release};
use self::reload::{Next, Waiting, Wish, World};
use self::signals::{Order, Signals};
use self::start::{Start, changes};
use self::watch::Changes;
use crate::admin::Ask;
use crate::admin::listen::AdminListener;
use crate::config::{Config, Sources};
use crate::dispatch::Pool;
use crate::edge::access_log::AccessLog;
use crate::edge::{self, Site, Sites};
use crate::report::ServerState;

/// Shortest time between two reloads that an application asks for.
const BETWEEN_WANTED: Duration = Duration::from_secs(10);

/// Serves until a signal says stop. An error before the ready line means that nothing was served.
pub fn run(mut config: Config, sources: Sources) -> anyhow::Result<()> {
    descriptors::keep(&mut config);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building the supervisor's runtime")?
        .block_on(serve(Arc::new(config), sources))
}

async fn serve(config: Arc<Config>, sources: Sources) -> anyhow::Result<()> {
    // First, so that a signal during the start is not lost.
    let mut signals = Signals::new().context("watching signals")?;
    let listener = edge::bind(config.listen).map_err(|error| not_bound(config.listen, error))?;
    let address = listener
        .local_addr()
        .context("asking for the address that was bound")?;
    let admin = AdminListener::bind(&config)?;
    let world = Arc::new(World::new(address, Reactors::start(config.reactors)?));
    let sites = Arc::new(Sites::new(
        Site::new(Arc::clone(&config), Vec::new()),
        access_log(&config)?,
    ));
    let start = Start {
        answers: Answers::start(&config, Arc::clone(&world), admin),
        changes: changes(&config, &sites)?,
        world,
        sites,
        config,
        sources,
        listener: Some(listener),
        connections: None,
    };
    let stop_timeout = start.config.stop_timeout;
    let Some(mut server) = start.run(&mut signals).await? else {
        return Ok(());
    };
    let ended = server.run(&mut signals, stop_timeout).await;
    server.world.reactors.cut();
    server.world.reactors.join();
    info!("server stopped");
    ended
}

/// A release, and where its settings came from.
#[derive(Clone, Debug)]
struct Served {
    release: Arc<Release>,
    sources: Sources,
}

/// Everything that runs.
struct Server {
    world: Arc<World>,
    sites: Arc<Sites<Vec<Vec<Pool>>>>,
    connections: Connections,
    answers: Answers,
    serving: Served,
    /// What was served before, while it can be returned to, and the task that ends it.
    previous: Option<(Served, AbortHandle)>,
    reloading: Option<(Waiting, JoinHandle<anyhow::Result<Next>>)>,
    /// Of files, where they are watched.
    changes: Option<Changes>,
    /// When an application had a reload last.
    last_wanted: Option<Instant>,
    /// Reloads that were asked for while another was under way.
    queue: VecDeque<Waiting>,
}

impl Server {
    /// Returns when everything has ended.
    async fn run(&mut self, signals: &mut Signals, stop_timeout: Duration) -> anyhow::Result<()> {
        let ended = loop {
            // Cancel-safe: each of the six is.
            tokio::select! {
                order = signals.next() => match order {
                    Order::Reload => self.wish(Waiting::new(Wish::Anew, None)),
                    stop => break Ok(stop),
                },
                error = self.connections.failed() => break Err(error),
                ask = self.answers.next() => self.answer(ask),
                () = wanted(&self.world, self.last_wanted), if self.reloading.is_none() => {
                    self.world.kin.forget_wish();
                    self.last_wanted = Some(Instant::now());
                    self.wish(Waiting::new(Wish::Anew, None));
                }
                () = changed(&mut self.changes) => self.wish(Waiting::new(Wish::Anew, None)),
                prepared = finished(&mut self.reloading) => self.finish_reload(prepared).await,
            }
        };
        self.answers.state = ServerState::Stopping;
        if let Some((_, job)) = self.reloading.take() {
            job.abort();
        }
        match ended {
            Ok(Order::Stop(signal)) => {
                info!(signal, ?stop_timeout, "server stopping");
                // Cancel-safe: `stop` may end anywhere; `stop_at_once` ends what is left.
                let hurry = tokio::select! {
                    () = self.stop(Instant::now() + stop_timeout) => false,
                    () = signals.stop() => true,
                };
                if hurry {
                    self.stop_at_once().await;
                }
                Ok(())
            }
            Ok(_) => {
                self.stop_at_once().await;
                Ok(())
            }
            Err(error) => {
                self.stop_at_once().await;
                Err(error)
            }
        }
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            Ask::Reload(order, reply) => {
                let wish = order.to.map_or(Wish::Anew, |dir| Wish::At(PathBuf::from(dir)));
                self.wish(Waiting::new(wish, Some(reply)));
            }
            Ask::Rollback(reply) => self.wish(Waiting::new(Wish::Back, Some(reply))),
            ask => self.answers.answer(ask),
        }
    }

    /// Starts a reload, or remembers it until the one under way has ended.
    fn wish(&mut self, waiting: Waiting) {
        if self.reloading.is_none() {
            self.start_reload(waiting);
        } else if let Some(last) = self.queue.back_mut().filter(|last| last.wish == waiting.wish) {
            last.replies.extend(waiting.replies);
        } else {
            self.queue.push_back(waiting);
        }
    }

    fn start_reload(&mut self, mut waiting: Waiting) {
        waiting.changes = self.sites.changes();
        let Served { release, sources } = self.serving.clone();
        let world = Arc::clone(&self.world);
        let job = match &waiting.wish {
            Wish::Back => {
                let Some((Served { release, sources }, ending)) = self.previous.take() else {
                    waiting.tell(&Err(
                        "there is nothing to return to: no release is kept (reload.keep_previous)".to_owned(),
                    ));
                    return;
                };
                ending.abort();
                info!(dir = %release.config.dir.display(), "rollback begins");
                tokio::spawn(world.wake(release, sources))
            }
            wish => {
                let mut sources = sources;
                if let Wish::At(dir) = wish {
                    sources.dir.clone_from(dir);
                }
                info!(dir = %sources.dir.display(), "reload begins");
                tokio::spawn(world.prepare(sources, Arc::clone(&release.config)))
            }
        };
        self.reloading = Some((waiting, job));
    }

    /// Has the prepared release take over, if there is one.
    async fn finish_reload(&mut self, (waiting, prepared): (Waiting, anyhow::Result<Next>)) {
        match prepared {
            Ok(next) => {
                self.sites.switch_to(next.release.site());
                self.sites.settle(waiting.changes, None);
                // From here on every request that goes to the old one can be seen there.
                self.world.reactors.pass().await;
                let outcome = next.outcome(waiting.since);
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
                self.retire(Served {
                    release: next.release,
                    sources: next.sources,
                });
                waiting.tell(&Ok(outcome));
            }
            Err(error) => {
                let why = format!("{error:#}");
                error!(error = why, "not reloaded: what was served is served on");
                if self.changes.is_some() {
                    self.sites.settle(waiting.changes, Some(&why));
                }
                waiting.tell(&Err(format!("not reloaded, what was served is served on: {why}")));
            }
        }
        if let Some(waiting) = self.queue.pop_front() {
            self.start_reload(waiting);
        }
    }

    /// `next` serves; what did finishes its requests, is kept for a while, and ends.
    fn retire(&mut self, next: Served) {
        let old = std::mem::replace(&mut self.serving, next);
        old.release.set_phase(Phase::Draining);
        if let Some((older, ending)) = self.previous.take() {
            ending.abort();
            tokio::spawn(async move { older.release.end(Instant::now()).await });
        }
        let release = Arc::clone(&old.release);
        let times = release.config.reload.clone();
        let ending = tokio::spawn(async move {
            release.rest(Instant::now() + times.drain_timeout).await;
            release.set_phase(Phase::Kept);
            if !release.config.watch {
                tokio::time::sleep(times.keep_previous).await;
            }
            release.end(Instant::now()).await;
        });
        self.previous = Some((old, ending.abort_handle()));
    }

    /// Connections finish their requests, then workers and the zygotes end.
    async fn stop(&mut self, until: Instant) {
        self.world.reactors.stop();
        let in_time = loop {
            // Cancel-safe: both are.
            tokio::select! {
                ended = tokio::time::timeout_at(until.into(), self.connections.ended()) => break ended,
                ask = self.answers.next() => self.answers.answer(ask),
            }
        };
        match in_time {
            Ok(Ok(())) => {}
            Ok(Err(error)) => error!(%error, "reactor failed while the server stopped"),
            Err(_elapsed) => warn!("connections cut: their requests did not end within stop_timeout"),
        }
        let releases = self.world.releases();
        for release in &releases {
            release.refuse();
        }
        self.world.reactors.cut();
        let ends: Vec<_> = releases
            .into_iter()
            .map(|release| tokio::spawn(async move { release.end(until).await }))
            .collect();
        for end in ends {
            if let Err(error) = end.await {
                error!(%error, "processes not ended in order");
            }
        }
    }

    async fn stop_at_once(&mut self) {
        warn!("server stopping at once");
        self.world.reactors.cut();
        for release in self.world.releases() {
            release.cut().await;
        }
    }
}

/// Returns a moment after files have changed, if they are watched. Cancel-safe.
async fn changed(changes: &mut Option<Changes>) {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}

/// Returns when an application wants a reload and may have one: one that wants it with each request would boot without end.
/// Cancel-safe.
async fn wanted(world: &World, last: Option<Instant>) {
    world.kin.reload_wanted().await;
    if let Some(last) = last {
        tokio::time::sleep_until((last + BETWEEN_WANTED).into()).await;
    }
}

/// The reload that has come to its end, with who waits for it. Cancel-safe.
async fn finished(
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

/// Says what can be done about it.
fn not_bound(address: SocketAddr, error: io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "is another server running? ",
        io::ErrorKind::AddrNotAvailable => "no interface has this address; ",
        io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE; ",
        _ => "",
    };
    anyhow!(error).context(format!(
        "binding {address} ({hint}choose another address with --listen)"
    ))
}

fn access_log(config: &Config) -> anyhow::Result<Option<AccessLog>> {
    if !config.log.access {
        return Ok(None);
    }
    let log = AccessLog::start(config.log.format, io::stdout());
    log.map(Some).context("starting the access log")
}

fn print_line(line: &str) {
    // Nobody may listen; the server serves all the same.
    let _ = writeln!(io::stdout(), "{line}");
    let _ = io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_named_with_what_to_do() {
        let taken = edge::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = taken.local_addr().unwrap();
        let error = not_bound(address, edge::bind(address).unwrap_err());
        assert_eq!(
            format!("{error:#}"),
            format!(
                "binding {address} (is another server running? choose another address with --listen): \
                 Address already in use (os error 98)"
            )
        );
    }
}
