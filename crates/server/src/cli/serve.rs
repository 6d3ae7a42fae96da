//! `hearth serve`: load the settings, say what was chosen, start the log, serve. Runs in: server.

use std::io::Write;

use super::{Failure, Run, logging};
use crate::config::{Config, LogFormat, Sources};

/// Serves until told to stop.
pub(super) fn serve(sources: &Sources, run: Run) -> Result<(), Failure> {
    let loaded = Config::load(sources)?;
    logging::start(&loaded.config.log)?;
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
    Ok(run(loaded.config, sources.clone())?)
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
