//! Settings, resolved and validated. `file` holds them as written; this module holds what the parts read.
//!
//! A new setting touches three places: the field here with its doc and default, `docs/config.toml`, the code that reads it
//! (`resolve`). Called by `cli`; everything else only reads `Config`. Runs in: server.

mod acme;
mod compression;
mod detect;
mod entry;
mod environment;
mod fastcgi;
mod file;
mod limits;
mod listen;
mod network;
mod pattern;
mod pool;
mod process;
mod project;
mod rate;
mod reader;
mod resolve;
mod rules;
mod symfony;
#[cfg(test)]
mod tests;
mod tls;
mod trusted_proxies;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

pub(crate) use acme::{Acme, Challenge};
pub(crate) use compression::{Coding, Compression};
pub(crate) use environment::{Variable, names_of_pools, variables};
pub(crate) use fastcgi::FastCgi;
pub(crate) use file::{Errors, Origin, Problem};
pub(crate) use limits::{ByteSize, Limits};
pub(crate) use listen::{Listen, Place, Protocol};
pub(crate) use pattern::Fit;
#[cfg(test)]
pub(crate) use pattern::Pattern;
pub(crate) use pool::{Health, Isolation, IsolationMethod, Mode, Pool, Recycling, Requests, Warmup};
pub(crate) use process::Process;
pub(crate) use rate::{Rate, RateKey};
pub(crate) use rules::{Action, ErrorPage, PAGE_BYTES, Rule};
pub(crate) use tls::{CertificateFiles, ClientCertificates, Tls, TlsVersion};
pub(crate) use trusted_proxies::{ProxyHeader, TrustedProxies};
pub(crate) use value::format_duration;

/// Where settings come from. A flag overrides the environment, that the file; what none names is detected or has a default.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The project folder.
    pub dir: PathBuf,
    /// The configuration file. Default: `hearth.toml` in the project folder, if there is one.
    pub file: Option<PathBuf>,
    /// Variables of the environment that may be settings.
    pub environment: Vec<Variable>,
    /// Value of `--listen`; overrides every other `listen`.
    pub listen: Option<String>,
    /// A certificate with its key, for `--https`: what is used unless the settings name another.
    pub https: Option<PathBuf>,
    /// Values of `--set`, as `KEY=VALUE`; a later one overrides an earlier one.
    pub set: Vec<String>,
    /// Whether the applications are being worked on.
    pub dev: bool,
    /// Whether the configuration file is read.
    pub reading: Reading,
}

/// Where the text of the configuration file comes from.
#[derive(Clone, Debug, Default)]
pub enum Reading {
    /// From the disk.
    #[default]
    Disk,
    /// It is what was read earlier. `None`: there was no file.
    Earlier(Option<Text>),
}

/// A configuration file as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub(crate) path: String,
    pub(crate) text: Arc<str>,
}

/// A configuration, and why it is as it is.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Sentences for people: what was found, and what was chosen for it.
    pub reasons: Vec<String>,
    /// Where each setting was written, by its key.
    pub origins: BTreeMap<String, Origin>,
}

impl Loaded {
    /// What is wrong with the setting `key`, or with the project as a whole if nobody has written that.
    pub fn problem(&self, key: &str, text: String) -> Problem {
        let origin = self.origins.get(key).cloned();
        let origin = origin.unwrap_or_else(|| Origin::Dir(self.config.dir.display().to_string()));
        Problem { origin, text }
    }
}

