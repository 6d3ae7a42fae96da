//! Settings, resolved and validated. `file` holds them as written; this module holds what the parts read.
//!
//! A new setting touches three places: the field here with its doc and default, `docs/config.toml`, the code that reads it.

pub mod limits;
pub mod pool;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use limits::Limits;
pub use pool::{Isolation, Mode, Pool};

/// Everything `hearth serve` was told, or chose.
#[derive(Clone, Debug)]
pub struct Config {
    /// The project folder, absolute.
    pub dir: PathBuf,
    /// Document root, absolute: static files and classic scripts are found below it.
    pub root: PathBuf,
    /// Where to listen. Default `127.0.0.1:8080`. Port 0 takes a free port, named in the ready line.
    pub listen: SocketAddr,
    /// Threads that serve connections. Default: one a core.
    pub reactors: usize,
    /// Limits of the HTTP side.
    pub limits: Limits,
    /// Log and access log.
    pub log: Log,
    /// The pools; for now exactly one, named `web`.
    pub pool: Pool,
    /// How long running requests may finish after SIGTERM. Default 30 s.
    pub stop_timeout: std::time::Duration,
    /// Folder for spool files of big bodies. Default: the system's temporary folder.
    pub spool_dir: PathBuf,
}

/// What is logged and how.
#[derive(Clone, Debug)]
pub struct Log {
    /// Lines for people, or one JSON object a line.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug`. Default `info`.
    pub level: tracing::Level,
    /// One line a request on standard output. Default on.
    pub access: bool,
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}
