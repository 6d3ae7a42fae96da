//! `hearth serve`: load the settings, say what was chosen, start the log, serve. Runs in: server.

use std::io::Write;

use anyhow::Context;

use super::{Failure, Run, https, logging};
use crate::app::{Inherited, Launch};
use crate::config::{Config, LogFormat, Pool, Sources};
use crate::edge::survey::survey;
use crate::logs::Logs;

/// Serves until told to stop.
pub(super) fn serve(sources: Sources, https: bool, run: Run) -> Result<(), Failure> {
    let inherited = Inherited::take()?;
    let complaint = inherited.complaint();
    let outcome = serve_with(sources, inherited, (https, run));
    if let Err(failure) = &outcome {
        complaint.send(&failure.to_string());
    }
    outcome
}

fn serve_with(mut sources: Sources, inherited: Inherited, (https, run): (bool, Run)) -> Result<(), Failure> {
    sources.dir = inherited.dir().unwrap_or(sources.dir);
    let mut advice = None;
    if https {
        let (certificate, how) = https::certificate()?;
        (sources.https, advice) = (Some(certificate), Some(how));
    }
    let mut loaded = Config::load(&sources)?;
    loaded.reasons.extend(advice);
    let logs = Logs::open(&loaded.config.log).context("starting the log")?;
    logging::start(&loaded.config.log, logs.log.as_ref())?;
    for place in inherited.activated() {
        let reason = format!("listening on {place}, a socket of the service manager's; `listen` is not used");
        loaded.reasons.push(reason);
    }
    match loaded.config.log.format {
        LogFormat::Text => {
            // The banner informs only; a closed standard error must not keep the server from starting.
            let _ = std::io::stderr().write_all(banner(&loaded.config, &loaded.reasons).as_bytes());
        }
        LogFormat::Json => tracing::info!(
            dir = %loaded.config.dir.display(),
            reasons = loaded.reasons.join("; "),
            "settings resolved"
        ),
    }
    for pool in &loaded.config.pools {
        name_closed_folders(pool);
    }
    Ok(run(Launch {
        config: loaded.config,
        sources,
        logs,
        inherited,
    })?)
}

/// Says which folders of a pool `.htaccess` files close, and what they say besides and is not done.
fn name_closed_folders(pool: &Pool) {
    let survey = survey(pool);
    if !survey.closed.is_empty() {
        tracing::info!(
            pool = pool.name,
            folders = survey.closed.join(" "),
            "folders closed by .htaccess: nothing in them is sent or run"
        );
    }
    if !survey.ignored.is_empty() {
        tracing::warn!(
            pool = pool.name,
            files = survey.ignored.join("; "),
            "access rules of .htaccess not understood: write rules of your own"
        );
    }
    if !survey.is_complete {
        tracing::info!(
            pool = pool.name,
            "not all folders looked at for .htaccess: they are when they are asked for"
        );
    }
}

/// What is served and why, a line each.
pub(super) fn banner(config: &Config, reasons: &[String]) -> String {
    let mut text = format!("hearth {}: {}\n", env!("CARGO_PKG_VERSION"), config.dir.display());
    for reason in reasons {
        text.push_str("  ");
        text.push_str(reason);
        text.push('\n');
    }
    text
}
