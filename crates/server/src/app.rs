//! Builds the parts in order and owns their end: the only file that knows all of them.
//!
//! ```text
//! main thread      supervisor: zygote, workers, signals; the admin socket
//! reactor threads  one runtime each: connections (edge) and exchanges (dispatch)
//! ```
//! Start: socket, shared memory, zygote, first worker, reactors, ready line. Stop, in reverse: no new connections, running
//! requests finish, workers drain, the zygote ends. Called by `cli` (through `main`). Runs in: server.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::admin::listen::AdminListener;
use crate::config::Config;
use crate::dispatch::PoolShared;
use crate::edge::access_log::AccessLog;
use crate::edge::{self, Site};
use crate::report::ServerState;
use crate::supervise::{Started, Supervisor};

mod answers;
pub(crate) mod inspect;
mod reactors;

use self::answers::Answers;
use self::reactors::Reactors;

/// Descriptors of the server itself, and for some files at a time.
const OWN_DESCRIPTORS: u64 = 64;
/// Descriptors of a worker, and as many of its successor.
const WORKER_DESCRIPTORS: u64 = 16;

/// Serves until a signal says stop. An error before the ready line means that nothing was served.
pub fn run(mut config: Config) -> anyhow::Result<()> {
    keep_descriptors(&mut config, raise_descriptor_limit());
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building the supervisor's runtime")?
        .block_on(serve(Arc::new(config)))
}

async fn serve(config: Arc<Config>) -> anyhow::Result<()> {
    // First, so that a signal during the start is not lost.
    let mut signals = Signals::new().context("watching signals")?;
    let listener = edge::bind(config.listen).map_err(|error| not_bound(config.listen, error))?;
    let address = listener
        .local_addr()
        .context("asking for the address that was bound")?;
    let admin = AdminListener::bind(&config)?;
    let mut answers = Answers::start(&config, address, admin);
    let pool = PoolShared::create(&config.pool, &config).context("creating the shared memory")?;
    let warmup_requests = edge::warmup_requests(&config, address);
    let mut supervisor = Supervisor::new(
        &config,
        Arc::clone(&pool.shared),
        pool.eventfds,
        pool.kills,
        warmup_requests,
    )
    .context("setting up the supervisor")?;
    let Some(started) = start(&mut supervisor, &mut signals, &mut answers).await? else {
        return Ok(());
    };
    let site = Arc::new(Site::new(Arc::clone(&config), access_log(&config)?));
    let reactors = Reactors::start(&config, listener, &site, &pool.shared, pool.reactors)?;
    let ready_line = config.ready_line(address, &started.php_version);
    print_line(&ready_line);
    info!(%address, workers = config.pool.workers, php = started.php_version, "server ready");
    answers.state = ServerState::Serving;
    let mut server = Server {
        supervisor,
        answers,
        reactors,
        pool: pool.shared,
    };
    let ended = server.run(&mut signals, config.stop_timeout).await;
    server.reactors.join();
    info!("server stopped");
    ended
}

/// Boots the application. `None`: a signal came first, and all is over.
async fn start(
    supervisor: &mut Supervisor,
    signals: &mut Signals,
    answers: &mut Answers,
) -> anyhow::Result<Option<Started>> {
    let failed = loop {
        // Cancel-safe: `start` goes on where it was, and after a signal nothing of it is used any more.
        tokio::select! {
            started = supervisor.start() => match started {
                Ok(started) => return Ok(Some(started)),
                Err(error) => break Some(error),
            },
            ask = answers.next() => answers.answer(ask, supervisor),
            signal = signals.next() => {
                info!(signal, "stopped before the application had booted");
                break None;
            }
        }
    };
    supervisor.cut().await;
    failed.map_or(Ok(None), |error| Err(error.into()))
}

/// Everything that runs.
struct Server {
    supervisor: Supervisor,
    answers: Answers,
    reactors: Reactors,
    pool: Arc<PoolShared>,
}

impl Server {
    /// Returns when everything has ended.
    async fn run(&mut self, signals: &mut Signals, stop_timeout: Duration) -> anyhow::Result<()> {
        let ended = loop {
            // Cancel-safe: each of the four is.
            tokio::select! {
                signal = signals.next() => break Ok(signal),
                error = self.reactors.failed() => break Err(error),
                ask = self.answers.next() => self.answers.answer(ask, &self.supervisor),
                () = self.supervisor.supervise() => break Err(anyhow!("the supervisor ended")),
            }
        };
        self.answers.state = ServerState::Stopping;
        match ended {
            Ok("SIGQUIT") => self.stop_at_once().await,
            Ok(signal) => {
                info!(signal, ?stop_timeout, "server stopping");
                // Cancel-safe: `stop` may end anywhere; `stop_at_once` ends what is left.
                let hurry = tokio::select! {
                    () = self.stop(Instant::now() + stop_timeout) => false,
                    _ = signals.next() => true,
                };
                if hurry {
                    self.stop_at_once().await;
                }
            }
            Err(error) => {
                self.stop_at_once().await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Connections finish their requests, then workers and the zygote end.
    async fn stop(&mut self, until: Instant) {
        self.reactors.stop();
        let in_time = loop {
            // Cancel-safe: each of the three is. `supervise` goes on meanwhile, for a queued request may need a new worker.
            tokio::select! {
                ended = tokio::time::timeout_at(until.into(), self.reactors.ended()) => break ended,
                ask = self.answers.next() => self.answers.answer(ask, &self.supervisor),
                () = self.supervisor.supervise() => break Ok(Ok(())),
            }
        };
        match in_time {
            Ok(Ok(())) => {}
            Ok(Err(error)) => error!(%error, "reactor failed while the server stopped"),
            Err(_elapsed) => warn!("connections cut: their requests did not end within stop_timeout"),
        }
        self.pool.begin_stop();
        self.reactors.cut();
        self.supervisor.drain(until).await;
    }

    async fn stop_at_once(&mut self) {
        warn!("server stopping at once");
        self.reactors.cut();
        self.supervisor.cut().await;
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

/// A connection takes a descriptor, a spooled body another: as many as the system allows.
fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            warn!(%error, "limit of descriptors not raised");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Clients must not take the descriptors without which no worker can be replaced and no file be sent.
fn keep_descriptors(config: &mut Config, limit: u64) {
    let room = connections_within(limit, config.pool.workers);
    if config.limits.connections > room {
        warn!(
            wanted = config.limits.connections,
            connections = room,
            limit,
            "fewer connections than limits.connections: raise the limit of open files (ulimit -n)"
        );
        config.limits.connections = room;
    }
}

/// How many connections `limit` descriptors leave room for.
fn connections_within(limit: u64, workers: u16) -> usize {
    let own = OWN_DESCRIPTORS + WORKER_DESCRIPTORS * u64::from(workers);
    usize::try_from(limit.saturating_sub(own))
        .unwrap_or(usize::MAX)
        .max(1)
}

/// Signals that end the server.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
        })
    }

    /// Name of the next signal. Cancel-safe.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.quit.recv() => "SIGQUIT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_new_workers() {
        assert_eq!(connections_within(1024, 4), 1024 - 64 - 64);
        assert_eq!(connections_within(64, 4), 1);
    }

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
