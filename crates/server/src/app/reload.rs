//! New releases: what is to be served is read, booted and tried beside what serves; only then it may take over.
//!
//! ```text
//! order ──► settings ──► boot ──► enough workers ──► health ──► ready to take over
//!              │           │            │               │
//!              └───────────┴────────────┴───────────────┴──► why not; what serves, serves on
//! ```
//! Called by `app`, which has one of these at a time. Runs in: server, on the main thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use http_body_util::BodyExt;
use tokio::sync::oneshot;
use tracing::{info, warn};

use super::descriptors;
use super::reactors::Reactors;
use super::release::{Booting, Phase, Release};
use crate::admin::Outcome;
use crate::config::{Config, Listen, Pool, Reading, Sources};
use crate::dispatch;
use crate::edge;
use crate::report::{Reloaded, Totals};
use crate::supervise::{Kin, Started};

/// What all releases of a server share.
#[derive(Debug)]
pub(super) struct World {
    /// Where the server listens, with real ports.
    pub(super) listen: Vec<Listen>,
    pub(super) reactors: Reactors,
    pub(super) kin: Kin,
    pub(super) past: Arc<Mutex<Past>>,
    releases: Mutex<Vec<Weak<Release>>>,
}

/// What the pools of releases that are over have served, by name.
pub(super) type Past = BTreeMap<String, Totals>;

/// What is to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// What the sources say now.
    Anew,
    /// The code that is there now, by the settings that are in force.
    Code,
    /// What is in this folder, from now on.
    At(PathBuf),
    /// What was served before.
    Back,
}

/// A release that may take over.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) release: Arc<Release>,
    pub(super) started: Started,
    /// Where its settings came from.
    pub(super) sources: Sources,
    pub(super) warnings: Vec<String>,
}

/// Who waits for the outcome of a reload.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) wish: Wish,
    pub(super) since: Instant,
    /// How often files had changed by then.
    pub(super) changes: u64,
    pub(super) replies: Vec<oneshot::Sender<Outcome>>,
}

impl World {
    pub(super) fn new(listen: Vec<Listen>, reactors: Reactors) -> Self {
        Self {
            listen,
            reactors,
            kin: Kin::default(),
            past: Arc::default(),
            releases: Mutex::default(),
        }
    }

    /// Where the server listens, for people.
    pub(super) fn places(&self) -> String {
        let places: Vec<String> = self.listen.iter().map(Listen::to_string).collect();
        places.join(", ")
    }

    /// Starts to boot a release. A pool of it counts as started with `enough` workers.
    pub(super) async fn boot(
        &self,
        config: Arc<Config>,
        enough: impl Fn(&Pool) -> usize,
    ) -> anyhow::Result<(Arc<Release>, Booting)> {
        let (release, booting) = Release::boot(config, self, enough).await?;
        let release = Arc::new(release);
        self.releases
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::downgrade(&release));
        Ok((release, booting))
    }

    /// Every release that is not over, the oldest first.
    pub(super) fn releases(&self) -> Vec<Arc<Release>> {
        let mut all = self.releases.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|release| release.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// A release of what `sources` say, ready to take over from one of `serving`. Text of an earlier reading in `sources` counts
    /// for this release alone.
    pub(super) async fn prepare(
        self: Arc<Self>,
        sources: Sources,
        serving: Arc<Config>,
    ) -> anyhow::Result<Next> {
        let from = sources.clone();
        let tls = serving.tls.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let loaded = Config::load(&from)?;
            // Above all who is let in must be as they say. Files that were good and are broken by now keep no code from being served.
            if loaded.config.tls != tls {
                edge::tls::describe(&loaded.config.tls)?;
            }
            anyhow::Ok(loaded)
        });
        let loaded = reading.await.context("reading the settings")??;
        let mut config = loaded.config;
        // First: as many connections as descriptors allow are served, and no change.
        descriptors::keep(&mut config)?;
        let warnings = keep_what_is_fixed(&mut config, &serving);
        let config = Arc::new(config);
        let (release, booting) = self.boot(Arc::clone(&config), enough(config.watch)).await?;
        match self.try_out(&release, booting, &scripted(&serving)).await {
            Ok(started) => Ok(Next {
                release,
                started,
                sources: Sources {
                    reading: Reading::Disk,
                    ..sources
                },
                warnings,
            }),
            Err(error) => {
                release.cut().await;
                Err(error)
            }
        }
    }

    /// Returns when `release` has started and answers its health requests. `scripted`: the pools that had a script before it.
    pub(super) async fn try_out(
        &self,
        release: &Release,
        booting: Booting,
        scripted: &[String],
    ) -> anyhow::Result<Started> {
        let started = booting.outcome().await?;
        // Whoever works on the code wants to see how it fails.
        if release.config.watch {
            return Ok(started);
        }
        for (pool, doors) in release.config.pools.iter().zip(release.doors()) {
            let had_script = scripted.contains(&pool.name);
            self.check_health(pool, had_script, doors).await?;
        }
        Ok(started)
    }

    /// Has a worker of `pool` answer what `health_path` says. `had_script`: so had the pool in whose place it is to serve.
    async fn check_health(
        &self,
        pool: &Pool,
        had_script: bool,
        doors: Vec<dispatch::Pool>,
    ) -> anyhow::Result<()> {
        let health = &pool.health;
        let request = edge::health_request(pool, &self.listen)
            .with_context(|| format!("health check failed: GET {}", health.path))?;
        let Some(request) = request else {
            return if health.path.is_empty() {
                Ok(())
            } else {
                may_be_left_out(pool, had_script)
            };
        };
        let (Some(door), Some(runtime)) = (doors.into_iter().next(), self.reactors.first()) else {
            return Ok(());
        };
        let answer = runtime.spawn(async move {
            let response = door.send(request).await?;
            let status = response.status;
            let body = response.body.collect().await;
            body.map(|_| status)
        });
        let path = &health.path;
        // Later reloads wait for this one, and request_timeout may be without limit.
        let status = tokio::time::timeout(pool.boot_timeout, answer)
            .await
            .map_err(|_| {
                let name = &pool.name;
                anyhow!("health check failed: GET {path} was not answered within pool.{name}.boot_timeout")
            })?
            .context("waiting for the health request")?
            .map_err(|error| anyhow!("health check failed: GET {path}: {error}"))?;
        let is_well = match health.status {
            Some(expected) => status.as_u16() == expected,
            None => !status.is_server_error(),
        };
        if !is_well {
            let expected = health
                .status
                .map_or_else(|| "a status below 500".to_owned(), |status| status.to_string());
            bail!(
                "health check failed: GET {path} was answered with {status}, expected {expected} (pool.{name}.health_path, \
                 pool.{name}.health_status)",
                name = pool.name
            );
        }
        info!(
            pool = pool.name,
            path,
            status = status.as_u16(),
            "health check passed"
        );
        Ok(())
    }

    /// Gives `release` workers again.
    pub(super) async fn wake(
        self: Arc<Self>,
        release: Arc<Release>,
        sources: Sources,
    ) -> anyhow::Result<Next> {
        match release.wake().await.outcome().await {
            Ok(started) => Ok(Next {
                release,
                started,
                sources,
                warnings: Vec::new(),
            }),
            Err(error) => {
                release.cut().await;
                Err(error)
            }
        }
    }
}

