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
//! | `start` | the first release |
//! | `accounts` | which users PHP runs as |
//! | `watch`, `boots` | files that change, but for those that boots write |
//! | `server`, `ending` | what happens while it serves, and when it ends |
//! | `reload` | how another release is prepared |
//! | `turnover` | how it comes to serve, and what becomes of the one before |
//! | `answers` | what the admin socket is asked |
//! | `acme` | certificates from an authority |
//! | `certificates` | those of TLS, as their files change |
//! | `notify` | what a service manager is told |
//! | `inherited` | sockets that this server does not have to open |
//! | `handover`, `replacing`, `successor` | another binary in the place of this one |
//! | `check` | whether it would come to serve |
//! | `signals`, `descriptors`, `inspect` | as they say |

mod accounts;
mod acme;
mod answers;
mod boots;
mod certificates;
pub(crate) mod check;
mod descriptors;
mod ending;
mod handover;
pub(crate) mod inherited;
pub(crate) mod inspect;
mod notify;
mod reactors;
mod release;
mod reload;
mod replacing;
mod server;
mod signals;
mod start;
mod successor;
mod turnover;
mod watch;

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use tracing::info;

use self::answers::Answers;
pub use self::inherited::Inherited;
use self::inherited::Predecessor;
use self::notify::Notifier;
use self::reactors::Reactors;
use self::reload::World;
use self::signals::Signals;
use self::start::{Start, changes};
use crate::admin::listen::AdminListener;
use crate::admin::probes::ProbeListener;
use crate::config::{Config, Listen, Place, Protocol, Sources};
use crate::edge::access_log::AccessLog;
use crate::edge::{Listener, Site, Sites};
use crate::logs::Logs;

/// What a server begins with.
#[derive(Debug)]
pub struct Launch {
    pub(crate) config: Config,
    /// Where it came from.
    pub(crate) sources: Sources,
    pub(crate) logs: Logs,
    pub(crate) inherited: Inherited,
}

/// The context of an error that came after the ready line.
#[derive(Debug, thiserror::Error)]
#[error("the server served, and then failed")]
pub(crate) struct Served;

/// Serves until a signal says stop. An error without the context [`Served`] means that nothing was served.
pub fn run(mut launch: Launch) -> anyhow::Result<()> {
    descriptors::keep(&mut launch.config)?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building the supervisor's runtime")?
        .block_on(serve(launch))
}

async fn serve(launch: Launch) -> anyhow::Result<()> {
    let config = Arc::new(launch.config);
    // First, so that a signal during the start is not lost.
    let mut signals = Signals::new().context("watching signals")?;
    let binary = successor::own_binary()?;
    let mut doors = Doors::open(&config, launch.inherited)?;
    let listen = doors.listeners.iter().map(|listener| listener.listen.clone());
    let listen = listen.collect();
    let world = Arc::new(World::new(listen, Reactors::start(config.reactors)?));
    let sites = Arc::new(Sites::new(
        Site::new(Arc::clone(&config), Vec::new()),
        access_log(&config, &launch.logs)?,
    ));
    sites.tls.load(&config.tls)?;
    has_certificates(&config, &world.listen)?;
    let _certificates = certificates::Watch::start(Arc::clone(&sites));
    let mut outside = Outside {
        answers: Answers::new(&config, Arc::clone(&world)),
        notifier: Notifier::from_environment(),
        logs: launch.logs,
    };
    if doors.predecessor.is_none() {
        // Else the other server is asked, until it is replaced.
        outside.answers.listen(doors.admin.take(), doors.probes.take())?;
    }
    let start = Start {
        outside,
        changes: changes(&config, &sites)?,
        world,
        sites,
        config,
        sources: launch.sources,
        binary,
        doors,
        connections: None,
    };
    let Some(mut server) = start.run(&mut signals).await? else {
        return Ok(());
    };
    let renewal = acme::Renewal::start(Arc::clone(&server.sites));
    let ended = server.run(&mut signals).await;
    drop(renewal);
    server.world.reactors.cut();
    server.world.reactors.join();
    server.sites.close_log();
    info!("server stopped");
    ended.context(Served)
}