/// Everything `hearth serve` was told, or chose.
#[derive(Clone, Debug)]
pub struct Config {
    /// The project folder, absolute. It is UTF-8, as are the paths of `pools` that are relative to it.
    pub dir: PathBuf,
    /// The paths by which the project folder is known, absolute, each once. First as it was named, links not followed: a deploy may
    /// point it at another folder. Last as `dir`.
    pub names: Vec<PathBuf>,
    /// The configuration file, if there was one.
    pub file: Option<Text>,
    /// Where to listen, in the order of the ready line. Default: HTTP at `127.0.0.1:8080`. Port 0 takes a free port, named there.
    pub listen: Vec<Listen>,
    /// Threads that serve connections. Default: one a core.
    pub reactors: usize,
    /// Limits of the HTTP side.
    pub limits: Limits,
    /// What web servers may ask for by FastCGI.
    pub fastcgi: FastCgi,
    /// Proxies in front of it that are believed.
    pub trusted_proxies: TrustedProxies,
    /// How often a client may ask. Default: as often as it likes.
    pub rate: Option<Rate>,
    /// Encryption.
    pub tls: Tls,
    /// Which answers are compressed.
    pub compression: Compression,
    /// Log and access log.
    pub log: Log,
    /// The pools: `web`, then the others by name.
    pub pools: Vec<Pool>,
    /// How long the server goes on serving after SIGTERM, while it says that it is not ready. Default: not at all.
    pub stop_delay: std::time::Duration,
    /// How long running requests may finish then. Default 30 s.
    pub stop_timeout: std::time::Duration,
    /// Reload.
    pub reload: Reload,
    /// Whether a changed file of an application is a reload. Default false.
    pub watch: bool,
    /// Where `hearth status` and the other commands reach the server. Default: see `admin::place`.
    pub admin_socket: AdminSocket,
    /// Where health and status may be asked for over TCP. Default: nowhere.
    pub admin_listen: Option<SocketAddr>,
    /// Names by which it may be asked there, besides IP addresses and `localhost`. Default: none.
    pub admin_hosts: Vec<String>,
    /// Whether `Upgrade: h2c` is taken up. Default false.
    pub h2c_upgrade: bool,
    /// Folder for spool files of big bodies. Default: the system's temporary folder.
    pub spool_dir: PathBuf,
}

impl Config {
    /// Reads, completes and validates the settings. On failure everything that is wrong is listed at once.
    pub fn load(sources: &Sources) -> Result<Loaded, Errors> {
        resolve::load(sources)
    }

    /// The paths of the project folder, as `names`, and its `admin_socket` alone: a running server must be reachable although its
    /// settings are wrong by now.
    pub fn admin_socket(sources: &Sources) -> Result<(Vec<PathBuf>, AdminSocket), Errors> {
        resolve::admin_socket_of(sources)
    }

    /// Workers of all pools.
    pub fn workers(&self) -> usize {
        self.pools.iter().map(|pool| usize::from(pool.workers)).sum()
    }

    /// How long all applications may take to boot, side by side.
    pub fn boot_timeout(&self) -> std::time::Duration {
        let times = self.pools.iter().map(|pool| pool.boot_timeout);
        times.max().unwrap_or_default()
    }

    /// The line that says that requests are answered from now on. `listen` is what is bound, with real ports;
    /// `php` is PHP's version, as `8.2.31`. Tests and scripts wait for this line: its form is stable.
    pub fn ready_line(&self, listen: &[Listen], php: &str) -> String {
        let workers = match self.workers() {
            1 => "1 worker".to_owned(),
            many => format!("{many} workers"),
        };
        let mode = match &*self.pools {
            [web] => web.mode.to_string(),
            pools => format!("{} pools", pools.len()),
        };
        let urls: Vec<String> = listen.iter().map(Listen::url).collect();
        format!(
            "hearth: ready on {} ({workers}, {mode}, PHP {php})",
            urls.join(" and ")
        )
    }
}

/// How a release takes the place of another.
#[derive(Clone, Debug)]
pub struct Reload {
    /// How long requests of the old one may run on. Default 30 s.
    pub drain_timeout: std::time::Duration,
    /// How long the old one is kept booted, for `hearth rollback`. Default 10 min.
    pub keep_previous: std::time::Duration,
}

impl Default for Reload {
    fn default() -> Self {
        Self {
            drain_timeout: std::time::Duration::from_secs(30),
            keep_previous: std::time::Duration::from_mins(10),
        }
    }
}

/// Where the admin socket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminSocket {
    /// At a place that follows from the project folder.
    Default,
    /// At this absolute path.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// What is logged and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Lines for people, or one JSON object a line.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`. Default `info`.
    pub level: tracing::Level,
    /// The same, for what the application logs and prints to standard error. Default `info`.
    pub php_level: tracing::Level,
    /// One line a request. Default on.
    pub access: bool,
    /// File of the log, absolute. Default: standard error.
    pub file: Option<PathBuf>,
    /// File of the access log, absolute. Default: standard output.
    pub access_file: Option<PathBuf>,
}

/// Target of the application's lines, which `log.php_level` is about.
pub(crate) const PHP: &str = "hearth::php";

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}
