//! `hearth serve`: load the settings, say what was chosen, start the log, serve. Runs in: server.

use std::fs;
use std::io::Write;

use anyhow::Context;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tracing::subscriber::NoSubscriber;

use super::{Failure, Run, https, logging};
use crate::app::{self, Inherited, Launch};
use crate::config::{Config, Loaded, LogFormat, Pool, Problem, Sources};
use crate::edge::survey::survey;
use crate::logs::Logs;

/// Serves until told to stop.
pub(super) fn serve(sources: Sources, https: bool, run: Run) -> Result<(), Failure> {
    close_memory()?;
    let inherited = Inherited::take()?;
    let complaint = inherited.complaint();
    let outcome = serve_with(sources, inherited, (https, run));
    if let Err(failure) = &outcome {
        complaint.send(&failure.to_string());
    }
    outcome
}

/// Keys, and the requests of all pools, are in the server's memory: no script that has its user may look there.
pub(super) fn close_memory() -> anyhow::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("closing the server's memory to others")?;
    // The server looks there at what workers send. Before Linux 5.14 it then belonged to root alone (fs/proc/base.c, fd.c).
    fs::read_dir("/proc/self/fdinfo").context(
        "looking at /proc/self/fdinfo, where the kernel says which process a worker is; a server that is not root needs Linux 5.14 or \
         newer for it",
    )?;
    Ok(())
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
    if !nothing.is_empty() {
        return Err(Failure::Unfit(if is_explained {
            problems(&loaded).unwrap_or(nothing)
        } else {
            nothing
        }));
    }
    launch(sources, inherited, &loaded, run).map_err(|error| {
        // What is so now says nothing of a server that has served.
        if is_explained && !error.is::<app::Served>() {
            explained(error, &loaded)
        } else {
            error.into()
        }
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

/// In the words of `hearth check`, if it sees why there is no server; with the error, unless they say the same.
fn explained(error: anyhow::Error, loaded: &Loaded) -> Failure {
    match problems(loaded) {
        None => error.into(),
        Some(problems) if is_said(&error, &problems) => Failure::Unfit(problems),
        Some(problems) => Failure::Explained { problems, error },
    }
}

/// What `hearth check` finds; `None` if that is nothing.
fn problems(loaded: &Loaded) -> Option<Vec<Problem>> {
    // The log has said what it has to say.
    let checked = tracing::subscriber::with_default(NoSubscriber::new(), || app::check::run(loaded));
    let problems = checked.ok()?.problems;
    (!problems.is_empty()).then_some(problems)
}

/// Whether one of `problems` is `error`: one contains the words of the other, or of its cause.
fn is_said(error: &anyhow::Error, problems: &[Problem]) -> bool {
    let whole = format!("{error:#}");
    problems.iter().any(|problem| {
        let contains = |cause: &(dyn std::error::Error + 'static)| problem.text.contains(&cause.to_string());
        whole.contains(&problem.text) || error.chain().any(contains)
    })
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

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::config::Origin;

    #[test]
    fn an_error_that_check_says_in_its_words_is_not_repeated() {
        let problems = [Problem {
            origin: Origin::Flag("--listen".to_owned()),
            text: "listening on :80: permission denied; use another port".to_owned(),
        }];
        let same = anyhow!("permission denied").context("listening on 0.0.0.0:80");
        assert!(is_said(&same, &problems));
        assert!(!is_said(
            &anyhow!("no memory").context("starting the reactors"),
            &problems
        ));
    }

    #[test]
    fn an_error_of_a_server_that_has_served_is_known_by_its_context() {
        assert!(anyhow!("no memory").context(app::Served).is::<app::Served>());
    }
}