/// An error if one of `listen` needs a certificate and there is none.
fn has_certificates(config: &Config, listen: &[Listen]) -> anyhow::Result<()> {
    let https = listen.iter().find(|listen| listen.protocol == Protocol::Https);
    match https {
        Some(listen) if config.tls.certificates.is_empty() => {
            bail!("no certificate for {}: set tls.certificates", listen.url())
        }
        _ => Ok(()),
    }
}

/// Who the server hears and is heard by, beside its clients.
struct Outside {
    answers: Answers,
    notifier: Notifier,
    logs: Logs,
}

impl Outside {
    /// Requests are served from now on.
    fn announce(&self, config: &Config, world: &World, php: &str) {
        print_line(&config.ready_line(&world.listen, php));
        info!(
            address = world.places(),
            workers = config.workers(),
            php,
            "server ready"
        );
        let urls: Vec<String> = world.listen.iter().map(Listen::url).collect();
        self.notifier.ready(&format!("serving on {}", urls.join(" and ")));
    }
}

/// Where others come in: opened here, or inherited.
struct Doors {
    listeners: Vec<Listener>,
    admin: Option<AdminListener>,
    admin_is_inherited: bool,
    probes: Option<ProbeListener>,
    /// The server that this one is to replace.
    predecessor: Option<Predecessor>,
}

impl Doors {
    fn open(config: &Config, mut inherited: Inherited) -> anyhow::Result<Self> {
        let mut listeners = inherited.opened()?;
        if listeners.is_empty() {
            for listen in &config.listen {
                listeners.push(match inherited.listener(listen)? {
                    Some(listener) => listener,
                    None => Listener::bind(listen, config.fastcgi.socket_group)
                        .map_err(|error| not_bound(listen, error))?,
                });
            }
        }
        let (admin, admin_is_inherited) = inherited.admin(config)?;
        Ok(Self {
            listeners,
            admin,
            admin_is_inherited,
            probes: inherited.probes(config)?,
            predecessor: inherited.predecessor()?,
        })
    }

    /// The files of unix sockets are ours from now on; those that a service manager has opened stay its own.
    fn own(&self) {
        let ours = self.listeners.iter().filter(|listener| listener.named.is_some());
        ours.for_each(Listener::own);
    }
}

/// Says what can be done about it.
fn not_bound(listen: &Listen, error: io::Error) -> anyhow::Error {
    let is_unix = matches!(listen.place, Place::Unix(_));
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "is another server running? ",
        io::ErrorKind::AddrNotAvailable => "no interface has this address; ",
        io::ErrorKind::PermissionDenied if is_unix => "its folder must be one that this user may write to; ",
        io::ErrorKind::PermissionDenied => "ports below 1024 need CAP_NET_BIND_SERVICE; ",
        io::ErrorKind::NotFound if is_unix => "its folder must exist; ",
        _ => "",
    };
    anyhow!(error).context(format!(
        "binding {listen} ({hint}choose another address with --listen)"
    ))
}

fn access_log(config: &Config, logs: &Logs) -> anyhow::Result<Option<AccessLog>> {
    if !config.log.access {
        return Ok(None);
    }
    let out: Box<dyn Write + Send> = match &logs.access {
        Some(file) => Box::new(file.clone()),
        None => Box::new(io::stdout()),
    };
    let log = AccessLog::start(config.log.format, out);
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
    use crate::config::Protocol;

    #[test]
    fn an_address_in_use_is_named_with_what_to_do() {
        let free = Listen {
            place: Place::Tcp("127.0.0.1:0".parse().unwrap()),
            protocol: Protocol::Http,
        };
        let taken = Listener::bind(&free, None).unwrap();
        let listen = &taken.listen;
        let error = not_bound(listen, Listener::bind(listen, None).unwrap_err());
        assert_eq!(
            format!("{error:#}"),
            format!(
                "binding {listen} (is another server running? choose another address with --listen): \
                 Address already in use (os error 98)"
            )
        );
    }
}
