//! Settings of one pool of workers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::limits::ByteSize;
use super::process::Process;
use super::rules::{ErrorPage, Rule};
use crate::rights::Rights;

/// How PHP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The script of the URL, from the top, for each request.
    Classic,
    /// The application boots once; its handler gets each request.
    Resident,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Classic => "classic",
            Self::Resident => "resident",
        })
    }
}

/// What is undone after a request of a resident pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Only PHP's own per-request resets.
    None,
    /// Everything: each request starts from the booted application.
    Request,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Request => "request",
        })
    }
}

/// How `isolation = "request"` is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationMethod {
    /// The best that works here.
    Auto,
    /// The worker's memory is put back.
    Rewind,
    /// Each request runs in a fork of the worker.
    Fork,
}

/// How a resident application is warmed before its workers are forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmup {
    /// By a complete PHP request of its own, of which only the engine's caches are kept.
    Clean,
    /// By requests to the very instance that serves; what they leave in it stays.
    Requests,
    /// Not at all.
    None,
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clean => "clean",
            Self::Requests => "requests",
            Self::None => "none",
        })
    }
}

/// One pool.
#[expect(
    clippy::struct_excessive_bools,
    reason = "settings, each a switch that somebody sets by its name"
)]
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its name, as in `[pool.web]`.
    pub name: String,
    /// Which requests it gets.
    pub requests: Requests,
    /// Folder of its application, absolute. Default: the project folder.
    pub dir: PathBuf,
    /// Document root, absolute: static files and classic scripts are found below it. Links below `dir` are kept as
    /// they are, so that `script` has `root` as its literal beginning when it lies below it.
    pub root: PathBuf,
    /// What is particular about paths. Every rule that fits holds; of two that speak of the same, the first.
    pub rules: Vec<Rule>,
    /// What is sent for an error: `404` or `5xx`, and a page. Default: a page of the server's own.
    pub error_pages: Vec<(String, ErrorPage)>,
    /// Whether they stand for the error pages of scripts too. Default false.
    pub intercept_errors: bool,
    /// Folders that scripts may have files sent from, by the prefix of a path; the longest first. Default: none.
    pub internal: Vec<(String, PathBuf)>,
    /// Whether folders that a `.htaccess` closes are closed. Default true.
    pub htaccess: bool,
    /// How PHP runs.
    pub mode: Mode,
    /// Resident: the worker script. Classic: the front controller for URLs that name no file, if any. Absolute.
    pub script: Option<PathBuf>,
    /// What is undone after a request of a resident pool. Default `request`.
    pub isolation: Isolation,
    /// How the application is warmed before the fork. Default `clean`; classic pools are not warmed.
    pub warmup: Warmup,
    /// Path and query of the requests that warm. Default: `/` alone.
    pub warmup_paths: Vec<String>,
    /// One request in so many is looked at for what it leaves behind, and the first ones of each worker. Default 1000; 0: none.
    /// See [`Pool::leaks_looked_for`].
    pub leak_check: u32,
    /// How. Default `auto`.
    pub isolation_method: IsolationMethod,
    /// Whether all memory is compared with the image after each request, which takes milliseconds. Default false.
    pub paranoid: bool,
    /// Most workers. Default: two a core, at least 2.
    pub workers: u16,
    /// Workers that there are at least; more come when requests wait. Default: `workers`.
    pub min_workers: u16,
    /// How long the last of more than `min_workers` workers must have had nothing to do before it ends. Default 1 min.
    pub worker_idle_timeout: Duration,
    /// When a worker is replaced.
    pub recycling: Recycling,
    /// What becomes of its processes before PHP starts.
    pub process: Process,
    /// Whose rights its files are read with: those of its processes.
    pub(crate) rights: Rights,
    /// A php.ini, or a folder with one. Default: what PHP itself reads.
    pub php_ini: Option<PathBuf>,
    /// PHP's own settings by name, stronger than any ini file; `ini_set()` may change them at run time. Default: none.
    pub ini: Vec<(String, String)>,
    /// Likewise, but neither scripts nor `.user.ini` files may change them. Default: none.
    pub admin_ini: Vec<(String, String)>,
    /// Whether a request with an `Idempotency-Key` may run again after its worker died, whatever its method. Default false.
    pub idempotency_key: bool,
    /// Requests that may wait for a worker. Default 1024, 0 refuses when none is free.
    pub queue_length: usize,
    /// How long a request may wait for a worker. Default 30 s.
    pub queue_timeout: Duration,
    /// How long a request may run before it is ended. Default 60 s; 0 s never.
    pub request_timeout: Duration,
    /// How long the script may go on after that, for its shutdown functions, before its worker is killed. Default 5 s; 0 s kills at
    /// once.
    pub request_grace: Duration,
    /// A request that runs longer is logged, with the PHP stack. Default 0 s: none is.
    pub slow_log: Duration,
    /// What a release must answer before it takes the place of another.
    pub health: Health,
    /// Workers that may still be missing when it does. Default 0.
    pub max_unavailable: u16,
    /// How long the application may take to boot. Default 30 s.
    pub boot_timeout: Duration,
    /// The worker's binary. Default: `hearth-worker` beside `hearth`.
    pub worker_binary: PathBuf,
    /// It is being worked on: errors are shown to whoever asks (`--dev`).
    pub dev: bool,
}

/// Which requests a pool gets: those for one of its hosts and one of its paths. Of several pools that want one, it goes to that with
/// the longest host name, then to that with the longest path; what none wants goes to `web`, which names none.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// `example.com`, or `*.example.com` for all below it, in small letters. Empty: any.
    pub hosts: Vec<String>,
    /// `/status`, or `/api/*` for `/api` and all below it. Empty: any.
    pub paths: Vec<String>,
}

/// Limits beyond which a worker ends after its request, and is replaced. 0: none, the default of all.
#[derive(Clone, Debug, Default)]
pub struct Recycling {
    /// Requests; each worker's own limit is up to a tenth more or less.
    pub requests: u64,
    /// Memory that a worker shares with nobody.
    pub memory: ByteSize,
    /// Age; each worker's own limit is up to a tenth more or less.
    pub age: Duration,
}

/// A request that shows whether a release works.
#[derive(Clone, Debug)]
pub struct Health {
    /// Path and query; empty: none is sent. Default `/`.
    pub path: String,
    /// Status of the answer. Default: any below 500.
    pub status: Option<u16>,
}

impl Pool {
    /// `leak_check` where requests can leave something behind, else 0.
    pub fn leaks_looked_for(&self) -> u32 {
        match (self.mode, self.isolation) {
            (Mode::Resident, Isolation::None) => self.leak_check,
            (Mode::Classic, _) | (_, Isolation::Request) => 0,
        }
    }

    /// Why it cannot be booted: the system does not know its user or group. The text begins with the key.
    pub(crate) fn unknown_account(&self) -> Option<String> {
        match &self.rights {
            Rights::Unknown(why) => Some(format!("pool.{}.{why}", self.name)),
            Rights::Server | Rights::Of(_) => None,
        }
    }
}
