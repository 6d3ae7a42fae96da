//! `hearth serve`: load the settings, say what was chosen, start the log, serve. Runs in: server.

use std::io::Write;

use anyhow::Context;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tracing::subscriber::NoSubscriber;

use super::{Failure, Run, https, logging};
use crate::app::{self, Inherited, Launch};
use crate::config::{Config, Loaded, LogFormat, Pool, Sources};
use crate::edge::survey::survey;
use crate::logs::Logs;

/// Serves until told to stop.
pub(super) fn serve(sources: Sources, https: bool, run: Run) -> Result<(), Failure> {
    // Keys, and the requests of all pools, are in its memory: no script that has its user may look there.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("closing the server's memory to others")?;
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
    let nothing = app::check::nothing_to_serve(&loaded);
    // Sockets that were handed down would be taken for those of another server.
    let is_explained = inherited.is_empty();
    let failure = if nothing.is_empty() {
        let Err(error) = launch(sources, inherited, &loaded, run) else {
            return Ok(());
        };
        error.into()
    } else {
        Failure::Unfit(nothing)
    };
    Err(if is_explained {
        explained(failure, &loaded)
    } else {
        failure
    })
}

fn launch(sources: Sources, inherited: Inherited, loaded: &Loaded, run: Run) -> anyhow::Result<()> {
    let Loaded { config, reasons, .. } = loaded;
    let logs = Logs::open(&config.log).context("starting the log")?;
    logging::start(&config.log, logs.log.as_ref())?;
    let mut reasons = reasons.clone();
    for place in inherited.activated() {
        let reason = format!("listening on {place}, a socket of the service manager's; `listen` is not used");
        reasons.push(reason);
    }
    match config.log.format {
        LogFormat::Text => {
            // The banner informs only; a closed standard error must not keep the server from starting.
            let _ = std::io::stderr().write_all(banner(config, &reasons).as_bytes());
        }
        LogFormat::Json => tracing::info!(
            dir = %config.dir.display(),
            reasons = reasons.join("; "),
            "settings resolved"
        ),
    }
    for pool in &config.pools {
        name_closed_folders(pool);
    }
    run(Launch {
        config: config.clone(),
        sources,
        logs,
        inherited,
    })
}

/// In the words of `hearth check`, if it sees why there is no server.
fn explained(failure: Failure, loaded: &Loaded) -> Failure {
    // The log has said what it has to say.
    let checked = tracing::subscriber::with_default(NoSubscriber::new(), || app::check::run(loaded));
    match checked {
        Ok(findings) if !findings.problems.is_empty() => Failure::Unfit(findings.problems),
        _ => failure,
    }
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