impl Waiting {
    pub(super) fn new(wish: Wish, reply: Option<oneshot::Sender<Outcome>>) -> Self {
        Self {
            wish,
            since: Instant::now(),
            changes: 0,
            replies: reply.into_iter().collect(),
        }
    }

    pub(super) fn tell(self, outcome: &Outcome) {
        for reply in self.replies {
            // Who asked may have gone.
            let _ = reply.send(outcome.clone());
        }
    }
}

impl Next {
    /// What those who wait are told once it has taken over.
    pub(super) fn outcome(&self, since: Instant) -> Reloaded {
        Reloaded {
            generation: self.started.generation,
            dir: self.release.config.dir.display().to_string(),
            php_version: self.started.php_version.clone(),
            boot_ms: self.started.boot_ms,
            seconds: since.elapsed().as_secs_f64(),
            warnings: self.warnings.clone(),
        }
    }

    /// It serves from now on.
    pub(super) fn begin(&self) {
        self.release.set_phase(Phase::Serving);
    }
}

/// How many workers of a pool must run before it takes over from another one.
pub(super) fn enough(is_watched: bool) -> impl Fn(&Pool) -> usize {
    move |pool| {
        let wanted = pool.min_workers.saturating_sub(pool.max_unavailable);
        if is_watched { 1 } else { usize::from(wanted).max(1) }
    }
}

/// The pools that have a script.
pub(super) fn scripted(config: &Config) -> Vec<String> {
    let pools = config.pools.iter().filter(|pool| pool.script.is_some());
    pools.map(|pool| pool.name.clone()).collect()
}

/// No script answers the health request of `pool`: a site may have none, but where there was one it has been lost.
fn may_be_left_out(pool: &Pool, had_script: bool) -> anyhow::Result<()> {
    let (path, name) = (&pool.health.path, &pool.name);
    if had_script {
        bail!(
            "health check failed: no script answers GET {path} in {dir}, where there is one by now; is the application there? \
             (pool.{name}.health_path = \"\": no health check)",
            dir = pool.dir.display()
        );
    }
    warn!(
        pool = name,
        path, "health check left out: no script answers this path"
    );
    Ok(())
}

/// Settings that hold as long as the server runs stay as they are in `serving`; says which should have changed.
fn keep_what_is_fixed(config: &mut Config, serving: &Config) -> Vec<String> {
    let changed = [
        ("listen", config.listen != serving.listen),
        ("reactors", config.reactors != serving.reactors),
        (
            "limits.connections",
            config.limits.connections != serving.limits.connections,
        ),
        ("admin_socket", config.admin_socket != serving.admin_socket),
        ("admin_listen", config.admin_listen != serving.admin_listen),
        ("admin_hosts", config.admin_hosts != serving.admin_hosts),
        ("log", config.log != serving.log),
    ];
    config.listen.clone_from(&serving.listen);
    config.reactors = serving.reactors;
    config.limits.connections = serving.limits.connections;
    config.admin_socket = serving.admin_socket.clone();
    config.admin_listen = serving.admin_listen;
    config.admin_hosts.clone_from(&serving.admin_hosts);
    config.log = serving.log.clone();
    let names = changed.iter().filter(|(_, changed)| *changed);
    names
        .map(|(name, _)| format!("{name} has changed, which takes a restart of the server"))
        .collect()
}
