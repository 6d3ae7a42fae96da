//! The log of the process: tracing events to standard error or a file, for people or as JSON. Called by `serve`.
//!
//! The access log goes to standard output or a file of its own and is written by `edge`. Runs in: server.

use anyhow::{Context, anyhow};
use tracing_subscriber::EnvFilter;

use super::colours;
use crate::config::{Log, LogFormat, PHP};
use crate::logs::{LogFile, LogWriter};

/// Starts the log, once in the life of the process. `RUST_LOG`, where set and not empty, overrides both levels.
pub(super) fn start(log: &Log, file: Option<&LogFile>) -> anyhow::Result<()> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text)
            .with_context(|| format!("reading RUST_LOG={text}, for instance \"hearth=debug\""))?,
        // h2 warns of each client that breaks its rules, which is no affair of whoever runs the server.
        _ => EnvFilter::new(format!("{},h2=error,{PHP}={}", log.level, log.php_level)),
    };
    let writer = LogWriter::new(file);
    let output = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_ansi(file.is_none() && colours(&std::io::stderr()))
        // Reporting a lost log line on standard error panics when nobody reads that any more; the server serves all the same.
        .log_internal_errors(false)
        .with_target(false);
    let started = match log.format {
        LogFormat::Text => output.try_init(),
        LogFormat::Json => output.json().flatten_event(true).try_init(),
    };
    started
        .map_err(|error| anyhow!(error))
        .context("starting the log")
}
